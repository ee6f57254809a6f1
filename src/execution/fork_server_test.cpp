#include "execution/fork_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/paths.h"
#include "execution/confine.h"

// Real servers and real jobs: Python with torch, confined as in service. What a job can do is told by the job itself,
// from code that runs inside, and by /proc from outside.

namespace autotriton::execution {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;
using Kind = JobEvent::Kind;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::AnyOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// The same tests run a second time without namespaces, where Landlock and a longer filter take their place.
const bool kNamespaces = std::getenv("AUTOTRITON_TEST_WITHOUT_NAMESPACES") == nullptr;

ForkServer::Options options(int interrupt = -1) {
  const Surroundings around = Surroundings::of_this_process();
  const fs::path worker = AUTOTRITON_SOURCE_DIR "/worker";
  return {.python = python_interpreter(around, worker),
          .worker = worker,
          .confine_library = AUTOTRITON_CONFINE_LIBRARY,
          .interrupt = interrupt,
          .without = kNamespaces ? 0U : std::uint32_t{kWithoutNamespaces}};
}

/// The source as a record that asks a worker to import it.
std::string load(const std::string& source) {
  return Json{{"type", "load"}, {"source", source}, {"entry", "ModelNew"}, {"kind", "module"}}.dump();
}

/// Children of `parent`, theirs and so on.
std::set<pid_t> descendants(pid_t parent) {
  std::multimap<pid_t, pid_t> children;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "stat");
    std::string text;
    std::getline(file, text);
    const auto end = text.rfind(')');  // The program's name may hold anything.
    if (end == std::string::npos) continue;
    char state = 0;
    int ppid = 0;
    if (std::sscanf(text.c_str() + end + 1, " %c %d", &state, &ppid) == 2 && state != 'Z')
      children.emplace(ppid, std::stoi(name));
  }
  std::set<pid_t> found;
  std::vector<pid_t> todo{parent};
  while (!todo.empty()) {
    const pid_t next = todo.back();
    todo.pop_back();
    const auto [first, last] = children.equal_range(next);
    for (auto child = first; child != last; ++child) {
      if (found.insert(child->second).second) todo.push_back(child->second);
    }
  }
  return found;
}

/// Whether the number of descendants of `parent` falls to `count` soon.
bool falls_to(pid_t parent, std::size_t count) {
  for (int wait = 0; wait < 500; ++wait) {
    if (descendants(parent).size() <= count) return true;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return false;
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

class ForkServerTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    for (const char* name : {"AUTOTRITON_TEST_SECRET", "USER", "LOGNAME", "HF_TOKEN"}) ::setenv(name, "sesame", 1);
    interrupt_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    server_ = new ForkServer(options(interrupt_));
    server_->start();
  }
  static void TearDownTestSuite() {
    const int pid = server_->process_id();
    delete server_;
    server_ = nullptr;
    ::close(interrupt_);
    EXPECT_TRUE(falls_to(pid, 0)) << "servers outlive their owner";
  }

  static Job spawn(const JobLimits& limits = {}, JobMode mode = JobMode::kInterpret) {
    return server_->spawn(mode, limits, 90);
  }

  /// Sends the source to a new job and waits for what it makes of it.
  static JobEvent event_of(Job& job, const std::string& source, milliseconds patience = seconds(60)) {
    EXPECT_TRUE(job.send(load(source)));
    return job.next(Clock::now() + patience);
  }

  /// Runs source that ends by printing one JSON value, and returns that.
  static Json answer_of(const std::string& source, const JobLimits& limits = {}, JobMode mode = JobMode::kInterpret) {
    Job job = spawn(limits, mode);
    const JobEvent event = event_of(job, source);
    job.kill();
    const std::string text = job.output_tail(16'000);
    const Json answer = Json::parse(text, nullptr, false);
    EXPECT_FALSE(answer.is_discarded()) << static_cast<int>(event.kind) << " " << event.frame.body << "\n" << text;
    return answer;
  }

  static ForkServer* server_;
  static int interrupt_;
};
ForkServer* ForkServerTest::server_ = nullptr;
int ForkServerTest::interrupt_ = -1;

const std::string kGood = "class ModelNew:\n    pass\n";

/// What tried actions came to: "done …" or the name and text of the error.
const std::string kTry = R"(
import ctypes, json, os, socket, subprocess, sys, threading

libc = ctypes.CDLL(None, use_errno=True)

def attempt(action):
    try:
        return "done " + repr(action())
    except BaseException as error:
        return f"{type(error).__name__}: {error}"

def system(number, *arguments):
    result = libc.syscall(number, *arguments)
    return "done" if result >= 0 else os.strerror(ctypes.get_errno())

def write(path):
    with open(path, "w") as file:
        file.write("x")
)";

