#include "queue/queue.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "base/error.h"
#include "queue/connection.h"

namespace autotriton::queue {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::string_view kGroup = "workers";
constexpr std::size_t kMaxItemBytes = 64U << 20U;
constexpr std::size_t kMaxDeadLetters = 10'000;

/// The keys of one queue. The braces keep them on one node of a cluster, since scripts touch several.
struct Keys {
  explicit Keys(const std::string& name) : base("{" + name + "}:") {}
  std::string base;
  std::string items() const { return base + "items"; }
  std::string dead() const { return base + "dead"; }
  std::string settings() const { return base + "settings"; }
  std::string open(const std::string& key) const { return base + "open:" + key; }      // Its entry in the stream.
  std::string result(const std::string& key) const { return base + "result:" + key; }  // "+bytes", or "-why".
};

std::string seconds_text(std::chrono::seconds time) { return std::to_string(time.count()); }
std::string text_of(milliseconds time) { return std::to_string(time.count()); }

// Scripts: each is one step for Redis, and may run twice, since a reply can be lost. ---------------------------------

// KEYS items open result, ARGV key bytes max keep
constexpr std::string_view kPut = R"lua(
if redis.call('EXISTS', KEYS[3]) == 1 then return 1 end
local there = redis.call('GET', KEYS[2])
if there and #redis.call('XRANGE', KEYS[1], there, there) == 1 then return 1 end
if redis.call('XLEN', KEYS[1]) >= tonumber(ARGV[3]) then return 2 end
local entry = redis.call('XADD', KEYS[1], '*', 'key', ARGV[1], 'tries', '0', 'bytes', ARGV[2])
redis.call('SET', KEYS[2], entry, 'EX', ARGV[4])
return 0
)lua";

// KEYS items open result, ARGV group entry result keep
// The item may meanwhile have another entry: it was handed back by someone who was taken for lost.
constexpr std::string_view kComplete = R"lua(
local entry = redis.call('GET', KEYS[2])
redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
redis.call('XDEL', KEYS[1], ARGV[2])
if not entry then
  if redis.call('GET', KEYS[3]) == ARGV[3] then return 1 end
  return 0
end
if entry ~= ARGV[2] then
  redis.call('XACK', KEYS[1], ARGV[1], entry)
  redis.call('XDEL', KEYS[1], entry)
end
redis.call('DEL', KEYS[2])
redis.call('SET', KEYS[3], ARGV[3], 'EX', ARGV[4])
return 1
)lua";

// KEYS items open result dead, ARGV group entry tries(after this one) max reason keep max_dead consumer
// Only who holds the entry may move it.
constexpr std::string_view kMove = R"lua(
local pending = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[2], ARGV[2], 1)
if #pending == 0 or pending[1][2] ~= ARGV[8] then return 0 end
local found = redis.call('XRANGE', KEYS[1], ARGV[2], ARGV[2])
redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
redis.call('XDEL', KEYS[1], ARGV[2])
if #found == 0 or redis.call('GET', KEYS[2]) ~= ARGV[2] then return 0 end
local fields = found[1][2]
local key, bytes
for i = 1, #fields, 2 do
  if fields[i] == 'key' then key = fields[i + 1] end
  if fields[i] == 'bytes' then bytes = fields[i + 1] end
end
if tonumber(ARGV[3]) >= tonumber(ARGV[4]) then
  redis.call('XADD', KEYS[4], 'MAXLEN', '~', ARGV[7], '*',
             'key', key, 'tries', ARGV[3], 'reason', ARGV[5], 'bytes', bytes)
  redis.call('DEL', KEYS[2])
  redis.call('SET', KEYS[3], '-' .. ARGV[5], 'EX', ARGV[6])
  return 2
end
local entry = redis.call('XADD', KEYS[1], '*', 'key', key, 'tries', ARGV[3], 'bytes', bytes)
redis.call('SET', KEYS[2], entry, 'EX', ARGV[6])
return 1
)lua";

// KEYS items settings, ARGV group consumer settings lease entries…
// Renews what this consumer still holds; what passed to another one stays there.
constexpr std::string_view kRenew = R"lua(
redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[4])
for i = 5, #ARGV do
  local pending = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1)
  if #pending == 1 and pending[1][2] == ARGV[2] then
    redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[i], 'JUSTID')
  end
end
return #ARGV
)lua";

// KEYS settings, ARGV settings lease
constexpr std::string_view kAgree = R"lua(
local said = redis.call('GET', KEYS[1])
if said and said ~= ARGV[1] then return said end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return ''
)lua";

