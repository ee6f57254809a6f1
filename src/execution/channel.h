#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "execution/unique_fd.h"

/// Framed records over a Unix stream socket; the twin of worker/protocol.py.
///
/// A record is the magic `ATR1`, its body's length (32 bits, little-endian), the body (a JSON object) and up to eight
/// descriptors. This class moves bytes and checks frames; what a body means is its user's business.
namespace autotriton::execution {

struct Frame {
  std::string body;
  std::vector<UniqueFd> descriptors;
};

inline constexpr std::size_t kMaxFrameBytes = std::size_t{8} << 20;
inline constexpr std::size_t kMaxFrameDescriptors = 8;

/// Header and body as they stand on the wire.
std::string encode_frame(std::string_view body);

class Channel {
 public:
  explicit Channel(UniqueFd socket, std::size_t max_bytes = kMaxFrameBytes)
      : socket_(std::move(socket)), max_bytes_(max_bytes) {}

  int fd() const { return socket_.get(); }

  /// Sends one record. False if the peer is gone. Waits where the socket is full, `timeout_ms` at most.
  bool send(std::string_view body, std::span<const int> descriptors = {}, int timeout_ms = 30'000);

  enum class State { kFrame, kNothingYet, kClosed, kMalformed };

  /// Takes what is there without waiting. kFrame fills `frame`; kMalformed is final: the peer does not speak the
  /// protocol.
  State receive(Frame& frame);

 private:
  UniqueFd socket_;
  std::size_t max_bytes_;
  std::string buffer_;
  std::vector<UniqueFd> descriptors_;
};

}  // namespace autotriton::execution
