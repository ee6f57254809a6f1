#include "reward/exchange.h"

#include <charconv>
#include <ctime>

#include "base/text_encoding.h"

namespace autotriton::reward {
namespace {

constexpr double kMaxDeadlineSeconds = 86'400;

std::string full_name(const std::string& where, const char* name) { return where.empty() ? name : where + "." + name; }

// "4 answers: 1 accept, 2 reject, 1 masked (deadline), 12.3 s"
std::string summary(const std::vector<Judged>& results) {
  std::map<std::string, int> counts;
  for (const Judged& judged : results) ++counts[judged.reward ? judged.outcome : "masked (" + judged.reason + ")"];
  std::string text = std::to_string(results.size()) + (results.size() == 1 ? " answer: " : " answers: ");
  bool first = true;
  for (const auto& [what, count] : counts) {
    text += (first ? "" : ", ") + std::to_string(count) + " " + what;
    first = false;
  }
  return text;
}

}  // namespace

void refuse(std::string_view message, std::string_view param, int status) {
  throw Refusal{server::error_response(status, message, "invalid_request", param)};
}

Json parse_object(const std::string& body) {
  if (const auto offset = first_invalid_utf8(body))
    refuse("the body is no UTF-8 (byte " + std::to_string(*offset) + ")");
  if (nested_deeper(body, kMaxNesting)) refuse("the body is nested too deeply");
  try {
    Json object = Json::parse(body);
    if (!object.is_object()) refuse("the body is no JSON object");
    return object;
  } catch (const Json::exception& error) {
    refuse(std::string("the body is no JSON: ") + error.what());
  }
}

const Json* field(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

const std::string& need_text(const Json& object, const char* name, const std::string& where) {
  const Json* value = field(object, name);
  const std::string full = full_name(where, name);
  if (value == nullptr) refuse("`" + full + "` is missing", full);
  if (!value->is_string()) refuse("`" + full + "` is no string", full);
  return value->get_ref<const std::string&>();
}

std::string text_or(const Json& object, const char* name, std::string otherwise, const std::string& where) {
  return field(object, name) == nullptr ? std::move(otherwise) : need_text(object, name, where);
}

std::int64_t integer_or(const Json& object, const char* name, std::int64_t otherwise, std::int64_t least,
                        std::int64_t most, const std::string& where) {
  const Json* value = field(object, name);
  if (value == nullptr) return otherwise;
  const std::string full = full_name(where, name);
  const bool usable = value->is_number_integer() && value->get<double>() >= static_cast<double>(least) &&
                      value->get<double>() <= static_cast<double>(most);
  if (!usable)
    refuse("`" + full + "` is no whole number from " + std::to_string(least) + " to " + std::to_string(most), full);
  return value->get<std::int64_t>();
}

const Json& need_list(const Json& object, const char* name) {
  const Json* value = field(object, name);
  if (value == nullptr) refuse(std::string("`") + name + "` is missing", name);
  if (!value->is_array()) refuse(std::string("`") + name + "` is no list", name);
  return *value;
}

std::string dump(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string timestamp(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

Item Exchange::item_of(FoundTask task, std::string text, bool raw_answer) const {
  Item item{.task = nullptr, .text = std::move(text), .raw_answer = raw_answer};
  if (auto* problem = std::get_if<TaskProblem>(&task)) {
    item.problem_reason = std::move(problem->reason);
    item.problem_message = std::move(problem->message);
  } else {
    item.task = std::move(std::get<0>(task));
  }
  return item;
}

Item Exchange::item_of_label(const Json& label, std::string text, bool raw_answer) {
  FoundTask task = TaskProblem{"problem-unreadable", "the label is neither text nor a task as a JSON object"};
  if (label.is_string()) task = tasks.from_label(label.get_ref<const std::string&>());
  if (label.is_object()) task = tasks.from_json(dump(label));
  return item_of(std::move(task), std::move(text), raw_answer);
}

Clock::time_point Exchange::deadline(const server::Request& request, const Json* seconds) const {
  double wanted = options.deadline_seconds;
  const std::string_view header = request.header("x-request-timeout");
  if (seconds != nullptr) {
    wanted = seconds->is_number() ? seconds->get<double>() : -1;
  } else if (!header.empty()) {
    const auto [end, error] = std::from_chars(header.data(), header.data() + header.size(), wanted);
    if (error != std::errc() || end != header.data() + header.size()) wanted = -1;
  }
  if (!(wanted > 0 && wanted <= kMaxDeadlineSeconds)) {
    refuse(seconds != nullptr ? "the deadline is no number of seconds from 0 to 86400"
                              : "X-Request-Timeout is no number of seconds from 0 to 86400");
  }
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(wanted));
}

void Exchange::judge_and_reply(Batch batch, const server::Reply& reply, Compose compose, bool keep_on) {
  if (batch.items.size() > options.max_items) {
    refuse("more than " + std::to_string(options.max_items) + " answers in one request: split it", {}, 413);
  }
  const auto usable = [](const Item& item) { return item.task != nullptr; };
  if (!batch.items.empty() && std::none_of(batch.items.begin(), batch.items.end(), usable)) {
    const std::string which = batch.items.size() == 1 ? "" : "no answer can be judged; the first: ";
    throw Refusal{
        server::error_response(400, which + batch.items.front().problem_message, batch.items.front().problem_reason)};
  }
  const auto submitted =
      judge.submit(std::move(batch), [reply, compose = std::move(compose)](std::vector<Judged> results) {
        std::string note = summary(results);
        try {
          server::Response response = compose(std::move(results));
          response.note = std::move(note);
          reply.send(std::move(response));
        } catch (const std::exception& fault) {
          reply.send(
              server::error_response(500, std::string("internal error, please report: ") + fault.what(), "internal"));
        }
      });
  switch (submitted.first) {
    case Judge::Admission::kTaken:
      if (!keep_on) reply.on_vanished([this, ticket = submitted.second] { judge.cancel(ticket); });
      return;
    case Judge::Admission::kTooLarge:
      refuse("more answers than the queue holds (" + std::to_string(judge.max_waiting()) + "): split the request", {},
             413);
    case Judge::Admission::kFull: {
      auto response =
          server::error_response(429, "the queue is full: come back after Retry-After seconds", "queue_full");
      server::set_retry_after(response, judge.backend().expected_wait());
      throw Refusal{std::move(response)};
    }
    case Judge::Admission::kDraining: {
      auto response = server::error_response(503, "the server is ending: ask another one", "draining");
      server::set_retry_after(response, 5);
      throw Refusal{std::move(response)};
    }
    case Judge::Admission::kBroken: {
      auto response = server::error_response(503, "nothing can be judged: " + judge.backend().fault(), "broken");
      server::set_retry_after(response, 30);
      throw Refusal{std::move(response)};
    }
  }
}

server::Handler guarded(std::function<void(const server::Request&, const server::Reply&)> handler) {
  return [handler = std::move(handler)](const server::Request& request, const server::Reply& reply) {
    try {
      handler(request, reply);
    } catch (Refusal& refusal) {
      reply.send(std::move(refusal.response));
    }
  };
}

}  // namespace autotriton::reward
