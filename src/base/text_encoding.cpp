#include "base/text_encoding.h"

#include "base/error.h"

namespace autotriton {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Returns the number of bytes of the well-formed character at the start of `rest` (Unicode 15, table 3-7), or 0.
std::size_t character_length(std::string_view rest) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(rest[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  std::size_t length = 0;
  unsigned char low = 0x80;  // Bounds of the second byte; each later one lies in 80..BF.
  unsigned char high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;   // Overlong below.
    if (lead == 0xED) high = 0x9F;  // Surrogates above.
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;   // Overlong below.
    if (lead == 0xF4) high = 0x8F;  // Past U+10FFFF above.
  } else {
    return 0;
  }
  if (rest.size() < length || byte(1) < low || byte(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xBF) return 0;
  }
  return length;
}

}  // namespace

std::optional<std::size_t> first_invalid_utf8(std::string_view bytes) {
  std::size_t at = 0;
  while (at < bytes.size()) {
    const std::size_t length = character_length(bytes.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return std::nullopt;
}

std::string with_plain_lines(std::string_view text) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::string plain;
  plain.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r') {
      plain += text[i];
      continue;
    }
    plain += '\n';
    if (i + 1 < text.size() && text[i + 1] == '\n') ++i;
  }
  return plain;
}

std::string decode_text(std::string_view bytes, std::string_view where) {
  if (const auto offset = first_invalid_utf8(bytes)) {
    static constexpr std::string_view kDigits = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(bytes[*offset]);
    throw UserError({.where = std::string(where),
                     .what = std::string("not UTF-8: byte 0x") + kDigits[byte >> 4] + kDigits[byte & 0xf] +
                             " at offset " + std::to_string(*offset),
                     .fix = "save the text as UTF-8"});
  }
  return with_plain_lines(bytes);
}

}  // namespace autotriton
