#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "syntax/syntax.h"

namespace autotriton::syntax {

/// Finds what makes `source` unreadable before any parsing: invalid UTF-8, a NUL byte, or an encoding declaration under
/// which Python would read other text than we do. Empty when it is fine.
std::optional<ParseFailure> find_text_problem(std::string_view source);

/// Writes `return a, *b` on `line` (from 1) as `return(a, *b)`, which means the same and which the grammar knows.
/// False, and nothing changed, where the line is anything else. No other line moves.
bool bracket_starred_return(std::string& source, int line);

}  // namespace autotriton::syntax