// KEYS items, ARGV group consumer idle
// Strikes off consumers that hold nothing: ourselves at the end, and others that have long been silent. One that holds
// an item must stay, or the item would be lost with it.
constexpr std::string_view kSweep = R"lua(
for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  local is = {}
  for i = 1, #consumer, 2 do is[consumer[i]] = consumer[i + 1] end
  if is['pending'] == 0 and (is['name'] == ARGV[2] or is['idle'] > tonumber(ARGV[3])) then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], is['name'])
  end
end
return 0
)lua";

void ensure_group(Connection& connection, const Keys& keys) {
  const Reply reply = connection.run({"XGROUP", "CREATE", keys.items(), std::string(kGroup), "0", "MKSTREAM"});
  if (reply.kind == Reply::Kind::kError && !reply.text.starts_with("BUSYGROUP")) {
    throw UserError({.where = "queue " + keys.base,
                     .what = "Redis refuses the queue: " + reply.text,
                     .fix = "choose another --queue-name, or remove what has that name"});
  }
}

State read_state(Connection& connection, const Keys& keys) {
  State state;
  const auto count = [&](const std::string& stream) {
    return static_cast<std::size_t>(std::max(0LL, connection.run({"XLEN", stream}).number));
  };
  const std::size_t all = count(keys.items());
  const Reply pending = connection.run({"XPENDING", keys.items(), std::string(kGroup)});
  if (pending.kind == Reply::Kind::kList && !pending.items.empty())
    state.held = static_cast<std::size_t>(std::max(0LL, pending.items[0].number));
  state.waiting = all - std::min(all, state.held);
  state.dead = count(keys.dead());
  state.settings = connection.run({"GET", keys.settings()}).text;
  return state;
}

Connection::Options connection_options(const Options& options) {
  return {.address = options.address, .patience = options.patience, .interrupted = options.interrupted};
}

std::string consumer_name() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::random_device random;
  std::string name = std::string(host.data()) + ":" + std::to_string(::getpid()) + ":";
  for (int i = 0; i < 8; ++i) name += kDigits[random() % 16];
  return name;
}

/// Reads ["1-2", ["key", …, "tries", …, "bytes", …]]; empty where the entry is none of ours.
std::optional<Item> read_entry(const Reply& reply) {
  if (reply.items.size() != 2 || reply.items[1].kind != Reply::Kind::kList) return std::nullopt;
  Item item;
  item.entry = reply.items[0].text;
  const std::vector<Reply>& fields = reply.items[1].items;
  for (std::size_t i = 0; i + 1 < fields.size(); i += 2) {
    if (fields[i].text == "key") item.key = fields[i + 1].text;
    if (fields[i].text == "bytes") item.bytes = fields[i + 1].text;
    if (fields[i].text == "tries") item.tries = std::atoi(fields[i + 1].text.c_str()) + 1;
  }
  return item.key.empty() ? std::nullopt : std::optional(item);
}

}  // namespace

// Producer ----------------------------------------------------------------------------------------------------------

struct Producer::Impl {
  Options options;
  Keys keys;
  Connection connection;
};

Producer::Producer(Options options)
    : impl_(std::make_unique<Impl>(Impl{options, Keys(options.name), Connection(connection_options(options))})) {
  ensure_group(impl_->connection, impl_->keys);
}
Producer::Producer(Producer&&) noexcept = default;
Producer::~Producer() = default;

Producer::Put Producer::put(const std::string& key, const std::string& bytes) {
  if (bytes.size() > kMaxItemBytes) {
    throw UserError({.where = "item " + key,
                     .what = "it has " + std::to_string(bytes.size()) + " bytes",
                     .fix = "an item may have " + std::to_string(kMaxItemBytes)});
  }
  const Keys& keys = impl_->keys;
  const Reply reply = impl_->connection.script(
      kPut, {keys.items(), keys.open(key), keys.result(key)},
      {key, bytes, std::to_string(impl_->options.max_waiting), seconds_text(impl_->options.keep)});
  return reply.number == 0 ? Put::kAdded : reply.number == 1 ? Put::kKnown : Put::kFull;
}

std::vector<Outcome> Producer::collect(std::span<const std::string> wanted) {
  std::vector<Outcome> outcomes;
  constexpr std::size_t kAtOnce = 64;
  for (std::size_t from = 0; from < wanted.size(); from += kAtOnce) {
    const auto part = wanted.subspan(from, std::min(kAtOnce, wanted.size() - from));
    std::vector<std::string> words = {"MGET"};
    for (const std::string& key : part) words.push_back(impl_->keys.result(key));
    const Reply reply = impl_->connection.run(words);
    for (std::size_t i = 0; i < std::min(part.size(), reply.items.size()); ++i) {
      const std::string& text = reply.items[i].text;
      if (!text.empty()) outcomes.push_back({.key = part[i], .dead = text[0] == '-', .bytes = text.substr(1)});
    }
  }
  return outcomes;
}

