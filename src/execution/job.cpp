#include "execution/job.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "execution/confine.h"

namespace autotriton::execution {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kKeptOutput = 16'384;
constexpr std::size_t kMaxStatusBytes = 4096;
// A candidate's records are far smaller than ours to it; the largest describes outputs with many leaves.
constexpr std::size_t kMaxCandidateRecord = std::size_t{2} << 20;

/// What a job with these bits (of AutotritonConfinement) is not kept from.
std::vector<std::string> left_open(std::uint32_t bits) {
  const auto has = [&](std::uint32_t wanted) { return (bits & wanted) == wanted; };
  const bool landlock = has(kConfineLandlockFiles);
  std::vector<std::string> open;
  if (!has(kConfineMountNamespace) && !landlock) open.emplace_back("files");
  if (!has(kConfinePrivateTmp)) open.emplace_back("folders of other jobs");
  if (!has(kConfineNetworkNamespace) && !has(kConfineSystemCalls)) open.emplace_back("network");
  if (!has(kConfinePidNamespace) && !(has(kConfineSystemCalls) && landlock)) open.emplace_back("other processes");
  if (!has(kConfineSystemCalls | kConfineNoNewPrivileges)) open.emplace_back("system calls");
  if (!has(kConfineNoCapabilities) && !landlock) open.emplace_back("privileges");
  if (!has(kConfineNotRoot)) open.emplace_back("root");
  if (!has(kConfineResourceLimits)) open.emplace_back("memory and processes");
  return open;
}

/// The process that a pidfd stands for, or 0.
int process_of(int pidfd) {
  const int file = ::open(("/proc/self/fdinfo/" + std::to_string(pidfd)).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  std::array<char, 512> text{};
  const ssize_t length = ::read(file, text.data(), text.size() - 1);
  ::close(file);
  const std::string_view lines(text.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  const std::size_t at = lines.find("\nPid:");
  return at == std::string_view::npos ? 0 : std::atoi(lines.data() + at + 5);
}

SandboxReport read_report(const Json& record) {
  SandboxReport report;
  const auto obtained = record.value("obtained", 0U);
  const auto missing = record.value("missing", 0U);
  for (unsigned bit = 0; bit < 32; ++bit) {
    const char* name = autotriton_confinement_name(1U << bit);
    if (name == nullptr) continue;
    if (((missing >> bit) & 1U) != 0) {
      report.missing.emplace_back(name);
    } else if (((obtained >> bit) & 1U) != 0) {
      report.obtained.emplace_back(name);
    }
  }
  report.open = left_open(obtained & ~missing);
  report.message = record.value("message", "");
  return report;
}

int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1'000'000));
}

}  // namespace

struct Job::Impl {
  explicit Impl(Parts parts)
      : channel(std::move(parts.channel), kMaxCandidateRecord),
        status(std::move(parts.status), kMaxStatusBytes),
        output(std::move(parts.output)),
        cgroup(std::move(parts.cgroup)),
        interrupt(parts.interrupt),
        start_timeout(parts.start_timeout) {}

  Channel channel;
  Channel status;
  UniqueFd output;
  std::unique_ptr<JobCgroup> cgroup;
  int interrupt;
  std::chrono::milliseconds start_timeout;
  UniqueFd pidfd;
  SandboxReport sandbox;
  std::string kept;
  std::uint64_t printed = 0;
  bool ended = false;
  bool lost = false;
  bool channel_closed = false;
  JobEnd end;

