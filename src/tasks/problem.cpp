#include "tasks/problem.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <vector>

#include "base/file.h"
#include "base/text_encoding.h"
#include "tasks/python_outline.h"

namespace autotriton::tasks {
namespace {

constexpr std::size_t kRulerLength = 146;

[[noreturn]] void invalid(std::string_view where, std::string what, std::string fix) {
  throw ProblemError(ProblemError::Kind::kInvalid,
                     {.where = std::string(where), .what = std::move(what), .fix = std::move(fix)});
}

// Returns the offset of TritonBench's ruler, a line of 146 '#', or npos.
std::size_t find_ruler(std::string_view source) {
  const std::string ruler(kRulerLength, '#');
  std::size_t at = 0;
  for (const std::string_view line : lines_of(source)) {
    if (trimmed(line) == ruler) return at;
    at += line.size() + 1;
  }
  return std::string_view::npos;
}

// `# entry_point: NAME` on a line of its own.
std::optional<std::string> marked_entry_point(std::string_view source) {
  for (std::string_view line : lines_of(source)) {
    line = trimmed(line);
    if (!line.starts_with('#')) continue;
    line = trimmed(line.substr(1));
    if (line.starts_with("entry_point:")) return std::string(trimmed(line.substr(12)));
  }
  return std::nullopt;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "`" : ", `") + name + "`";
  return text;
}

std::vector<std::string> public_functions(const PythonOutline& outline) {
  std::vector<std::string> names;
  for (const Definition& item : outline.definitions) {
    if (item.kind != DefinitionKind::kFunction || item.jit || item.name.starts_with('_')) continue;
    if (item.name == "get_inputs" || item.name == "get_init_inputs") continue;
    if (std::find(names.begin(), names.end(), item.name) == names.end()) names.push_back(item.name);
  }
  return names;
}

void read_module(const PythonOutline& outline, std::string_view where, Task& task) {
  task.kind = TaskKind::kModule;
  task.entry_point = "Model";
  if (outline.find("get_inputs") == nullptr) {
    invalid(where, "`class Model` is there, but no function `get_inputs`",
            "add `def get_inputs():` that returns the list of forward's arguments");
  }
  if (outline.find("get_init_inputs") == nullptr) {
    invalid(where, "`class Model` is there, but no function `get_init_inputs`",
            "add `def get_init_inputs(): return []` (the arguments of Model)");
  }
}

void read_function(const PythonOutline& outline, const std::optional<std::string>& entry_point, std::string_view where,
                   Task& task) {
  task.kind = TaskKind::kFunction;
  const std::vector<std::string> names = public_functions(outline);
  if (entry_point) {
    if (outline.find(*entry_point) == nullptr) {
      invalid(where, "no function `" + *entry_point + "` at the top level",
              names.empty() ? "define it" : "it defines " + joined(names));
    }
    task.entry_point = *entry_point;
    return;
  }
  if (names.empty()) {
    invalid(where, "neither `class Model` nor a public function beside `get_inputs`",
            "define `class Model(nn.Module)` or one function to replace");
  }
  if (names.size() > 1) {
    invalid(
        where, "several functions could be the one to replace: " + joined(names),
        "say which with a line `# entry_point: " + names.front() + "`, or start the other names with an underscore");
  }
  task.entry_point = names.front();
}

// Returns the name, among those that the reference defines and the tests use, which they use first.
std::string first_used_by(const PythonOutline& tests, const PythonOutline& reference,
                          const std::function<bool(const Definition&)>& counts) {
  const auto used = tests.names_used();
  std::string first;
  std::size_t first_at = std::string::npos;
  for (const Definition& item : reference.definitions) {
    const Definition* own = tests.find(item.name);  // `from relu import relu` means the reference's all the same.
    const auto use = used.find(item.name);
    if (!counts(item) || use == used.end() || (own != nullptr && own->kind != DefinitionKind::kImport)) continue;
    if (use->second >= first_at) continue;
    first = item.name;
    first_at = use->second;
  }
  return first;
}

void read_script(const std::optional<std::string>& entry_point, std::string_view where, Task& task) {
  task.kind = TaskKind::kScript;
  const PythonOutline outline = outline_of(task.reference);
  if (trimmed(task.tests).empty()) invalid(where, "no test code after the line of '#'", "add the tests there");
  if (entry_point) {
    if (outline.find(*entry_point) == nullptr) {
      invalid(where, "the reference does not define `" + *entry_point + "`", "name one that it does");
    }
    task.entry_point = *entry_point;
    return;
  }
  const PythonOutline tests = outline_of(task.tests);
  task.entry_point = first_used_by(tests, outline, [](const Definition& item) {
    return item.kind != DefinitionKind::kImport && !item.jit && !item.name.starts_with('_');
  });
  if (task.entry_point.empty()) {  // Some name their wrapper `_layer_norm_fwd`, or test the kernel itself.
    task.entry_point =
        first_used_by(tests, outline, [](const Definition& item) { return item.kind != DefinitionKind::kImport; });
  }
  for (const Definition& item : outline.definitions) {
    if (!task.entry_point.empty() || item.kind == DefinitionKind::kImport || tests.find(item.name) == nullptr) continue;
    invalid(where, "the tests define `" + item.name + "` again, so that no answer would be tested",
            "remove it from the tests");
  }
  if (task.entry_point.empty()) {
    invalid(where, "the tests use nothing that the reference defines",
            "check that the line of '#' stands between the two");
  }
}

std::optional<int> number_at_start(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return number;
}

// KernelBench's naming: folder `level1` or `level_1`, file `19_ReLU.py`.
void name_after_kernelbench(const std::filesystem::path& path, Task& task) {
  const std::string folder = std::filesystem::absolute(path).parent_path().filename().string();
  const std::string stem = path.stem().string();
  if (!folder.starts_with("level")) return;
  std::string_view level_text = std::string_view(folder).substr(5);
  if (level_text.starts_with('_')) level_text.remove_prefix(1);
  const auto level = number_at_start(level_text);
  const auto problem = number_at_start(stem);
  if (!level || !problem || stem.find('_') == std::string::npos) return;
  task.task_id = "kernelbench/level" + std::to_string(*level) + "/" + stem;
  task.source = "kernelbench";
  std::string name;  // As a JSON string.
  for (const char c : stem) {
    if (c == '"' || c == '\\') name += '\\';
    name += c;
  }
  task.meta = "{\"level\":" + std::to_string(*level) + ",\"problem_id\":" + std::to_string(*problem) + ",\"name\":\"" +
              name + "\"}";
}

}  // namespace

