#include "execution/channel.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"

namespace autotriton::execution {
namespace {

using Json = nlohmann::json;
using State = Channel::State;
using testing::HasSubstr;

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t at = 0; at + 1 < hex.size(); at += 2)
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(at, 2), nullptr, 16)));
  return bytes;
}

/// The golden records that worker/protocol_test.py reads as well.
std::vector<Json> golden(const std::string& state) {
  std::ifstream file(AUTOTRITON_SOURCE_DIR "/worker/testdata/records.jsonl");
  std::vector<Json> records;
  for (std::string line; std::getline(file, line);) {
    Json record = Json::parse(line);
    if (record.value("state", "good") == state) records.push_back(std::move(record));
  }
  return records;
}

struct Ends {
  UniqueFd peer;  ///< Raw: a test writes what it likes.
  UniqueFd other;
};

Ends ends() {
  std::array<int, 2> fds{-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()), 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

void write_raw(const UniqueFd& peer, std::string_view bytes) {
  ASSERT_EQ(::send(peer.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
}

/// Sends `bytes` with `count` descriptors of one empty memory file, as no well-behaved peer would.
void write_with_descriptors(const UniqueFd& peer, std::string_view bytes, std::size_t count) {
  const UniqueFd file(::memfd_create("test", MFD_CLOEXEC));
  std::vector<int> fds(count, file.get());
  std::vector<char> control(CMSG_SPACE(count * sizeof(int)));
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(count * sizeof(int));
  std::memcpy(CMSG_DATA(header), fds.data(), count * sizeof(int));
  ASSERT_EQ(::sendmsg(peer.get(), &message, MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

TEST(ChannelGoldenTest, FramesAreTheGoldenBytes) {
  const auto records = golden("good");
  ASSERT_GE(records.size(), 7U);
  for (const Json& record : records) {
    EXPECT_EQ(encode_frame(record["body"].get<std::string>()), from_hex(record["bytes"])) << record["name"];
  }
}

TEST(ChannelGoldenTest, GoldenBytesAreReceivedAsTheirBodies) {
  for (const Json& record : golden("good")) {
    Ends pair = ends();
    Channel channel(std::move(pair.other));
    write_raw(pair.peer, from_hex(record["bytes"]));
    Frame frame;
    ASSERT_EQ(channel.receive(frame), State::kFrame) << record["name"];
    EXPECT_EQ(frame.body, record["body"].get<std::string>()) << record["name"];
    EXPECT_TRUE(frame.descriptors.empty());
    EXPECT_EQ(channel.receive(frame), State::kNothingYet) << record["name"];
  }
}

TEST(ChannelGoldenTest, WhatIsNoRecordIsMalformed) {
  const auto records = golden("malformed");
  ASSERT_GE(records.size(), 6U);
  for (const Json& record : records) {
    Ends pair = ends();
    Channel channel(std::move(pair.other));
    write_raw(pair.peer, from_hex(record["bytes"]));
    pair.peer.reset();
    Frame frame;
    EXPECT_EQ(channel.receive(frame), State::kMalformed) << record["name"];
  }
}

TEST(ChannelGoldenTest, AnEndBetweenRecordsIsClosed) {
  for (const Json& record : golden("closed")) {
    Ends pair = ends();
    Channel channel(std::move(pair.other));
    ASSERT_EQ(record["bytes"], "");
    pair.peer.reset();
    Frame frame;
    EXPECT_EQ(channel.receive(frame), State::kClosed);
  }
}

TEST(ChannelTest, ALengthIsFourBytesTheLowestFirst) {
  const std::string frame = encode_frame(std::string(0x012345, 'x'));
  EXPECT_EQ(frame.substr(0, 8), std::string("ATR1\x45\x23\x01\x00", 8));
}

TEST(ChannelTest, AFrameThatComesByteByByteIsWholeOnlyAtItsEnd) {
  Ends pair = ends();
  Channel channel(std::move(pair.other));
  const std::string bytes = encode_frame(R"({"type":"slow"})");
  Frame frame;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    EXPECT_EQ(channel.receive(frame), State::kNothingYet) << "before byte " << at;
    write_raw(pair.peer, std::string_view(bytes).substr(at, 1));
  }
  ASSERT_EQ(channel.receive(frame), State::kFrame);
  EXPECT_EQ(frame.body, R"({"type":"slow"})");
}

TEST(ChannelTest, AWrongMagicIsMalformedWithoutWaitingForItsBody) {
  Ends pair = ends();
  Channel channel(std::move(pair.other));
  write_raw(pair.peer, std::string_view("ATRX\xff\x00\x00\x00", 8));
  Frame frame;
  EXPECT_EQ(channel.receive(frame), State::kMalformed);
}

TEST(ChannelTest, AChannelsOwnLimitHoldsToTheByte) {
  for (const std::size_t size : {100U, 101U}) {
    Ends pair = ends();
    Channel channel(std::move(pair.other), 100);
    write_raw(pair.peer, encode_frame(std::string(size, ' ')));
    Frame frame;
    EXPECT_EQ(channel.receive(frame), size == 100 ? State::kFrame : State::kMalformed) << size;
  }
}

TEST(ChannelTest, TwoFramesInOnePacketComeOneAfterTheOther) {
  Ends pair = ends();
  Channel channel(std::move(pair.other));
  write_raw(pair.peer, encode_frame("first") + encode_frame("second"));
  Frame frame;
  ASSERT_EQ(channel.receive(frame), State::kFrame);
  EXPECT_EQ(frame.body, "first");
  ASSERT_EQ(channel.receive(frame), State::kFrame);
  EXPECT_EQ(frame.body, "second");
}

TEST(ChannelTest, AnEmptyBodyIsAFrame) {
  Ends pair = ends();
  Channel channel(std::move(pair.other));
  write_raw(pair.peer, encode_frame(""));
  Frame frame;
  frame.body = "left over";
  ASSERT_EQ(channel.receive(frame), State::kFrame);
  EXPECT_EQ(frame.body, "");
}

TEST(ChannelTest, DescriptorsComeWithTheFrameThatTheyWereSentWith) {
  Ends pair = ends();
  Channel ours(std::move(pair.peer));
  Channel theirs(std::move(pair.other));
  std::vector<UniqueFd> files;
  std::vector<int> fds;
  for (char index = 0; index < static_cast<char>(kMaxFrameDescriptors); ++index) {
    files.emplace_back(::memfd_create("test", MFD_CLOEXEC));
    fds.push_back(files.back().get());
    ASSERT_EQ(::write(fds.back(), &index, 1), 1);
  }
  ASSERT_TRUE(ours.send("none"));
  ASSERT_TRUE(ours.send("eight", fds));
  ASSERT_TRUE(ours.send("none again"));
  Frame frame;
  ASSERT_EQ(theirs.receive(frame), State::kFrame);
  EXPECT_EQ(frame.body, "none");
  EXPECT_EQ(frame.descriptors.size(), 0U);
  ASSERT_EQ(theirs.receive(frame), State::kFrame);
  EXPECT_EQ(frame.body, "eight");
  ASSERT_EQ(frame.descriptors.size(), kMaxFrameDescriptors);
  for (std::size_t index = 0; index < frame.descriptors.size(); ++index) {
    char content = -1;
    EXPECT_EQ(::pread(frame.descriptors[index].get(), &content, 1, 0), 1);
    EXPECT_EQ(content, static_cast<char>(index));
    EXPECT_NE(::fcntl(frame.descriptors[index].get(), F_GETFD) & FD_CLOEXEC, 0);
  }
  ASSERT_EQ(theirs.receive(frame), State::kFrame);
  EXPECT_EQ(frame.body, "none again");
  EXPECT_EQ(frame.descriptors.size(), 0U);
}

TEST(ChannelTest, TooManyDescriptorsAreMalformedAndNoneStaysOpen) {
  const std::size_t before = open_descriptors();
  for (const std::size_t count : {9U, 60U}) {
    Ends pair = ends();
    Channel channel(std::move(pair.other));
    write_with_descriptors(pair.peer, encode_frame("many"), count);
    Frame frame;
    EXPECT_EQ(channel.receive(frame), State::kMalformed) << count;
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(ChannelTest, DescriptorsDrippedOverOneFrameDoNotPileUp) {
  Ends pair = ends();
  Channel channel(std::move(pair.other));
  const std::string bytes = encode_frame(std::string(40, ' '));
  Frame frame;
  State last = State::kNothingYet;
  for (std::size_t at = 0; at < bytes.size() && last == State::kNothingYet; ++at) {
    write_with_descriptors(pair.peer, std::string_view(bytes).substr(at, 1), 1);
    last = channel.receive(frame);
  }
  EXPECT_EQ(last, State::kMalformed);
}

TEST(ChannelTest, SendingToAClosedPeerIsFalseAndNotDeath) {
  Ends pair = ends();
  Channel channel(std::move(pair.other));
  pair.peer.reset();
  EXPECT_FALSE(channel.send("anyone there?"));
}

TEST(ChannelTest, APeerThatDoesNotReadStopsASendAtItsTimeout) {
  Ends pair = ends();
  Channel channel(std::move(pair.other));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(channel.send(std::string(kMaxFrameBytes, ' '), {}, /*timeout_ms=*/100));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(ChannelTest, TheLargestFramePassesWhileThePeerReads) {
  Ends pair = ends();
  Channel ours(std::move(pair.peer));
  Channel theirs(std::move(pair.other));
  std::string body(kMaxFrameBytes, 'x');
  body.back() = 'y';
  bool sent = false;
  std::thread sender([&] { sent = ours.send(body); });
  Frame frame;
  State state = State::kNothingYet;
  while (state == State::kNothingYet) state = theirs.receive(frame);
  sender.join();
  EXPECT_TRUE(sent);
  ASSERT_EQ(state, State::kFrame);
  EXPECT_TRUE(frame.body == body);
}

TEST(ChannelTest, ABodyOverTheLimitIsOurBug) {
  EXPECT_THROW(encode_frame(std::string(kMaxFrameBytes + 1, ' ')), InvariantError);
}

}  // namespace
}  // namespace autotriton::execution