TEST_F(ForkServerTest, AGoodAnswerIsLoaded) {
  Job job = spawn();
  const JobEvent event = event_of(job, kGood);
  ASSERT_EQ(event.kind, Kind::kRecord);
  EXPECT_EQ(Json::parse(event.frame.body)["type"], "loaded");
}

TEST_F(ForkServerTest, AllThreeServersServe) {
  for (const JobMode mode : {JobMode::kOracle, JobMode::kInterpret, JobMode::kCompile}) {
    const Job job = spawn({}, mode);
    EXPECT_FALSE(job.sandbox().obtained.empty());
  }
  EXPECT_THAT(server_->torch_version(), StartsWith("2."));
}

TEST_F(ForkServerTest, AJobReportsEveryConfinement) {
  const Job job = spawn();
  EXPECT_THAT(job.sandbox().open, testing::IsEmpty()) << job.sandbox().message;
  EXPECT_TRUE(job.sandbox().complete());
  for (const char* name : {"private folder", "no new privileges", "system-call filter", "resource limits", "not root"})
    EXPECT_THAT(job.sandbox().obtained, Contains(name));
  const auto namespaces = {"user namespace",  "pid namespace", "network namespace",
                           "mount namespace", "ipc namespace", "private /proc"};
  if (kNamespaces) {
    EXPECT_THAT(job.sandbox().missing, testing::IsEmpty()) << job.sandbox().message;
    for (const char* name : namespaces) EXPECT_THAT(job.sandbox().obtained, Contains(name));
    EXPECT_THAT(job.sandbox().obtained, Contains("no capabilities"));
  } else {
    for (const char* name : namespaces) EXPECT_THAT(job.sandbox().missing, Contains(name));
    EXPECT_THAT(job.sandbox().obtained, Contains("landlock files"));
  }
}

