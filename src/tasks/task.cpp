#include "tasks/task.h"

#include <array>

namespace autotriton::tasks {
namespace {

struct KindName {
  TaskKind kind;
  std::string_view name;
};

constexpr std::array kKinds = {
    KindName{TaskKind::kModule, "module"},
    KindName{TaskKind::kFunction, "function"},
    KindName{TaskKind::kScript, "script"},
};

}  // namespace

std::string answer_entry_point(const Task& task) {
  return task.kind == TaskKind::kModule ? "ModelNew" : task.entry_point;
}

std::string_view kind_name(TaskKind kind) { return kKinds[static_cast<std::size_t>(kind)].name; }

std::optional<TaskKind> kind_from_name(std::string_view name) {
  for (const KindName& entry : kKinds) {
    if (entry.name == name) return entry.kind;
  }
  return std::nullopt;
}

}  // namespace autotriton::tasks
