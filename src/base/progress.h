#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

/// How far a long job is, on standard error.
namespace autotriton {

/// What a progress line is made of.
struct ProgressState {
  std::string label;  ///< What is counted: "verdicts".
  std::uint64_t done = 0;
  std::uint64_t done_before = 0;  ///< Of these, by an earlier run: no part of the rate.
  std::uint64_t total = 0;        ///< 0: not known.
  std::chrono::duration<double> elapsed{0};
  std::string counts{};  ///< "accept 12, reject 30"; may be empty.
};

/// Returns "120/1000 verdicts (12%), 4.0/s, 3m40s left, accept 12, reject 30".
std::string progress_line(const ProgressState& state);

/// Shows a line that updates itself on a terminal, else a plain line every `plain_interval`. Thread-safe.
///
///     Progress progress({.label = "verdicts", .total = 1000});
///     progress.update(120, "accept 12, reject 30");
///     progress.finish();
class Progress {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;
  using Writer = std::function<void(std::string_view)>;

  struct Options {
    std::string label;
    std::uint64_t total = 0;
    std::uint64_t done_before = 0;
    std::chrono::milliseconds terminal_interval{200};
    std::chrono::milliseconds plain_interval{10'000};
  };

  explicit Progress(Options options);  ///< To standard error; on a terminal if that is one.
  Progress(Options options, bool terminal, Writer writer, Clock clock);

  /// Says that `done` are done in all. `counts` is free text for the line's end.
  void update(std::uint64_t done, std::string_view counts = {});

  /// Writes the last state and ends the line.
  void finish();

 private:
  void show(std::chrono::steady_clock::time_point now);

  const Options options_;
  const bool terminal_;
  const Writer writer_;
  const Clock clock_;
  std::mutex mutex_;
  ProgressState state_;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point shown_;
  bool finished_ = false;
};

}  // namespace autotriton
