#include "base/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <utility>

namespace autotriton {
namespace {

std::string clock_text(double seconds) {
  const auto whole = static_cast<std::uint64_t>(std::llround(seconds));
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
}

void write_standard_error(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // Nobody listens; the job matters more.
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

// A line that wraps could not be wiped by the next one.
std::string fit_to_terminal(std::string line) {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 && line.size() >= size.ws_col) {
    line.resize(size.ws_col - 1U);
  }
  return line;
}

}  // namespace

std::string progress_line(const ProgressState& state) {
  const bool known = state.total > 0;
  std::string line =
      known ? fmt::format("{}/{} {} ({}%)", state.done, state.total, state.label, state.done * 100 / state.total)
            : fmt::format("{} {}", state.done, state.label);
  const std::uint64_t done_now = state.done - std::min(state.done, state.done_before);
  if (done_now > 0 && state.elapsed.count() > 0) {
    const double rate = static_cast<double>(done_now) / state.elapsed.count();
    line += rate < 10 ? fmt::format(", {:.2g}/s", rate) : fmt::format(", {:.0f}/s", rate);
    if (known && state.done < state.total) {
      line += ", " + clock_text(static_cast<double>(state.total - state.done) / rate) + " left";
    } else {
      line += ", " + clock_text(state.elapsed.count());
    }
  }
  if (!state.counts.empty()) line += ", " + state.counts;
  return line;
}

Progress::Progress(Options options)
    : Progress(std::move(options), ::isatty(STDERR_FILENO) == 1, write_standard_error, std::chrono::steady_clock::now) {
}

Progress::Progress(Options options, bool terminal, Writer writer, Clock clock)
    : options_(std::move(options)),
      terminal_(terminal),
      writer_(std::move(writer)),
      clock_(std::move(clock)),
      state_{.label = options_.label,
             .done = options_.done_before,
             .done_before = options_.done_before,
             .total = options_.total},
      start_(clock_()),
      shown_(start_) {}

void Progress::update(std::uint64_t done, std::string_view counts) {
  const std::scoped_lock lock(mutex_);
  state_.done = done;
  state_.counts = counts;
  const auto now = clock_();
  if (!finished_ && now - shown_ >= (terminal_ ? options_.terminal_interval : options_.plain_interval)) show(now);
}

void Progress::finish() {
  const std::scoped_lock lock(mutex_);
  if (std::exchange(finished_, true)) return;
  show(clock_());
  if (terminal_) writer_("\n");
}

void Progress::show(std::chrono::steady_clock::time_point now) {
  shown_ = now;
  state_.elapsed = now - start_;
  writer_(terminal_ ? "\r\033[K" + fit_to_terminal(progress_line(state_)) : progress_line(state_) + "\n");
}

}  // namespace autotriton
