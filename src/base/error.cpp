#include "base/error.h"

namespace autotriton {
namespace {

std::string join(const ErrorText& text) {
  std::string joined = text.where.empty() ? text.what : text.where + ": " + text.what;
  if (!text.fix.empty()) joined += "; " + text.fix;
  return joined;
}

}  // namespace

UserError::UserError(const ErrorText& text) : std::runtime_error(join(text)), text_(text) {}

void check(bool condition, std::string_view message, std::source_location location) {
  if (condition) return;
  throw InvariantError(std::string(location.file_name()) + ":" + std::to_string(location.line()) + ": " +
                       std::string(message));
}

}  // namespace autotriton
