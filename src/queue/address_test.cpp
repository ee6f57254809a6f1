#include "queue/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace autotriton::queue {
namespace {

std::string error_of(std::string_view url) {
  try {
    Address::parse(url);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(AddressTest, ReadsHostPortDatabaseAndLogin) {
  Address address = Address::parse("redis://queue.example:7000/3");
  EXPECT_EQ(address.host, "queue.example");
  EXPECT_EQ(address.port, 7000);
  EXPECT_EQ(address.database, 3);
  EXPECT_EQ(address.password, "");
  EXPECT_EQ(Address::parse("redis://h").port, 6379);
  EXPECT_EQ(Address::parse("redis://h/").database, 0);
  address = Address::parse("redis://me:p%40s%2Fs@h:1");
  EXPECT_EQ(address.user, "me");
  EXPECT_EQ(address.password, "p@s/s");
  address = Address::parse("redis://:a@b@h");
  EXPECT_EQ(address.user, "");
  EXPECT_EQ(address.password, "a@b");
  EXPECT_EQ(address.host, "h");
  address = Address::parse("redis://[::1]:7000");
  EXPECT_EQ(address.host, "::1");
  EXPECT_EQ(address.shown(), "redis://[::1]:7000/0");
}

TEST(AddressTest, ReadsUnixSockets) {
  for (const std::string_view url : {"redis+unix:///run/redis.sock?db=2", "unix:///run/redis.sock?db=2"}) {
    const Address address = Address::parse(url);
    EXPECT_EQ(address.socket, "/run/redis.sock");
    EXPECT_EQ(address.database, 2);
    EXPECT_EQ(address.shown(), "redis+unix:///run/redis.sock?db=2");
  }
}

TEST(AddressTest, ThePasswordOfTheEnvironmentIsTakenWhereTheUrlHasNone) {
  EXPECT_EQ(Address::parse("redis://h", "secret").password, "secret");
  EXPECT_EQ(Address::parse("redis://me@h", "secret").password, "secret");
  EXPECT_EQ(Address::parse("redis://:other@h", "secret").password, "other");
}

TEST(AddressTest, NeverShowsAPassword) {
  EXPECT_EQ(Address::parse("redis://me:hunter2@h:1/2").shown(), "redis://h:1/2");
  for (const std::string_view url : {"redis://me:hunter2@h:port", "redis://:hunter2@", "http://:hunter2@h",
                                     "redis://:hunter2%zz@h", "redis://:hunter2@h/db", "rediss://:hunter2@h"})
    EXPECT_THAT(error_of(url), testing::Not(testing::HasSubstr("hunter2"))) << url;
}

TEST(AddressTest, SaysWhatIsWrong) {
  EXPECT_THAT(error_of("rediss://h"), testing::HasSubstr("TLS, which is not supported; use redis:// to a tunnel"));
  for (const std::string_view url :
       {"", "localhost:6379", "http://h", "redis://", "redis://:1", "redis://h:0", "redis://h:65536", "redis://h:1x",
        "redis://h/x", "redis://[::1", "redis://[::1]x", "unix://relative", "unix:///a?x=1", "redis://a%2@h"})
    EXPECT_THAT(error_of(url), testing::HasSubstr("--queue: ")) << url;
}

}  // namespace
}  // namespace autotriton::queue
