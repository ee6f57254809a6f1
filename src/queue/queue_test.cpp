#include "queue/queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <thread>

#include "base/child_process.h"
#include "base/error.h"
#include "queue/connection.h"

namespace autotriton::queue {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

/// A Redis server of our own, on a Unix socket in a folder that goes with it.
class RedisServer {
 public:
  explicit RedisServer(std::vector<std::string> settings = {}) : settings_(std::move(settings)) {
    std::signal(SIGPIPE, SIG_IGN);
    static std::atomic<int> number{0};
    folder_ = std::filesystem::temp_directory_path() /
              ("queue_test_" + std::to_string(::getpid()) + "_" + std::to_string(number++));
    std::filesystem::create_directories(folder_);
    // Debian's redis-tools holds the server too, under the name of a program that it can also be.
    std::filesystem::create_symlink(
        std::filesystem::exists("/usr/bin/redis-server") ? "/usr/bin/redis-server" : "/usr/bin/redis-check-rdb",
        folder_ / "redis-server");
    start();
  }
  ~RedisServer() {
    process_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  void start() {
    Command command;
    command.arguments = {(folder_ / "redis-server").string(),
                         "--port",
                         "0",
                         "--unixsocket",
                         socket(),
                         "--dir",
                         folder_.string(),
                         "--save",
                         "",
                         "--loglevel",
                         "warning",
                         "--logfile",
                         (folder_ / "log").string()};
    command.arguments.insert(command.arguments.end(), settings_.begin(), settings_.end());
    process_.emplace(ChildProcess::spawn(command));
    const auto until = steady_clock::now() + std::chrono::seconds(10);
    while (!std::filesystem::exists(socket()) && steady_clock::now() < until)
      std::this_thread::sleep_for(milliseconds(10));
    if (!std::filesystem::exists(socket())) throw std::runtime_error("redis-server does not start; see tools/setup.sh");
  }
  /// As a crash would.
  void kill() {
    process_->kill_and_reap();
    process_.reset();
    std::filesystem::remove(socket());
  }
  std::string socket() const { return (folder_ / "socket").string(); }

  Options options() const {
    Options options;
    options.address = Address::parse("redis+unix://" + socket());
    options.lease = milliseconds(300);
    options.patience = milliseconds(10'000);
    return options;
  }
  Connection connection() const { return Connection({.address = options().address, .patience = milliseconds(1'000)}); }

 private:
  const std::vector<std::string> settings_;
  std::filesystem::path folder_;
  std::optional<ChildProcess> process_;
};

constexpr milliseconds kSoon{2'000};

std::vector<std::string> shown(const std::vector<Outcome>& outcomes) {
  std::vector<std::string> texts;
  for (const Outcome& outcome : outcomes)
    texts.push_back(outcome.key + (outcome.dead ? " dead: " : " = ") + outcome.bytes);
  return texts;
}

std::vector<std::string> results(Producer& producer, const std::vector<std::string>& keys) {
  return shown(producer.collect(keys));
}

TEST(QueueTest, BytesGoInAndBytesComeOut) {
  const RedisServer redis;
  Producer producer(redis.options());
  const std::string binary("\0\r\n\xff{}", 6);
  EXPECT_EQ(producer.put("a", binary), Producer::Put::kAdded);
  EXPECT_EQ(producer.put("b", ""), Producer::Put::kAdded);
  EXPECT_EQ(producer.state().waiting, 2U);
  Worker worker(redis.options(), "s");
  const auto a = worker.take(kSoon);
  ASSERT_TRUE(a.has_value());
  EXPECT_EQ(a->key, "a");
  EXPECT_EQ(a->bytes, binary);
  EXPECT_EQ(a->tries, 1);
  EXPECT_EQ(producer.state().held, 1U);
  EXPECT_THAT(results(producer, {"a", "b"}), IsEmpty());
  EXPECT_TRUE(worker.complete(*a, binary + "!"));
  const auto b = worker.take(kSoon);
  ASSERT_TRUE(b.has_value());
  EXPECT_TRUE(worker.complete(*b, ""));
  EXPECT_THAT(results(producer, {"a", "b", "c"}), UnorderedElementsAre("a = " + binary + "!", "b = "));
  EXPECT_EQ(worker.take(milliseconds(20)), std::nullopt);
  const State state = producer.state();
  EXPECT_EQ(state.waiting + state.held + state.dead, 0U);
  EXPECT_EQ(state.settings, "s");
}

TEST(QueueTest, TheSameKeyTwiceIsOneItemUntilItsResultIsForgotten) {
  const RedisServer redis;
  Producer producer(redis.options());
  Producer other(redis.options());
  Worker worker(redis.options(), "");
  EXPECT_EQ(producer.put("a", "1"), Producer::Put::kAdded);
  EXPECT_EQ(other.put("a", "1"), Producer::Put::kKnown);
  const auto item = worker.take(kSoon);
  ASSERT_TRUE(item.has_value());
  EXPECT_EQ(other.put("a", "1"), Producer::Put::kKnown);
  EXPECT_TRUE(worker.complete(*item, "r"));
  EXPECT_EQ(other.put("a", "1"), Producer::Put::kKnown);
  EXPECT_EQ(worker.take(milliseconds(20)), std::nullopt);
  producer.forget("a");
  EXPECT_THAT(results(producer, {"a"}), IsEmpty());
  EXPECT_EQ(other.put("a", "1"), Producer::Put::kAdded);
}

TEST(QueueTest, AFullQueueSaysSoAndTakesMoreOnceItIsNot) {
  const RedisServer redis;
  Options options = redis.options();
  options.max_waiting = 2;
  Producer producer(options);
  EXPECT_EQ(producer.put("a", "1"), Producer::Put::kAdded);
  EXPECT_EQ(producer.put("b", "1"), Producer::Put::kAdded);
  EXPECT_EQ(producer.put("c", "1"), Producer::Put::kFull);
  EXPECT_EQ(producer.put("b", "1"), Producer::Put::kKnown);
  Worker worker(options, "");
  const auto item = worker.take(kSoon);
  ASSERT_TRUE(item.has_value());
  worker.complete(*item, "");
  EXPECT_EQ(producer.put("c", "1"), Producer::Put::kAdded);
}

TEST(QueueTest, WhatALostWorkerHeldGoesToAnotherOneAfterTheLease) {
  const RedisServer redis;
  Producer producer(redis.options());
  producer.put("a", "1");
  std::optional<Item> lost;
  {
    Worker worker(redis.options(), "");
    lost = worker.take(kSoon);
    ASSERT_TRUE(lost.has_value());
  }
  Worker heir(redis.options(), "");
  EXPECT_EQ(heir.take(milliseconds(50)), std::nullopt);  // The lease is not over.
  const auto item = heir.take(kSoon);
  ASSERT_TRUE(item.has_value());
  EXPECT_EQ(item->key, "a");
  EXPECT_EQ(item->tries, 2);
  EXPECT_TRUE(heir.complete(*item, "the heir's"));
  // The first one was not dead after all.
  EXPECT_FALSE(heir.complete(*lost, "too late"));
  EXPECT_THAT(results(producer, {"a"}), UnorderedElementsAre("a = the heir's"));
}

TEST(QueueTest, TheFirstResultStandsWhoeverHoldsTheItem) {
  const RedisServer redis;
  Producer producer(redis.options());
  producer.put("a", "1");
  std::optional<Item> slow;
  {
    Worker worker(redis.options(), "");
    slow = worker.take(kSoon);
  }
  Worker heir(redis.options(), "");
  const auto item = heir.take(kSoon);
  ASSERT_TRUE(slow && item);
  EXPECT_TRUE(heir.complete(*slow, "the slow one's"));  // Sent before the heir is done.
  EXPECT_FALSE(heir.complete(*item, "the heir's"));
  EXPECT_THAT(results(producer, {"a"}), UnorderedElementsAre("a = the slow one's"));
  EXPECT_EQ(producer.state().held, 0U);
}

TEST(QueueTest, ALongWorkIsNotTakenAway) {
  const RedisServer redis;
  Producer producer(redis.options());
  producer.put("a", "1");
  Worker worker(redis.options(), "");
  const auto item = worker.take(kSoon);
  ASSERT_TRUE(item.has_value());
  Worker other(redis.options(), "");
  EXPECT_EQ(other.take(milliseconds(1'500)), std::nullopt);  // Five leases.
  EXPECT_TRUE(worker.complete(*item, "done"));
}

TEST(QueueTest, AnItemThatWorkersAreLostWithIsADeadLetterAfterItsTries) {
  const RedisServer redis;
  Producer producer(redis.options());
  producer.put("poison", "what kills");
  for (int lost = 0; lost < 3; ++lost) {
    Worker worker(redis.options(), "");
    const auto item = worker.take(kSoon);
    ASSERT_TRUE(item.has_value()) << lost;
    EXPECT_EQ(item->tries, lost + 1);
  }
  Worker worker(redis.options(), "");
  EXPECT_EQ(worker.take(milliseconds(1'000)), std::nullopt);
  EXPECT_THAT(results(producer, {"poison"}),
              UnorderedElementsAre("poison dead: each of the workers that took it was lost while it held it"));
  const State state = producer.state();
  EXPECT_EQ(state.dead, 1U);
  EXPECT_EQ(state.waiting + state.held, 0U);
  const Reply letter = redis.connection().run({"XRANGE", "{autotriton}:dead", "-", "+"});
  std::vector<std::string> fields;
  for (const Reply& field : letter.items.at(0).items.at(1).items) fields.push_back(field.text);
  EXPECT_THAT(fields,
              testing::ElementsAre("key", "poison", "tries", "3", "reason", HasSubstr("lost"), "bytes", "what kills"));
}

TEST(QueueTest, AnItemThatFailsIsTriedByAnotherWorkerAndThenADeadLetter) {
  const RedisServer redis;
  Options options = redis.options();
  options.lease = milliseconds(5'000);  // Longer than the test: shyness must not end by itself.
  Producer producer(options);
  producer.put("a", "1");
  Worker first(options, "");
  Worker second(options, "");
  Worker third(options, "");
  auto item = first.take(kSoon);
  ASSERT_TRUE(item.has_value());
  first.fail(*item, "disk full");
  EXPECT_EQ(first.take(milliseconds(300)), std::nullopt);
  item = second.take(kSoon);
  ASSERT_TRUE(item.has_value());
  EXPECT_EQ(item->tries, 2);
  second.fail(*item, "no memory");
  EXPECT_THAT(results(producer, {"a"}), IsEmpty());
  item = third.take(kSoon);
  ASSERT_TRUE(item.has_value());
  EXPECT_EQ(item->tries, 3);
  third.fail(*item, "disk full here too");
  EXPECT_THAT(results(producer, {"a"}), UnorderedElementsAre("a dead: disk full here too"));
}

TEST(QueueTest, ALoneWorkerTriesAgainItself) {
  const RedisServer redis;
  Producer producer(redis.options());
  producer.put("a", "1");
  Worker worker(redis.options(), "");
  auto item = worker.take(kSoon);
  ASSERT_TRUE(item.has_value());
  worker.fail(*item, "for now");
  item = worker.take(kSoon);
  ASSERT_TRUE(item.has_value());
  EXPECT_EQ(item->tries, 2);
  EXPECT_TRUE(worker.complete(*item, "r"));
}

TEST(QueueTest, WhatIsHandedBackCostsNoTry) {
  const RedisServer redis;
  Producer producer(redis.options());
  producer.put("a", "1");
  Worker worker(redis.options(), "");
  for (int round = 0; round < 5; ++round) {
    const auto item = worker.take(kSoon);
    ASSERT_TRUE(item.has_value());
    EXPECT_EQ(item->tries, 1);
    worker.hand_back(*item);
    EXPECT_EQ(worker.held(), 0U);
  }
  EXPECT_EQ(producer.state().waiting, 1U);
}

TEST(QueueTest, ACrashOfRedisWithItsLogLosesNothing) {
  RedisServer redis({"--appendonly", "yes", "--appendfsync", "always"});
  Producer producer(redis.options());
  Worker worker(redis.options(), "");
  producer.put("a", "1");
  producer.put("b", "2");
  const auto held = worker.take(kSoon);
  ASSERT_TRUE(held.has_value());
  redis.kill();
  std::jthread later([&] {
    std::this_thread::sleep_for(milliseconds(500));
    redis.start();
  });
  EXPECT_TRUE(worker.complete(*held, "r1"));  // Waits for Redis.
  const auto next = worker.take(kSoon);
  ASSERT_TRUE(next.has_value());
  EXPECT_TRUE(worker.complete(*next, "r2"));
  EXPECT_THAT(results(producer, {"a", "b"}), UnorderedElementsAre("a = r1", "b = r2"));
}

TEST(QueueTest, AfterRedisCameBackEmptyWhatIsPutAgainIsDone) {
  RedisServer redis;
  Producer producer(redis.options());
  Worker worker(redis.options(), "");
  producer.put("a", "1");
  redis.kill();
  redis.start();
  EXPECT_EQ(worker.take(milliseconds(50)), std::nullopt);
  EXPECT_EQ(producer.put("a", "1"), Producer::Put::kAdded);
  const auto item = worker.take(kSoon);
  ASSERT_TRUE(item.has_value());
  EXPECT_TRUE(worker.complete(*item, "r"));
  EXPECT_THAT(results(producer, {"a"}), UnorderedElementsAre("a = r"));
}

TEST(QueueTest, ManyWorkersGiveEachItemOneResult) {
  const RedisServer redis;
  Producer producer(redis.options());
  std::vector<std::string> keys;
  for (int i = 0; i < 200; ++i) {
    keys.push_back(std::to_string(i));
    producer.put(keys.back(), keys.back());
  }
  std::atomic<int> completed{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        Worker worker(redis.options(), "");
        while (const auto item = worker.take(milliseconds(200)))
          completed += worker.complete(*item, item->bytes) ? 1 : 0;
      });
    }
  }
  EXPECT_EQ(completed, 200);
  EXPECT_EQ(producer.collect(keys).size(), 200U);
  // Nobody who left stays in the group.
  EXPECT_THAT(redis.connection().run({"XINFO", "CONSUMERS", "{autotriton}:items", "workers"}).items, IsEmpty());
}

TEST(QueueTest, WorkersMustAgreeOnTheirSettings) {
  const RedisServer redis;
  {
    Worker worker(redis.options(), "profile paper");
    Worker twin(redis.options(), "profile paper");
    try {
      Worker other(redis.options(), "profile mine");
      ADD_FAILURE() << "it was let in";
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr("theirs are \"profile paper\", ours \"profile mine\""));
    }
  }
  std::this_thread::sleep_for(milliseconds(500));
  Worker other(redis.options(), "profile mine");  // The others left.
}

TEST(QueueTest, APasswordIsAskedForAndNeverShown) {
  const RedisServer redis({"--requirepass", "hunter2"});
  Options options = redis.options();
  options.patience = milliseconds(200);
  for (const std::string_view password : {"", "hunter3"}) {
    options.address.password = password;
    try {
      Producer producer(options);
      ADD_FAILURE() << "it was let in";
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr("does not let us in"));
      EXPECT_THAT(error.what(), testing::Not(HasSubstr("hunter")));
    }
  }
  options.address.password = "hunter2";
  options.address.database = 3;
  Producer producer(options);
  EXPECT_EQ(producer.put("a", "1"), Producer::Put::kAdded);
  options.address.database = 0;
  EXPECT_EQ(Producer(options).state().waiting, 0U);
}

TEST(QueueTest, ARedisThatStaysAwayIsAnErrorThatSaysWhere) {
  Options options;
  options.address = Address::parse("redis://127.0.0.1:1");
  options.patience = milliseconds(200);
  try {
    Producer producer(options);
    ADD_FAILURE() << "it connected";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("redis://127.0.0.1:1/0: Redis cannot be reached: Connection refused"));
  }
  options.patience = milliseconds(60'000);
  options.interrupted = [] { return true; };
  EXPECT_THROW(Producer{options}, Interrupted);
}

}  // namespace
}  // namespace autotriton::queue