TEST_F(ForkServerTest, AJobIsNobodyWithoutPrivileges) {
  const Json facts = answer_of(R"(
import json, os
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps({"uids": list(os.getresuid()), "gids": list(os.getresgid()), "groups": os.getgroups(),
                  **{key: status[key].strip() for key in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Threads")}}), flush=True)
)");
  for (const Json& uid : facts["uids"]) EXPECT_NE(uid, 0);
  for (const Json& gid : facts["gids"]) EXPECT_NE(gid, 0);
  for (const Json& group : facts["groups"]) EXPECT_NE(group, 0);
  for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"}) {
    // Without mounts of its own a job of root's front reads what root alone may reach by one capability.
    if (!kNamespaces && facts[set] == "0000000000000004") continue;
    EXPECT_EQ(facts[set], "0000000000000000") << set;
  }
  EXPECT_EQ(facts["NoNewPrivs"], "1");
  EXPECT_EQ(facts["Seccomp"], "2") << "2 is a filter";
  EXPECT_EQ(facts["Threads"], "1");
}

TEST_F(ForkServerTest, AJobSeesNoProcessButItself) {
  if (!kNamespaces) {
    const Json facts =
        answer_of(kTry + "print(json.dumps({'list': attempt(lambda: os.listdir('/proc'))}), flush=True)\n");
    EXPECT_THAT(facts["list"].get<std::string>(), StartsWith("PermissionError"));
    return;
  }
  const Json facts = answer_of(R"(
import json, os
print(json.dumps({"pids": [name for name in os.listdir("/proc") if name.isdigit()], "own": os.getpid(), "parent": os.getppid()}), flush=True)
)");
  EXPECT_EQ(facts["pids"], Json::array({std::to_string(facts["own"].get<int>())}));
  EXPECT_EQ(facts["parent"], 0) << "a parent in another namespace has no number here";
}

TEST_F(ForkServerTest, AJobReadsNothingOfOtherProcesses) {
  const Json facts = answer_of("SIBLING = " + std::to_string(server_->process_id()) + "\n" + kTry + R"(
print(json.dumps({f"{pid} {name}": attempt(lambda: open(f"/proc/{pid}/{name}", "rb").read(10)) for pid in (1, os.getppid(), SIBLING)
                  if pid not in (0, os.getpid()) for name in ("environ", "maps", "mem", "status", "cmdline")}), flush=True)
)");
  for (const auto& [what, result] : facts.items())
    EXPECT_THAT(result.get<std::string>(), Not(StartsWith("done"))) << what;
}

TEST_F(ForkServerTest, KillingEveryoneReachesNobody) {
  Job neighbour = spawn();
  const int before = server_->process_id();
  Job job = spawn();
  const JobEvent event =
      event_of(job,
               "import os, signal\nfor pid in [-1, *range(1, 3000)]:\n    try:\n        os.kill(pid, signal.SIGKILL)\n"
               "    except OSError:\n        pass\nclass ModelNew:\n    pass\n");
  EXPECT_THAT(event.kind, AnyOf(Kind::kRecord, Kind::kEnded));
  EXPECT_EQ(Json::parse(event_of(neighbour, kGood).frame.body)["type"], "loaded");
  EXPECT_EQ(server_->process_id(), before);
}

TEST_F(ForkServerTest, AJobSeesNoNetwork) {
  const Json facts = answer_of(kTry + R"(
print(json.dumps({
    "interfaces": attempt(lambda: [line.split(":")[0].strip() for line in open("/proc/net/dev").readlines()[2:]]),
    "inet": attempt(lambda: socket.socket(socket.AF_INET)), "udp": attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)),
    "unix": attempt(lambda: socket.socket(socket.AF_UNIX)), "netlink": attempt(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)),
    "pair": attempt(socket.socketpair)}), flush=True)
)");
  EXPECT_THAT(facts["interfaces"].get<std::string>(), AnyOf("done []", "done ['lo']", StartsWith("PermissionError")));
  for (const char* kind : {"inet", "udp", "unix", "netlink", "pair"})
    EXPECT_THAT(facts[kind].get<std::string>(), StartsWith("PermissionError")) << kind;
}

TEST_F(ForkServerTest, DangerousSystemCallsAreRefused) {
  // Numbers of x86-64: ptrace 101, unshare 272, setns 308, mount 165, memfd_create 319, process_vm_readv 310, bpf 321,
  // keyctl 250, io_uring_setup 425, userfaultfd 323, perf_event_open 298, shmget 29, setuid 105, personality 135,
  // pidfd_open 434, clone3 435.
  const Json facts = answer_of(kTry + R"(
numbers = {"ptrace": 101, "unshare": 272, "setns": 308, "mount": 165, "memfd_create": 319, "process_vm_readv": 310, "bpf": 321, "keyctl": 250,
           "io_uring_setup": 425, "userfaultfd": 323, "perf_event_open": 298, "shmget": 29, "setuid": 105, "personality": 135, "pidfd_open": 434}
facts = {name: system(number, 0, 0, 0, 0, 0) for name, number in numbers.items()}
facts["new user namespace by clone"] = system(56, 0x10000000, 0, 0, 0, 0)
facts["execve"] = attempt(lambda: os.execv("/bin/true", ["true"]))
print(json.dumps(facts), flush=True)
)");
  ASSERT_EQ(facts.size(), 17U);
  for (const auto& [name, result] : facts.items()) {
    EXPECT_THAT(result.get<std::string>(),
                AnyOf(HasSubstr("Operation not permitted"), "Resource temporarily unavailable"))
        << name;
  }
}

