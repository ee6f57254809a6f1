#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/child_process.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "cli/commands.h"
#include "cli/server_options.h"
#include "execution/cgroup.h"
#include "execution/confine.h"
#include "execution/landlock.h"

namespace autotriton::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;
using execution::Job;
using execution::JobEvent;
using execution::JobLimits;
using execution::JobMode;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr const char* kSecret = "AUTOTRITON_DOCTOR_SECRET";

struct Fact {
  std::string name;
  std::string value;
  bool fine = true;
  std::string fix{};
};

/// One confinement that was tried.
struct Line {
  enum class State { kHeld, kBroken, kNotHad };
  std::string name;
  State state = State::kHeld;
  std::string sentence;
  std::string fix{};
};

const char* state_name(Line::State state) {
  return state == Line::State::kHeld ? "held" : state == Line::State::kBroken ? "broken" : "not had";
}

// ---------------------------------------------------------------------------------------------------------------------
// What the machine offers

std::string gib(std::uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f GiB", static_cast<double>(bytes) / (1 << 30));
  return text;
}

std::string free_space(const fs::path& folder) {
  struct statvfs info {};
  if (::statvfs(folder.c_str(), &info) != 0) return folder.string() + ": " + std::strerror(errno);
  return gib(std::uint64_t{info.f_bavail} * info.f_frsize) + " free in " + folder.string();
}

std::optional<std::string> find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::string_view folders = path == nullptr ? "" : path;
  while (!folders.empty()) {
    const auto end = folders.find(':');
    const fs::path file = fs::path(folders.substr(0, end)) / name;
    if (::access(file.c_str(), X_OK) == 0) return file.string();
    folders.remove_prefix(end == std::string_view::npos ? folders.size() : end + 1);
  }
  return std::nullopt;
}

std::vector<Fact> machine_facts() {
  std::vector<Fact> facts;
  facts.push_back({"cores", std::to_string(std::thread::hardware_concurrency())});
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t memory = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * page;
  facts.push_back({"memory",
                   gib(memory) + ", " + gib(static_cast<std::uint64_t>(::sysconf(_SC_AVPHYS_PAGES)) * page) + " free",
                   memory >= 4096 * kMiB, "4 GiB are needed for one answer at a time"});
  facts.push_back({"disk", free_space(fs::temp_directory_path())});
  facts.push_back({"shared memory", free_space("/dev/shm")});
  try {
    execution::make_memory_file("doctor", 4096);
    facts.push_back({"memory files", "work"});
  } catch (const UserError& error) {
    facts.push_back(
        {"memory files", error.what(), false, "a kernel from 3.17 on has memfd_create; a filter may forbid it"});
  }
  const int landlock = execution::landlock_version();
  facts.push_back({"landlock", landlock == 0 ? "none" : "version " + std::to_string(landlock)});
  facts.push_back({"system-call filter", ::prctl(PR_GET_SECCOMP, 0, 0, 0, 0) >= 0 ? "there" : "none"});
  std::string why;
  const auto group = execution::RunCgroup::make(why);
  facts.push_back({"control groups", group == nullptr ? "none of our own (" + why + ")"
                                     : group->bounds_memory()
                                         ? "of our own, with a memory limit"
                                         : "of our own, to end a run as a whole; no memory limit, which only bounds "
                                           "several processes together"});
  std::error_code ignored;
  const bool gpu = fs::exists("/dev/nvidiactl", ignored) || fs::exists("/proc/driver/nvidia/version", ignored);
  facts.push_back({"gpu", gpu ? "an NVIDIA driver is there; this build does not use it" : "none; not needed"});
  facts.push_back({"redis-server", find_program("redis-server").value_or("none; only `--queue` needs one, anywhere")});
  return facts;
}

