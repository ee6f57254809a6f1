#include "base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace autotriton {
namespace {

TEST(UserErrorTest, SaysWhereWhatAndWhatToDo) {
  const UserError error({.where = "a.toml:3", .what = "no such key", .fix = "did you mean `seed`?"});
  EXPECT_STREQ(error.what(), "a.toml:3: no such key; did you mean `seed`?");
}

TEST(UserErrorTest, LeavesOutPartsThatAreEmpty) {
  EXPECT_STREQ(UserError({.where = "", .what = "empty", .fix = ""}).what(), "empty");
}

TEST(CheckTest, AFailedCheckNamesFileAndMessage) {
  EXPECT_THROW(
      {
        try {
          check(false, "sizes agree");
        } catch (const InvariantError& error) {
          EXPECT_THAT(error.what(),
                      testing::AllOf(testing::HasSubstr("error_test.cpp"), testing::HasSubstr("sizes agree")));
          throw;
        }
      },
      InvariantError);
}

}  // namespace
}  // namespace autotriton