TEST_F(ForkServerTest, AJobWritesOnlyInItsFolder) {
  const fs::path theirs = fs::temp_directory_path() / ("autotriton-outside-" + std::to_string(::getpid()));
  std::ofstream(theirs) << "not for jobs";
  const Json facts = answer_of(kTry + "outside = " + Json(theirs.string()).dump() +
                               "\nworker = " + Json(AUTOTRITON_SOURCE_DIR "/worker").dump() + R"(
places = ["/x", "/tmp/x", "/usr/x", "/usr/lib/x", "/var/tmp/x", "/dev/shm/x", "/proc/sys/kernel/hostname", "/proc/self/oom_score_adj", worker + "/x.py",
          worker + "/glue.toml", sys.prefix + "/x", outside, "/dev/x"]
print(json.dumps({"own": attempt(lambda: write("own")), "home": attempt(lambda: write(os.path.expanduser("~/x"))),
                  "read outside": attempt(lambda: open(outside).read()), "remove": attempt(lambda: os.remove(worker + "/protocol.py")),
                  "source": attempt(lambda: open(os.path.dirname(worker) + "/CMakeLists.txt").read(5)),
                  "passwd": attempt(lambda: open("/etc/shadow").read(5)), "root": attempt(lambda: sorted(os.listdir("/"))),
                  "places": {place: attempt(lambda: write(place)) for place in places}}), flush=True)
)");
  EXPECT_EQ(facts["own"], "done None");
  EXPECT_EQ(facts["home"], "done None");
  for (const auto& [place, result] : facts["places"].items())
    EXPECT_THAT(result.get<std::string>(), Not(StartsWith("done"))) << place;
  for (const char* what : {"read outside", "remove", "source", "passwd"})
    EXPECT_THAT(facts[what].get<std::string>(), Not(StartsWith("done"))) << what;
  for (const char* folder : {"home", "mnt", "var", "opt", "boot", "run"})
    EXPECT_THAT(facts["root"].get<std::string>(), Not(HasSubstr("'" + std::string(folder) + "'")));
  std::ifstream file(theirs);
  std::string text;
  std::getline(file, text);
  EXPECT_EQ(text, "not for jobs");
  fs::remove(theirs);
}

TEST_F(ForkServerTest, WhatOneJobWritesTheNextDoesNotSee) {
  const std::string look =
      kTry +
      "print(json.dumps({'there': attempt(lambda: os.listdir('.')) + attempt(lambda: os.listdir('..')), "
      "'wrote': attempt(lambda: write('left')), 'beside': attempt(lambda: write('../left'))}), flush=True)\n";
  answer_of(look);
  const Json second = answer_of(look);
  EXPECT_THAT(second["there"].get<std::string>(), AllOf(HasSubstr("done"), Not(HasSubstr("left"))));
  EXPECT_EQ(second["wrote"], "done None");
}

TEST_F(ForkServerTest, TheFrontsEnvironmentStaysOutside) {
  ASSERT_STREQ(std::getenv("AUTOTRITON_TEST_SECRET"), "sesame");
  const Json facts = answer_of(
      "import json, os\nprint(json.dumps({'own': dict(os.environ), 'raw': open('/proc/self/environ', "
      "errors='replace').read() if os.access('/proc/self/environ', os.R_OK) else ''}), flush=True)\n");
  EXPECT_THAT(facts.dump(), Not(HasSubstr("sesame")));
  EXPECT_THAT(facts.dump(), Not(HasSubstr("AUTOTRITON")));
  EXPECT_FALSE(facts["own"].contains("HF_TOKEN"));
}

