#pragma once

#include <optional>
#include <string_view>

#include "syntax/syntax.h"

namespace autotriton::syntax {

/// Finds what makes `source` unreadable before any parsing: invalid UTF-8, a NUL byte, or an encoding declaration under
/// which Python would read other text than we do. Empty when it is fine.
std::optional<ParseFailure> find_text_problem(std::string_view source);

}  // namespace autotriton::syntax
