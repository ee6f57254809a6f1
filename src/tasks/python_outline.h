#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

/// The top level of a Python text at a glance: which names it defines, without a parser. Enough to tell what a problem
/// holds and which block of an answer is the code; what the code does is for `syntax` and `rules` to say.
namespace autotriton::tasks {

enum class DefinitionKind { kImport, kFunction, kClass, kAssignment };

struct Definition {
  DefinitionKind kind = DefinitionKind::kAssignment;
  std::string name;
  std::size_t line = 0;  ///< Counted from 1.
  bool jit = false;      ///< A function with `jit` in a decorator.
};

struct PythonOutline {
  std::string code_only;                ///< The text with comments and the inside of strings as spaces, lines kept.
  std::vector<Definition> definitions;  ///< Names bound at column 0, in order; one may come twice.

  const Definition* find(std::string_view name) const;  ///< The last definition of `name`, or null.
  /// Names read or written anywhere, except attributes (`b` of `a.b`), each with the offset of its first use.
  std::map<std::string, std::size_t, std::less<>> names_used() const;
};

PythonOutline outline_of(std::string_view source);

/// Splits at line ends, which are left out; a text that ends with one has no empty line more.
std::vector<std::string_view> lines_of(std::string_view text);

/// Returns `text` without white space at both ends.
std::string_view trimmed(std::string_view text);

}  // namespace autotriton::tasks