TEST_F(ForkServerTest, AJobHoldsNoDescriptorButItsOwnFour) {
  const Json facts = answer_of(R"(
import json, os
found = {}
for name in range(4096):
    try:
        found[str(name)] = os.readlink(f"/proc/self/fd/{name}")
    except OSError:
        pass
print(json.dumps(found), flush=True)
)");
  std::set<std::string> names;
  for (const auto& [name, target] : facts.items()) names.insert(name);
  EXPECT_THAT(names, testing::IsSubsetOf({"0", "1", "2", "3"})) << facts;
}

TEST_F(ForkServerTest, AJobMayNotForkByDefaultAndOnlyUpToItsLimit) {
  const std::string source = kTry + R"(
children = 0
for _ in range(400):
    try:
        pid = os.fork()
    except OSError:
        break
    if pid == 0:
        import time
        time.sleep(30)
        os._exit(0)
    children += 1
print(json.dumps({"children": children, "thread": attempt(lambda: threading.Thread(target=print).start())}), flush=True)
)";
  const Json none = answer_of(source);
  EXPECT_EQ(none["children"], 0);
  EXPECT_THAT(none["thread"].get<std::string>(), StartsWith("RuntimeError"));
  const Json few = answer_of(source, {.processes = 6});
  EXPECT_GE(few["children"], 1);
  EXPECT_LE(few["children"], kNamespaces ? 5 : 399) << "a count that is shared with all of this user's processes";
}

TEST_F(ForkServerTest, MemoryFilesAndItsFolderHaveTheirLimits) {
  if (!kNamespaces) {
    const Json memory =
        answer_of(kTry + "print(json.dumps({'memory': attempt(lambda: len(bytearray(6 << 30)))}), flush=True)\n");
    EXPECT_THAT(memory["memory"].get<std::string>(), StartsWith("MemoryError"));
    Job job = spawn();
    const JobEvent event = event_of(job,
                                    "import time\nfile = open('large', 'wb')\nfor _ in range(96):\n    "
                                    "file.write(bytes(1 << 20))\ntime.sleep(30)\n");
    ASSERT_EQ(event.kind, Kind::kEnded);
    EXPECT_EQ(event.end.signal, SIGKILL) << "a folder on a disk is looked at from time to time";
    return;
  }
  const Json facts = answer_of(kTry + R"(
def fill():
    with open("large", "wb") as file:
        for _ in range(256):
            file.write(bytes(1 << 20))

print(json.dumps({"memory": attempt(lambda: len(bytearray(6 << 30))), "folder": attempt(fill)}), flush=True)
)");
  EXPECT_THAT(facts["memory"].get<std::string>(), StartsWith("MemoryError"));
  EXPECT_THAT(facts["folder"].get<std::string>(), HasSubstr("No space left"));
}

TEST_F(ForkServerTest, TheCompilersJobMayStartProgramsButHasNoNetworkEither) {
  const Json facts = answer_of(kTry + R"(
print(json.dumps({"exec": attempt(lambda: subprocess.run(["/bin/true"]).returncode), "inet": attempt(lambda: socket.socket(socket.AF_INET)),
                  "write": attempt(lambda: write("/usr/x")), "uid": os.getuid()}), flush=True)
)",
                               {.processes = 16, .allow_exec = true}, JobMode::kCompile);
  EXPECT_EQ(facts["exec"], "done 0");
  EXPECT_THAT(facts["inet"].get<std::string>(), StartsWith("PermissionError"));
  EXPECT_THAT(facts["write"].get<std::string>(), Not(StartsWith("done")));
  EXPECT_NE(facts["uid"], 0);
}

