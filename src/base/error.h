#pragma once

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

/// Errors of two kinds: what the user can mend, and what only we can.
///
///     throw UserError({.where = "pairs.jsonl:12", .what = "no field `candidate` or `answer`", .fix = "add one of
///     them"}); check(offset <= size, "offset inside the buffer");
///
/// An expected outcome, such as a kernel that fails, is a value and not an error.
namespace autotriton {

/// Where it happened, what is wrong, and what to do about it; each a clause without a full stop.
struct ErrorText {
  std::string where;
  std::string what;
  std::string fix;
};

/// Bad input. `what()` reads "where: what; fix". The command line prints it and exits with 2.
class UserError : public std::runtime_error {
 public:
  explicit UserError(const ErrorText& text);
  const ErrorText& text() const { return text_; }

 private:
  ErrorText text_;
};

/// The machine lacks something that we need, such as a way to confine answers. The command line exits with 4.
class SetupError : public UserError {
 public:
  using UserError::UserError;
};

/// Ctrl-C came while something could not be put away as a value. The command line exits with 130.
class Interrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A fault of this program. The command line asks for a report and exits with 4.
class InvariantError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// Throws InvariantError with the caller's file and line unless `condition` holds.
void check(bool condition, std::string_view message, std::source_location location = std::source_location::current());

}  // namespace autotriton