std::vector<Fact> worker_facts(const fs::path& python) {
  const char* program =
      "import importlib.metadata as m, json, os, sys\n"
      "found = {'python': sys.version.split()[0]}\n"
      "for name in ('torch', 'triton', 'numpy'):\n"
      "    try:\n        found[name] = m.version(name)\n    except m.PackageNotFoundError:\n        found[name] = ''\n"
      "try:\n"
      "    path = os.path.join(str(m.distribution('triton').locate_file('triton')), 'backends/nvidia/bin/ptxas')\n"
      "    found['ptxas'] = path if os.access(path, os.X_OK) else ''\n"
      "except m.PackageNotFoundError:\n    found['ptxas'] = ''\n"
      "print(json.dumps(found))";
  const Finished run = run_to_end({.arguments = {python.string(), "-c", program}}, {.timeout = seconds(30)});
  const Json found = Json::parse(run.out, nullptr, false);
  if (!run.status || !run.status->success() || !found.is_object()) {
    return {{"python", python.string() + " does not run: " + run.error.substr(0, 300), false,
             "run `make setup`, or point AUTOTRITON_PYTHON at a working one"}};
  }
  const std::map<std::string, std::string> wanted{{"torch", "2.11."}, {"triton", "3.6."}, {"numpy", ""}, {"ptxas", ""}};
  std::vector<Fact> facts{{"python", found.value("python", "") + ", " + python.string()}};
  for (const auto& [name, prefix] : wanted) {
    const std::string have = found.value(name, "");
    facts.push_back({name, have.empty() ? "missing" : have, !have.empty() && have.starts_with(prefix),
                     "this program was made for torch 2.11 and triton 3.6: run `make setup`"});
  }
  return facts;
}

// ---------------------------------------------------------------------------------------------------------------------
// What a job can reach

/// Things outside of the sandbox for a probe to reach, and whether it did.
class Bait {
 public:
  Bait() {
    std::string folder = (fs::temp_directory_path() / "autotriton-doctor-XXXXXX").string();
    if (::mkdtemp(folder.data()) == nullptr)
      throw UserError({.where = folder,
                       .what = std::strerror(errno),
                       .fix = "free space, or set TMPDIR to a folder that can be written"});
    folder_ = folder;
    ::chmod(folder.c_str(), 0777);
    std::ofstream(folder_ / "secret") << "not for jobs";
    ::chmod((folder_ / "secret").c_str(), 0666);
    listeners_.push_back(listen_on_loopback());
    listeners_.push_back(listen_on(std::string(1, '\0') + abstract_name()));
    listeners_.push_back(listen_on((folder_ / "socket").string()));
    ::chmod((folder_ / "socket").c_str(), 0777);
  }
  Bait(const Bait&) = delete;
  Bait& operator=(const Bait&) = delete;
  ~Bait() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  const fs::path& folder() const { return folder_; }
  int port() const { return port_; }
  static std::string abstract_name() { return "autotriton-doctor-" + std::to_string(::getpid()); }

  /// Whether anything came to any listener.
  bool was_reached() const {
    for (const execution::UniqueFd& listener : listeners_) {
      pollfd waiting{listener.get(), POLLIN, 0};
      if (::poll(&waiting, 1, 0) > 0) return true;
    }
    return false;
  }
  bool is_untouched() const {
    std::ifstream file(folder_ / "secret");
    std::string text;
    std::getline(file, text);
    std::size_t entries = 0;
    for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder_)) ++entries;
    struct stat info {};
    return text == "not for jobs" && entries == 2 && ::stat((folder_ / "secret").c_str(), &info) == 0 &&
           (info.st_mode & 0777) == 0666;
  }

 private:
  execution::UniqueFd listen_on_loopback() {
    execution::UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0 &&
        ::listen(listener.get(), 4) == 0 &&
        ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0) {
      port_ = ntohs(address.sin_port);
    }
    return listener;
  }
  static execution::UniqueFd listen_on(const std::string& path) {
    execution::UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof address.sun_path - 1));
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
    if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0) ::listen(listener.get(), 4);
    return listener;
  }

  fs::path folder_;
  int port_ = 0;
  std::vector<execution::UniqueFd> listeners_;
};

/// Processes of the workers: those below this one.
std::set<int> descendants() {
  std::multimap<int, int> children;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "stat");
    std::string text;
    std::getline(file, text);
    const auto end = text.rfind(')');
    char state = 0;
    int parent = 0;
    if (end != std::string::npos && std::sscanf(text.c_str() + end + 1, " %c %d", &state, &parent) == 2 && state != 'Z')
      children.emplace(parent, std::atoi(name.c_str()));
  }
  std::set<int> found;
  std::vector<int> todo{::getpid()};
  while (!todo.empty()) {
    const auto [first, last] = children.equal_range(todo.back());
    todo.pop_back();
    for (auto child = first; child != last; ++child) {
      if (found.insert(child->second).second) todo.push_back(child->second);
    }
  }
  return found;
}

