#include "server/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <random>

#include "base/error.h"
#include "server/reply_state.h"

namespace autotriton::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);

std::string lower(std::string_view text) {
  std::string small(text);
  std::transform(small.begin(), small.end(), small.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return small;
}

std::string_view plain(boost::beast::string_view text) { return {text.data(), text.size()}; }

// An id that a log can hold: the client's, if it is short and plain, else one of ours.
std::string request_id(std::string_view given) {
  const bool usable =
      !given.empty() && given.size() <= 64 && std::all_of(given.begin(), given.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == ':';
      });
  if (usable) return std::string(given);
  static const auto kStart = std::random_device()();
  static std::atomic<std::uint64_t> count{0};
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "r%08x-%llu", static_cast<unsigned>(kStart),
                static_cast<unsigned long long>(++count));
  return text.data();
}

// "/path?query" out of what stands in the request line, which may be a whole address.
std::string_view origin_form(std::string_view target) {
  if (const auto scheme = target.find("://"); scheme != std::string_view::npos && !target.starts_with('/')) {
    const auto slash = target.find('/', scheme + 3);
    return slash == std::string_view::npos ? std::string_view("/") : target.substr(slash);
  }
  return target;
}

}  // namespace

Connection::Connection(Socket socket, std::shared_ptr<Shared> shared, std::weak_ptr<void> context)
    : socket_(std::move(socket)),
      shared_(std::move(shared)),
      context_(std::move(context)),
      patience_(socket_.get_executor()),
      answered_(socket_.get_executor()) {}

void Connection::start(std::function<void()> ended) {
  asio::co_spawn(
      socket_.get_executor(), [self = shared_from_this()] { return self->serve(); },
      [self = shared_from_this(), ended = std::move(ended)](const std::exception_ptr&) {
        self->close_now();
        ended();
      });
}

void Connection::refuse(std::function<void()> ended) {
  asio::co_spawn(
      socket_.get_executor(), [self = shared_from_this()] { return self->turn_away(); },
      [self = shared_from_this(), ended = std::move(ended)](const std::exception_ptr&) {
        self->close_now();
        ended();
      });
}

void Connection::finish() {
  finishing_ = true;
  if (idle_) {
    error_code ignored;
    socket_.cancel(ignored);
  }
}

void Connection::close_now() {
  finishing_ = true;
  error_code ignored;
  socket_.close(ignored);
  patience_.cancel();
  answered_.cancel();
}

void Connection::wait_at_most(std::chrono::milliseconds time) {
  out_of_patience_ = false;
  patience_.expires_after(time);
  patience_.async_wait([self = shared_from_this()](error_code error) {
    // A timer that was set anew just after it ended would come here without an error.
    if (error || self->patience_.expiry() > Clock::now()) return;
    self->out_of_patience_ = true;
    error_code ignored;
    self->socket_.cancel(ignored);
  });
}

Connection::Awaitable<void> Connection::serve() {
  bool first = true;
  while (!finishing_) {
    if (buffer_.size() == 0) {
      idle_ = true;
      wait_at_most(first ? shared_->options.read_timeout : shared_->options.idle_timeout);
      const auto [error] = co_await socket_.async_wait(Socket::wait_read, kTuple);
      idle_ = false;
      if (error || finishing_) break;
    }
    first = false;
    if (!co_await one_request()) break;
  }
  patience_.cancel();
}

std::optional<Response> Connection::refusal_before_body(const Parser& parser) const {
  const auto& head = parser.get();
  const std::string_view target = origin_form(plain(head.target()));
  if (shared_->open_paths_contain(target.substr(0, target.find('?')))) return std::nullopt;
  if (shared_->key.admits(plain(head[http::field::authorization]))) return std::nullopt;
  Response refused =
      error_response(401, "the API key is missing or wrong: send `Authorization: Bearer KEY`", "invalid_api_key");
  refused.headers.emplace_back("WWW-Authenticate", "Bearer");
  return refused;
}

