#include "base/interrupt.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <csignal>

#include "base/error.h"

namespace autotriton {
namespace {

bool readable(int descriptor) {
  pollfd item{descriptor, POLLIN, 0};
  return ::poll(&item, 1, 0) == 1;
}

TEST(InterruptGuardTest, OneSignalIsSeenAndNothingEnds) {
  const InterruptGuard guard;
  EXPECT_FALSE(guard.requested());
  EXPECT_FALSE(readable(guard.descriptor()));
  std::raise(SIGTERM);
  EXPECT_TRUE(guard.requested());
  EXPECT_EQ(guard.signal(), SIGTERM);
  EXPECT_TRUE(readable(guard.descriptor()));
}

TEST(InterruptGuardTest, ANewGuardStartsAfresh) {
  {
    const InterruptGuard guard;
    std::raise(SIGINT);
  }
  const InterruptGuard guard;
  EXPECT_FALSE(guard.requested());
}

TEST(InterruptGuardTest, TheOldHandlerComesBack) {
  static int calls = 0;
  const auto previous = std::signal(SIGINT, [](int) { ++calls; });
  { const InterruptGuard guard; }
  std::raise(SIGINT);
  EXPECT_EQ(calls, 1);
  std::signal(SIGINT, previous);
}

TEST(InterruptGuardTest, TwoAtATimeAreOurBug) {
  const InterruptGuard guard;
  EXPECT_THROW(InterruptGuard(), InvariantError);
  EXPECT_FALSE(guard.requested());
}

TEST(InterruptGuardDeathTest, TheSecondSignalEndsTheProcess) {
  EXPECT_EXIT(
      {
        const InterruptGuard guard;
        std::raise(SIGINT);
        std::raise(SIGINT);
        std::_Exit(0);
      },
      testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace autotriton
