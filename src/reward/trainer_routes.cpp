#include <cmath>

#include "reward/exchange.h"
#include "reward/prompt.h"

/// OpenRLHF's and slime's contracts. Each was read off the client's code; docs/reward.md says which.
namespace autotriton::reward {
namespace {

// How a missing reward is spelled: JSON's null, or NaN, which is not JSON but what Python's reader takes for a float.
std::string missing_spelling(const server::Request& request) {
  const auto found = request.query.find("null");
  const std::string spelling = found == request.query.end() ? "null" : found->second;
  if (spelling == "null") return "null";
  if (spelling == "nan") return "NaN";
  refuse("the query `null` is neither `null` nor `nan`", "null");
}

std::string number(const std::optional<double>& value, const std::string& missing) {
  return value && std::isfinite(*value) ? Json(*value).dump() : missing;
}

std::string response_of_openrlhf(const std::vector<Judged>& results, const std::string& missing) {
  std::string rewards;
  Json logs = {{"accepted", Json::array()},   {"masked", Json::array()},         {"is_triton", Json::array()},
               {"tests_pass", Json::array()}, {"judged_seconds", Json::array()}, {"waited_seconds", Json::array()}};
  Json reasons = Json::array();
  Json messages = Json::array();
  Json verdicts = Json::array();
  for (const Judged& judged : results) {
    const auto flag = [](bool set) { return set ? 1.0 : 0.0; };
    rewards += (rewards.empty() ? "" : ",") + number(judged.reward, missing);
    // The client makes a tensor of each of them, so they are numbers, and the same names every time.
    logs["accepted"].push_back(flag(judged.outcome == "accept"));
    logs["masked"].push_back(flag(!judged.reward.has_value()));
    logs["is_triton"].push_back(flag(judged.verdict && judged.verdict->is_triton));
    logs["tests_pass"].push_back(flag(judged.verdict && judged.verdict->tests_pass));
    logs["judged_seconds"].push_back(judged.judged_seconds);
    logs["waited_seconds"].push_back(judged.waited_seconds);
    verdicts.push_back(judged.outcome);
    reasons.push_back(judged.reason);
    messages.push_back(judged.message);
  }
  return "{\"rewards\":[" + rewards + "],\"scores\":[" + rewards + "],\"extra_logs\":" + dump(logs) +
         ",\"verdicts\":" + dump(verdicts) + ",\"reasons\":" + dump(reasons) + ",\"messages\":" + dump(messages) + "}";
}

const std::string& text_at(const Json& list, std::size_t index, const char* name) {
  const Json& value = list[index];
  const std::string full = std::string(name) + "[" + std::to_string(index) + "]";
  if (!value.is_string()) refuse("`" + full + "` is no string", full);
  return value.get_ref<const std::string&>();
}

void get_reward(Exchange& exchange, const server::Request& request, const server::Reply& reply) {
  const Json body = parse_object(request.body);
  const Json& queries = need_list(body, "query");
  const Json& prompts = need_list(body, "prompts");
  const Json& labels = need_list(body, "labels");
  if (prompts.size() != queries.size() || labels.size() != queries.size()) {
    refuse("`query`, `prompts` and `labels` differ in length: " + std::to_string(queries.size()) + ", " +
           std::to_string(prompts.size()) + ", " + std::to_string(labels.size()));
  }
  const std::string missing = missing_spelling(request);
  Batch batch{.items = {},
              .priority = static_cast<int>(integer_or(body, "priority", 0, -100, 100)),
              .deadline = exchange.deadline(request, field(body, "deadline_seconds"))};
  for (std::size_t i = 0; i < queries.size(); ++i) {
    const auto answer = strip_prompt(text_at(queries, i, "query"), text_at(prompts, i, "prompts"));
    if (answer) {
      batch.items.push_back(exchange.item_of_label(labels[i], std::string(strip_end_tokens(*answer)), true));
    } else {
      batch.items.push_back({.task = nullptr,
                             .text = {},
                             .problem_reason = "prompt-mismatch",
                             .problem_message = "the query does not begin with its prompt: send prompt and answer "
                                                "together, or an empty prompt and the answer alone"});
    }
  }
  exchange.judge_and_reply(std::move(batch), reply, [missing](const std::vector<Judged>& results) {
    return server::Response{.body = response_of_openrlhf(results, missing)};
  });
}

void slime_reward(Exchange& exchange, const server::Request& request, const server::Reply& reply) {
  const Json body = parse_object(request.body);
  const std::string missing = missing_spelling(request);
  const auto as = request.query.find("as");
  const bool whole = as != request.query.end() && as->second == "object";
  if (as != request.query.end() && !whole && as->second != "number")
    refuse("the query `as` is neither `number` nor `object`", "as");
  const Json* label = field(body, "label");
  if (label == nullptr) refuse("`label` is missing: it says which problem the response answers", "label");
  Batch batch{.items = {},
              .priority = static_cast<int>(integer_or(body, "priority", 0, -100, 100)),
              .deadline = exchange.deadline(request, field(body, "deadline_seconds"))};
  batch.items.push_back(
      exchange.item_of_label(*label, std::string(strip_end_tokens(need_text(body, "response"))), true));
  exchange.judge_and_reply(std::move(batch), reply, [missing, whole](const std::vector<Judged>& results) {
    const Judged& judged = results.front();
    const std::string score = number(judged.reward, missing);
    if (!whole) return server::Response{.body = score};
    const Json rest = {{"verdict", judged.outcome},
                       {"reason", judged.reason},
                       {"message", judged.message},
                       {"task_id", judged.task_id},
                       {"terms", judged.terms}};
    return server::Response{.body = "{\"score\":" + score + "," + dump(rest).substr(1)};
  });
}

}  // namespace

void add_openrlhf_routes(server::HttpServer& server, Exchange& exchange) {
  server.route("POST", "/get_reward",
               guarded([&exchange](const auto& request, const auto& reply) { get_reward(exchange, request, reply); }));
}

void add_slime_routes(server::HttpServer& server, Exchange& exchange) {
  server.route("POST", "/reward", guarded([&exchange](const auto& request, const auto& reply) {
                 slime_reward(exchange, request, reply);
               }));
}

}  // namespace autotriton::reward
