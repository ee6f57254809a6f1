#include "reward/exchange.h"

/// Our own contract: a task and an answer in, the whole verdict out.
namespace autotriton::reward {
namespace {

Json verdict_json(const Judged& judged, const Json& id) {
  Json verdict;
  if (judged.verdict != nullptr) {
    verdict = Json::parse(verify::to_json(*judged.verdict));
  } else {
    verdict = {{"schema", "autotriton.verdict/1"}, {"task_id", judged.task_id}, {"verdict", judged.outcome},
               {"reason", judged.reason},          {"message", judged.message}, {"reward", nullptr}};
  }
  verdict["id"] = id;
  verdict["service"] = {{"waited_seconds", judged.waited_seconds}, {"judged_seconds", judged.judged_seconds}};
  return verdict;
}

// The answer's own id comes back as it was; one that has none gets an empty string.
Json id_of(const Json& object, const std::string& where) {
  const Json* id = field(object, "id");
  if (id == nullptr) return "";
  if (!id->is_string() && !id->is_number_integer())
    refuse("`" + where + "id` is neither a string nor a whole number", where + "id");
  return *id;
}

Item read_item(Exchange& exchange, const Json& object, const std::string& where) {
  const std::string prefix = where.empty() ? "" : where + ".";
  if (!object.is_object()) refuse("`" + where + "` is no JSON object", where);
  const Json* answer = field(object, "answer");
  const Json* candidate = field(object, "candidate");
  if ((answer == nullptr) == (candidate == nullptr))
    refuse("one of `" + prefix + "answer` (a model's reply) and `" + prefix + "candidate` (source) must be given",
           prefix + "answer");
  const std::string text = need_text(object, answer != nullptr ? "answer" : "candidate", where);

  int given = 0;
  for (const char* name : {"task", "task_id", "problem", "label"}) given += field(object, name) != nullptr ? 1 : 0;
  if (given != 1)
    refuse("exactly one of `task`, `task_id`, `problem` and `label` says which problem `" + prefix + "answer` answers",
           prefix + "task");
  const bool raw = answer != nullptr;
  if (const Json* task = field(object, "task")) {
    if (!task->is_object() && !task->is_string()) refuse("`" + prefix + "task` is no task", prefix + "task");
    return exchange.item_of(exchange.tasks.from_json(task->is_string() ? task->get<std::string>() : dump(*task)), text,
                            raw);
  }
  if (field(object, "task_id") != nullptr)
    return exchange.item_of(exchange.tasks.from_id(need_text(object, "task_id", where)), text, raw);
  if (field(object, "problem") != nullptr) {
    const std::string entry = text_or(object, "entry", "", where);
    return exchange.item_of(exchange.tasks.from_source(need_text(object, "problem", where),
                                                       entry.empty() ? std::nullopt : std::optional(entry)),
                            text, raw);
  }
  return exchange.item_of_label(*field(object, "label"), text, raw);
}

Batch read_batch(const Exchange& exchange, const server::Request& request, const Json& body) {
  return {.items = {},
          .priority = static_cast<int>(integer_or(body, "priority", 0, -100, 100)),
          .deadline = exchange.deadline(request, field(body, "deadline_seconds"))};
}

void verify_one(Exchange& exchange, const server::Request& request, const server::Reply& reply) {
  const Json body = parse_object(request.body);
  const Json id = id_of(body, "");
  Batch batch = read_batch(exchange, request, body);
  batch.items.push_back(read_item(exchange, body, ""));
  exchange.judge_and_reply(std::move(batch), reply, [id](const std::vector<Judged>& results) {
    return server::Response{.body = dump(verdict_json(results.front(), id))};
  });
}

void verify_batch(Exchange& exchange, const server::Request& request, const server::Reply& reply) {
  const Json body = parse_object(request.body);
  const Json& items = need_list(body, "items");
  Batch batch = read_batch(exchange, request, body);
  std::vector<Json> ids;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string where = "items[" + std::to_string(i) + "]";
    batch.items.push_back(read_item(exchange, items[i], where));
    ids.push_back(id_of(items[i], where + "."));
  }
  exchange.judge_and_reply(std::move(batch), reply, [ids = std::move(ids)](const std::vector<Judged>& results) {
    Json verdicts = Json::array();
    for (std::size_t i = 0; i < results.size(); ++i) verdicts.push_back(verdict_json(results[i], ids[i]));
    return server::Response{.body = dump({{"results", std::move(verdicts)}})};
  });
}

}  // namespace

void add_verify_routes(server::HttpServer& server, Exchange& exchange) {
  server.route("POST", "/v1/verify",
               guarded([&exchange](const auto& request, const auto& reply) { verify_one(exchange, request, reply); }));
  server.route("POST", "/v1/verify/batch", guarded([&exchange](const auto& request, const auto& reply) {
                 verify_batch(exchange, request, reply);
               }));
}

}  // namespace autotriton::reward
