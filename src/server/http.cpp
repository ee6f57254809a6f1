#include "server/http.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "server/reply_state.h"

namespace autotriton::server {
namespace {

std::string_view error_type(int status) {
  switch (status) {
    case 401:
    case 403:
      return "authentication_error";
    case 404:
    case 405:
      return "not_found_error";
    case 408:
      return "timeout_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "service_unavailable_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

}  // namespace

std::string_view Request::header(std::string_view name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

Response error_response(int status, std::string_view message, std::string_view code, std::string_view param) {
  nlohmann::json error = {{"message", message}, {"type", error_type(status)}, {"param", nullptr}, {"code", code}};
  if (!param.empty()) error["param"] = param;
  // A message may quote bytes of the request, which need not be UTF-8.
  return {.status = status,
          .body = nlohmann::json{{"error", std::move(error)}}.dump(-1, ' ', false,
                                                                   nlohmann::json::error_handler_t::replace)};
}

void set_retry_after(Response& response, double seconds) {
  const double whole = std::clamp(std::ceil(seconds), 1.0, 86'400.0);
  response.headers.emplace_back("Retry-After", std::to_string(static_cast<long>(whole)));
}

void Reply::send(Response response) const { state_->send(std::move(response)); }
void Reply::on_vanished(std::function<void()> call) const { state_->on_vanished(std::move(call)); }

Reply::State::~State() {
  if (deliver_)
    deliver_(error_response(500, "the request was dropped without an answer; please report it", "internal"));
}

void Reply::State::send(Response response) {
  std::function<void(Response)> deliver;
  {
    const std::lock_guard lock(mutex_);
    deliver = std::exchange(deliver_, nullptr);
    on_vanished_ = nullptr;
  }
  if (deliver) deliver(std::move(response));
}

void Reply::State::on_vanished(std::function<void()> call) {
  {
    const std::lock_guard lock(mutex_);
    if (!deliver_) return;
    if (!vanished_) {
      on_vanished_ = std::move(call);
      return;
    }
  }
  call();
}

void Reply::State::vanished() {
  std::function<void()> call;
  {
    const std::lock_guard lock(mutex_);
    vanished_ = true;
    call = std::exchange(on_vanished_, nullptr);
  }
  if (call) call();
}

}  // namespace autotriton::server
