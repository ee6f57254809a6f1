#include "server/router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace autotriton::server {
namespace {

using testing::ElementsAre;
using testing::Pair;

Router with(std::initializer_list<std::pair<const char*, const char*>> routes) {
  Router router;
  for (const auto& [method, pattern] : routes) router.add(method, pattern, [](const Request&, const Reply&) {});
  return router;
}

TEST(RouterTest, APartInBracesMatchesOnePartAndIsDecoded) {
  const Router router = with({{"GET", "/results/{id}"}});
  const auto match = router.find("GET", "/results/a%2Fb");
  ASSERT_NE(match.handler, nullptr);
  EXPECT_EQ(match.pattern, "/results/{id}");
  EXPECT_THAT(match.parameters, ElementsAre(Pair("id", "a/b")));
  EXPECT_EQ(router.find("GET", "/results/").handler, nullptr);
  EXPECT_EQ(router.find("GET", "/results/a/b").handler, nullptr);
  EXPECT_EQ(router.find("GET", "/results").handler, nullptr);
}

TEST(RouterTest, AKnownPathWithAnotherMethodSaysWhatItTakes) {
  const Router router = with({{"GET", "/x"}, {"POST", "/x"}});
  const auto match = router.find("DELETE", "/x");
  EXPECT_EQ(match.handler, nullptr);
  EXPECT_EQ(match.allowed, "GET, POST");
  EXPECT_EQ(router.find("GET", "/y").allowed, "");
}

TEST(RouterTest, HeadIsAnsweredByGet) { EXPECT_NE(with({{"GET", "/x"}}).find("HEAD", "/x").handler, nullptr); }

TEST(RouterTest, ARouteIsAddedOnce) {
  Router router = with({{"GET", "/x"}});
  EXPECT_THROW(router.add("GET", "/x", {}), InvariantError);
}

TEST(RouterTest, ABrokenEscapeIsNoPath) {
  EXPECT_EQ(percent_decode("a%2", false), std::nullopt);
  EXPECT_EQ(percent_decode("a%zz", false), std::nullopt);
  EXPECT_EQ(percent_decode("a%00b", false), std::nullopt);
  EXPECT_EQ(percent_decode("a%41+", false), "aA+");
}

TEST(RouterTest, AQueryIsDecodedAndTheLastOfANameCounts) {
  EXPECT_THAT(parse_query("a=1&b=two+words%21&a=2&c").value(),
              ElementsAre(Pair("a", "2"), Pair("b", "two words!"), Pair("c", "")));
  EXPECT_EQ(parse_query("a=%"), std::nullopt);
  EXPECT_TRUE(parse_query("").value().empty());
}

}  // namespace
}  // namespace autotriton::server