/// A file that the user has in a folder; empty if there is none.
std::string some_file(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.is_regular_file(ignored) && entry.file_size(ignored) > 0) return entry.path().string();
  }
  return {};
}

Json ask(Job& job, const Json& request, seconds patience) {
  if (!job.send(request.dump())) return nullptr;
  const JobEvent event = job.next(Clock::now() + patience);
  return event.kind == JobEvent::Kind::kRecord ? Json::parse(event.frame.body, nullptr, false) : Json(nullptr);
}

/// What one confinement is called where it is left open (SandboxReport::open).
const std::map<std::string, std::vector<std::string>> kOpenNames{
    {"reading files", {"files", "folders of other jobs"}},
    {"writing files", {"files", "folders of other jobs"}},
    {"network", {"network"}},
    {"signals", {"other processes"}},
    {"other processes", {"other processes", "files"}},
    {"starting programs", {"system calls"}},
    {"system calls", {"system calls"}},
    {"privileges", {"privileges", "root"}},
    {"memory", {"memory and processes"}},
    {"file size", {"memory and processes"}},
    {"folder size", {"folders of other jobs"}},
    {"many processes", {"memory and processes"}},
};

constexpr const char* kWhatToDo =
    "run where user namespaces or Landlock can be had (kernel.unprivileged_userns_clone=1; Linux 5.13 with landlock in "
    "lsm=), or keep the machine for nothing else";

Line judged(const std::string& name, bool through, const std::string& sentence,
            const execution::SandboxReport& sandbox) {
  if (!through) return {name, Line::State::kHeld, sentence};
  bool known_open = false;
  if (const auto found = kOpenNames.find(name); found != kOpenNames.end()) {
    for (const std::string& open : found->second)
      known_open = known_open || std::find(sandbox.open.begin(), sandbox.open.end(), open) != sandbox.open.end();
  }
  if (known_open) return {name, Line::State::kNotHad, sentence, kWhatToDo};
  return {name, Line::State::kBroken, sentence,
          "judge nothing untrusted here, and report this with the output of `autotriton doctor --json`"};
}

class Examination {
 public:
  Examination(execution::ForkServer& server, const Bait& bait) : server_(server), bait_(bait) {}

  std::vector<Line> run() {
    const std::set<int> servers = descendants();
    Job neighbour = server_.spawn(JobMode::kProbe, {}, 90);
    for (const int process : descendants()) {
      if (!servers.contains(process)) neighbour_ = process;
    }
    const Json settled = ask(neighbour, {{"type", "settle"}}, seconds(20));
    try_quiet_ones(settled.is_object() ? settled.value("folder", "/job") : "/job");
    try_filling();
    try_a_bomb();
    try_outliving();
    return std::move(lines_);
  }

  const execution::SandboxReport& sandbox() const { return sandbox_; }

 private:
  void add(const std::string& name, bool through, const std::string& sentence) {
    lines_.push_back(judged(name, through, sentence, sandbox_));
  }

  void try_quiet_ones(const std::string& neighbour_folder) {
    const JobLimits limits{.address_space_bytes = 1024 * kMiB, .file_bytes = 16 * kMiB, .tmp_bytes = 64 * kMiB};
    Job job = server_.spawn(JobMode::kProbe, limits, 90);
    sandbox_ = job.sandbox();
    const std::string mark = "autotriton-doctor-mark-" + std::to_string(::getpid());
    const char* home = std::getenv("HOME");
    const Json reply = ask(job,
                           {{"type", "attempts"},
                            {"outside", bait_.folder().string()},
                            {"home", home == nullptr ? "/root" : home},
                            {"home_file", some_file(home == nullptr ? "/root" : home)},
                            {"port", bait_.port()},
                            {"abstract", Bait::abstract_name()},
                            {"front", ::getpid()},
                            {"neighbour", neighbour_},
                            {"neighbour_folder", neighbour_folder},
                            {"mark", mark},
                            {"secret", "doctors-secret"},
                            {"memory", 3072 * kMiB},
                            {"file", 32 * kMiB}},
                           seconds(60));
    if (!reply.is_object() || reply.value("type", "") != "attempted") {
      lines_.push_back({"attempts", Line::State::kBroken, "the probe did not come back: " + job.output_tail(500),
                        "run it again; if it stays so, report it"});
      return;
    }
    std::vector<std::string> order;
    std::map<std::string, std::vector<std::string>> tried;
    std::map<std::string, std::vector<std::string>> through;
    for (const Json& result : reply["results"]) {
      const std::string name = result.value("confinement", "");
      if (tried[name].empty()) order.push_back(name);
      tried[name].push_back(result.value("attempt", ""));
      if (result.value("through", true))
        through[name].push_back(result.value("attempt", "") + " " + result.value("detail", ""));
    }
    // What can be seen from outside counts whatever the probe says.
    if (bait_.was_reached()) through["network"].emplace_back("a connection arrived");
    for (const char* place : {"/tmp", "/var/tmp", "/dev/shm", "/usr/lib", home == nullptr ? "/root" : home}) {
      std::error_code ignored;
      if (fs::remove(fs::path(place) / mark, ignored))
        through["writing files"].push_back(std::string("a file came to be in ") + place);
    }
    if (!bait_.is_untouched()) through["writing files"].emplace_back("a file outside was changed");
    for (const std::string& name : order) {
      std::string sentence;
      for (const std::string& each : through[name].empty() ? tried[name] : through[name])
        sentence += (sentence.empty() ? "" : "; ") + each;
      add(name, !through[name].empty(), through[name].empty() ? "refused: " + sentence : "possible: " + sentence);
    }
  }

