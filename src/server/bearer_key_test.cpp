#include "server/bearer_key.h"

#include <gtest/gtest.h>

namespace autotriton::server {
namespace {

TEST(BearerKeyTest, OnlyTheKeyItselfIsAdmitted) {
  const BearerKey key("secret");
  EXPECT_TRUE(key.admits("Bearer secret"));
  EXPECT_TRUE(key.admits("bearer secret"));
  for (const char* shown :
       {"", "secret", "Bearer ", "Bearer secret ", "Bearer secre", "Bearer Secret", "Basic secret", "Bearersecret"})
    EXPECT_FALSE(key.admits(shown)) << shown;
}

TEST(BearerKeyTest, AnEmptyKeyLetsEveryoneIn) {
  const BearerKey key("");
  EXPECT_FALSE(key.required());
  EXPECT_TRUE(key.admits(""));
}

}  // namespace
}  // namespace autotriton::server