Task problem_from_source(std::string_view source, std::string task_id, std::string_view where,
                         const std::optional<std::string>& entry_point) {
  std::string text;
  try {
    text = decode_text(source, where);
  } catch (const UserError& error) {
    throw ProblemError(ProblemError::Kind::kUnreadable, error.text());
  }
  if (trimmed(text).empty()) invalid(where, "is empty", "put the PyTorch reference in it");
  Task task{.task_id = std::move(task_id), .kind = TaskKind::kModule, .reference = std::move(text), .entry_point = ""};
  const std::optional<std::string> entry = entry_point ? entry_point : marked_entry_point(task.reference);
  const std::size_t ruler = find_ruler(task.reference);
  const PythonOutline outline = outline_of(task.reference);
  if (ruler != std::string::npos && outline.find("get_inputs") == nullptr) {
    task.tests = task.reference.substr(std::min(task.reference.find('\n', ruler), task.reference.size() - 1) + 1);
    task.reference.resize(ruler);
    read_script(entry, where, task);
  } else if (outline.find("Model") != nullptr && (!entry || *entry == "Model")) {
    read_module(outline, where, task);
  } else if (outline.find("get_inputs") == nullptr) {
    invalid(where, "no `class Model` and no function `get_inputs`",
            "a problem defines `class Model` or a function, and `get_inputs()` that returns its arguments");
  } else {
    read_function(outline, entry, where, task);
  }
  return task;
}

Task read_problem(const std::filesystem::path& path, const std::optional<std::string>& entry_point) {
  std::string bytes;
  try {
    bytes = read_file(path);
  } catch (const UserError& error) {
    throw ProblemError(ProblemError::Kind::kUnreadable, error.text());
  }
  Task task = problem_from_source(bytes, path.stem().string(), path.string(), entry_point);
  task.source = path.filename().string();
  name_after_kernelbench(path, task);
  return task;
}

}  // namespace autotriton::tasks
