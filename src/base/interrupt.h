#pragma once

/// Ctrl-C and SIGTERM as a value to look at, so that work can be put away before leaving.
///
///     const InterruptGuard interrupt;
///     while (!interrupt.requested()) judge_the_next_one();   // or poll interrupt.descriptor() beside other ones
///
/// A second signal ends the process at once, as it would without us. Leaving the scope puts the old handlers back.
namespace autotriton {

class InterruptGuard {
 public:
  /// One at a time in a process; a second one throws InvariantError.
  InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  ~InterruptGuard();

  bool requested() const { return signal() != 0; }
  int signal() const;      ///< SIGINT, SIGTERM, or 0 while none came.
  int descriptor() const;  ///< Readable once a signal came, and from then on; nobody reads from it.
};

}  // namespace autotriton
