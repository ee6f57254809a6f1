#include "base/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include "base/error.h"

namespace autotriton {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// A descriptor, closed at the end of the scope or earlier.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    close();
    number_ = std::exchange(other.number_, -1);
    return *this;
  }
  ~Descriptor() { close(); }
  void close() {
    if (number_ >= 0) ::close(std::exchange(number_, -1));
  }
  int get() const { return number_; }
  bool open() const { return number_ >= 0; }

 private:
  int number_;
};

struct Pipe {
  Descriptor read_end;
  Descriptor write_end;
};

Pipe make_pipe() {
  int ends[2];
  check(::pipe2(ends, O_CLOEXEC) == 0, "a pipe can be made");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

std::vector<char*> pointers_to(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& string : strings) pointers.push_back(const_cast<char*>(string.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// What the child tells when it could not start the program.
struct StartFailure {
  int error = 0;
  bool in_working_directory = false;
};

// Runs between fork and exec, so it calls only what is safe there.
[[noreturn]] void become(const Command& command, char* const* arguments, char** environment, int report_to, int null) {
  StartFailure failure;
  const auto give_up = [&] {
    failure.error = errno;
    if (::write(report_to, &failure, sizeof failure) < 0) ::_exit(126);
    ::_exit(127);
  };
  ::setpgid(0, 0);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  // First above 2, so that no source is overwritten before it is used.
  std::array<int, 3> sources = {command.standard_input < 0 ? null : command.standard_input,
                                command.standard_output < 0 ? 1 : command.standard_output,
                                command.standard_error < 0 ? 2 : command.standard_error};
  for (int& source : sources) {
    source = ::fcntl(source, F_DUPFD_CLOEXEC, 3);
    if (source < 0) give_up();
  }
  for (int i = 0; i < 3; ++i) {
    if (::dup2(sources[static_cast<std::size_t>(i)], i) < 0) give_up();
  }
  if (!command.working_directory.empty() && ::chdir(command.working_directory.c_str()) != 0) {
    failure.in_working_directory = true;
    give_up();
  }
  if (environment != nullptr) ::environ = environment;
  ::execvp(arguments[0], arguments);
  give_up();
  ::_exit(127);
}

ExitStatus status_from(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return {.code = info.si_status, .signal = 0};
  return {.code = 0, .signal = info.si_status};
}

}  // namespace

ChildProcess ChildProcess::spawn(const Command& command) {
  check(!command.arguments.empty(), "a command has a program");
  const std::vector<char*> arguments = pointers_to(command.arguments);
  std::vector<char*> environment;
  if (command.environment) environment = pointers_to(*command.environment);
  Pipe report = make_pipe();
  const Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const pid_t id = ::fork();
  check(id >= 0, "a process can be made");
  if (id == 0) {
    become(command, arguments.data(), command.environment ? environment.data() : nullptr, report.write_end.get(),
           null.get());
  }
  ChildProcess child(id);
  ::setpgid(id, id);  // In both processes, so that the group exists whoever runs first.
  report.write_end.close();
  StartFailure failure;
  ssize_t got = 0;
  do {
    got = ::read(report.read_end.get(), &failure, sizeof failure);
  } while (got < 0 && errno == EINTR);
  if (got == 0) return child;  // Closed by exec: it runs.
  if (failure.in_working_directory) {
    throw UserError({.where = command.working_directory.string(),
                     .what = std::string("cannot be the working folder: ") + std::strerror(failure.error),
                     .fix = "check the path"});
  }
  throw UserError({.where = command.arguments[0],
                   .what = std::string("cannot be started: ") + std::strerror(failure.error),
                   .fix = "check that it is installed and in PATH"});
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept : id_(std::exchange(other.id_, 0)) {}

ChildProcess::~ChildProcess() {
  if (id_ > 0) kill_and_reap();
}

std::optional<ExitStatus> ChildProcess::wait_for(milliseconds timeout) {
  check(id_ > 0, "a process is owned");
  const auto deadline = Clock::now() + timeout;
  const Descriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, id_, 0)));
  while (true) {
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == id_) {
      return status_from(info);
    }
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    if (left <= milliseconds(0)) return std::nullopt;
    if (handle.open()) {
      pollfd item{handle.get(), POLLIN, 0};
      ::poll(&item, 1, static_cast<int>(std::min<milliseconds::rep>(left.count(), 1 << 30)));
    } else {  // A kernel without process handles.
      std::this_thread::sleep_for(std::min(left, milliseconds(5)));
    }
  }
}

