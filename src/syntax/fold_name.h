#pragma once

#include <string>
#include <string_view>

namespace autotriton::syntax {

/// Spells an identifier as Python compares it where that matters: characters that Unicode's NFKC turns into ASCII
/// letters, digits or underscores (full-width, mathematical, ligatures, …) are replaced, so that a disguised `exec` is
/// `exec`. Other characters stay. `utf8` must be valid UTF-8.
std::string fold_name(std::string_view utf8);

}  // namespace autotriton::syntax
