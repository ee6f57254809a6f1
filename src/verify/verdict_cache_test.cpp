#include "verify/verdict_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace autotriton::verify {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class VerdictCacheTest : public testing::Test {
 protected:
  VerdictCacheTest() {
    folder_ = fs::path(testing::TempDir()) /
              (std::string("cache-") + testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    tasks::Task task;
    task.task_id = "softmax";
    task.reference = "reference";
    task.entry_point = "Model";
    request_ = {.id = "a", .task = std::make_shared<const tasks::Task>(task), .text = "answer"};
  }
  ~VerdictCacheTest() override { fs::remove_all(folder_); }

  static Verdict verdict(Reason reason) {
    Verdict made;
    made.id = "a";
    made.grade = Grade::kCpu;
    made.conclude(reason, "so it is");
    return made;
  }

  fs::path folder_;
  fs::path file_ = "";
  VerifyRequest request_;
  VerifyOptions options_;
};

TEST_F(VerdictCacheTest, AVerdictIsFoundAgainByAnotherProcessUnderTheNewId) {
  {
    VerdictCache cache(folder_ / "c.sqlite", "program");
    EXPECT_FALSE(cache.find(request_, options_));
    cache.keep(request_, options_, verdict(Reason::kAllEvidence));
  }
  VerdictCache cache(folder_ / "c.sqlite", "program");
  request_.id = "b";
  const std::optional<Verdict> found = cache.find(request_, options_);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->id, "b");
  EXPECT_EQ(found->outcome, Outcome::kAccept);
  EXPECT_EQ(found->environment.at("cached"), "yes");
  EXPECT_EQ(cache.hits(), 1U);
  EXPECT_EQ(cache.misses(), 0U);
}

TEST_F(VerdictCacheTest, WhateverAVerdictFollowsFromIsPartOfTheKey) {
  {
    VerdictCache cache(folder_ / "c.sqlite", "program");
    cache.keep(request_, options_, verdict(Reason::kAllEvidence));
    const auto misses_with = [&](auto change) {
      VerifyRequest request = request_;
      VerifyOptions options = options_;
      tasks::Task task = *request.task;
      change(request, options, task);
      request.task = std::make_shared<const tasks::Task>(task);
      return !cache.find(request, options);
    };
    using R = VerifyRequest;
    using O = VerifyOptions;
    using T = tasks::Task;
    EXPECT_TRUE(misses_with([](R& request, O&, T&) { request.text += " "; }));
    EXPECT_TRUE(misses_with([](R& request, O&, T&) { request.raw_answer = true; }));
    EXPECT_TRUE(misses_with([](R&, O& options, T&) { options.trials += 1; }));
    EXPECT_TRUE(misses_with([](R&, O& options, T&) { options.capability = 80; }));
    EXPECT_TRUE(misses_with([](R&, O& options, T&) { options.shapes = Shapes::kScaled; }));
    EXPECT_TRUE(misses_with([](R&, O& options, T&) { options.budgets.run += 1; }));
    EXPECT_TRUE(misses_with([](R&, O& options, T&) { options.skip_rules = true; }));
    EXPECT_TRUE(misses_with([](R&, O& options, T&) { options.torch_compute = TorchCompute::kReport; }));
    EXPECT_TRUE(misses_with([](R&, O& options, T&) { options.max_elements += 1; }));
    EXPECT_TRUE(misses_with([](R&, O& options, T&) { options.require_sandbox = true; }));
    EXPECT_TRUE(misses_with([](R&, O&, T& task) { task.reference += " "; }));
    EXPECT_TRUE(misses_with([](R&, O&, T& task) { task.entry_point = "f"; }));
    EXPECT_TRUE(misses_with([](R&, O&, T& task) { task.kind = tasks::TaskKind::kFunction; }));
    EXPECT_FALSE(misses_with([](R& request, O&, T&) { request.id = "another"; }));
  }
  VerdictCache other(folder_ / "c.sqlite", "another program");
  EXPECT_FALSE(other.find(request_, options_));
}

TEST_F(VerdictCacheTest, FaultsAndVerdictsThatRestOnTimeAreNotKept) {
  VerdictCache cache(folder_ / "c.sqlite", "program");
  for (const Reason reason : {Reason::kWorkerLost, Reason::kInternal, Reason::kReferenceFailed, Reason::kRunTimeout,
                              Reason::kLoadTimeout, Reason::kInterpreterTimeout}) {
    cache.keep(request_, options_, verdict(reason));
    EXPECT_FALSE(cache.find(request_, options_)) << info(reason).id;
  }
  cache.keep(request_, options_, verdict(Reason::kWrongValues));
  EXPECT_TRUE(cache.find(request_, options_));
}

TEST_F(VerdictCacheTest, TheOldestAreDroppedBeyondTheLimit) {
  {
    VerdictCache cache(folder_ / "c.sqlite", "program", 10);
    for (int index = 0; index < 25; ++index) {
      request_.text = "answer " + std::to_string(index);
      cache.keep(request_, options_, verdict(Reason::kWrongValues));
    }
  }
  VerdictCache cache(folder_ / "c.sqlite", "program", 10);
  request_.text = "answer 14";
  EXPECT_FALSE(cache.find(request_, options_));
  request_.text = "answer 15";
  EXPECT_TRUE(cache.find(request_, options_));
}

TEST_F(VerdictCacheTest, FilesOfOthersAreLeftAlone) {
  const auto refusal = [&](const std::string& content) -> std::string {
    const fs::path file = folder_ / "other";
    write_file_atomically(file, content);
    try {
      const VerdictCache cache(file, "program");
    } catch (const UserError& error) {
      EXPECT_EQ(read_file(file), content);
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal(std::string(5000, 'x')), HasSubstr("no SQLite file"));
  EXPECT_THROW(VerdictCache(folder_, "program"), UserError);
}

TEST_F(VerdictCacheTest, ManyThreadsAndProcessesMayShareAFile) {
  VerdictCache first(folder_ / "c.sqlite", "program");
  VerdictCache second(folder_ / "c.sqlite", "program");
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread, request = request_]() mutable {
      VerdictCache& cache = thread % 2 == 0 ? first : second;
      for (int index = 0; index < 50; ++index) {
        request.text = std::to_string(index);
        if (!cache.find(request, options_)) cache.keep(request, options_, verdict(Reason::kWrongValues));
      }
    });
  }
  threads.clear();
  for (int index = 0; index < 50; ++index) {
    request_.text = std::to_string(index);
    EXPECT_TRUE(first.find(request_, options_));
  }
  EXPECT_EQ(first.fault(), "");
}

TEST_F(VerdictCacheTest, TheIdentityFollowsTheWorkersAndTheProgram) {
  fs::create_directories(folder_ / "worker");
  fs::create_directories(folder_ / "env/lib/python3/site-packages");
  for (const char* file : {"program", "confine.so", "worker/a.py", "env/python"})
    write_file_atomically(folder_ / file, "one");
  const execution::ForkServer::Options server{
      .python = folder_ / "env/python", .worker = folder_ / "worker", .confine_library = folder_ / "confine.so"};
  const auto now = [&] { return VerdictCache::identity(folder_ / "program", server); };
  std::string last = now();
  EXPECT_EQ(now(), last);
  for (const char* file : {"program", "confine.so", "worker/a.py", "worker/b.py"}) {
    write_file_atomically(folder_ / file, "two");
    EXPECT_NE(now(), last) << file;
    last = now();
  }
}

}  // namespace
}  // namespace autotriton::verify