Response Connection::refusal_of_error(const error_code& error) {
  const ServerOptions& options = shared_->options;
  if (error == http::error::body_limit) {
    shared_->count_refused("body-too-large");
    return error_response(413, "the body is larger than " + std::to_string(options.max_body_bytes) + " bytes: split it",
                          "body_too_large");
  }
  if (error == http::error::header_limit) {
    shared_->count_refused("header-too-large");
    return error_response(
        431, "the headers are larger than " + std::to_string(options.max_header_bytes) + " bytes: shorten them",
        "header_too_large");
  }
  if (out_of_patience_) {
    shared_->count_refused("slow");
    return error_response(
        408, "the request did not arrive within " + std::to_string(options.read_timeout.count() / 1000) + " s",
        "request_timeout");
  }
  shared_->count_refused("malformed");
  return error_response(400, "this is no HTTP/1.1 request: " + error.message(), "malformed_request");
}

Connection::Awaitable<bool> Connection::one_request() {
  ++exchange_;
  response_.reset();
  vanished_ = false;
  Parser parser;
  parser.header_limit(shared_->options.max_header_bytes);
  parser.body_limit(shared_->options.max_body_bytes);
  wait_at_most(shared_->options.read_timeout);

  auto [error, ignored_bytes] = co_await http::async_read_header(socket_, buffer_, parser, kTuple);
  if (error == http::error::end_of_stream) co_return false;
  std::optional<Response> refusal;
  if (!error) {
    refusal = refusal_before_body(parser);
    if (refusal) shared_->count_refused("no-key");
  }
  if (!error && !refusal && lower(plain(parser.get()[http::field::expect])) == "100-continue") {
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    co_await asio::async_write(socket_, asio::buffer(kContinue), kTuple);
  }
  if (!error && !refusal) {
    std::tie(error, ignored_bytes) = co_await http::async_read(socket_, buffer_, parser, kTuple);
  }
  if (error) {
    const bool ours = error.category() == http::make_error_code(http::error::bad_target).category();
    if (!out_of_patience_ && (!ours || error == http::error::partial_message)) {
      shared_->count_refused("vanished");
      co_return false;
    }
    refusal = refusal_of_error(error);
  }

  auto& message = parser.get();
  const std::string_view target = origin_form(plain(message.target()));
  Request request{.id = request_id(plain(message["X-Request-Id"])),
                  .method = std::string(plain(message.method_string())),
                  .path = std::string(target.substr(0, target.find('?')))};
  Access access{.id = request.id,
                .method = request.method,
                .path = request.path,
                .pattern = {},
                .received_bytes = message.body().size()};
  if (refusal) {
    response_ = std::move(*refusal);
    co_await answer(std::move(access), false, false);
    co_await linger();
    co_return false;
  }

  const bool keep = parser.keep_alive();
  const bool head = request.method == "HEAD";
  auto query = parse_query(target.size() > request.path.size() ? target.substr(request.path.size() + 1) : "");
  Router::Match match = shared_->router.find(request.method, request.path);
  access.pattern = match.pattern;
  if (!query) {
    response_ = error_response(400, "the query of the address cannot be decoded", "malformed_request");
  } else if (match.handler == nullptr && match.allowed.empty()) {
    response_ = error_response(404, "there is nothing at " + request.path, "not_found");
  } else if (match.handler == nullptr) {
    response_ = error_response(405, request.path + " takes " + match.allowed, "method_not_allowed");
    response_->headers.emplace_back("Allow", match.allowed);
  } else {
    for (const auto& field : message)
      request.headers[lower(plain(field.name_string()))] = std::string(plain(field.value()));
    request.parameters = std::move(match.parameters);
    request.query = std::move(*query);
    request.body = std::move(message.body());
    patience_.cancel();
    auto state = std::make_shared<Reply::State>([weak = weak_from_this(), exchange = exchange_,
                                                 executor = socket_.get_executor(),
                                                 context = context_.lock()](Response response) {
      asio::post(executor, [weak, exchange, response = std::move(response)]() mutable {
        const auto self = weak.lock();
        if (!self || self->exchange_ != exchange || self->response_) return;
        self->response_ = std::move(response);
        self->answered_.cancel();
      });
    });
    watch_for_vanishing(state);
    answered_.expires_at(Clock::time_point::max());
    try {
      (*match.handler)(request, Reply(state));
    } catch (const UserError& wrong) {
      state->send(error_response(400, wrong.what(), "invalid_request"));
    } catch (const std::exception& fault) {
      state->send(error_response(500, std::string("internal error, please report: ") + fault.what(), "internal"));
    }
    state.reset();
    const auto began = Clock::now();
    co_await answered_.async_wait(kTuple);
    access.seconds = std::chrono::duration<double>(Clock::now() - began).count();
    if (!response_) co_return false;  // Closed by force.
    // Ends the watch; nothing else is under way on the socket.
    error_code ignored;
    socket_.cancel(ignored);
  }
  const bool goes_on =
      co_await answer(std::move(access), head, keep && !finishing_ && !shared_->stopping && !vanished_);
  co_return goes_on;
}

