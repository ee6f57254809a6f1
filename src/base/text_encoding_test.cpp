#include "base/text_encoding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "base/error.h"

namespace autotriton {
namespace {

using testing::Eq;
using testing::HasSubstr;
using testing::Optional;

TEST(Utf8Test, AcceptsTheFirstAndLastCharacterOfEachLength) {
  EXPECT_EQ(first_invalid_utf8(""), std::nullopt);
  using namespace std::string_view_literals;  // It counts, so that a NUL may stand inside.
  EXPECT_EQ(first_invalid_utf8("\0 \x7F \xC2\x80 \xDF\xBF \xE0\xA0\x80 \xED\x9F\xBF \xEE\x80\x80 \xEF\xBF\xBF "
                               "\xF0\x90\x80\x80 \xF4\x8F\xBF\xBF"sv),
            std::nullopt);
}

TEST(Utf8Test, NamesTheOffsetOfEachKindOfMistake) {
  struct Case {
    std::string_view bytes;
    std::size_t offset;
  };
  constexpr std::array kCases = {
      Case{"abc\x93quote\x94", 3},  // Windows-1252
      Case{"\xC0\x80", 0},          // overlong NUL
      Case{"a\xE0\x9F\xBF", 1},     // overlong, three bytes
      Case{"\xF0\x8F\xBF\xBF", 0},  // overlong, four bytes
      Case{"ok\xED\xA0\x80", 2},    // a surrogate
      Case{"\xF4\x90\x80\x80", 0},  // past U+10FFFF
      Case{"\xF5\x80\x80\x80", 0},  // no such lead byte
      Case{"caf\xC3", 3},           // cut off
      Case{"\xE2\x82 ", 0},         // a missing third byte
      Case{"\x80", 0},              // a lone continuation
  };
  for (const Case& item : kCases) EXPECT_THAT(first_invalid_utf8(item.bytes), Optional(Eq(item.offset)));
}

TEST(PlainLinesTest, DropsOneByteOrderMarkAndUnifiesLineEnds) {
  EXPECT_EQ(with_plain_lines("\xEF\xBB\xBF"
                             "a\r\nb\nc\rd\r\r\ne\r"),
            "a\nb\nc\nd\n\ne\n");
  EXPECT_EQ(with_plain_lines("a\xEF\xBB\xBF"), "a\xEF\xBB\xBF");  // A mark elsewhere is not ours to remove.
}

TEST(DecodeTextTest, SaysWhichByteAndWhere) {
  try {
    decode_text("it\x92s", "answer.md");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("answer.md: not UTF-8: byte 0x92 at offset 2; save"));
  }
  EXPECT_EQ(decode_text("x\r\n", "a"), "x\n");
}

}  // namespace
}  // namespace autotriton
