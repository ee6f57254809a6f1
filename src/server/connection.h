#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <memory>
#include <optional>

#include "server/bearer_key.h"
#include "server/http_server.h"

/// Private to this room: one client's connection. All of it happens on the server's thread.
namespace autotriton::server {

/// What all connections of a server share.
struct Shared {
  explicit Shared(ServerOptions given) : options(std::move(given)), key(options.api_key) {}
  ServerOptions options;
  BearerKey key;
  Router router;
  std::function<void(const Access&)> on_access;
  std::function<void(const Access&)> count;
  std::function<void(const char* why)> count_refused;  ///< "too-large", "slow", "malformed", "crowded" …
  bool stopping = false;

  bool open_paths_contain(std::string_view path) const { return options.open_paths.contains(path); }
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;

  /// `context` is what the executor belongs to: those who may still answer hold it, the connection does not.
  Connection(Socket socket, std::shared_ptr<Shared> shared, std::weak_ptr<void> context);

  /// `ended` is called once, when the connection is closed.
  void start(std::function<void()> ended);
  /// Tells the client 503 and closes, without reading a request.
  void refuse(std::function<void()> ended);
  /// Closes if no request is under way; else after its answer.
  void finish();
  void close_now();

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  template <typename T>
  using Awaitable = boost::asio::awaitable<T>;

  Awaitable<void> serve();
  Awaitable<bool> one_request();  ///< False: the connection ends.
  Awaitable<bool> answer(Access access, bool head, bool keep);
  Awaitable<void> linger();
  Awaitable<void> turn_away();
  void wait_at_most(std::chrono::milliseconds time);  ///< Then what is read or written is cancelled.
  void watch_for_vanishing(const std::shared_ptr<Reply::State>& state);
  std::optional<Response> refusal_before_body(const Parser& parser) const;
  Response refusal_of_error(const boost::system::error_code& error);

  Socket socket_;
  std::shared_ptr<Shared> shared_;
  std::weak_ptr<void> context_;
  boost::asio::steady_timer patience_;  // Running: what is being read or written is cancelled when it ends.
  boost::asio::steady_timer answered_;  // Never ends by itself; cancelled when the answer is there.
  boost::beast::flat_buffer buffer_;
  std::optional<Response> response_;
  std::uint64_t exchange_ = 0;  // Number of the request that is being answered.
  bool idle_ = true;
  bool out_of_patience_ = false;
  bool vanished_ = false;
  bool finishing_ = false;
};

}  // namespace autotriton::server