Connection::Awaitable<bool> Connection::answer(Access access, bool head, bool keep) {
  Response response = std::move(*response_);
  response_ = Response();  // Later answers to this request find one.
  http::response<http::string_body> message(static_cast<http::status>(response.status), 11);
  message.set(http::field::content_type, response.content_type);
  message.set("X-Request-Id", access.id);
  for (const auto& [name, value] : response.headers) message.set(name, value);
  message.keep_alive(keep);
  access.status = response.status;
  access.note = std::move(response.note);
  access.sent_bytes = response.body.size();
  message.content_length(response.body.size());
  if (!head) message.body() = std::move(response.body);

  wait_at_most(shared_->options.write_timeout);
  const auto [error, bytes] = co_await http::async_write(socket_, message, kTuple);
  patience_.cancel();
  access.vanished = vanished_ || static_cast<bool>(error);
  shared_->count(access);
  if (shared_->on_access) shared_->on_access(access);
  co_return !error && keep;
}

// A client that is still sending would lose our answer to a reset, if we closed with its bytes unread.
Connection::Awaitable<void> Connection::linger() {
  constexpr std::size_t kMost = 4U << 20U;
  error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  wait_at_most(std::chrono::seconds(2));
  std::array<char, 16384> sink{};
  for (std::size_t seen = 0; seen < kMost;) {
    const auto [error, bytes] = co_await socket_.async_read_some(asio::buffer(sink), kTuple);
    if (error) break;
    seen += bytes;
  }
  patience_.cancel();
}

Connection::Awaitable<void> Connection::turn_away() {
  idle_ = false;
  finishing_ = true;
  response_ = error_response(503, "too many connections: come back later, or keep one open for many requests",
                             "too_many_connections");
  set_retry_after(*response_, 1);
  Access access{.id = request_id(""), .method = "-", .path = "-", .pattern = {}};
  co_await answer(std::move(access), false, false);
  co_await linger();
}

void Connection::watch_for_vanishing(const std::shared_ptr<Reply::State>& state) {
  socket_.async_wait(Socket::wait_read,
                     [self = shared_from_this(), weak = std::weak_ptr(state), exchange = exchange_](error_code error) {
                       if (error || self->exchange_ != exchange || self->response_) return;
                       char byte = 0;
                       const ssize_t got = ::recv(self->socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
                       if (got > 0)
                         return;  // The next request of a client that does not wait; what is behind it cannot be seen.
                       if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
                       self->vanished_ = true;
                       if (const auto waiting = weak.lock()) waiting->vanished();
                     });
}

}  // namespace autotriton::server
