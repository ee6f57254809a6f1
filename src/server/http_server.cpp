#include "server/http_server.h"

#include <sys/stat.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <thread>
#include <unordered_map>

#include "base/error.h"
#include "server/connection.h"

namespace autotriton::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Local = asio::local::stream_protocol;

const std::string kPrefix = HttpServer::kMetricPrefix;

constexpr std::size_t kMaxTurnedAway = 64;

std::string method_label(const std::string& method) {
  static const std::set<std::string> kKnown = {"GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "-"};
  return kKnown.contains(method) ? method : "other";
}

}  // namespace

struct HttpServer::Impl {
  Impl(ServerOptions options, Metrics& given)
      : metrics(given),
        context(std::make_shared<asio::io_context>(1)),
        work(context->get_executor()),
        shared(std::make_shared<Shared>(std::move(options))),
        pause(*context) {
    metrics.counter(kPrefix + "http_requests_total", "Requests answered, by route, method and status.");
    metrics.histogram(kPrefix + "http_request_seconds", "From a whole request to its answer, by route.",
                      {0.001, 0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 20, 45, 90, 180, 360});
    metrics.counter(kPrefix + "http_refused_total", "Requests that were not read to their end, by why.");
    metrics.counter(kPrefix + "http_vanished_total", "Answers that found no client, by route.");
    metrics.gauge(kPrefix + "http_connections", "Connections that are open.");
    shared->count = [this](const Access& access) {
      const std::string route = access.pattern.empty() ? "none" : access.pattern;
      metrics.add(
          kPrefix + "http_requests_total",
          {{"route", route}, {"method", method_label(access.method)}, {"status", std::to_string(access.status)}});
      metrics.observe(kPrefix + "http_request_seconds", {{"route", route}}, access.seconds);
      if (access.vanished) metrics.add(kPrefix + "http_vanished_total", {{"route", route}});
    };
    shared->count_refused = [this](const char* why) { metrics.add(kPrefix + "http_refused_total", {{"why", why}}); };
  }

  std::size_t open() const {
    const std::lock_guard lock(mutex);
    return connections.size();
  }

  void listen() {
    const ServerOptions& options = shared->options;
    if (!options.port && options.unix_socket.empty()) {
      throw UserError(
          {.where = "the server", .what = "is told no place to listen at", .fix = "give a port or a socket"});
    }
    if (options.port) listen_tcp(options.host, *options.port);
    if (!options.unix_socket.empty()) listen_unix(options.unix_socket);
  }

