#include "tasks/benchmarks.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>

#include "base/file.h"
#include "tasks/problem.h"

namespace autotriton::tasks {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

int leading_number(const std::string& name) {
  int number = 0;
  std::from_chars(name.data(), name.data() + name.size(), number);
  return number;
}

// Reads a JSON list of `num_items` objects, or of any number.
Json read_list(const fs::path& path, std::optional<std::size_t> num_items) {
  Json list = Json::parse(read_file(path), nullptr, /*allow_exceptions=*/false);
  if (!list.is_array() || (num_items && list.size() != *num_items)) {
    throw UserError({.where = path.string(),
                     .what = num_items ? "is no JSON list as long as the benchmark's" : "is no JSON list",
                     .fix = "check that the checkout is complete"});
  }
  return list;
}

std::string text_or_empty(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<int> difficulty_of(const Json& object) {
  const auto found = object.find("difficulty");
  if (found == object.end()) return std::nullopt;
  if (found->is_number_integer()) return found->get<int>();
  if (found->is_string()) return leading_number(found->get<std::string>());
  return std::nullopt;
}

}  // namespace

Collection read_kernelbench(const fs::path& folder, std::optional<int> level) {
  const fs::path inner = folder / "KernelBench";
  const fs::path root = fs::is_directory(inner) ? inner : folder;
  Collection collection;
  bool any_level = false;
  for (int number = 1; number <= 4; ++number) {
    const fs::path level_folder = root / ("level" + std::to_string(number));
    if ((level && *level != number) || !fs::is_directory(level_folder)) continue;
    any_level = true;
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(level_folder)) {
      if (entry.path().extension() == ".py") files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end(), [](const fs::path& a, const fs::path& b) {
      const std::string left = a.filename().string();
      const std::string right = b.filename().string();
      return std::tuple(leading_number(left), left) < std::tuple(leading_number(right), right);
    });
    for (const fs::path& file : files) {
      try {
        collection.tasks.push_back(read_problem(file));
        collection.tasks.back().difficulty = number;
      } catch (const UserError& error) {
        collection.refused.push_back(error.text());
      }
    }
  }
  if (!any_level) {
    throw UserError(
        {.where = root.string(),
         .what = level ? "no folder level" + std::to_string(*level) : std::string("no folder level1 to level4"),
         .fix = "name a checkout of KernelBench"});
  }
  return collection;
}

Collection read_tritonbench(const fs::path& folder, TritonBenchSuite suite) {
  const fs::path data = fs::is_directory(folder / "data") ? folder / "data" : folder;
  const bool is_g = suite == TritonBenchSuite::kG;
  const std::string name = is_g ? "TritonBench_G" : "TritonBench_T";
  // T's list is one JSON list in spite of its file's name.
  const Json items = read_list(data / (name + (is_g ? "_v1.json" : "_v1.jsonl")), std::nullopt);
  const Json instructions =
      read_list(data / (name + "_comp_alpac_v1.json"), items.size());  // In the order of the list.
  Collection collection;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Json& item = items[i];
    const std::string file = item.is_object() ? text_or_empty(item, "file") : std::string();
    if (file.empty()) {
      collection.refused.push_back({.where = name + ", item " + std::to_string(i),
                                    .what = "names no file",
                                    .fix = "check that the checkout is complete"});
      continue;
    }
    const fs::path path = data / (name + "_v1") / file;
    try {
      Task task = read_problem(path);
      if (task.kind != TaskKind::kScript) {
        throw UserError({.where = path.string(),
                         .what = "no line of 146 '#' between reference and tests",
                         .fix = "check that the checkout is complete"});
      }
      task.source = is_g ? "tritonbench-g" : "tritonbench-t";
      task.task_id = task.source + "/" + path.stem().string();
      task.instruction = text_or_empty(instructions[i], "instruction");
      task.difficulty = difficulty_of(item);
      Json meta = {{"file", file}};
      if (is_g) meta["repo"] = text_or_empty(item, "repo");
      task.meta = meta.dump();
      collection.tasks.push_back(std::move(task));
    } catch (const UserError& error) {
      collection.refused.push_back(error.text());
    }
  }
  return collection;
}

}  // namespace autotriton::tasks