TEST_F(ForkServerTest, ADeadlineIsHonouredWhileTheJobSpins) {
  Job job = spawn();
  ASSERT_TRUE(
      job.send(load("import signal\nfor number in range(1, 65):\n    try:\n        signal.signal(number, "
                    "signal.SIG_IGN)\n    except (OSError, ValueError):\n"
                    "        pass\nwhile True:\n    pass\n")));
  const auto start = Clock::now();
  EXPECT_EQ(job.next(start + milliseconds(500)).kind, Kind::kTimeout);
  const auto waited = Clock::now() - start;
  EXPECT_GE(waited, milliseconds(490));
  EXPECT_LT(waited, seconds(5));
  const auto before_kill = Clock::now();
  EXPECT_EQ(job.kill().signal, SIGKILL);
  EXPECT_LT(Clock::now() - before_kill, seconds(3));
}

TEST_F(ForkServerTest, AFloodOfOutputIsDrainedAndCut) {
  Job job = spawn();
  const JobEvent event = event_of(job,
                                  "import os\nfor _ in range(1600):\n    os.write(1, b'x' * 65536)\nos.write(2, "
                                  "b'\\nthe end')\nclass ModelNew:\n    pass\n");
  ASSERT_EQ(event.kind, Kind::kRecord);
  EXPECT_EQ(Json::parse(event.frame.body)["type"], "loaded");
  job.kill();
  EXPECT_EQ(job.output_bytes(), 1600U * 65536U + 8U);
  EXPECT_LE(job.output_tail().size(), 4000U);
  EXPECT_THAT(job.output_tail(), testing::EndsWith("\nthe end"));
}

TEST_F(ForkServerTest, BytesThatAreNoRecordAreMalformed) {
  const std::string raw = "import os, socket, array\nclass ModelNew:\n    pass\n";
  for (const std::string& attack :
       {std::string("os.write(3, b'garbage that is no record')"),
        std::string("os.write(3, b'ATR1' + (1 << 30).to_bytes(4, 'little'))"),
        std::string("os.write(3, b'ATR1' + (3 << 20).to_bytes(4, 'little'))"),
        std::string("socket.socket(fileno=os.dup(3)).sendmsg([b'ATR1'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, "
                    "array.array('i', [0] * 9))])")}) {
    Job job = spawn();
    EXPECT_EQ(event_of(job, raw + attack + "\nimport time\ntime.sleep(20)\n").kind, Kind::kMalformed) << attack;
  }
}

TEST_F(ForkServerTest, ARecordOfAnyTypeIsOnlyBytesToTheFront) {
  for (const char* body : {"[]", "3", "{\"type\": 5}", "not json", ""}) {
    Job job = spawn();
    const std::string source =
        "import os\nbody = b'''" + std::string(body) +
        "'''\nos.write(3, b'ATR1' + len(body).to_bytes(4, 'little') + body)\nimport time\ntime.sleep(20)\n";
    const JobEvent event = event_of(job, source);
    ASSERT_EQ(event.kind, Kind::kRecord) << body;
    EXPECT_EQ(event.frame.body, body);
  }
}

TEST_F(ForkServerTest, HowAJobEndsIsTold) {
  {
    Job job = spawn();
    const JobEvent event = event_of(job, "import os\nos._exit(7)\n");
    ASSERT_EQ(event.kind, Kind::kEnded);
    EXPECT_EQ(event.end.code, 7);
    EXPECT_EQ(event.end.signal, 0);
    EXPECT_GT(event.end.max_rss_bytes, std::uint64_t{1} << 20);
  }
  {
    Job job = spawn();
    const JobEvent event = event_of(job, "import ctypes\nctypes.string_at(1)\n");
    ASSERT_EQ(event.kind, Kind::kEnded);
    EXPECT_EQ(event.end.signal, SIGSEGV);
  }
}

