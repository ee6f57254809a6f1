#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "execution/channel.h"
#include "fuzz/require.h"

/// Bytes of an untrusted process as frames. The first byte sets in which pieces they arrive; what the channel makes of
/// them must be what one plain pass over all bytes makes of them.
namespace {

using namespace autotriton::execution;

constexpr std::size_t kMaxBytes = 4096;

struct Read {
  std::vector<std::string> bodies;
  bool malformed = false;
};

Read plain_pass(std::string_view bytes) {
  Read read;
  while (!bytes.empty()) {
    // A wrong start is known once the header is there; an end inside a frame is as wrong.
    if (bytes.size() < 8 || bytes.substr(0, 4) != "ATR1") return read.malformed = true, read;
    std::uint32_t length = 0;
    std::memcpy(&length, bytes.data() + 4, 4);
    if (length > kMaxBytes || bytes.size() < 8 + std::size_t{length}) return read.malformed = true, read;
    read.bodies.emplace_back(bytes.substr(8, length));
    bytes.remove_prefix(8 + std::size_t{length});
  }
  return read;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > 32'768) return 0;
  const std::size_t piece = data[0] == 0 ? size : data[0];
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::array<int, 2> ends{-1, -1};
  FUZZ_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
  UniqueFd writer(ends[1]);
  Channel channel(UniqueFd(ends[0]), kMaxBytes);
  const Read due = plain_pass(bytes);
  Read got;
  bool closed = false;
  const auto take = [&] {
    Frame frame;
    while (!closed && !got.malformed) {
      const Channel::State state = channel.receive(frame);
      if (state == Channel::State::kNothingYet) return;
      if (state == Channel::State::kFrame) {
        FUZZ_REQUIRE(frame.descriptors.empty());
        got.bodies.push_back(std::move(frame.body));
      }
      closed = state == Channel::State::kClosed;
      got.malformed = state == Channel::State::kMalformed;
    }
  };
  for (std::size_t at = 0; at < bytes.size() && !got.malformed; at += piece) {
    const std::string_view part = bytes.substr(at, piece);
    FUZZ_REQUIRE(::write(writer.get(), part.data(), part.size()) == static_cast<ssize_t>(part.size()));
    take();
  }
  writer.reset();
  take();
  FUZZ_REQUIRE(got.malformed == due.malformed);
  FUZZ_REQUIRE(got.bodies == due.bodies);
  return 0;
}