void Producer::forget(const std::string& key) { impl_->connection.run({"DEL", impl_->keys.result(key)}); }

State Producer::state() { return read_state(impl_->connection, impl_->keys); }

// Worker ------------------------------------------------------------------------------------------------------------

struct Worker::Impl {
  Impl(Options given, std::string said)
      : options(std::move(given)),
        keys(options.name),
        settings(std::move(said)),
        name(consumer_name()),
        taking(connection_options(options)),
        steering({.address = options.address, .patience = options.patience, .interrupted = [this] {
                    return stop || (options.interrupted && options.interrupted());
                  }}) {}

  /// How long an entry that failed here is left to others, if they are there.
  milliseconds shyness() const { return options.lease / 2; }

  Reply steer(std::string_view script, const std::vector<std::string>& script_keys,
              const std::vector<std::string>& arguments) {
    const std::lock_guard lock(steering_mutex);
    return steering.script(script, script_keys, arguments);
  }

  void hold(const Item& item) {
    const std::lock_guard lock(held_mutex);
    held[item.entry] = item.key;
  }
  void release(const Item& item) {
    const std::lock_guard lock(held_mutex);
    held.erase(item.entry);
  }

  /// `tries` is what the item has behind it.
  void move(const Item& item, int tries, int max_tries, const std::string& reason) {
    release(item);
    steer(kMove, {keys.items(), keys.open(item.key), keys.result(item.key), keys.dead()},
          {std::string(kGroup), item.entry, std::to_string(tries), std::to_string(max_tries), reason,
           seconds_text(options.keep), std::to_string(kMaxDeadLetters), name});
  }

  void renew() {
    std::vector<std::string> arguments = {std::string(kGroup), name, settings, text_of(options.lease)};
    {
      const std::lock_guard lock(held_mutex);
      for (const auto& [entry, key] : held) arguments.push_back(entry);
    }
    steer(kRenew, {keys.items(), keys.settings()}, arguments);
  }

  void keep_renewing() {
    std::unique_lock lock(held_mutex);
    while (!stopping.wait_for(lock, options.lease / 3, [&] { return stop.load(); })) {
      lock.unlock();
      try {
        renew();
      } catch (const std::exception&) {
        // Redis is away or was emptied. `take` tells; what is held may pass to others, which costs work and no result.
      }
      lock.lock();
    }
  }

  std::optional<Item> claim_from_the_lost();
  std::optional<Item> read_new(milliseconds wait);

  const Options options;
  const Keys keys;
  const std::string settings;
  const std::string name;
  Connection taking;  // Blocks; only `take` uses it.
  std::mutex steering_mutex;
  Connection steering;
  mutable std::mutex held_mutex;
  std::condition_variable stopping;
  std::atomic<bool> stop{false};
  std::map<std::string, std::string> held;               // Entry to key.
  std::map<std::string, Clock::time_point> failed_here;  // Key to when.
  std::mutex failed_mutex;
  Clock::time_point next_claim = Clock::now();
  std::string claim_from = "0-0";
  std::thread renewing;
};

Worker::Worker(Options options, std::string settings)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(settings))) {
  Impl& self = *impl_;
  ensure_group(self.steering, self.keys);
  const Reply said = self.steer(kAgree, {self.keys.settings()}, {self.settings, text_of(self.options.lease)});
  if (!said.text.empty()) {
    throw UserError(
        {.where = "queue " + self.options.name,
         .what = "its workers work by other settings: theirs are \"" + said.text + "\", ours \"" + self.settings + "\"",
         .fix = "start with the same, take another --queue-name, or stop them and wait " + text_of(self.options.lease) +
                " ms"});
  }
  self.renewing = std::thread([this] { impl_->keep_renewing(); });
}

Worker::~Worker() {
  {
    const std::lock_guard lock(impl_->held_mutex);
    impl_->stop = true;
  }
  impl_->stopping.notify_all();
  impl_->renewing.join();
  try {
    Connection::Options quick = connection_options(impl_->options);
    quick.patience = milliseconds(0);
    Connection connection(quick);
    connection.script(kSweep, {impl_->keys.items()}, {std::string(kGroup), impl_->name, "3600000"});
  } catch (const std::exception&) {
    // Its name stays in the group; another worker strikes it off.
  }
}

