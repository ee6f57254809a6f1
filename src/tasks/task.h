#pragma once

#include <optional>
#include <string>
#include <string_view>

/// What is asked of a model, whatever benchmark it comes from.
namespace autotriton::tasks {

enum class TaskKind {
  kModule,    ///< KernelBench's style: `class Model`, `get_inputs`, `get_init_inputs`; the answer defines `ModelNew`.
  kFunction,  ///< A PyTorch function with `get_inputs` beside it; the answer defines a function of the same name.
  kScript,    ///< TritonBench: `tests` holds test code that follows the answer.
};

struct Task {
  std::string task_id;
  TaskKind kind = TaskKind::kModule;
  std::string reference;      ///< Source, UTF-8, lines ended by LF.
  std::string entry_point;    ///< Of the reference: `Model`, or the function's name.
  std::string instruction{};  ///< What the model is told; may be empty.
  std::string tests{};        ///< For scripts.
  std::optional<int> difficulty{};
  std::string source{};     ///< Where it comes from: "kernelbench", "tritonbench-t", a file's name.
  std::string license{};    ///< Empty: not known.
  std::string meta = "{}";  ///< Anything else, as a JSON object.
};

/// The name that an answer must define.
std::string answer_entry_point(const Task& task);

std::string_view kind_name(TaskKind kind);
std::optional<TaskKind> kind_from_name(std::string_view name);

}  // namespace autotriton::tasks
