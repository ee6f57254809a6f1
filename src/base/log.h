#pragma once

#include <functional>
#include <memory>
#include <string_view>

/// What the program tells while it works. It goes to standard error, or where a test asks; results never go here.
namespace autotriton {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

/// Reads "debug", "info", "warning" or "error". Throws UserError, naming `where` it was said and the choices.
LogLevel parse_log_level(std::string_view name, std::string_view where);

/// A logger is made in `main` and passed by reference. Thread-safe.
class Logger {
 public:
  using Sink = std::function<void(LogLevel, std::string_view)>;

  static Logger to_standard_error(LogLevel least);
  Logger(LogLevel least, Sink sink);  ///< Hands each line of level `least` or above to `sink`, one at a time.
  Logger(Logger&&) noexcept;
  ~Logger();

  void debug(std::string_view line) const { write(LogLevel::kDebug, line); }
  void info(std::string_view line) const { write(LogLevel::kInfo, line); }
  void warning(std::string_view line) const { write(LogLevel::kWarning, line); }
  void error(std::string_view line) const { write(LogLevel::kError, line); }
  bool shows(LogLevel level) const;  ///< To spare the work of composing a line that nobody sees.

 private:
  struct Impl;
  explicit Logger(std::unique_ptr<Impl> impl);
  void write(LogLevel level, std::string_view line) const;

  std::unique_ptr<Impl> impl_;
};

}  // namespace autotriton