std::optional<Item> Worker::Impl::claim_from_the_lost() {
  if (Clock::now() < next_claim) return std::nullopt;
  // Redis looks at a few entries a call and says where to go on; at the start again, all have been looked at.
  Reply reply;
  do {
    reply = taking.run(
        {"XAUTOCLAIM", keys.items(), std::string(kGroup), name, text_of(options.lease), claim_from, "COUNT", "1"});
    const bool usable = reply.kind == Reply::Kind::kList && reply.items.size() >= 2;
    claim_from = usable ? reply.items[0].text : "0-0";
    if (claim_from == "0-0") next_claim = Clock::now() + options.lease / 4;
    if (!usable) return std::nullopt;
  } while (reply.items[1].items.empty() && claim_from != "0-0");
  if (reply.items[1].items.empty()) return std::nullopt;
  std::optional<Item> item = read_entry(reply.items[1].items[0]);
  if (!item) return std::nullopt;
  // Redis counts how often this entry was given out; `tries` knows of the entries before it.
  const Reply pending = taking.run({"XPENDING", keys.items(), std::string(kGroup), item->entry, item->entry, "1"});
  const bool known = !pending.items.empty() && pending.items[0].items.size() == 4;
  const int given_out = known ? static_cast<int>(pending.items[0].items[3].number) : 2;
  item->tries += given_out - 1;
  if (item->tries > options.max_tries) {
    move(*item, item->tries - 1, options.max_tries, "each of the workers that took it was lost while it held it");
    return std::nullopt;
  }
  return item;
}

std::optional<Item> Worker::Impl::read_new(milliseconds wait) {
  const Reply reply = taking.run({"XREADGROUP", "GROUP", std::string(kGroup), name, "COUNT", "1", "BLOCK",
                                  text_of(std::max(wait, milliseconds(1))), "STREAMS", keys.items(), ">"},
                                 wait);
  if (reply.kind == Reply::Kind::kError) {
    if (reply.text.starts_with("NOGROUP") || reply.text.starts_with("UNBLOCKED")) {
      ensure_group(taking, keys);  // Redis came back empty; the producers put in again what they still wait for.
      return std::nullopt;
    }
    throw UserError(
        {.where = options.address.shown(), .what = "Redis gives no items: " + reply.text, .fix = "look at its log"});
  }
  if (reply.items.empty() || reply.items[0].items.size() != 2 || reply.items[0].items[1].items.empty())
    return std::nullopt;
  return read_entry(reply.items[0].items[1].items[0]);
}

std::optional<Item> Worker::take(milliseconds wait) {
  Impl& self = *impl_;
  const auto until = Clock::now() + wait;
  while (true) {
    std::optional<Item> item = self.claim_from_the_lost();
    const auto left = std::chrono::duration_cast<milliseconds>(until - Clock::now());
    // Never longer than until the next look at what the lost ones held.
    if (!item)
      item = self.read_new(std::clamp(left, milliseconds(1), std::max(self.options.lease / 4, milliseconds(1))));
    if (item) {
      bool shy = false;
      {
        const std::lock_guard lock(self.failed_mutex);
        std::erase_if(self.failed_here,
                      [&](const auto& entry) { return Clock::now() - entry.second > self.shyness(); });
        shy = self.failed_here.contains(item->key);
      }
      if (!shy) {
        self.hold(*item);
        return item;
      }
      // Another worker should try it; if there is none, we do, a little later.
      self.move(*item, item->tries - 1, self.options.max_tries + 1, "");
      std::this_thread::sleep_for(std::min(milliseconds(100), self.options.lease / 8));
    }
    if (Clock::now() >= until) return std::nullopt;
  }
}

bool Worker::complete(const Item& item, const std::string& bytes) {
  Impl& self = *impl_;
  const Reply reply = self.steer(kComplete, {self.keys.items(), self.keys.open(item.key), self.keys.result(item.key)},
                                 {std::string(kGroup), item.entry, "+" + bytes, seconds_text(self.options.keep)});
  self.release(item);
  return reply.number == 1;
}

void Worker::fail(const Item& item, const std::string& reason) {
  {
    const std::lock_guard lock(impl_->failed_mutex);
    impl_->failed_here[item.key] = Clock::now();
  }
  impl_->move(item, item.tries, impl_->options.max_tries, reason);
}

void Worker::hand_back(const Item& item) { impl_->move(item, item.tries - 1, impl_->options.max_tries + 1, ""); }

std::size_t Worker::held() const {
  const std::lock_guard lock(impl_->held_mutex);
  return impl_->held.size();
}

State Worker::state() {
  const std::lock_guard lock(impl_->steering_mutex);
  return read_state(impl_->steering, impl_->keys);
}

}  // namespace autotriton::queue
