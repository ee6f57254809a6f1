#include "execution/channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/error.h"

namespace autotriton::execution {
namespace {

constexpr std::string_view kMagic = "ATR1";
constexpr std::size_t kHeaderBytes = 8;

std::uint32_t read_length(const char* at) {
  std::uint32_t length = 0;
  for (int byte = 3; byte >= 0; --byte) length = (length << 8) | static_cast<unsigned char>(at[byte]);
  return length;
}

}  // namespace

void UniqueFd::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

std::string encode_frame(std::string_view body) {
  check(body.size() <= kMaxFrameBytes, "a record fits its frame");
  std::string bytes(kMagic);
  auto length = static_cast<std::uint32_t>(body.size());
  for (int byte = 0; byte < 4; ++byte, length >>= 8) bytes.push_back(static_cast<char>(length & 0xFF));
  return bytes.append(body);
}

bool Channel::send(std::string_view body, std::span<const int> descriptors, int timeout_ms) {
  check(descriptors.size() <= kMaxFrameDescriptors, "few descriptors in a record");
  const std::string bytes = encode_frame(body);
  std::size_t sent = 0;
  bool first = true;
  while (sent < bytes.size()) {
    iovec part{const_cast<char*>(bytes.data()) + sent, first ? kHeaderBytes : bytes.size() - sent};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    std::array<char, CMSG_SPACE(sizeof(int) * kMaxFrameDescriptors)> control{};
    if (first && !descriptors.empty()) {
      message.msg_control = control.data();
      message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
      std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
    }
    const ssize_t count = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) {
      sent += static_cast<std::size_t>(count);
      first = false;
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return false;
    pollfd writable{socket_.get(), POLLOUT, 0};
    if (::poll(&writable, 1, timeout_ms) <= 0) return false;
  }
  return true;
}

Channel::State Channel::receive(Frame& frame) {
  while (true) {
    std::size_t missing = kHeaderBytes - std::min(kHeaderBytes, buffer_.size());
    if (buffer_.size() >= kHeaderBytes) {
      if (std::string_view(buffer_).substr(0, kMagic.size()) != kMagic) return State::kMalformed;
      const std::size_t length = read_length(buffer_.data() + kMagic.size());
      if (length > max_bytes_) return State::kMalformed;
      if (buffer_.size() >= kHeaderBytes + length) {
        frame.body = buffer_.substr(kHeaderBytes, length);
        frame.descriptors = std::move(descriptors_);
        descriptors_.clear();
        buffer_.erase(0, kHeaderBytes + length);
        return State::kFrame;
      }
      missing = kHeaderBytes + length - buffer_.size();
    }
    // Not a byte of the next frame: the kernel would hand over its descriptors with this one's.
    std::array<char, 65536> bytes;
    std::array<char, CMSG_SPACE(sizeof(int) * kMaxFrameDescriptors)> control{};
    iovec part{bytes.data(), std::min(bytes.size(), missing)};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t count = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (count < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN ? State::kNothingYet : State::kClosed;
    }
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
      if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
      const std::size_t many = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t index = 0; index < many; ++index) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(header) + index * sizeof(int), sizeof fd);
        descriptors_.emplace_back(fd);
      }
    }
    if ((message.msg_flags & MSG_CTRUNC) != 0 || descriptors_.size() > kMaxFrameDescriptors) return State::kMalformed;
    if (count == 0) return buffer_.empty() ? State::kClosed : State::kMalformed;
    buffer_.append(bytes.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace autotriton::execution
