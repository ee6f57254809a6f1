#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>

#include "tasks/task_json.h"

namespace autotriton::reward {

/// Why a request's task cannot be used; `reason` is of the table of reasons.
struct TaskProblem {
  std::string reason;  ///< problem-unreadable, problem-invalid
  std::string message;
};

/// Whether brackets and braces of a JSON text stand within one another more than `depth` times. What is deeper is
/// refused unread: reading and writing JSON takes a call a level, and a stranger must not choose how many.
bool nested_deeper(std::string_view json, std::size_t depth);
inline constexpr std::size_t kMaxNesting = 64;

using FoundTask = std::variant<std::shared_ptr<const tasks::Task>, TaskProblem>;

/// Makes tasks of what requests say. Equal texts give the same Task, so that the thousand answers of a step share it.
/// Nothing is ever read from a path: who may ask for rewards may not read this machine's files. Thread-safe.
class TaskSource {
 public:
  /// `library` holds the tasks of --tasks; may be null.
  explicit TaskSource(std::shared_ptr<const tasks::TaskLibrary> library) : library_(std::move(library)) {}

  /// A label: a task as JSON, PyTorch source (more than one line), or the id of a task of the library.
  FoundTask from_label(std::string_view label);
  FoundTask from_json(std::string_view json);
  FoundTask from_source(std::string_view source, const std::optional<std::string>& entry_point = {});
  FoundTask from_id(std::string_view task_id) const;

 private:
  template <typename Make>
  FoundTask cached(std::string_view kind, std::string_view content, const Make& make);

  std::shared_ptr<const tasks::TaskLibrary> library_;
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const tasks::Task>> tasks_;  // By digest of what was said.
  std::size_t bytes_ = 0;                                                      // Of their sources.
};

}  // namespace autotriton::reward
