#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "queue/address.h"

/// Work for many machines, over Redis Streams: bytes in, bytes out.
///
///     Producer producer(options);
///     producer.put(key, bytes);                        // the same key twice is one item
///     for (Outcome& outcome : producer.collect(keys)) { store(outcome); producer.forget(outcome.key); }
///
///     Worker worker(options, "v7 sm_90");
///     while (auto item = worker.take(1s)) worker.complete(*item, work_on(item->bytes));
///
/// What holds, whatever is killed when: an item is worked on until it has a result or `max_tries` workers failed on it;
/// its first result stands and later ones are dropped; a worker keeps an item as long as it lives, however long that
/// takes. README.md names the keys in Redis.
namespace autotriton::queue {

struct Options {
  Address address;
  std::string name = "autotriton";             ///< Several queues may share a server.
  int max_tries = 3;                           ///< Then an item is a dead letter.
  std::chrono::milliseconds lease{30'000};     ///< A worker that was silent for so long has lost its items.
  std::size_t max_waiting = 10'000;            ///< Items in the queue; `put` says kFull beyond.
  std::chrono::milliseconds patience{60'000};  ///< How long Redis may be away.
  std::chrono::seconds keep{7 * 86'400};       ///< How long a result waits to be collected.
  std::function<bool()> interrupted{};         ///< Ends the waiting for a Redis that is away; may be empty.
};

/// How many there are of what.
struct State {
  std::size_t waiting = 0;  ///< No worker has them.
  std::size_t held = 0;     ///< Being worked on, or with a worker that died.
  std::size_t dead = 0;     ///< Dead letters.
  std::string settings;     ///< What the workers that are there agreed on; empty: none is there.
};

/// What became of an item.
struct Outcome {
  std::string key;
  bool dead = false;
  std::string bytes;  ///< The result; of a dead letter, why.
};

/// Puts items in and gets results out. Not thread-safe.
class Producer {
 public:
  enum class Put : std::uint8_t { kAdded, kKnown, kFull };

  /// Throws UserError where Redis cannot be used.
  explicit Producer(Options options);
  Producer(Producer&&) noexcept;
  ~Producer();

  /// kKnown: the key is in the queue, or its result is there. `key` names the item for good: take a digest of `bytes`.
  Put put(const std::string& key, const std::string& bytes);
  /// Those of `keys` that have a result or are dead letters, in any order. They stay until they are forgotten.
  std::vector<Outcome> collect(std::span<const std::string> keys);
  /// Removes a result that is put away. Another producer that waits for the same key must put it again.
  void forget(const std::string& key);
  State state();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct Item {
  std::string key;
  std::string bytes;
  std::string entry;  ///< Its place in the stream.
  int tries = 1;      ///< This one included.
};

/// Takes items and puts results in. Thread-safe, but for `take`, which one thread calls. The constructor starts a
/// thread that renews the lease of all that is held.
class Worker {
 public:
  /// Workers of one queue must agree on `settings` (any text: how they work), or results would depend on who worked.
  /// Throws UserError where others that are there said something else.
  Worker(Options options, std::string settings);
  /// Items that are still held go to others when the lease is over.
  ~Worker();

  /// The next item, one that a lost worker held included; empty if none came within `wait`.
  std::optional<Item> take(std::chrono::milliseconds wait);

  /// Stores the result and strikes the item off, in one step. False: another worker's result was there first, or nobody
  /// asks for it any more, and this one was dropped.
  bool complete(const Item& item, const std::string& bytes);

  /// The item failed here, through no fault of its own: another worker tries it, or, after `max_tries`, it is a dead
  /// letter with this `reason`.
  void fail(const Item& item, const std::string& reason);

  /// Puts an item back that was not begun. It costs no try.
  void hand_back(const Item& item);

  std::size_t held() const;
  State state();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace autotriton::queue
