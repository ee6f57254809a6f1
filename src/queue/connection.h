#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "queue/address.h"

struct redisContext;

namespace autotriton::queue {

/// What Redis answered.
struct Reply {
  enum class Kind { kNil, kNumber, kText, kError, kList };
  Kind kind = Kind::kNil;
  long long number = 0;
  std::string text;  ///< Of an error, too.
  std::vector<Reply> items;
};

/// One connection that comes back by itself: while the server is away, a command is tried again, at growing intervals,
/// until `patience` is over. So each command must be one that may run twice. Not thread-safe.
class Connection {
 public:
  struct Options {
    Address address;
    std::chrono::milliseconds patience{60'000};
    std::function<bool()> interrupted{};  ///< Asked between tries; may be empty.
  };

  explicit Connection(Options options);
  Connection(Connection&&) noexcept;
  ~Connection();

  /// Runs a command that the server may hold up to `block`. Throws UserError where the server stays away, does not let
  /// us in or is too old; Interrupted where the caller's user is done waiting. Other errors of Redis are returned.
  Reply run(const std::vector<std::string>& arguments, std::chrono::milliseconds block = {});

  /// Runs a Lua script; Redis runs it as one step.
  Reply script(std::string_view text, const std::vector<std::string>& keys, const std::vector<std::string>& arguments);

 private:
  struct Closer {
    void operator()(redisContext* context) const;
  };
  std::string open();
  /// Empty `reply`: the connection broke, and `problem` says how.
  bool send(const std::vector<std::string>& arguments, std::chrono::milliseconds block, Reply& reply,
            std::string& problem);

  const Options options_;
  std::unique_ptr<redisContext, Closer> context_;
};

}  // namespace autotriton::queue
