#include "reward/kernelgym_routes.h"

#include "base/sha256.h"
#include "reward/prompt.h"

namespace autotriton::reward {
namespace {

using verify::Reason;

constexpr std::size_t kMaxBatch = 100;
constexpr std::size_t kMaxIdBytes = 100;
constexpr std::size_t kMinCodeBytes = 10;
constexpr std::size_t kMaxCodeBytes = 100'000;

const std::string& need_code(const Json& object, const char* name, const std::string& where) {
  const std::string& code = need_text(object, name, where);
  const std::string full = where.empty() ? name : where + "." + name;
  const auto first = code.find_first_not_of(" \t\r\n");
  const std::size_t length = first == std::string::npos ? 0 : code.find_last_not_of(" \t\r\n") - first + 1;
  if (length < kMinCodeBytes) refuse("`" + full + "` has fewer than 10 characters", full);
  if (code.size() > kMaxCodeBytes) refuse("`" + full + "` has more than 100000 bytes", full);
  return code;
}

// KernelGYM's word for why an answer failed.
const char* error_code(const verify::Verdict& verdict) {
  switch (verdict.reason) {
    case Reason::kSyntaxError:
      return "SYNTAX_ERROR";
    case Reason::kImportRaised:
      return "IMPORT_ERROR";
    case Reason::kConstructRaised:
      return "INSTANTIATION_ERROR";
    case Reason::kLoadTimeout:
    case Reason::kRunTimeout:
    case Reason::kInterpreterTimeout:
      return "TIMEOUT_ERROR";
    case Reason::kCompileFailed:
      return "COMPILATION_ERROR";
    case Reason::kTargetLimits:
    case Reason::kMemoryExceeded:
      return "RESOURCE_ERROR";
    default:
      break;
  }
  if (verify::info(verdict.reason).fault == verify::Fault::kOurs) return "SYSTEM_ERROR";
  switch (verdict.stage) {
    case verify::Stage::kExtract:
    case verify::Stage::kRules:
      return "VALIDATION_ERROR";
    case verify::Stage::kLoad:
    case verify::Stage::kRun:
      return "RUNTIME_ERROR";
    case verify::Stage::kCompare:
    case verify::Stage::kAuthorship:
      return "CORRECTNESS_ERROR";
    default:
      return "UNKNOWN_ERROR";
  }
}

// Whether KernelGYM would have got as far as running it.
bool got_to_run(const verify::Verdict& verdict) {
  switch (verdict.stage) {
    case verify::Stage::kExtract:
    case verify::Stage::kLoad:
    case verify::Stage::kCompile:
      return false;
    default:
      return true;
  }
}

int priority_of(const std::string& name, const std::string& where) {
  if (name == "low") return -1;
  if (name == "normal") return 0;
  if (name == "high") return 1;
  refuse("`priority` is none of low, normal and high", where.empty() ? "priority" : where + ".priority");
}

}  // namespace

Json kernelgym_evaluation(const std::string& task_id, const Judged& judged) {
  Json metadata = {{"verdict", judged.outcome},
                   {"reason", judged.reason},
                   {"reward", judged.reward ? Json(*judged.reward) : Json(nullptr)},
                   {"masked", !judged.reward.has_value()},
                   {"reward_terms", judged.terms}};
  Json evaluation = {{"task_id", task_id}, {"processing_time", judged.judged_seconds}};
  const bool decided = judged.outcome == "accept" || judged.outcome == "reject";
  if (judged.verdict != nullptr) {
    metadata["device"] = "cpu";
    metadata["backend"] = "triton";
    Json kernels = Json::object();
    for (const verify::Launch& launch : judged.verdict->launches) kernels[launch.kernel] = launch.count;
    metadata["launches"] = std::move(kernels);
  }
  if (decided) {
    const verify::Verdict& verdict = *judged.verdict;
    const bool accepted = judged.outcome == "accept";
    evaluation["status"] = "completed";
    evaluation["compiled"] = accepted || got_to_run(verdict);
    evaluation["correctness"] = accepted;
    // Its word for an answer whose kernels are there for show: our rules and proofs of authorship.
    evaluation["decoy_kernel"] =
        !accepted && (verdict.stage == verify::Stage::kRules || verdict.stage == verify::Stage::kAuthorship);
    if (!accepted) {
      evaluation["error_message"] = judged.message;
      evaluation["error_code"] = error_code(verdict);
    }
  } else {
    evaluation["status"] = judged.reason == "deadline" ? "timeout" : "failed";
    evaluation["error_message"] = judged.reason + ": " + judged.message;
    evaluation["error_code"] = judged.reason == "deadline" ? "TIMEOUT_ERROR"
                               : judged.verdict == nullptr ? "VALIDATION_ERROR"
                                                           : error_code(*judged.verdict);
    if (judged.reason == "draining" || judged.reason == "queue-full") evaluation["error_code"] = "SYSTEM_ERROR";
  }
  evaluation["metadata"] = std::move(metadata);
  return evaluation;
}

KernelGym::Task KernelGym::read_task(const Json& object, const std::string& where) {
  const auto named = [&](const char* name) { return where.empty() ? name : where + "." + name; };
  if (!object.is_object()) refuse("`" + where + "` is no JSON object", where);
  Task task;
  task.task_id = need_text(object, "task_id", where);
  if (task.task_id.empty() || task.task_id.size() > kMaxIdBytes)
    refuse("`" + std::string(named("task_id")) + "` has not 1 to 100 characters", named("task_id"));
  const std::string& reference = need_code(object, "reference_code", where);
  const std::string& kernel = need_code(object, "kernel_code", where);
  if (text_or(object, "backend", "triton", where) != "triton")
    refuse("`backend` is not triton: nothing else is judged here", named("backend"));
  if (text_or(object, "workflow", "kernelbench", where) != "kernelbench")
    refuse("`workflow` is not kernelbench: nothing else is judged here", named("workflow"));
  const std::string entry = text_or(object, "entry_point", "Model", where);
  task.seconds = static_cast<double>(integer_or(object, "timeout", 300, 10, 3600, where));
  task.priority = priority_of(text_or(object, "priority", "normal", where), where);
  if (const Json* refresh = field(object, "force_refresh")) task.force_refresh = *refresh == Json(true);
  task.item = exchange_.item_of(
      exchange_.tasks.from_source(reference, entry == "Model" ? std::nullopt : std::optional(entry)), kernel, false);
  task.content = sha256_hex(reference + '\0' + entry + '\0' + kernel);
  task.submitted_at = timestamp(std::chrono::system_clock::now());
  return task;
}

void KernelGym::begin(const Task& task) {
  const std::lock_guard lock(mutex_);
  if (!records_.contains(task.task_id)) order_.push_back(task.task_id);
  records_[task.task_id] = {.content = task.content, .status = "processing", .evaluation = nullptr};
  while (order_.size() > exchange_.options.max_results_kept) {
    records_.erase(order_.front());
    order_.pop_front();
  }
}

void KernelGym::forget(const Task& task) {
  const std::lock_guard lock(mutex_);
  const auto found = records_.find(task.task_id);
  if (found == records_.end() || !found->second.evaluation.is_null()) return;
  records_.erase(found);
  std::erase(order_, task.task_id);
}

Json KernelGym::finish(const Task& task, const Judged& judged) {
  Json evaluation = kernelgym_evaluation(task.task_id, judged);
  evaluation["submitted_at"] = task.submitted_at;
  evaluation["completed_at"] = timestamp(std::chrono::system_clock::now());
  const std::lock_guard lock(mutex_);
  if (const auto found = records_.find(task.task_id);
      found != records_.end() && found->second.content == task.content) {
    found->second.status = evaluation["status"].get<std::string>();
    found->second.evaluation = evaluation;
  }
  return evaluation;
}

std::optional<Json> KernelGym::known(const Task& task) const {
  if (task.force_refresh) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto found = records_.find(task.task_id);
  // What has to be masked is worth another attempt.
  if (found == records_.end() || found->second.content != task.content || found->second.status != "completed")
    return std::nullopt;
  return found->second.evaluation;
}

std::size_t KernelGym::active() const {
  const std::lock_guard lock(mutex_);
  std::size_t count = 0;
  for (const auto& [id, record] : records_) count += record.evaluation.is_null() ? 1 : 0;
  return count;
}

void KernelGym::evaluate(const server::Request& request, const server::Reply& reply) {
  const auto task = std::make_shared<Task>(read_task(parse_object(request.body), ""));
  if (const auto evaluation = known(*task)) {
    reply.send({.body = dump(*evaluation)});
    return;
  }
  const Json seconds = task->seconds;
  Batch batch{.items = {}, .priority = task->priority, .deadline = exchange_.deadline(request, &seconds)};
  batch.items.push_back(std::move(task->item));
  begin(*task);
  try {
    // Its client may let go of the connection and ask for the result later.
    exchange_.judge_and_reply(
        std::move(batch), reply,
        [this, task](const std::vector<Judged>& results) {
          return server::Response{.body = dump(finish(*task, results.front()))};
        },
        /*keep_on=*/true);
  } catch (const Refusal&) {
    forget(*task);
    throw;
  }
}

void KernelGym::evaluate_batch(const server::Request& request, const server::Reply& reply) {
  const Json body = parse_object(request.body);
  const std::string batch_id = need_text(body, "batch_id");
  const Json& given = need_list(body, "tasks");
  if (given.empty() || given.size() > kMaxBatch) refuse("`tasks` has not 1 to 100 tasks", "tasks");
  struct Slot {
    Task task;
    std::optional<Json> evaluation;
  };
  const auto slots = std::make_shared<std::vector<Slot>>();
  double seconds = 0;
  Batch batch;
  for (std::size_t i = 0; i < given.size(); ++i) {
    Slot slot{.task = read_task(given[i], "tasks[" + std::to_string(i) + "]"), .evaluation = {}};
    slot.evaluation = known(slot.task);
    seconds = std::max(seconds, slot.task.seconds);
    batch.priority = std::max(batch.priority, slot.task.priority);
    if (!slot.evaluation) batch.items.push_back(std::move(slot.task.item));
    slots->push_back(std::move(slot));
  }
  const Json longest = seconds;
  batch.deadline = exchange_.deadline(request, &longest);
  for (const Slot& slot : *slots) {
    if (!slot.evaluation) begin(slot.task);
  }
  const std::string submitted_at = timestamp(std::chrono::system_clock::now());
  try {
    exchange_.judge_and_reply(
        std::move(batch), reply,
        [this, slots, batch_id, submitted_at](const std::vector<Judged>& results) {
          Json evaluations = Json::array();
          std::size_t failed = 0;
          std::size_t next = 0;
          for (Slot& slot : *slots) {
            Json evaluation = slot.evaluation ? std::move(*slot.evaluation) : finish(slot.task, results[next++]);
            failed += evaluation["status"] == "completed" ? 0 : 1;
            evaluations.push_back(std::move(evaluation));
          }
          const Json whole = {{"batch_id", batch_id},
                              {"total_tasks", slots->size()},
                              {"completed_tasks", slots->size() - failed},
                              {"failed_tasks", failed},
                              {"results", std::move(evaluations)},
                              {"batch_status", "completed"},
                              {"submitted_at", submitted_at},
                              {"completed_at", timestamp(std::chrono::system_clock::now())}};
          return server::Response{.body = dump(whole)};
        },
        /*keep_on=*/true);
  } catch (const Refusal&) {
    for (const Slot& slot : *slots) forget(slot.task);
    throw;
  }
}

void KernelGym::status(const server::Request& request, const server::Reply& reply) {
  const std::string& id = request.parameters.at("task_id");
  Json answer = {{"task_id", id}};
  {
    const std::lock_guard lock(mutex_);
    const auto found = records_.find(id);
    if (found == records_.end()) refuse("no task " + id + " is known", "task_id", 404);
    answer["status"] = found->second.status;
    if (!found->second.evaluation.is_null()) {
      answer["progress"] = 100.0;
      if (found->second.evaluation.contains("error_message"))
        answer["error_message"] = found->second.evaluation["error_message"];
    }
  }
  reply.send({.body = dump(answer)});
}

void KernelGym::results(const server::Request& request, const server::Reply& reply) {
  const std::string& id = request.parameters.at("task_id");
  std::string body;
  {
    const std::lock_guard lock(mutex_);
    const auto found = records_.find(id);
    if (found == records_.end() || found->second.evaluation.is_null())
      refuse("no result of a task " + id + " is there", "task_id", 404);
    body = dump(found->second.evaluation);
  }
  reply.send({.body = std::move(body)});
}

void KernelGym::add_routes(server::HttpServer& server) {
  using Member = void (KernelGym::*)(const server::Request&, const server::Reply&);
  const auto add = [&](const char* method, const char* pattern, Member member) {
    server.route(method, pattern,
                 guarded([this, member](const auto& request, const auto& reply) { (this->*member)(request, reply); }));
  };
  add("POST", "/evaluate", &KernelGym::evaluate);
  add("POST", "/evaluate/batch", &KernelGym::evaluate_batch);
  add("GET", "/status/{task_id}", &KernelGym::status);
  add("GET", "/results/{task_id}", &KernelGym::results);
}

}  // namespace autotriton::reward
