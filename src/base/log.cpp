#include "base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <unistd.h>

#include <array>
#include <mutex>
#include <string>

#include "base/error.h"

namespace autotriton {
namespace {

struct LevelName {
  std::string_view name;
  LogLevel level;
  spdlog::level::level_enum spdlog_level;
};

constexpr std::array kLevels = {
    LevelName{"debug", LogLevel::kDebug, spdlog::level::debug},
    LevelName{"info", LogLevel::kInfo, spdlog::level::info},
    LevelName{"warning", LogLevel::kWarning, spdlog::level::warn},
    LevelName{"error", LogLevel::kError, spdlog::level::err},
};

spdlog::level::level_enum spdlog_level(LogLevel level) { return kLevels[static_cast<std::size_t>(level)].spdlog_level; }

class CallbackSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit CallbackSink(Logger::Sink callback) : callback_(std::move(callback)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    for (const LevelName& entry : kLevels) {
      if (entry.spdlog_level == message.level) callback_(entry.level, {message.payload.data(), message.payload.size()});
    }
  }
  void flush_() override {}

  Logger::Sink callback_;
};

}  // namespace

struct Logger::Impl {
  spdlog::logger logger;
};

LogLevel parse_log_level(std::string_view name, std::string_view where) {
  std::string choices;
  for (const LevelName& entry : kLevels) {
    if (entry.name == name) return entry.level;
    choices += (choices.empty() ? "" : ", ") + std::string(entry.name);
  }
  throw UserError({.where = std::string(where),
                   .what = "no log level `" + std::string(name) + "`",
                   .fix = "use one of " + choices});
}

Logger Logger::to_standard_error(LogLevel least) {
  auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  // On a terminal the start of a line may hold a progress line, which is wiped first.
  sink->set_pattern(::isatty(STDERR_FILENO) == 1 ? "\r\033[K%H:%M:%S %l: %v" : "%Y-%m-%dT%H:%M:%S%z %l: %v");
  auto impl = std::make_unique<Impl>(Impl{spdlog::logger("autotriton", std::move(sink))});
  impl->logger.set_level(spdlog_level(least));
  return Logger(std::move(impl));
}

Logger::Logger(LogLevel least, Sink sink)
    : impl_(
          std::make_unique<Impl>(Impl{spdlog::logger("autotriton", std::make_shared<CallbackSink>(std::move(sink)))})) {
  impl_->logger.set_level(spdlog_level(least));
}

Logger::Logger(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Logger::Logger(Logger&&) noexcept = default;
Logger::~Logger() = default;

bool Logger::shows(LogLevel level) const { return impl_->logger.should_log(spdlog_level(level)); }

void Logger::write(LogLevel level, std::string_view line) const {
  impl_->logger.log(spdlog_level(level), spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace autotriton