  void listen_tcp(const std::string& host, int wanted) {
    const std::string where = host + ":" + std::to_string(wanted);
    error_code error;
    tcp::resolver resolver(*context);
    const auto places = resolver.resolve(host, std::to_string(wanted), tcp::resolver::passive, error);
    if (error || places.empty())
      throw UserError({.where = where, .what = "no such host (" + error.message() + ")", .fix = "name another one"});
    const tcp::endpoint place = places.begin()->endpoint();
    tcp_acceptor.emplace(*context);
    tcp_acceptor->open(place.protocol(), error);
    if (!error) tcp_acceptor->set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) tcp_acceptor->bind(place, error);
    if (!error) tcp_acceptor->listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      throw UserError({.where = where,
                       .what = "cannot be listened at (" + error.message() + ")",
                       .fix = "choose another port, or end the program that has it"});
    }
    port = tcp_acceptor->local_endpoint().port();
    accept_from(*tcp_acceptor);
  }

  void listen_unix(const std::filesystem::path& path) {
    error_code error;
    // The file of a server that is gone is in the way; that of one that runs is not ours to remove.
    if (std::filesystem::is_socket(path)) {
      Local::socket probe(*context);
      probe.connect(Local::endpoint(path.string()), error);
      if (!error)
        throw UserError({.where = path.string(), .what = "another program listens there", .fix = "name another path"});
      std::filesystem::remove(path);
    }
    error.clear();
    unix_acceptor.emplace(*context);
    const mode_t before = ::umask(0177);
    try {
      unix_acceptor->open(Local());
      unix_acceptor->bind(Local::endpoint(path.string()), error);
    } catch (const std::exception& fault) {  // Too long a path.
      ::umask(before);
      throw UserError({.where = path.string(), .what = fault.what(), .fix = "name a shorter path"});
    }
    ::umask(before);
    if (!error) unix_acceptor->listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      throw UserError({.where = path.string(),
                       .what = "cannot be listened at (" + error.message() + ")",
                       .fix = "name a path in a folder that you may write to, where no file is"});
    }
    bound_path = path;
    accept_from(*unix_acceptor);
  }

  template <typename Acceptor>
  void accept_from(Acceptor& acceptor) {
    acceptor.async_accept([this, &acceptor](error_code error, auto socket) {
      if (shared->stopping) return;
      if (error) {
        // Out of descriptors, most likely: trying at once would only fail again.
        pause.expires_after(std::chrono::milliseconds(100));
        pause.async_wait([this, &acceptor](error_code) {
          if (!shared->stopping) accept_from(acceptor);
        });
        return;
      }
      if constexpr (std::is_same_v<decltype(socket), tcp::socket>) {
        error_code ignored;
        socket.set_option(tcp::no_delay(true), ignored);
        socket.set_option(asio::socket_base::keep_alive(true), ignored);
      }
      welcome(Connection::Socket(std::move(socket)));
      accept_from(acceptor);
    });
  }

  void welcome(Connection::Socket socket) {
    const std::size_t now = open();
    const bool crowded = now - turned_away >= shared->options.max_connections;
    if (crowded) shared->count_refused("crowded");
    if (crowded && turned_away >= kMaxTurnedAway) return;  // Too many even to be told so.
    const auto connection = std::make_shared<Connection>(std::move(socket), shared, context);
    {
      const std::lock_guard lock(mutex);
      connections[connection.get()] = connection;
    }
    metrics.set(kPrefix + "http_connections", {}, static_cast<double>(now + 1));
    if (crowded) ++turned_away;
    const auto ended = [this, crowded, key = connection.get()] {
      if (crowded) --turned_away;
      const std::lock_guard lock(mutex);
      connections.erase(key);
      metrics.set(kPrefix + "http_connections", {}, static_cast<double>(connections.size()));
      if (connections.empty()) empty.notify_all();
    };
    if (crowded) {
      connection->refuse(ended);
    } else {
      connection->start(ended);
    }
  }

  std::vector<std::shared_ptr<Connection>> all_connections() const {
    std::vector<std::shared_ptr<Connection>> all;
    const std::lock_guard lock(mutex);
    for (const auto& [key, weak] : connections) {
      if (auto connection = weak.lock()) all.push_back(std::move(connection));
    }
    return all;
  }

  bool stop(std::chrono::steady_clock::time_point deadline) {
    if (!thread.joinable()) return true;
    asio::post(*context, [this] {
      shared->stopping = true;
      error_code ignored;
      if (tcp_acceptor) tcp_acceptor->close(ignored);
      if (unix_acceptor) unix_acceptor->close(ignored);
      pause.cancel();
      for (const auto& connection : all_connections()) connection->finish();
    });
    bool clean = false;
    {
      std::unique_lock lock(mutex);
      clean = empty.wait_until(lock, deadline, [&] { return connections.empty(); });
    }
    if (!clean) {
      asio::post(*context, [this] {
        for (const auto& connection : all_connections()) connection->close_now();
      });
      std::unique_lock lock(mutex);
      empty.wait_for(lock, std::chrono::seconds(5), [&] { return connections.empty(); });
    }
    work.reset();
    context->stop();
    thread.join();
    if (!bound_path.empty()) {
      std::error_code ignored;
      std::filesystem::remove(bound_path, ignored);
    }
    return clean;
  }

  Metrics& metrics;
  std::shared_ptr<asio::io_context> context;
  asio::executor_work_guard<asio::io_context::executor_type> work;
  std::shared_ptr<Shared> shared;
  asio::steady_timer pause;
  std::optional<tcp::acceptor> tcp_acceptor;
  std::optional<Local::acceptor> unix_acceptor;
  std::filesystem::path bound_path;
  int port = 0;
  std::size_t turned_away = 0;  // Of the connections, those that are only told 503. The server's thread alone uses it.
  std::thread thread;
  mutable std::mutex mutex;  // For what follows; taken from the server's thread and others.
  std::condition_variable empty;
  std::unordered_map<Connection*, std::weak_ptr<Connection>> connections;
};

HttpServer::HttpServer(ServerOptions options, Metrics& metrics)
    : impl_(std::make_unique<Impl>(std::move(options), metrics)) {}

HttpServer::~HttpServer() { impl_->stop(std::chrono::steady_clock::now()); }

void HttpServer::route(std::string method, std::string pattern, Handler handler) {
  check(!impl_->thread.joinable(), "routes are added before the server starts");
  impl_->shared->router.add(std::move(method), std::move(pattern), std::move(handler));
}

void HttpServer::on_access(std::function<void(const Access&)> call) {
  check(!impl_->thread.joinable(), "on_access is set before the server starts");
  impl_->shared->on_access = std::move(call);
}

void HttpServer::start() {
  check(!impl_->thread.joinable(), "a server is started once");
  impl_->listen();
  impl_->thread = std::thread([context = impl_->context] { context->run(); });
}

int HttpServer::port() const { return impl_->port; }
std::size_t HttpServer::connections() const { return impl_->open(); }
bool HttpServer::stop(std::chrono::steady_clock::time_point deadline) { return impl_->stop(deadline); }

}  // namespace autotriton::server
