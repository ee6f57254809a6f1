#include "tasks/task_json.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tasks/line_reader.h"
#include "tasks/problem.h"

namespace autotriton::tasks {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxLineBytes = 64U << 20U;

[[noreturn]] void bad(std::string_view where, std::string what, std::string fix) {
  throw UserError({.where = std::string(where), .what = std::move(what), .fix = std::move(fix)});
}

// Absent and null are the same: data sets fill their columns with null.
const Json* field(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string text(const Json& object, const char* name, std::string_view where) {
  const Json* value = field(object, name);
  if (value == nullptr) return {};
  if (!value->is_string()) bad(where, std::string("`") + name + "` is no string", "write it as a JSON string");
  return value->get<std::string>();
}

std::optional<int> difficulty(const Json& object, std::string_view where) {
  const Json* value = field(object, "difficulty");
  if (value == nullptr) return std::nullopt;
  if (value->is_number_integer()) return value->get<int>();
  if (value->is_string()) {
    const std::string digits = value->get<std::string>();
    if (digits.size() == 1 && digits[0] >= '0' && digits[0] <= '9') return digits[0] - '0';
  }
  bad(where, "`difficulty` is no whole number", "use 1 to 5, or leave it out");
}

Task task_from(const Json& object, std::string_view where, std::string_view default_id) {
  if (!object.is_object()) bad(where, "a task is no JSON object", "write {\"reference\": \"…\"}");
  const std::string reference = text(object, "reference", where);
  if (reference.empty()) bad(where, "the task has no `reference`", "add the PyTorch source");
  std::string task_id = text(object, "task_id", where);
  if (task_id.empty()) task_id = default_id;
  const std::string entry_point = text(object, "entry_point", where);
  const std::string kind_text = text(object, "kind", where);
  const std::string tests = text(object, "tests", where);

  Task task;
  if (kind_text ==
      kind_name(TaskKind::kScript)) {  // Its tests came apart, so that nothing has to be told from the source.
    if (entry_point.empty() || tests.empty())
      bad(where, "a task of kind script has `entry_point` and `tests`", "add what is missing");
    task = {.task_id = task_id,
            .kind = TaskKind::kScript,
            .reference = reference,
            .entry_point = entry_point,
            .tests = tests};
  } else {
    const auto asked = entry_point.empty() ? std::nullopt : std::optional(entry_point);
    task = problem_from_source(reference, task_id, where, asked);
    if (!tests.empty()) task.tests = tests;
    if (!kind_text.empty() && !kind_from_name(kind_text)) {
      bad(where, "no kind of task `" + kind_text + "`", "use module, function or script");
    }
    if (!kind_text.empty() && kind_from_name(kind_text) != task.kind) {
      bad(where, "`kind` says " + kind_text + ", but the reference is a " + std::string(kind_name(task.kind)),
          "correct one of the two");
    }
  }
  task.instruction = text(object, "instruction", where);
  task.difficulty = difficulty(object, where);
  task.source = text(object, "source", where);
  task.license = text(object, "license", where);
  if (const Json* meta = field(object, "meta")) {
    if (!meta->is_object()) bad(where, "`meta` is no JSON object", "use {} or leave it out");
    task.meta = meta->dump();
  }
  return task;
}

}  // namespace

std::string task_json(const Task& task) {
  Json object = {{"task_id", task.task_id},
                 {"kind", kind_name(task.kind)},
                 {"reference", task.reference},
                 {"entry_point", task.entry_point}};
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) object[name] = value;
  };
  add("instruction", task.instruction);
  add("tests", task.tests);
  add("source", task.source);
  add("license", task.license);
  if (task.difficulty) object["difficulty"] = *task.difficulty;
  if (task.meta != "{}") object["meta"] = Json::parse(task.meta);
  return object.dump();
}

Task parse_task(std::string_view json, std::string_view where, std::string_view default_id) {
  try {
    return task_from(Json::parse(json), where, default_id);
  } catch (const Json::exception& error) {
    bad(where, std::string("no valid JSON: ") + error.what(), "correct the text");
  }
}

void for_each_task(const std::filesystem::path& path, const std::function<void(Task)>& each) {
  LineReader reader(path, kMaxLineBytes);
  while (reader.next()) {
    const std::string number = std::to_string(reader.line_number());
    const std::string where = path.string() + ":" + number;
    if (reader.too_long())
      bad(where, "the line is longer than " + std::to_string(kMaxLineBytes) + " bytes", "shorten it");
    each(parse_task(reader.line(), where, "line-" + number));
  }
}

TaskLibrary TaskLibrary::from_file(const std::filesystem::path& path) {
  TaskLibrary library;
  for_each_task(path, [&](Task task) {
    const std::string id = task.task_id;
    if (!library.tasks_.emplace(id, std::make_shared<const Task>(std::move(task))).second) {
      bad(path.string(), "two tasks have the id `" + id + "`", "give each its own");
    }
  });
  return library;
}

std::shared_ptr<const Task> TaskLibrary::find(std::string_view task_id) const {
  const auto found = tasks_.find(task_id);
  return found == tasks_.end() ? nullptr : found->second;
}

}  // namespace autotriton::tasks
