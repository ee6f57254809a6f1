#include "tasks/pairs.h"

#include <functional>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/error.h"
#include "base/sha256.h"
#include "tasks/line_reader.h"
#include "tasks/problem.h"

namespace autotriton::tasks {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxCachedBytes = 64U << 20U;  // Of problems' sources, for lines that share one.

// Thrown and caught within this file.
struct BadLine {
  LineError::Kind kind;
  std::string message;
};

const Json* field(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

const std::string* text_field(const Json& object, const char* name) {
  const Json* value = field(object, name);
  if (value == nullptr) return nullptr;
  if (!value->is_string()) throw BadLine{LineError::Kind::kLineUnreadable, std::string("`") + name + "` is no string"};
  return value->get_ptr<const std::string*>();
}

}  // namespace

struct PairReader::Impl {
  Impl(const std::filesystem::path& path, const Options& given)
      : folder(path.parent_path()), options(given), reader(path, given.max_line_bytes) {}

  Json parse_line() {
    if (reader.too_long()) {
      throw BadLine{LineError::Kind::kLineUnreadable,
                    "the line is longer than " + std::to_string(options.max_line_bytes) + " bytes"};
    }
    try {
      Json object = Json::parse(reader.line());
      if (!object.is_object()) throw BadLine{LineError::Kind::kLineUnreadable, "the line is no JSON object"};
      return object;
    } catch (const Json::exception& error) {
      throw BadLine{LineError::Kind::kLineUnreadable, std::string("no valid JSON: ") + error.what()};
    }
  }

  // Verdicts are known by their ids, also by a later run that goes on with the rest.
  std::string read_id(const Json& object) {
    std::string id = "line-" + std::to_string(reader.line_number());
    if (const Json* value = field(object, "id")) {
      if (value->is_string()) {
        id = value->get<std::string>();
      } else if (value->is_number_integer()) {
        id = value->dump();
      } else {
        throw BadLine{LineError::Kind::kLineUnreadable, "`id` is neither a string nor a whole number"};
      }
    }
    return id;
  }

  void check_new(const std::string& id) {
    const auto [entry, fresh] = ids.emplace(sha256_hex(id).substr(0, 20), reader.line_number());
    if (!fresh) {
      throw BadLine{
          LineError::Kind::kLineUnreadable,
          "the id `" + id + "` was used on line " + std::to_string(entry->second) + " already: give each line its own"};
    }
  }

  std::shared_ptr<const Task> cached(const std::string& content, const std::string& task_id,
                                     const std::function<Task()>& make) {
    std::string key = sha256_hex(task_id + '\n' + content);
    if (const auto found = problems.find(key); found != problems.end()) return found->second;
    auto task = std::make_shared<const Task>(make());
    cached_bytes += task->reference.size() + task->tests.size();
    if (cached_bytes > kMaxCachedBytes) {
      problems.clear();
      cached_bytes = 0;
    }
    return problems.emplace(std::move(key), std::move(task)).first->second;
  }

  std::shared_ptr<const Task> read_task(const Json& object) {
    const Json* task = field(object, "task");
    const std::string* task_id = text_field(object, "task_id");
    const std::string* problem = text_field(object, "problem");
    const int given = (task != nullptr ? 1 : 0) + (problem != nullptr ? 1 : 0);
    if (given > 1) throw BadLine{LineError::Kind::kLineUnreadable, "both `task` and `problem`: leave one out"};
    const std::string where = "line " + std::to_string(reader.line_number());
    try {
      // A task without a name is called after its content, so that equal ones share it in every run.
      const auto name_of = [&](const std::string& content) {
        return task_id != nullptr ? *task_id : "source-" + sha256_hex(content).substr(0, 12);
      };
      if (task != nullptr) {
        const std::string json = task->is_string() ? task->get<std::string>() : task->dump();
        return cached(json, name_of(json), [&] { return parse_task(json, where + ", task", name_of(json)); });
      }
      if (problem != nullptr && problem->find('\n') != std::string::npos) {
        return cached(*problem, name_of(*problem),
                      [&] { return problem_from_source(*problem, name_of(*problem), where + ", problem"); });
      }
      if (problem != nullptr) {
        return cached(*problem, "", [&] { return read_problem(folder / *problem); });
      }
    } catch (const ProblemError& error) {
      const bool invalid = error.kind() == ProblemError::Kind::kInvalid;
      throw BadLine{invalid ? LineError::Kind::kProblemInvalid : LineError::Kind::kProblemUnreadable, error.what()};
    } catch (const UserError& error) {
      throw BadLine{LineError::Kind::kProblemInvalid, error.what()};
    }
    if (task_id == nullptr) throw BadLine{LineError::Kind::kLineUnreadable, "no `task`, `task_id` or `problem`"};
    if (options.tasks == nullptr) {
      throw BadLine{LineError::Kind::kProblemUnreadable,
                    "the task `" + *task_id + "` is named by its id: say where tasks are with --tasks FILE"};
    }
    auto found = options.tasks->find(*task_id);
    if (found == nullptr)
      throw BadLine{LineError::Kind::kProblemUnreadable, "no task `" + *task_id + "` in the file of --tasks"};
    return found;
  }