  void drain_output() {
    std::array<char, 65536> bytes;
    while (output) {
      const ssize_t count = ::read(output.get(), bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return;  // EAGAIN
      if (count == 0) {
        output.reset();
        return;
      }
      printed += static_cast<std::uint64_t>(count);
      kept.append(bytes.data(), static_cast<std::size_t>(count));
      if (kept.size() > 2 * kKeptOutput) kept.erase(0, kept.size() - kKeptOutput);
    }
  }

  /// Reads the server's records: `started` brings the pidfd, `ended` the exit.
  void drain_status() {
    Frame frame;
    while (!ended && !lost) {
      switch (status.receive(frame)) {
        case Channel::State::kNothingYet:
          return;
        case Channel::State::kClosed:
        case Channel::State::kMalformed:
          lost = true;
          return;
        case Channel::State::kFrame:
          break;
      }
      const Json record = Json::parse(frame.body, nullptr, /*allow_exceptions=*/false);
      if (!record.is_object()) {
        lost = true;
      } else if (record.value("type", "") == "started" && frame.descriptors.size() == 1) {
        pidfd = std::move(frame.descriptors.front());
      } else if (record.value("type", "") == "ended") {
        end = {.signal = record.value("signal", 0),
               .code = record.value("code", 0),
               .max_rss_bytes = record.value("max_rss_bytes", std::uint64_t{0}),
               .cpu_seconds = record.value("cpu_seconds", 0.0)};
        ended = true;
      }
    }
  }

  /// Waits for any descriptor; false when the deadline passed.
  bool wait(Clock::time_point deadline, bool with_interrupt) {
    std::array<pollfd, 4> set{{{channel_closed ? -1 : channel.fd(), POLLIN, 0},
                               {ended || lost ? -1 : status.fd(), POLLIN, 0},
                               {output ? output.get() : -1, POLLIN, 0},
                               {with_interrupt ? interrupt : -1, POLLIN, 0}}};
    const int ready = ::poll(set.data(), set.size(), milliseconds_until(deadline));
    if (ready <= 0) return ready < 0 && errno == EINTR;
    if (set[2].revents != 0) drain_output();
    if (set[1].revents != 0) drain_status();
    interrupted = with_interrupt && set[3].revents != 0;
    return true;
  }
  bool interrupted = false;
};

Job::Job(Parts parts) : impl_(std::make_unique<Impl>(std::move(parts))) {
  if (impl_->output) ::fcntl(impl_->output.get(), F_SETFL, O_NONBLOCK);
}
Job::Job(Job&&) noexcept = default;
Job& Job::operator=(Job&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}
Job::~Job() {
  if (impl_ != nullptr && !impl_->ended) kill();
}

bool Job::wait_until_ready() {
  JobEvent event = next(Clock::now() + impl_->start_timeout);
  if (event.kind != JobEvent::Kind::kRecord) return false;
  const Json record = Json::parse(event.frame.body, nullptr, false);
  if (!record.is_object() || record.value("type", "") != "confined") return false;
  impl_->sandbox = read_report(record);
  if (impl_->cgroup != nullptr) {  // Until now only our own code ran in it.
    while (!impl_->pidfd && !impl_->ended && !impl_->lost) {
      if (!impl_->wait(Clock::now() + impl_->start_timeout, false)) break;
    }
    if (impl_->pidfd && impl_->cgroup->take(process_of(impl_->pidfd.get())))
      impl_->sandbox.obtained.emplace_back("cgroup");
  }
  return true;
}

bool Job::send(std::string_view body, std::span<const int> descriptors) {
  return impl_->channel.send(body, descriptors);
}

JobEvent Job::next(Clock::time_point deadline) {
  JobEvent event;
  while (true) {
    if (!impl_->channel_closed) {
      switch (impl_->channel.receive(event.frame)) {
        case Channel::State::kFrame:
          event.kind = JobEvent::Kind::kRecord;
          return event;
        case Channel::State::kMalformed:
          event.kind = JobEvent::Kind::kMalformed;
          return event;
        case Channel::State::kClosed:
          impl_->channel_closed = true;
          break;
        case Channel::State::kNothingYet:
          break;
      }
    }
    impl_->drain_status();
    if (impl_->ended && impl_->channel_closed) {
      impl_->drain_output();
      event.kind = JobEvent::Kind::kEnded;
      event.end = impl_->end;
      return event;
    }
    if (impl_->lost) {
      event.kind = JobEvent::Kind::kLost;
      return event;
    }
    // A job that ended may have left its channel to a child; nothing more is believed of it, and `kill` sees to the
    // child.
    if (impl_->ended && !impl_->channel_closed) {
      Frame last;
      if (impl_->channel.receive(last) == Channel::State::kFrame) {
        event.kind = JobEvent::Kind::kRecord;
        event.frame = std::move(last);
        return event;
      }
      impl_->channel_closed = true;
      continue;
    }
    if (!impl_->wait(deadline, impl_->interrupt >= 0)) {
      event.kind = JobEvent::Kind::kTimeout;
      return event;
    }
    if (impl_->interrupted) {
      event.kind = JobEvent::Kind::kInterrupted;
      return event;
    }
  }
}

JobEnd Job::kill() {
  const auto deadline = Clock::now() + std::chrono::seconds(5);
  while (!impl_->pidfd && !impl_->ended && !impl_->lost) {
    if (!impl_->wait(deadline, false)) break;
  }
  if (impl_->pidfd && !impl_->ended) ::syscall(SYS_pidfd_send_signal, impl_->pidfd.get(), SIGKILL, nullptr, 0);
  impl_->channel_closed = true;
  while (!impl_->ended && !impl_->lost) {
    if (!impl_->wait(deadline, false)) break;
  }
  return impl_->end;
}

std::string Job::output_tail(std::size_t max_bytes) const {
  const std::string& kept = impl_->kept;
  return kept.size() <= max_bytes ? kept : kept.substr(kept.size() - max_bytes);
}

std::uint64_t Job::output_bytes() const { return impl_->printed; }

const SandboxReport& Job::sandbox() const { return impl_->sandbox; }

UniqueFd make_memory_file(const char* name, std::uint64_t bytes) {
  UniqueFd file(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || (bytes != 0 && ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)) {
    throw UserError({.where = std::string("memory file for ") + name,
                     .what = std::strerror(errno),
                     .fix = "free memory or open files (ulimit -n), or lower --jobs"});
  }
  if (bytes != 0) ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK);
  return file;
}

bool seal_memory_file(const UniqueFd& file) {
  return ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_WRITE | F_SEAL_SEAL) == 0;
}

}  // namespace autotriton::execution
