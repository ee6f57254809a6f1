#include "base/paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/error.h"

namespace autotriton {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// `printf torch==1 | sha256sum` begins so.
constexpr std::string_view kEnvironment = "python-b0a251eb8a65";

class PathsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "autotriton-paths-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    around_ = {.executable = folder_ / "app" / "bin" / "autotriton",
               .source_worker = folder_ / "checkout" / "worker",
               .cache = (folder_ / "cache").string()};
  }
  void TearDown() override { fs::remove_all(folder_); }

  void put(const fs::path& path, std::string_view bytes = "") {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << bytes;
  }

  fs::path folder_;
  Surroundings around_;
};

TEST_F(PathsTest, TheWorkerNearestToTheProgramWins) {
  EXPECT_THROW(worker_folder(around_), UserError);
  put(folder_ / "checkout/worker/requirements.lock");
  EXPECT_EQ(worker_folder(around_), folder_ / "checkout/worker");
  put(folder_ / "app/bin/worker/requirements.lock");
  EXPECT_EQ(worker_folder(around_), folder_ / "app/bin/worker");
}

TEST_F(PathsTest, TheEnvironmentBelongsToTheLockFileAndMustBeComplete) {
  put(folder_ / "checkout/worker/requirements.lock", "torch==1");
  const fs::path worker = folder_ / "checkout/worker";
  const fs::path environment = folder_ / "cache" / kEnvironment;
  const auto error = [&]() -> std::string {
    try {
      return "found " + python_interpreter(around_, worker).string();
    } catch (const UserError& thrown) {
      return thrown.what();
    }
  };
  EXPECT_THAT(error(), testing::AllOf(HasSubstr("is missing"), HasSubstr("make setup")));
  put(environment / "bin/python");
  EXPECT_THAT(error(), HasSubstr("not complete"));
  put(environment / ".complete");
  EXPECT_EQ(python_interpreter(around_, worker), environment / "bin/python");
  put(worker / "requirements.lock", "torch==2");
  EXPECT_THAT(error(), HasSubstr("is missing"));
}

TEST_F(PathsTest, AUsersPythonIsTakenAsItIsOrRefused) {
  around_.python = "/bin/sh";
  EXPECT_EQ(python_interpreter(around_, folder_), "/bin/sh");
  around_.python = folder_ / "nothing";
  EXPECT_THROW(python_interpreter(around_, folder_), UserError);
  around_.python = folder_;
  EXPECT_THROW(python_interpreter(around_, folder_), UserError);
}

TEST_F(PathsTest, TheCacheFolderIsTheVariableElseInHome) {
  EXPECT_EQ(cache_folder(around_), folder_ / "cache");
  around_.cache.reset();
  EXPECT_THROW(cache_folder(around_), UserError);
  around_.home = "/home/ada";
  EXPECT_EQ(cache_folder(around_), "/home/ada/.cache/autotriton");
}

TEST(SurroundingsTest, ThisProcessIsFound) {
  const Surroundings around = Surroundings::of_this_process();
  EXPECT_EQ(around.executable.filename(), "base_test");
  EXPECT_EQ(around.source_worker, fs::path(AUTOTRITON_SOURCE_DIR) / "worker");
}

}  // namespace
}  // namespace autotriton
