#include "server/http_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <mutex>
#include <thread>

#include "base/error.h"

namespace autotriton::server {
namespace {

using namespace std::chrono_literals;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::chrono::steady_clock::time_point in(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

// A client that sends bytes, so that it can be as slow, as rude and as wrong as a test needs.
class Client {
 public:
  explicit Client(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  explicit Client(const std::string& path) : socket_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { leave(); }

  bool connected() const { return connected_; }
  void leave() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  void stop_sending() { ::shutdown(socket_, SHUT_WR); }

  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  // What comes until the server closes, or until `enough` is in it, or nothing comes for `patience`.
  std::string receive(std::string_view enough = {}, std::chrono::milliseconds patience = 5s) {
    std::string all;
    closed_ = false;
    while (enough.empty() || all.find(enough) == std::string::npos) {
      pollfd wait{socket_, POLLIN, 0};
      if (::poll(&wait, 1, static_cast<int>(patience.count())) <= 0) break;
      char bytes[65536];
      const ssize_t got = ::recv(socket_, bytes, sizeof(bytes), 0);
      if (got <= 0) {
        closed_ = true;
        break;
      }
      all.append(bytes, static_cast<std::size_t>(got));
    }
    return all;
  }
  bool closed() const { return closed_; }

 private:
  int socket_;
  bool connected_ = false;
  bool closed_ = false;
};

class HttpServerTest : public testing::Test {
 protected:
  void start(ServerOptions options = {}) {
    if (!options.port && options.unix_socket.empty()) options.port = 0;
    server_.emplace(options, metrics_);
    server_->route("GET", "/health", [](const Request&, const Reply& reply) { reply.send({.body = "well"}); });
    server_->route("POST", "/echo", [](const Request& request, const Reply& reply) {
      reply.send({.body = request.body, .content_type = "text/plain"});
    });
    server_->route("GET", "/name/{name}", [](const Request& request, const Reply& reply) {
      const auto found = request.query.find("tail");
      reply.send({.body = request.parameters.at("name") + (found == request.query.end() ? "" : found->second)});
    });
    server_->route("POST", "/later", [this](const Request& request, const Reply& reply) {
      const std::lock_guard lock(mutex_);
      reply.on_vanished([this] { vanished_ = true; });
      late_.push_back(reply);
      bodies_.push_back(request.body);
    });
    server_->route("GET", "/forget", [](const Request&, const Reply&) {});
    server_->route("GET", "/wrong", [](const Request&, const Reply&) {
      throw UserError({.where = "field `a`", .what = "is no number", .fix = "write one"});
    });
    server_->route("GET", "/fault", [](const Request&, const Reply&) { throw std::runtime_error("oops"); });
    server_->on_access([this](const Access& access) {
      const std::lock_guard lock(mutex_);
      accesses_.push_back(access);
    });
    server_->start();
  }

  std::string ask(std::string_view request, std::string_view enough = "\r\n\r\n") {
    Client client(server_->port());
    client.send(request);
    return client.receive(enough);
  }

  // Waits until /later holds `count` requests.
  void wait_for_late(std::size_t count) {
    for (int i = 0; i < 500; ++i) {
      {
        const std::lock_guard lock(mutex_);
        if (late_.size() >= count) return;
      }
      std::this_thread::sleep_for(10ms);
    }
    FAIL() << "the requests did not come";
  }
  template <typename Condition>
  bool soon(Condition condition) {
    for (int i = 0; i < 500; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(10ms);
    }
    return false;
  }

  Metrics metrics_;
  Metrics second_metrics_;
  std::mutex mutex_;
  std::vector<Reply> late_;
  std::vector<std::string> bodies_;
  std::vector<Access> accesses_;
  std::atomic<bool> vanished_ = false;
  std::optional<HttpServer> server_;  // Last: its thread uses the others.
};

constexpr std::string_view kHealth = "GET /health HTTP/1.1\r\nHost: a\r\n\r\n";

TEST_F(HttpServerTest, AConnectionServesManyRequestsUnlessItAsksToBeClosed) {
  start();
  Client client(server_->port());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client.send(kHealth));
    EXPECT_THAT(client.receive("well"), StartsWith("HTTP/1.1 200 OK\r\n"));
  }
  client.send("GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(client.receive(), HasSubstr("Connection: close"));
  EXPECT_TRUE(client.closed());
}

TEST_F(HttpServerTest, PipelinedRequestsAreAnsweredInTheirOrder) {
  start();
  Client client(server_->port());
  std::string all;
  for (const char* name : {"one", "two", "three"})
    all += std::string("GET /name/") + name + "?tail=%21 HTTP/1.1\r\nHost: a\r\n\r\n";
  client.send(all);
  const std::string answers = client.receive("three!");
  const auto one = answers.find("one!");
  const auto two = answers.find("two!");
  ASSERT_NE(one, std::string::npos);
  ASSERT_NE(two, std::string::npos);
  EXPECT_LT(one, two);
  EXPECT_LT(two, answers.find("three!"));
}

TEST_F(HttpServerTest, APipelinedRequestBehindASlowOneWaitsForIt) {
  start();
  Client client(server_->port());
  client.send("POST /later HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n" + std::string(kHealth));
  wait_for_late(1);
  EXPECT_EQ(client.receive("well", 100ms), "");
  late_[0].send({.body = "late"});
  const std::string answers = client.receive("well");
  EXPECT_LT(answers.find("late"), answers.find("well"));
}

TEST_F(HttpServerTest, AnAnswerMayComeLaterFromAnotherThread) {
  start();
  Client client(server_->port());
  client.send("POST /later HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
  wait_for_late(1);
  std::thread other([&] {
    late_[0].send({.status = 202, .body = "done"});
    late_[0].send({.status = 500, .body = "second"});
  });
  EXPECT_THAT(client.receive("done"), StartsWith("HTTP/1.1 202 "));
  other.join();
  client.send(kHealth);
  EXPECT_THAT(client.receive("well"), Not(HasSubstr("second")));
}

TEST_F(HttpServerTest, AChunkedBodyIsPutTogether) {
  start();
  EXPECT_THAT(
      ask("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
          "abcde"),
      EndsWith("\r\n\r\nabcde"));
}

TEST_F(HttpServerTest, AClientThatAsksFirstIsToldToGoOn) {
  start();
  Client client(server_->port());
  client.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_THAT(client.receive("\r\n\r\n"), StartsWith("HTTP/1.1 100 Continue"));
  client.send("body");
  EXPECT_THAT(client.receive("body"), StartsWith("HTTP/1.1 200 OK"));
}

TEST_F(HttpServerTest, UnknownPathsMethodsAndQueriesAreToldApart) {
  start();
  EXPECT_THAT(ask("GET /nowhere HTTP/1.1\r\nHost: a\r\n\r\n", "\"}}"), StartsWith("HTTP/1.1 404 "));
  const std::string wrong = ask("DELETE /health HTTP/1.1\r\nHost: a\r\n\r\n", "}}");
  EXPECT_THAT(wrong, StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(wrong, HasSubstr("Allow: GET"));
  EXPECT_THAT(ask("GET /health?a=%zz HTTP/1.1\r\nHost: a\r\n\r\n", "}}"), StartsWith("HTTP/1.1 400 "));
}

TEST_F(HttpServerTest, HeadHasTheLengthButNoBody) {
  start();
  const std::string answer = ask("HEAD /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "never");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK"));
  EXPECT_THAT(answer, HasSubstr("Content-Length: 4\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\n"));
}

TEST_F(HttpServerTest, WhatIsNoHttpIsRefusedAndTheConnectionClosed) {
  start();
  for (const char* bytes :
       {"hello\r\n\r\n", "GET\r\n\r\n", "GET /health HTTP/9.9\r\n\r\n", "GET /health HTTP/1.1\r\nno colon\r\n\r\n",
        "POST /echo HTTP/1.1\r\nContent-Length: minus\r\n\r\n",
        "POST /echo HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"}) {
    Client client(server_->port());
    client.send(bytes);
    EXPECT_THAT(client.receive(), StartsWith("HTTP/1.1 400 ")) << bytes;
    EXPECT_TRUE(client.closed()) << bytes;
  }
  EXPECT_THAT(ask(kHealth, "well"), HasSubstr("200 OK"));
}

TEST_F(HttpServerTest, ABodyOverTheLimitIsRefusedBeforeItIsRead) {
  start({.max_body_bytes = 1000});
  const std::string big(5'000'000, 'x');
  {
    Client client(server_->port());
    client.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5000000\r\n\r\n");
    client.send(big);
    const std::string answer = client.receive();
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 413 "));
    EXPECT_THAT(answer, HasSubstr("1000 bytes"));
  }
  {
    Client client(server_->port());  // Chunked, so that no one says how much will come.
    client.send("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send("186A0\r\n" + big.substr(0, 100'000) + "\r\n");
    EXPECT_THAT(client.receive(), StartsWith("HTTP/1.1 413 "));
  }
  EXPECT_THAT(ask("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n" + big.substr(0, 1000), "xxx"),
              StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpServerTest, HeadersOverTheLimitAreRefused) {
  start({.max_header_bytes = 2000});
  Client client(server_->port());
  client.send("GET /health HTTP/1.1\r\nX-Long: " + std::string(5000, 'a') + "\r\n\r\n");
  EXPECT_THAT(client.receive(), StartsWith("HTTP/1.1 431 "));
}

TEST_F(HttpServerTest, AClientThatDripsItsRequestIsToldThatItIsSlow) {
  start({.read_timeout = 300ms});
  Client client(server_->port());
  std::atomic<bool> done = false;
  std::thread dripping([&] {
    for (const char letter : std::string(kHealth)) {
      if (done || !client.send(std::string(1, letter))) break;
      std::this_thread::sleep_for(50ms);
    }
  });
  const auto began = std::chrono::steady_clock::now();
  EXPECT_THAT(client.receive("\r\n\r\n"), StartsWith("HTTP/1.1 408 "));
  EXPECT_LT(std::chrono::steady_clock::now() - began, 1500ms);
  done = true;
  dripping.join();
}

TEST_F(HttpServerTest, AConnectionWithoutRequestsIsClosedAfterAWhile) {
  start({.read_timeout = 5s, .idle_timeout = 200ms});
  Client client(server_->port());
  client.send(kHealth);
  EXPECT_THAT(client.receive("well"), HasSubstr("200"));
  EXPECT_EQ(client.receive({}, 3s), "");
  EXPECT_TRUE(client.closed());
  EXPECT_TRUE(soon([&] { return server_->connections() == 0; }));
}

TEST_F(HttpServerTest, AClientThatDoesNotTakeItsAnswerIsLetGo) {
  start({.write_timeout = 300ms});
  server_->stop(in(0ms));
  server_.emplace(ServerOptions{.port = 0, .write_timeout = 300ms}, second_metrics_);
  server_->route("GET", "/big",
                 [](const Request&, const Reply& reply) { reply.send({.body = std::string(64U << 20U, 'x')}); });
  server_->start();
  Client client(server_->port());
  client.send("GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(soon([&] { return server_->connections() == 0; }));
}

TEST_F(HttpServerTest, ClientsThatVanishAreNoticedWhileTheyWait) {
  start();
  Client client(server_->port());
  client.send("POST /later HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
  wait_for_late(1);
  EXPECT_FALSE(vanished_);
  client.leave();
  EXPECT_TRUE(soon([&] { return vanished_.load(); }));
  late_[0].send({.body = "for nobody"});
  EXPECT_TRUE(soon([&] { return server_->connections() == 0; }));
  const std::lock_guard lock(mutex_);
  ASSERT_EQ(accesses_.size(), 1U);
  EXPECT_TRUE(accesses_[0].vanished);
}

TEST_F(HttpServerTest, AClientThatClosedOnlyItsSideGetsItsAnswer) {
  start();
  Client client(server_->port());
  client.send("POST /later HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
  client.stop_sending();
  wait_for_late(1);
  EXPECT_TRUE(soon([&] { return vanished_.load(); }));
  late_[0].send({.body = "here"});
  EXPECT_THAT(client.receive(), EndsWith("here"));
}

TEST_F(HttpServerTest, AHandlerThatForgetsToAnswerOrThrowsIsAnswered) {
  start();
  EXPECT_THAT(ask("GET /forget HTTP/1.1\r\nHost: a\r\n\r\n", "}}"), StartsWith("HTTP/1.1 500 "));
  EXPECT_THAT(ask("GET /fault HTTP/1.1\r\nHost: a\r\n\r\n", "}}"), StartsWith("HTTP/1.1 500 "));
  const std::string wrong = ask("GET /wrong HTTP/1.1\r\nHost: a\r\n\r\n", "}}");
  EXPECT_THAT(wrong, StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(wrong, HasSubstr(R"("message":"field `a`: is no number; write one")"));
  EXPECT_THAT(wrong, HasSubstr(R"("type":"invalid_request_error")"));
}

TEST_F(HttpServerTest, WithoutTheKeyOnlyOpenPathsAnswer) {
  start({.api_key = "secret"});
  EXPECT_THAT(ask(kHealth, "well"), HasSubstr("200 OK"));
  EXPECT_THAT(ask("GET /health?a=b HTTP/1.1\r\nHost: a\r\n\r\n", "well"), HasSubstr("200 OK"));
  for (const char* line : {"", "Authorization: Bearer secre\r\n", "Authorization: Basic secret\r\n"}) {
    const std::string answer = ask(std::string("GET /name/a HTTP/1.1\r\nHost: a\r\n") + line + "\r\n", "}}");
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 401 "));
    EXPECT_THAT(answer, HasSubstr("invalid_api_key"));
    EXPECT_THAT(answer, Not(HasSubstr("secre\"")));
  }
  EXPECT_THAT(ask("GET /name/a HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer secret\r\n\r\n", "\r\n\r\na"),
              StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpServerTest, OneConnectionTooManyIsToldSoAndTheOthersGoOn) {
  start({.max_connections = 2});
  Client one(server_->port());
  Client two(server_->port());
  one.send(kHealth);
  two.send(kHealth);
  EXPECT_THAT(one.receive("well"), HasSubstr("200"));
  EXPECT_THAT(two.receive("well"), HasSubstr("200"));
  Client three(server_->port());
  const std::string told = three.receive();
  EXPECT_THAT(told, StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(told, HasSubstr("Retry-After: 1"));
  one.send(kHealth);
  EXPECT_THAT(one.receive("well"), HasSubstr("200"));
  two.leave();
  EXPECT_TRUE(soon([&] { return ask(kHealth, "well").find("200 OK") != std::string::npos; }));
}

TEST_F(HttpServerTest, StoppingWaitsForWhatIsUnderWayAndTakesNothingNew) {
  start();
  const int port = server_->port();
  Client idle(port);
  idle.send(kHealth);
  idle.receive("well");
  Client busy(port);
  busy.send("POST /later HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
  wait_for_late(1);
  auto stopped = std::async(std::launch::async, [&] { return server_->stop(in(10s)); });
  EXPECT_EQ(idle.receive({}, 3s), "");
  EXPECT_TRUE(idle.closed());
  EXPECT_TRUE(soon([&] { return !Client(port).connected(); }));
  EXPECT_EQ(stopped.wait_for(0s), std::future_status::timeout);
  late_[0].send({.body = "the last"});
  EXPECT_THAT(busy.receive(), HasSubstr("Connection: close"));
  EXPECT_TRUE(stopped.get());
}

TEST_F(HttpServerTest, StoppingCutsWhatIsLeftAtTheDeadline) {
  start();
  Client busy(server_->port());
  busy.send("POST /later HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
  wait_for_late(1);
  EXPECT_FALSE(server_->stop(in(100ms)));
  EXPECT_EQ(busy.receive(), "");
  server_.reset();
  late_[0].send({.body = "nobody is there"});
}

TEST_F(HttpServerTest, AUnixSocketIsTheOwnersAndOfOneServerAtATime) {
  const std::string path = testing::TempDir() + "autotriton_server_test.sock";
  start({.unix_socket = path});
  EXPECT_EQ(std::filesystem::status(path).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  Client client(path);
  client.send(kHealth);
  EXPECT_THAT(client.receive("well"), HasSubstr("200 OK"));
  HttpServer second({.unix_socket = path}, second_metrics_);
  EXPECT_THROW(second.start(), UserError);
  EXPECT_TRUE(server_->stop(in(1s)));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(HttpServerTest, ATakenPortIsAnErrorThatNamesIt) {
  start();
  Metrics metrics;
  HttpServer second({.port = server_->port()}, metrics);
  try {
    second.start();
    FAIL() << "both listen";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("127.0.0.1:" + std::to_string(server_->port())));
  }
}

TEST_F(HttpServerTest, MetricsCountRoutesAndNotPaths) {
  start();
  for (const char* name : {"a", "b", "c"}) ask(std::string("GET /name/") + name + " HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(soon([&] {
    return metrics_.text().find(
               R"(autotriton_http_requests_total{method="GET",route="/name/{name}",status="200"} 3)") !=
           std::string::npos;
  })) << metrics_.text();
}

TEST_F(HttpServerTest, ARequestKeepsThePlainIdThatItCameWith) {
  start();
  EXPECT_THAT(ask("GET /health HTTP/1.1\r\nHost: a\r\nX-Request-Id: step-7.a\r\n\r\n", "well"),
              HasSubstr("X-Request-Id: step-7.a\r\n"));
  EXPECT_THAT(ask("GET /health HTTP/1.1\r\nHost: a\r\nX-Request-Id: no good\r\n\r\n", "well"),
              Not(HasSubstr("no good")));
}

}  // namespace
}  // namespace autotriton::server
