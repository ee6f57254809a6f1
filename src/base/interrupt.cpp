#include "base/interrupt.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <utility>

#include "base/error.h"

namespace autotriton {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM};

// A handler can reach nothing but globals; these belong to the one guard that lives.
std::atomic<bool> guarded{false};
std::atomic<int> received{0};
std::atomic<int> event{-1};
std::array<struct sigaction, kSignals.size()> before;

static_assert(std::atomic<int>::is_always_lock_free, "safe in a signal handler");

void on_signal(int number) {
  const int error = errno;
  int none = 0;
  if (received.compare_exchange_strong(none, number)) {
    const std::uint64_t one = 1;
    if (::write(event, &one, sizeof one) < 0) received = number;  // Cannot fail: the counter is far from full.
  } else {
    ::signal(number, SIG_DFL);
    ::raise(number);
  }
  errno = error;
}

}  // namespace

InterruptGuard::InterruptGuard() {
  check(!guarded.exchange(true), "one InterruptGuard at a time");
  received = 0;
  event = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  check(event >= 0, "an event descriptor can be made");
  struct sigaction action {};
  action.sa_handler = on_signal;
  ::sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &action, &before[i]);
}

InterruptGuard::~InterruptGuard() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before[i], nullptr);
  ::close(event.exchange(-1));
  guarded = false;
}

int InterruptGuard::signal() const { return received; }
int InterruptGuard::descriptor() const { return event; }

}  // namespace autotriton
