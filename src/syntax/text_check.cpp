#include "syntax/text_check.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace autotriton::syntax {
namespace {

/// Length of the valid UTF-8 sequence at `at`, or 0.
std::size_t sequence_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t index) { return static_cast<unsigned char>(text[index]); };
  const unsigned char lead = byte(at);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || at + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  }
  const unsigned char second = byte(at + 1);
  const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
  const bool outside = (lead == 0xed && second > 0x9f) || (lead == 0xf4 && second > 0x8f);
  return overlong || outside ? 0 : length;
}

/// The encoding that a comment in one of the first two lines declares (PEP 263), in lower case; empty if none.
std::string declared_encoding(std::string_view source) {
  std::size_t begin = 0;
  for (int line = 0; line < 2 && begin < source.size(); ++line) {
    const std::size_t end = std::min(source.find_first_of("\r\n", begin), source.size());
    std::string_view text = source.substr(begin, end - begin);
    begin = end + (source.substr(end).starts_with("\r\n") ? 2 : 1);
    if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
    const std::size_t comment = text.find_first_not_of(" \t\f");
    if (comment == std::string_view::npos) continue;
    if (text[comment] != '#') break;
    for (std::size_t at = text.find("coding", comment); at != std::string_view::npos;
         at = text.find("coding", at + 1)) {
      std::size_t value = at + 6;
      if (value >= text.size() || (text[value] != ':' && text[value] != '=')) continue;
      value = text.find_first_not_of(" \t", value + 1);
      std::string encoding;
      for (; value < text.size(); ++value) {
        const char c = text[value];
        if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '_' && c != '.') break;
        encoding += static_cast<char>(c == '_' ? '-' : std::tolower(static_cast<unsigned char>(c)));
      }
      if (!encoding.empty()) return encoding;
    }
  }
  return {};
}

}  // namespace

std::optional<ParseFailure> find_text_problem(std::string_view source) {
  int line = 1;
  std::size_t line_start = 0;
  for (std::size_t at = 0; at < source.size();) {
    const std::size_t length = source[at] == '\0' ? 0 : sequence_length(source, at);
    if (length == 0) {
      const bool is_nul = source[at] == '\0';
      return ParseFailure{.kind = ParseFailure::Kind::kNotText,
                          .line = line,
                          .column = static_cast<int>(at - line_start) + 1,
                          .message = is_nul ? "a NUL byte stands in the source; remove it"
                                            : "the source is not valid UTF-8 here; save it as UTF-8"};
    }
    if (source[at] == '\n') {
      ++line;
      line_start = at + 1;
    }
    at += length;
  }
  const std::string encoding = declared_encoding(source);
  if (!encoding.empty() && encoding != "utf-8" && encoding != "utf8" && encoding != "ascii" && encoding != "us-ascii") {
    return ParseFailure{.kind = ParseFailure::Kind::kNotText,
                        .line = 1,
                        .column = 1,
                        .message = "the source declares the encoding " + encoding + "; use UTF-8 and remove the line"};
  }
  return std::nullopt;
}

bool bracket_starred_return(std::string& source, int line) {
  std::size_t begin = 0;
  for (int passed = 1; passed < line; ++passed) {
    begin = source.find('\n', begin);
    if (begin == std::string::npos) return false;
    ++begin;
  }
  std::size_t end = std::min(source.find('\n', begin), source.size());
  while (end > begin && (source[end - 1] == ' ' || source[end - 1] == '\t' || source[end - 1] == '\r')) --end;
  begin = std::min(source.find_first_not_of(" \t", begin), end);
  constexpr std::string_view kReturn = "return ";
  const std::string_view statement = std::string_view(source).substr(begin, end - begin);
  // One plain line: nothing that could hide where it ends.
  if (!statement.starts_with(kReturn) || statement.find_first_of("\"'#\\;") != std::string_view::npos) return false;
  int depth = 0;
  bool is_starred = false;
  char before = ',';  // The last character that is no space.
  for (const char c : statement.substr(kReturn.size())) {
    if (c == '(' || c == '[' || c == '{') ++depth;
    if ((c == ')' || c == ']' || c == '}') && --depth < 0) return false;
    is_starred = is_starred || (c == '*' && before == ',' && depth == 0);
    if (c != ' ' && c != '\t') before = c;
  }
  if (depth != 0 || !is_starred || statement.find(',') == std::string_view::npos) return false;
  source.insert(end, 1, ')');
  source[begin + kReturn.size() - 1] = '(';
  return true;
}

}  // namespace autotriton::syntax
