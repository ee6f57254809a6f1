#include "reward/task_source.h"

#include "base/error.h"
#include "base/sha256.h"
#include "tasks/problem.h"

namespace autotriton::reward {
namespace {

constexpr std::size_t kMaxBytes = 256U << 20U;

std::string name_of(std::string_view content) { return "source-" + sha256_hex(content).substr(0, 12); }

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const auto first = text.find_first_not_of(kBlank);
  return first == std::string_view::npos ? std::string_view()
                                         : text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

}  // namespace

bool nested_deeper(std::string_view json, std::size_t depth) {
  std::size_t open = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++open > depth) return true;
    } else if ((c == ']' || c == '}') && open > 0) {
      --open;
    }
  }
  return false;
}

template <typename Make>
FoundTask TaskSource::cached(std::string_view kind, std::string_view content, const Make& make) {
  const std::string key = sha256_hex(std::string(kind) + '\n' + std::string(content));
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = tasks_.find(key); found != tasks_.end()) return found->second;
  }
  std::shared_ptr<const tasks::Task> task;
  try {
    task = std::make_shared<const tasks::Task>(make());
  } catch (const tasks::ProblemError& error) {
    const bool invalid = error.kind() == tasks::ProblemError::Kind::kInvalid;
    return TaskProblem{invalid ? "problem-invalid" : "problem-unreadable", error.what()};
  } catch (const UserError& error) {
    return TaskProblem{"problem-invalid", error.what()};
  }
  const std::lock_guard lock(mutex_);
  bytes_ += content.size();
  if (bytes_ > kMaxBytes) {
    tasks_.clear();
    bytes_ = content.size();
  }
  return tasks_.emplace(key, std::move(task)).first->second;
}

FoundTask TaskSource::from_json(std::string_view json) {
  if (nested_deeper(json, kMaxNesting)) return TaskProblem{"problem-invalid", "the task is nested too deeply"};
  return cached("json", json, [&] { return tasks::parse_task(json, "the task", name_of(json)); });
}

FoundTask TaskSource::from_source(std::string_view source, const std::optional<std::string>& entry_point) {
  return cached("source " + entry_point.value_or(""), source,
                [&] { return tasks::problem_from_source(source, name_of(source), "the problem", entry_point); });
}

FoundTask TaskSource::from_id(std::string_view task_id) const {
  const std::string quoted = "`" + std::string(task_id.substr(0, 100)) + "`";
  if (library_ == nullptr) {
    return TaskProblem{"problem-unreadable",
                       "the task " + quoted + " is named by its id: start the server with --tasks FILE"};
  }
  auto found = library_->find(task_id);
  if (found == nullptr) return TaskProblem{"problem-unreadable", "no task " + quoted + " in the file of --tasks"};
  return found;
}

FoundTask TaskSource::from_label(std::string_view label) {
  const std::string_view text = trimmed(label);
  if (text.empty())
    return TaskProblem{"problem-unreadable", "the label is empty: give a task as JSON, its id, or PyTorch source"};
  if (text.front() == '{') return from_json(text);
  if (text.find('\n') != std::string_view::npos) return from_source(label);
  return from_id(text);
}

}  // namespace autotriton::reward