  void try_filling() {
    const JobLimits limits{.tmp_bytes = 64 * kMiB};
    Job job = server_.spawn(JobMode::kProbe, limits, 90);
    const Json filled = ask(job, {{"type", "fill"}, {"bytes", 256 * kMiB}}, seconds(60));
    const JobEvent after = job.next(Clock::now() + seconds(20));
    const bool stopped = (filled.is_object() && !filled.value("through", true)) || after.kind == JobEvent::Kind::kEnded;
    add("folder size", !stopped,
        stopped ? "256 MiB did not go into a folder for 64"
                : "256 MiB went into a folder for 64, and nothing happened");
  }

  void try_a_bomb() {
    Job job = server_.spawn(JobMode::kProbe, {.processes = 8}, 90);
    const Json bombed = ask(job, {{"type", "bomb"}}, seconds(60));
    const std::string detail = bombed.is_object() ? bombed.value("detail", "") : "the job was ended";
    const bool unbounded = bombed.is_object() && bombed.value("through", false) && std::atoi(detail.c_str()) >= 1000;
    add("many processes", unbounded,
        "of 2000 processes it could start " + detail + (unbounded ? "" : ", where 8 may be"));
  }

  void try_outliving() {
    const std::size_t before = settled_count(descendants().size());
    {
      Job job = server_.spawn(JobMode::kProbe, {.processes = 8}, 90);
      if (job.send(Json{{"type", "outlive"}}.dump())) job.next(Clock::now() + seconds(20));
    }
    const std::size_t after = settled_count(before);
    add("outliving its end", after > before,
        after > before ? "a detached process of a job is still there" : "a detached process ended with its job");
  }

  /// Number of processes below us, once it is no more than `expected`, or after two seconds.
  static std::size_t settled_count(std::size_t expected) {
    std::size_t count = descendants().size();
    for (int wait = 0; wait < 100 && count > expected; ++wait) {
      std::this_thread::sleep_for(milliseconds(20));
      count = descendants().size();
    }
    return count;
  }

  execution::ForkServer& server_;
  const Bait& bait_;
  int neighbour_ = 1;
  execution::SandboxReport sandbox_;
  std::vector<Line> lines_;
};

struct Diagnosis {
  std::vector<Fact> machine;
  std::vector<Fact> workers;
  std::vector<Line> lines;
  execution::SandboxReport servers;
  execution::SandboxReport jobs;
  std::string failure{};  ///< Why no job could be run.

  int exit_code() const {
    bool missing = !failure.empty();
    for (const std::vector<Fact>* facts : {&machine, &workers}) {
      for (const Fact& fact : *facts) missing = missing || !fact.fine;
    }
    for (const Line& line : lines) {
      if (line.state == Line::State::kBroken) return 4;
      missing = missing || line.state == Line::State::kNotHad;
    }
    return missing ? 1 : 0;
  }
};

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

