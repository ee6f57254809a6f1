#include "queue/connection.h"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <array>
#include <random>
#include <thread>

#include "base/error.h"

namespace autotriton::queue {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kConnectTimeout{5'000};
constexpr milliseconds kReplyTimeout{10'000};

timeval to_timeval(milliseconds time) {
  return {.tv_sec = static_cast<time_t>(time.count() / 1000),
          .tv_usec = static_cast<suseconds_t>(time.count() % 1000 * 1000)};
}

Reply copied(const redisReply& reply) {
  Reply result;
  switch (reply.type) {
    case REDIS_REPLY_INTEGER:
      result.kind = Reply::Kind::kNumber;
      result.number = reply.integer;
      break;
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
      result.kind = Reply::Kind::kText;
      result.text.assign(reply.str, static_cast<std::size_t>(reply.len));
      break;
    case REDIS_REPLY_ERROR:
      result.kind = Reply::Kind::kError;
      result.text.assign(reply.str, static_cast<std::size_t>(reply.len));
      break;
    case REDIS_REPLY_ARRAY:
      result.kind = Reply::Kind::kList;
      for (std::size_t i = 0; i < reply.elements; ++i) result.items.push_back(copied(*reply.element[i]));
      break;
    default:
      break;
  }
  return result;
}

/// Errors of a server that is starting, busy, or being replaced.
bool passes_by_itself(std::string_view error) {
  static constexpr std::array<std::string_view, 7> kStarts = {"LOADING",  "BUSY ",      "TRYAGAIN",   "MASTERDOWN",
                                                              "READONLY", "NOREPLICAS", "CLUSTERDOWN"};
  return std::ranges::any_of(kStarts, [&](std::string_view start) { return error.starts_with(start); });
}

bool keeps_us_out(std::string_view error) {
  return error.starts_with("NOAUTH") || error.starts_with("WRONGPASS") || error.starts_with("NOPERM") ||
         error.find("invalid password") != std::string_view::npos ||
         error.find("without any password configured") != std::string_view::npos;
}

/// Half to all of `pause`, so that a fleet does not come back in step.
milliseconds with_jitter(milliseconds pause) {
  thread_local std::minstd_rand random{std::random_device{}()};
  std::uniform_int_distribution<long long> part(pause.count() / 2, pause.count());
  return milliseconds(part(random));
}

}  // namespace

void Connection::Closer::operator()(redisContext* context) const { redisFree(context); }

Connection::Connection(Options options) : options_(std::move(options)) {}
Connection::Connection(Connection&&) noexcept = default;
Connection::~Connection() = default;

bool Connection::send(const std::vector<std::string>& arguments, milliseconds block, Reply& reply,
                      std::string& problem) {
  std::vector<const char*> texts;
  std::vector<std::size_t> sizes;
  for (const std::string& argument : arguments) {
    texts.push_back(argument.data());
    sizes.push_back(argument.size());
  }
  redisSetTimeout(context_.get(), to_timeval(kReplyTimeout + block));
  const std::unique_ptr<void, decltype(&freeReplyObject)> answer(
      redisCommandArgv(context_.get(), static_cast<int>(texts.size()), texts.data(), sizes.data()), freeReplyObject);
  if (!answer) {
    problem = context_->errstr[0] != '\0' ? context_->errstr : "the connection broke";
    context_.reset();
    return false;
  }
  reply = copied(*static_cast<const redisReply*>(answer.get()));
  return true;
}

/// Connects, logs in and chooses the database. Returns the problem, or nothing.
std::string Connection::open() {
  const Address& address = options_.address;
  const timeval timeout = to_timeval(kConnectTimeout);
  context_.reset(address.socket.empty() ? redisConnectWithTimeout(address.host.c_str(), address.port, timeout)
                                        : redisConnectUnixWithTimeout(address.socket.c_str(), timeout));
  check(context_ != nullptr, "memory for a connection");
  if (context_->err != 0) {
    std::string problem = context_->errstr;
    context_.reset();
    return problem;
  }
  if (address.socket.empty()) redisEnableKeepAlive(context_.get());
  Reply reply;
  std::string problem;
  const auto step = [&](const std::vector<std::string>& arguments, std::string_view what) {
    if (!send(arguments, {}, reply, problem)) return false;
    if (reply.kind != Reply::Kind::kError) return true;
    if (passes_by_itself(reply.text)) {
      problem = reply.text;
      context_.reset();
      return false;
    }
    throw UserError({.where = address.shown(),
                     .what = std::string(what) + ": " + reply.text,
                     .fix = "check user and password (AUTOTRITON_REDIS_PASSWORD) and the database's number"});
  };
  if (!address.password.empty()) {
    std::vector<std::string> login = {"AUTH"};
    if (!address.user.empty()) login.push_back(address.user);
    login.push_back(address.password);
    if (!step(login, "Redis does not let us in")) return problem;
  }
  if (address.database != 0 && !step({"SELECT", std::to_string(address.database)}, "the database cannot be chosen"))
    return problem;
  return {};
}

Reply Connection::run(const std::vector<std::string>& arguments, milliseconds block) {
  const auto give_up = Clock::now() + options_.patience;
  milliseconds pause{50};
  while (true) {
    std::string problem = context_ ? std::string{} : open();
    Reply reply;
    if (context_ && send(arguments, block, reply, problem)) {
      if (reply.kind != Reply::Kind::kError) return reply;
      if (keeps_us_out(reply.text)) {
        throw UserError({.where = options_.address.shown(),
                         .what = "Redis does not let us in: " + reply.text,
                         .fix = "set AUTOTRITON_REDIS_PASSWORD, or give the user its rights"});
      }
      if (reply.text.find("unknown command") != std::string::npos) {
        throw UserError({.where = options_.address.shown(),
                         .what = "this Redis has no " + arguments[0],
                         .fix = "use Redis 6.2 or newer"});
      }
      if (!passes_by_itself(reply.text)) return reply;
      problem = reply.text;
    }
    if (options_.interrupted && options_.interrupted()) throw Interrupted("while Redis was away");
    if (Clock::now() + pause > give_up) {
      throw UserError({.where = options_.address.shown(),
                       .what = "Redis cannot be reached: " + problem,
                       .fix = "start it, or correct the URL"});
    }
    std::this_thread::sleep_for(with_jitter(pause));
    pause = std::min(pause * 2, milliseconds(2'000));
  }
}

Reply Connection::script(std::string_view text, const std::vector<std::string>& keys,
                         const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {"EVAL", std::string(text), std::to_string(keys.size())};
  words.insert(words.end(), keys.begin(), keys.end());
  words.insert(words.end(), arguments.begin(), arguments.end());
  Reply reply = run(words);
  check(reply.kind != Reply::Kind::kError, "a script of the queue ran: " + reply.text);
  return reply;
}

}  // namespace autotriton::queue
