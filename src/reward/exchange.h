#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "reward/judge.h"
#include "reward/service.h"
#include "reward/task_source.h"
#include "server/http.h"

/// What the protocols share. Private to this room: JSON types stay out of public headers.
namespace autotriton::reward {

using Json = nlohmann::json;

/// A request that is refused; thrown and caught within this room.
struct Refusal {
  server::Response response;
};

[[noreturn]] void refuse(std::string_view message, std::string_view param = {}, int status = 400);

// Of a request's body. Absent and null are the same. Each throws Refusal naming the field.
Json parse_object(const std::string& body);
const Json* field(const Json& object, const char* name);
const std::string& need_text(const Json& object, const char* name, const std::string& where = {});
std::string text_or(const Json& object, const char* name, std::string otherwise, const std::string& where = {});
std::int64_t integer_or(const Json& object, const char* name, std::int64_t otherwise, std::int64_t least,
                        std::int64_t most, const std::string& where = {});
const Json& need_list(const Json& object, const char* name);

/// JSON on one line, with what is no UTF-8 replaced.
std::string dump(const Json& value);

/// 2026-03-01T12:00:00Z
std::string timestamp(std::chrono::system_clock::time_point time);

/// Everything a protocol needs to answer its requests.
struct Exchange {
  Judge& judge;
  TaskSource& tasks;
  server::Metrics& metrics;
  const ServiceOptions& options;

  /// A label that is text, or a task as a JSON object.
  Item item_of_label(const Json& label, std::string text, bool raw_answer);
  Item item_of(FoundTask task, std::string text, bool raw_answer) const;

  /// From the field's seconds if there are any, else the header X-Request-Timeout, else the default.
  Clock::time_point deadline(const server::Request& request, const Json* seconds = nullptr) const;

  using Compose = std::function<server::Response(std::vector<Judged>)>;
  /// Judges `batch` and answers with what `compose` makes of it; refuses where the judge does. A batch of which no item
  /// can be used is a mistake of the caller's: 400. Ends the work if the client goes away, unless `keep_on`.
  void judge_and_reply(Batch batch, const server::Reply& reply, Compose compose, bool keep_on = false);
};

/// Runs a handler that may throw Refusal.
server::Handler guarded(std::function<void(const server::Request&, const server::Reply&)> handler);

void add_openrlhf_routes(server::HttpServer& server, Exchange& exchange);
void add_slime_routes(server::HttpServer& server, Exchange& exchange);
void add_verify_routes(server::HttpServer& server, Exchange& exchange);

}  // namespace autotriton::reward