  std::filesystem::path folder;
  Options options;
  LineReader reader;
  std::unordered_map<std::string, std::size_t> ids;  // By digest, so that long ids cost no more than short ones.
  std::unordered_map<std::string, std::shared_ptr<const Task>> problems;  // By digest of what the line says.
  std::size_t cached_bytes = 0;
};

namespace {

/// A file of another kind is refused at once rather than line by line: two lines that begin no object are enough.
void check_is_jsonl(const std::filesystem::path& path, std::size_t max_line_bytes) {
  LineReader reader(path, max_line_bytes);
  for (int line = 0; line < 2 && reader.next(); ++line) {
    const auto first = reader.line().find_first_not_of(" \t\r");
    const char begin = first == std::string::npos ? '{' : reader.line()[first];  // Too long: judged when it is read.
    if (begin == '{') return;
    const auto second = reader.line().find_first_not_of(" \t\r", first + 1);
    if (begin == '[' && (second == std::string::npos || reader.line()[second] == '{')) {
      throw UserError({.where = path.string(),
                       .what = "holds a JSON array, and one object a line is expected",
                       .fix = "convert it, for instance with  jq -c '.[]' " + path.string()});
    }
    if (line == 1) {
      throw UserError({.where = path.string(),
                       .what = "is no JSONL: neither of its first two lines begins an object",
                       .fix = "each line is one pair, such as {\"id\": …, \"problem\": …, \"answer\": …}"});
    }
  }
}

}  // namespace

PairReader::PairReader(const std::filesystem::path& path, const Options& options)
    : impl_(std::make_unique<Impl>(path, options)) {
  check_is_jsonl(path, options.max_line_bytes);
}
PairReader::PairReader(PairReader&&) noexcept = default;
PairReader::~PairReader() = default;

std::optional<std::variant<Pair, LineError>> PairReader::next() {
  LineReader& reader = impl_->reader;
  if (!reader.next()) return std::nullopt;
  std::string id = "line-" + std::to_string(reader.line_number());
  try {
    Json object = impl_->parse_line();
    id = impl_->read_id(object);
    impl_->check_new(id);
    const std::string* candidate = text_field(object, "candidate");
    const std::string* answer = text_field(object, "answer");
    if (candidate != nullptr && answer != nullptr)
      throw BadLine{LineError::Kind::kLineUnreadable, "both `candidate` and `answer`: leave one out"};
    if (candidate == nullptr && answer == nullptr) {
      throw BadLine{LineError::Kind::kLineUnreadable, "no `candidate` (source) and no `answer` (a model's reply)"};
    }
    Pair pair{.id = id,
              .line = reader.line_number(),
              .task = impl_->read_task(object),
              .text = candidate != nullptr ? *candidate : *answer,
              .raw_answer = answer != nullptr};
    return pair;
  } catch (const BadLine& bad) {
    return LineError{.id = id, .line = reader.line_number(), .kind = bad.kind, .message = bad.message};
  }
}

std::uint64_t count_pairs(const std::filesystem::path& path) {
  LineReader reader(path, 1U << 20U);
  std::uint64_t count = 0;
  while (reader.next()) ++count;
  return count;
}

}  // namespace autotriton::tasks
