#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

/// Bytes that should be text: is it UTF-8, and the same lines whatever editor wrote them.
namespace autotriton {

/// Returns the offset of the first byte that is no UTF-8 (an overlong form, a surrogate, a value past U+10FFFF or a
/// character cut off at the end is none either); empty if all of `bytes` is.
std::optional<std::size_t> first_invalid_utf8(std::string_view bytes);

/// Returns `text` without a byte-order mark at its start and with each CR LF or lone CR as one LF.
/// Python reads a lone CR as the end of a line, so text that keeps one would show a reader other lines than Python's.
std::string with_plain_lines(std::string_view text);

/// Checks that `bytes` are UTF-8 and returns them with plain lines. Throws UserError (`where`, byte offset) if not.
std::string decode_text(std::string_view bytes, std::string_view where);

}  // namespace autotriton