TEST_F(ForkServerTest, LeavingTheScopeOfAJobLeavesNoProcess) {
  const int pid = server_->process_id();
  ASSERT_TRUE(falls_to(pid, 4)) << "the parent's child, the zygote's three servers";
  const std::size_t before = descendants(pid).size();
  {
    Job job = spawn({.processes = 8});
    ASSERT_TRUE(job.send(
        load("import os, time\nfor _ in range(5):\n    if os.fork() == 0:\n        try:\n            os.setsid()\n"
             "        except OSError:\n            pass\n        time.sleep(600)\nprint('ready', "
             "flush=True)\ntime.sleep(600)\n")));
    const auto deadline = Clock::now() + seconds(20);
    while (job.output_tail().find("ready") == std::string::npos && Clock::now() < deadline)
      job.next(Clock::now() + milliseconds(50));
    EXPECT_GE(descendants(pid).size(), before + 6) << "the job and its five children";
  }
  EXPECT_TRUE(falls_to(pid, before)) << descendants(pid).size() << " processes where there were " << before;
}

TEST_F(ForkServerTest, ADetachedChildDoesNotOutliveItsJobsEnd) {
  const int pid = server_->process_id();
  ASSERT_TRUE(falls_to(pid, 4));
  {
    Job job = spawn({.processes = 8});
    const JobEvent event =
        event_of(job,
                 "import os, time\nif os.fork() == 0:\n    try:\n        os.setsid()\n    except OSError:\n        "
                 "pass\n    time.sleep(600)\nos._exit(0)\n");
    EXPECT_EQ(event.kind, Kind::kEnded);
  }
  EXPECT_TRUE(falls_to(pid, 4));
}

TEST_F(ForkServerTest, AJobWhoseServerIsKilledIsLostAndStillEnds) {
  const int pid = server_->process_id();
  ASSERT_TRUE(falls_to(pid, 4));
  const std::set<pid_t> servers = descendants(pid);
  {
    Job job = spawn();
    ASSERT_TRUE(job.send(load("import time\ntime.sleep(600)\n")));
    std::set<pid_t> added;
    for (const pid_t now : descendants(pid)) {
      if (!servers.contains(now)) added.insert(now);
    }
    ASSERT_EQ(added.size(), 1U) << "the job alone";
    for (const pid_t server : servers) {
      if (descendants(server).contains(*added.begin()) && descendants(server).size() == 1) {
        ASSERT_EQ(::kill(server, SIGKILL), 0);
      }
    }
    EXPECT_EQ(job.next(Clock::now() + seconds(10)).kind, Kind::kLost);
  }
  EXPECT_TRUE(falls_to(pid, 0)) << "the job outlived its server and its owner";
  const Job next = spawn();
  EXPECT_GE(descendants(server_->process_id()).size(), 5U) << "the next job has servers again";
}

TEST_F(ForkServerTest, ServersThatDieAreStartedAnew) {
  for (int victim = 0; victim < 2; ++victim) {
    const int pid = server_->process_id();
    const std::set<pid_t> servers = descendants(pid);
    ASSERT_GE(servers.size(), 4U);
    // The youngest is the compile server, the oldest the parent of all.
    ASSERT_EQ(::kill(victim == 0 ? *servers.rbegin() : *servers.begin(), SIGKILL), 0);
    for (const JobMode mode : {JobMode::kInterpret, JobMode::kCompile}) {
      Job job = spawn({}, mode);
      const JobEvent event = event_of(job, kGood);
      if (event.kind == Kind::kLost || event.kind == Kind::kEnded)
        continue;  // Caught between two deaths: the front tries such an answer again.
      ASSERT_EQ(event.kind, Kind::kRecord);
      EXPECT_EQ(Json::parse(event.frame.body)["type"], "loaded");
    }
    Job job = spawn();
    EXPECT_EQ(event_of(job, kGood).kind, Kind::kRecord);
    job.kill();
    for (const pid_t old : servers) {
      bool gone = false;
      for (int wait = 0; wait < 300 && !gone; ++wait) {
        gone = !descendants(server_->process_id()).contains(old) && !fs::exists("/proc/" + std::to_string(old));
        if (!gone) std::this_thread::sleep_for(milliseconds(10));
      }
      EXPECT_TRUE(gone) << "an old server still runs";
    }
  }
}