void print_text(const Diagnosis& diagnosis) {
  const auto print_facts = [](const char* title, const std::vector<Fact>& facts) {
    std::printf("%s\n", title);
    for (const Fact& fact : facts) {
      std::printf("  %-20s %s\n", fact.name.c_str(), fact.value.c_str());
      if (!fact.fine) std::printf("  %-20s -> %s\n", "", fact.fix.c_str());
    }
  };
  print_facts("machine", diagnosis.machine);
  print_facts("workers", diagnosis.workers);
  std::printf("sandbox\n");
  if (!diagnosis.failure.empty()) std::printf("  no job can be run: %s\n", diagnosis.failure.c_str());
  std::vector<std::string> obtained = diagnosis.servers.obtained;
  obtained.insert(obtained.end(), diagnosis.jobs.obtained.begin(), diagnosis.jobs.obtained.end());
  if (!obtained.empty()) std::printf("  %-20s %s\n", "obtained", joined(obtained).c_str());
  std::vector<std::string> missing = diagnosis.servers.missing;
  missing.insert(missing.end(), diagnosis.jobs.missing.begin(), diagnosis.jobs.missing.end());
  if (!missing.empty()) std::printf("  %-20s %s\n", "missing", joined(missing).c_str());
  if (!diagnosis.servers.message.empty()) std::printf("  %-20s %s\n", "because", diagnosis.servers.message.c_str());
  for (const Line& line : diagnosis.lines) {
    std::printf("  %-8s %-20s %s\n", state_name(line.state), line.name.c_str(), line.sentence.c_str());
    if (!line.fix.empty()) std::printf("  %-8s %-20s -> %s\n", "", "", line.fix.c_str());
  }
  const int code = diagnosis.exit_code();
  std::printf("%s\n", code == 0
                          ? "Everything that was tried failed, as it should: untrusted answers can be judged here."
                      : code == 1 ? "Something is missing (see ->); what is not had does not protect this machine."
                                  : "A confinement that should hold does not.");
}

void print_json(const Diagnosis& diagnosis) {
  const auto facts_of = [](const std::vector<Fact>& facts) {
    Json object = Json::object();
    for (const Fact& fact : facts)
      object[fact.name] = {{"value", fact.value}, {"fine", fact.fine}, {"fix", fact.fine ? "" : fact.fix}};
    return object;
  };
  Json confinements = Json::array();
  for (const Line& line : diagnosis.lines) {
    confinements.push_back(
        {{"name", line.name}, {"state", state_name(line.state)}, {"sentence", line.sentence}, {"fix", line.fix}});
  }
  const Json record = {
      {"schema", "autotriton.doctor/1"},
      {"machine", facts_of(diagnosis.machine)},
      {"workers", facts_of(diagnosis.workers)},
      {"sandbox",
       {{"servers",
         {{"obtained", diagnosis.servers.obtained},
          {"missing", diagnosis.servers.missing},
          {"because", diagnosis.servers.message}}},
        {"jobs",
         {{"obtained", diagnosis.jobs.obtained}, {"missing", diagnosis.jobs.missing}, {"open", diagnosis.jobs.open}}}}},
      {"failure", diagnosis.failure},
      {"confinements", confinements},
      {"exit", diagnosis.exit_code()}};
  std::printf("%s\n", record.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
}

}  // namespace

int doctor_command(int argc, char** argv) {
  bool json = false;
  std::vector<std::string> without;
  CLI::App app(
      "Say what this machine offers, and prove each confinement of untrusted answers by trying to break it.\n\n"
      "Exit: 0 everything held, 1 something that matters is missing, 4 a confinement is broken.\n",
      "autotriton doctor");
  app.add_flag("--json", json, "print one JSON object");
  app.add_option("--without", without, "do without namespaces, landlock or cgroup, as a machine that lacks them")
      ->delimiter(',');
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  ::setenv(kSecret, "doctors-secret", 1);
  const InterruptGuard interrupt;
  const execution::ForkServer::Options options = server_options(interrupt, without);
  Diagnosis diagnosis{
      .machine = machine_facts(), .workers = worker_facts(options.python), .lines = {}, .servers = {}, .jobs = {}};
  try {
    execution::ForkServer server(options);
    const Bait bait;
    server.start();
    diagnosis.servers = server.server_sandbox();
    Examination examination(server, bait);
    diagnosis.lines = examination.run();
    diagnosis.jobs = examination.sandbox();
  } catch (const UserError& error) {
    diagnosis.failure = error.what();
  }
  if (interrupt.requested()) return 130;
  json ? print_json(diagnosis) : print_text(diagnosis);
  return diagnosis.exit_code();
}

}  // namespace autotriton::cli
