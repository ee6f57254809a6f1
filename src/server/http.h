#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// What a handler gets and gives.
namespace autotriton::server {

using TextMap = std::map<std::string, std::string, std::less<>>;

struct Request {
  std::string id;        ///< The client's X-Request-Id if it is a plain one, else made here.
  std::string method;    ///< GET, POST …
  std::string path;      ///< As it was sent, without the query.
  TextMap parameters{};  ///< What the pattern's `{name}` parts matched, decoded.
  TextMap query{};       ///< Decoded; of a repeated name the last.
  TextMap headers{};     ///< Names in lower case; of a repeated name the last.
  std::string body{};

  /// The value of a header, by its name in lower case; empty if it is not there.
  std::string_view header(std::string_view name) const;
};

struct Response {
  int status = 200;
  std::string body{};
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers{};
  std::string note{};  ///< For the log, not for the client.
};

/// An error in the form that OpenAI's clients read:
/// `{"error": {"message": …, "type": …, "param": … or null, "code": …}}`. `type` follows from the status.
Response error_response(int status, std::string_view message, std::string_view code, std::string_view param = {});

/// Tells the client when to come back, in whole seconds, at least one.
void set_retry_after(Response& response, double seconds);

/// The answer to one request, to be given once, now or later, from any thread. Copies stand for the same answer. If all
/// of them go without an answer, the client gets a 500.
class Reply {
 public:
  class State;
  explicit Reply(std::shared_ptr<State> state) : state_(std::move(state)) {}

  /// The first call counts, later ones do nothing.
  void send(Response response) const;

  /// `call` is made at most once, from the server's thread, if the client goes away before it is answered (at once, if
  /// it has gone). An answer is welcome all the same: a client may have closed only its side.
  void on_vanished(std::function<void()> call) const;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace autotriton::server
