#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace autotriton {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

TEST(LoggerTest, KeepsWhatIsAtOrAboveItsLevelAndBracesAsTheyAre) {
  std::vector<std::pair<LogLevel, std::string>> lines;
  const Logger logger(LogLevel::kWarning,
                      [&](LogLevel level, std::string_view line) { lines.emplace_back(level, line); });
  logger.debug("d");
  logger.info("i");
  logger.warning("w {} %s");
  logger.error("e");
  EXPECT_THAT(lines, ElementsAre(Pair(LogLevel::kWarning, "w {} %s"), Pair(LogLevel::kError, "e")));
  EXPECT_FALSE(logger.shows(LogLevel::kInfo));
  EXPECT_TRUE(logger.shows(LogLevel::kError));
}

TEST(LoggerTest, StandardErrorGetsTheLineAndStandardOutputNothing) {
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  Logger::to_standard_error(LogLevel::kInfo).info("worker 3 restarted");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("info: worker 3 restarted\n"));
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

TEST(ParseLogLevelTest, KnowsTheNamesAndOffersThemOtherwise) {
  EXPECT_EQ(parse_log_level("debug", "x"), LogLevel::kDebug);
  EXPECT_EQ(parse_log_level("error", "x"), LogLevel::kError);
  try {
    parse_log_level("loud", "AUTOTRITON_LOG");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "AUTOTRITON_LOG: no log level `loud`; use one of debug, info, warning, error");
  }
}

}  // namespace
}  // namespace autotriton