TEST_F(ForkServerTest, AnInterruptEndsTheWait) {
  Job job = spawn();
  ASSERT_TRUE(job.send(load("import time\ntime.sleep(600)\n")));
  std::thread later([] {
    std::this_thread::sleep_for(milliseconds(200));
    const std::uint64_t one = 1;
    EXPECT_EQ(::write(interrupt_, &one, sizeof one), static_cast<ssize_t>(sizeof one));
  });
  const auto start = Clock::now();
  EXPECT_EQ(job.next(start + seconds(20)).kind, Kind::kInterrupted);
  EXPECT_LT(Clock::now() - start, seconds(5));
  later.join();
  std::uint64_t value = 0;
  EXPECT_EQ(::read(interrupt_, &value, sizeof value), static_cast<ssize_t>(sizeof value));
}

TEST_F(ForkServerTest, JobsOfSeveralThreadsDoNotMixUp) {
  std::vector<std::thread> threads;
  std::vector<int> right(4, 0);
  for (int index = 0; index < 4; ++index) {
    threads.emplace_back([&, index] {
      for (int round = 0; round < 5; ++round) {
        const std::string word = "job " + std::to_string(index) + " round " + std::to_string(round);
        Job job = spawn();
        if (!job.send(load("raise RuntimeError('" + word + "')\n"))) continue;
        const JobEvent event = job.next(Clock::now() + seconds(60));
        right[static_cast<std::size_t>(index)] +=
            event.kind == Kind::kRecord && event.frame.body.find(word) != std::string::npos ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(right, testing::Each(5));
}

TEST_F(ForkServerTest, TwoHundredJobsLeakNoDescriptorAndNoProcess) {
  const int pid = server_->process_id();
  for (int warm = 0; warm < 3; ++warm) spawn();
  const std::size_t descriptors = open_descriptors();
  for (int count = 0; count < 200; ++count) {
    Job job = spawn();
    if (count % 4 == 0) {
      EXPECT_EQ(event_of(job, kGood).kind, Kind::kRecord);
    } else if (count % 4 == 1) {
      job.kill();
    }
  }
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_TRUE(falls_to(pid, 4)) << descendants(pid).size();
  EXPECT_EQ(server_->process_id(), pid) << "no restart was needed";
}

TEST(ForkServerStartTest, APythonWithoutTorchIsAnErrorWithItsLastWords) {
  ForkServer::Options wrong = options();
  wrong.python = "/usr/bin/python3";
  ForkServer server(wrong);
  try {
    server.start();
    GTEST_SKIP() << "this system's Python has torch";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("No module named 'torch'"));
    EXPECT_THAT(error.what(), HasSubstr("make setup"));
  }
}

TEST(ForkServerStartTest, AProgramThatIsNoPythonIsAnError) {
  ForkServer::Options wrong = options();
  wrong.python = "/bin/false";
  EXPECT_THROW(ForkServer(wrong).start(), UserError);
}

TEST(ForkServerStartTest, AServerThatNeverStartedStopsQuietly) { ForkServer server(options()); }

TEST(MemoryFileTest, ASealedFileCanNotBeChangedAndAMappedOneNotSealed) {
  const UniqueFd file = make_memory_file("test", 4096);
  EXPECT_EQ(::pwrite(file.get(), "x", 1, 0), 1);
  EXPECT_NE(::ftruncate(file.get(), 8192), 0) << "its size is fixed from the start";
  EXPECT_TRUE(seal_memory_file(file));
  EXPECT_NE(::pwrite(file.get(), "y", 1, 0), 1);
}

}  // namespace
}  // namespace autotriton::execution
