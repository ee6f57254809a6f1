#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "server/http.h"
#include "server/metrics.h"
#include "server/router.h"

namespace autotriton::server {

struct ServerOptions {
  std::optional<int> port{};            ///< TCP; 0 takes a free one.
  std::string host = "127.0.0.1";       ///< Where TCP listens: a name or an address.
  std::filesystem::path unix_socket{};  ///< Listened at too if not empty; its owner alone may connect.

  std::string api_key{};                                        ///< Empty: everyone is let in.
  std::set<std::string, std::less<>> open_paths = {"/health"};  ///< Answered without the key.

  std::size_t max_connections = 1024;           ///< One more is told 503 and closed.
  std::size_t max_body_bytes = 64U << 20U;      ///< More: 413.
  std::uint32_t max_header_bytes = 16U << 10U;  ///< Request line and headers; more: 431.

  std::chrono::milliseconds read_timeout{30'000};   ///< For a whole request, from its first byte; then 408.
  std::chrono::milliseconds idle_timeout{120'000};  ///< Between two requests of a connection; then it is closed.
  std::chrono::milliseconds write_timeout{30'000};  ///< For a whole answer; then the connection is closed.
};

/// One answered request, for a log. Holds nothing secret: no header, no body.
struct Access {
  std::string id;
  std::string method;
  std::string path;
  std::string pattern;  ///< Of the route; "" if none.
  int status = 0;
  std::size_t received_bytes = 0;  ///< Of the body.
  std::size_t sent_bytes = 0;      ///< Of the body.
  double seconds = 0;              ///< From the whole request to the answer on its way.
  std::string note{};              ///< The response's.
  bool vanished = false;           ///< The client had gone, or did not take the answer.
};

/// An HTTP/1.1 server on one thread of its own: keep-alive, pipelining, chunked bodies, limits on everything that a
/// client could make large or slow. It knows nothing of what it serves.
///
///     HttpServer server(options, metrics);
///     server.route("GET", "/health", [](const Request&, const Reply& reply) { reply.send({.body = "{}"}); });
///     server.start();
class HttpServer {
 public:
  /// Declares metrics of its own (`http_…`, see README.md) in `metrics`, which must live longer.
  HttpServer(ServerOptions options, Metrics& metrics);
  /// Closes every connection.
  ~HttpServer();

  /// Before start() only.
  void route(std::string method, std::string pattern, Handler handler);
  void on_access(std::function<void(const Access&)> call);  ///< Called from the server's thread.
  /// What is prefixed to the names of the metrics: "autotriton_".
  static constexpr const char* kMetricPrefix = "autotriton_";

  /// Listens and serves. Throws UserError if a place cannot be had.
  void start();

  int port() const;  ///< The TCP port that is listened at; 0 if none.
  std::size_t connections() const;

  /// Stops listening, closes idle connections, lets requests that came be answered, and closes what is left at the
  /// deadline. True if nothing had to be cut. May be called again.
  bool stop(std::chrono::steady_clock::time_point deadline);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace autotriton::server
