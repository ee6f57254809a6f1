#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/task.h"

/// Tasks as JSON, one a line in a file.
namespace autotriton::tasks {

/// Returns one line of JSON; `parse_task` reads it back the same.
std::string task_json(const Task& task);

/// Reads an object with the fields of Task. Only `reference` must be there: kind and entry point are told from it where
/// they are missing, and `task_id` falls back to `default_id`. Other keys are left alone, since data sets have columns
/// of their own. Throws UserError (`where`) on anything else.
Task parse_task(std::string_view json, std::string_view where, std::string_view default_id);

/// Calls `each` for each task of a JSONL file, in bounded memory. Throws UserError naming file and line.
void for_each_task(const std::filesystem::path& path, const std::function<void(Task)>& each);

/// The tasks of a file, found by id.
class TaskLibrary {
 public:
  /// Throws UserError if two tasks share an id.
  static TaskLibrary from_file(const std::filesystem::path& path);
  std::shared_ptr<const Task> find(std::string_view task_id) const;  ///< Null if there is none.
  std::size_t size() const { return tasks_.size(); }

 private:
  std::map<std::string, std::shared_ptr<const Task>, std::less<>> tasks_;
};

}  // namespace autotriton::tasks