ExitStatus ChildProcess::kill_and_reap() {
  const pid_t id = std::exchange(id_, 0);
  if (id <= 0) return {};
  ::kill(-id, SIGKILL);
  ::kill(id, SIGKILL);  // Should its group not exist yet.
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(id), &info, WEXITED) != 0 && errno == EINTR) {
  }
  return status_from(info);
}

Finished run_to_end(const Command& command, const RunLimits& limits, std::string_view input) {
  Pipe in = make_pipe();
  Pipe out = make_pipe();
  Pipe error = make_pipe();
  Command with_pipes = command;
  with_pipes.standard_input = in.read_end.get();
  with_pipes.standard_output = out.write_end.get();
  with_pipes.standard_error = error.write_end.get();
  const auto deadline = Clock::now() + limits.timeout;
  ChildProcess child = ChildProcess::spawn(with_pipes);
  in.read_end.close();
  out.write_end.close();
  error.write_end.close();
  ::fcntl(in.write_end.get(), F_SETFL, O_NONBLOCK);

  // A program that closes its input early must not end us. The signal goes to the writing thread, so block it here.
  sigset_t pipe_signal;
  sigset_t before;
  ::sigemptyset(&pipe_signal);
  ::sigaddset(&pipe_signal, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);

  Finished finished;
  const auto drain = [&](Descriptor& from, std::string& into) {
    std::array<char, 65536> buffer;
    const ssize_t got = ::read(from.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) return;
    if (got <= 0) return from.close();
    const std::size_t room = limits.max_output_bytes - into.size();
    const auto size = static_cast<std::size_t>(got);
    into.append(buffer.data(), std::min(room, size));
    finished.cut = finished.cut || size > room;
  };
  bool ended = false;
  while (out.read_end.open() || error.read_end.open()) {
    if (input.empty()) in.write_end.close();
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    if (left <= milliseconds(0)) break;
    // Something it started may hold the pipes open after it has ended; then what is there is enough.
    if (!ended && child.wait_for(milliseconds(0))) ended = true;
    std::array<pollfd, 3> items = {pollfd{out.read_end.get(), POLLIN, 0}, pollfd{error.read_end.get(), POLLIN, 0},
                                   pollfd{in.write_end.get(), POLLOUT, 0}};
    const int wait = ended ? 0 : static_cast<int>(std::min<milliseconds::rep>(left.count(), 50));
    const int ready = ::poll(items.data(), items.size(), wait);
    if (ready == 0 && ended) break;
    if (ready <= 0) continue;
    if (items[0].revents != 0) drain(out.read_end, finished.out);
    if (items[1].revents != 0) drain(error.read_end, finished.error);
    if (items[2].revents != 0) {
      const ssize_t written = ::write(in.write_end.get(), input.data(), input.size());
      if (written > 0) input.remove_prefix(static_cast<std::size_t>(written));
      if (written < 0 && errno != EAGAIN && errno != EINTR) input = {};
    }
  }
  const timespec now{};
  while (::sigtimedwait(&pipe_signal, nullptr, &now) == SIGPIPE) {
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  const auto left = std::max(std::chrono::ceil<milliseconds>(deadline - Clock::now()), milliseconds(0));
  finished.status = child.wait_for(left);
  return finished;
}

}  // namespace autotriton
