#include "base/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <thread>

#include "base/error.h"

namespace autotriton {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

Command shell(const std::string& script) { return {.arguments = {"/bin/sh", "-c", script}}; }

bool gone_soon(pid_t id) {
  for (int i = 0; i < 200; ++i) {
    if (::kill(id, 0) != 0 && errno == ESRCH) return true;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return false;
}

TEST(ChildProcessTest, TellsCodeAndSignal) {
  ChildProcess returns = ChildProcess::spawn(shell("exit 7"));
  const auto code = returns.wait_for(seconds(10));
  ASSERT_TRUE(code);
  EXPECT_EQ(code->code, 7);
  EXPECT_FALSE(code->success());
  EXPECT_EQ(returns.kill_and_reap().code, 7);  // How it ended is not lost by asking.

  ChildProcess dies = ChildProcess::spawn(shell("kill -TERM $$"));
  const auto signal = dies.wait_for(seconds(10));
  ASSERT_TRUE(signal);
  EXPECT_EQ(signal->signal, SIGTERM);
}

TEST(ChildProcessTest, ATimeoutLeavesItRunning) {
  ChildProcess child = ChildProcess::spawn(shell("sleep 60"));
  EXPECT_FALSE(child.wait_for(milliseconds(30)));
  EXPECT_EQ(::kill(child.id(), 0), 0);
}

TEST(ChildProcessTest, LeavingTheScopeKillsItAndItsChildren) {
  pid_t grandchild = 0;
  pid_t program = 0;
  {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    Command command = shell("sleep 60 & echo $!; wait");
    command.standard_output = ends[1];
    ChildProcess child = ChildProcess::spawn(command);
    ::close(ends[1]);
    program = child.id();
    char text[32] = {};
    ASSERT_GT(::read(ends[0], text, sizeof text - 1), 0);
    ::close(ends[0]);
    grandchild = std::stoi(text);
    ASSERT_EQ(::kill(grandchild, 0), 0);
  }
  EXPECT_EQ(::kill(program, 0), -1);  // Reaped, not a zombie.
  EXPECT_TRUE(gone_soon(grandchild));
}

TEST(ChildProcessTest, AMissingProgramOrFolderIsTheUsersError) {
  try {
    ChildProcess::spawn({.arguments = {"autotriton-no-such-program"}});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("autotriton-no-such-program: cannot be started: No such file"));
  }
  EXPECT_THROW(ChildProcess::spawn({.arguments = {"true"}, .working_directory = "/no/such/folder"}), UserError);
}

TEST(RunToEndTest, GathersOutputAndErrorsApart) {
  const Finished run = run_to_end(shell("echo out; echo err >&2; exit 3"));
  ASSERT_TRUE(run.status);
  EXPECT_EQ(run.status->code, 3);
  EXPECT_EQ(run.out, "out\n");
  EXPECT_EQ(run.error, "err\n");
  EXPECT_FALSE(run.cut);
}

TEST(RunToEndTest, PassesInputEnvironmentAndFolder) {
  EXPECT_EQ(run_to_end({.arguments = {"cat"}}, {}, std::string(300'000, 'x')).out.size(), 300'000u);
  EXPECT_EQ(run_to_end({.arguments = {"cat"}}).out, "");  // No input: an end of file at once, not a wait.
  Command command = shell("echo $GREETING; pwd");
  command.environment = {"GREETING=hello"};
  command.working_directory = "/";
  EXPECT_EQ(run_to_end(command).out, "hello\n/\n");
}

TEST(RunToEndTest, AProgramThatReadsNoInputDoesNotEndUs) {
  const Finished run = run_to_end({.arguments = {"true"}}, {}, std::string(1'000'000, 'x'));
  ASSERT_TRUE(run.status);
  EXPECT_TRUE(run.status->success());
}

TEST(RunToEndTest, CutsAFloodButLetsItEnd) {
  const Finished run = run_to_end(shell("head -c 3000000 /dev/zero; echo done >&2"), {.max_output_bytes = 1000});
  EXPECT_EQ(run.out.size(), 1000u);
  EXPECT_EQ(run.error, "done\n");
  EXPECT_TRUE(run.cut);
  EXPECT_TRUE(run.status);
}

TEST(RunToEndTest, EndsWhatRunsPastItsTime) {
  const auto start = std::chrono::steady_clock::now();
  const Finished run = run_to_end(shell("echo early; sleep 60"), {.timeout = milliseconds(200)});
  EXPECT_FALSE(run.status);
  EXPECT_EQ(run.out, "early\n");
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(10));
}

TEST(RunToEndTest, DoesNotWaitForADaemonThatKeepsThePipes) {
  const auto start = std::chrono::steady_clock::now();
  const Finished run = run_to_end(shell("sleep 60 & echo started"), {.timeout = seconds(30)});
  EXPECT_EQ(run.out, "started\n");
  ASSERT_TRUE(run.status);
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(10));
}

}  // namespace
}  // namespace autotriton
