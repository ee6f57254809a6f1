#include "syntax/syntax.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "syntax/fold_name.h"

namespace autotriton::syntax {
namespace {

ParseFailure failure_of(std::string source, const ParseLimits& limits = {}) {
  auto parsed = parse(std::move(source), limits);
  const auto* failure = std::get_if<ParseFailure>(&parsed);
  return failure != nullptr
             ? *failure
             : ParseFailure{.kind = ParseFailure::Kind::kSyntax, .line = 0, .column = 0, .message = "it parsed"};
}

Module parsed(std::string source) {
  auto result = parse(std::move(source));
  if (const auto* failure = std::get_if<ParseFailure>(&result)) throw std::runtime_error(failure->message);
  return std::get<Module>(std::move(result));
}

NodeId first(const Module& module, Kind kind) {
  for (NodeId id = 0; id < module.num_nodes(); ++id) {
    if (module.kind(id) == kind) return id;
  }
  return kNoNode;
}

TEST(ParseTest, ReadsStarredReturns) {
  const Module module = parsed("def f(a):\n    return a, *[None] * 10\n\ndef g(a):\n\treturn *a, f(a)  \n\nx = 1\n");
  EXPECT_EQ(module.source(), "def f(a):\n    return(a, *[None] * 10)\n\ndef g(a):\n\treturn *a, f(a)  \n\nx = 1\n");
  EXPECT_EQ(module.line(first(module, Kind::kAssignment)), 7);
  EXPECT_EQ(failure_of("def f(a):\n    return a, *b)\n").line, 2);
  EXPECT_EQ(failure_of("def f(a):\n    return a, *b; x = \n").line, 2);
}

TEST(ParseTest, GivesLinesAndColumnsFromOne) {
  const Module module = parsed("x = 1\n\nif x:\n    y = call(x)\n");
  const NodeId call = first(module, Kind::kCall);
  ASSERT_NE(call, kNoNode);
  EXPECT_EQ(module.line(call), 4);
  EXPECT_EQ(module.column(call), 9);
  EXPECT_EQ(module.text(call), "call(x)");
  EXPECT_EQ(module.name_of(module.child(call, Field::kFunction)), "call");
}

TEST(ParseTest, AnEmptyFileIsAModule) { EXPECT_EQ(parsed("").kind(0), Kind::kModule); }

TEST(ParseTest, SyntaxErrorsNameTheLine) {
  EXPECT_EQ(failure_of("x = 1\ny = (2 +\n").line, 2);
  EXPECT_EQ(failure_of("def f(:\n    pass\n").line, 1);
  EXPECT_EQ(failure_of("x = 1\nfor in y:\n    pass\n").kind, ParseFailure::Kind::kSyntax);
  EXPECT_THAT(failure_of("a = 'unclosed\n").message, testing::HasSubstr("; "));
}

TEST(ParseTest, RefusesWhatIsNotText) {
  EXPECT_EQ(failure_of(std::string("x = 1\n\0y = 2\n", 13)).kind, ParseFailure::Kind::kNotText);
  EXPECT_EQ(failure_of("x = '\xff\xfe'\n").kind, ParseFailure::Kind::kNotText);
  EXPECT_EQ(failure_of("a = 1\nb = '\xc0\xaf'\n").line, 2);
  EXPECT_EQ(failure_of("x = '\xed\xa0\x80'\n").kind, ParseFailure::Kind::kNotText) << "a lone surrogate";
}

TEST(ParseTest, RefusesAnEncodingThatWouldChangeTheText) {
  EXPECT_EQ(failure_of("# -*- coding: utf-7 -*-\nx = 1\n").kind, ParseFailure::Kind::kNotText);
  EXPECT_EQ(failure_of("#!/usr/bin/python\n# vim: set fileencoding=rot13 :\nx = 1\n").kind,
            ParseFailure::Kind::kNotText);
  EXPECT_NO_THROW(parsed("# -*- coding: UTF-8 -*-\nx = 1\n"));
  EXPECT_NO_THROW(parsed("x = 1\ny = 2\n# coding: utf-7 in the third line means nothing\n"));
}

TEST(ParseTest, ReadsByteOrderMarksAndAllLineEndings) {
  EXPECT_NO_THROW(parsed("\xef\xbb\xbfx = 1\n"));
  EXPECT_EQ(parsed("a = 1\r\nb = call()\r\n").line(first(parsed("a = 1\r\nb = call()\r\n"), Kind::kCall)), 2);
  // Python ends a line, and the comment, at a lone carriage return; so do we.
  const Module module = parsed("# comment\rcall()\n");
  EXPECT_NE(first(module, Kind::kCall), kNoNode);
  EXPECT_EQ(module.line(first(module, Kind::kCall)), 2);
}

TEST(ParseTest, LimitsEndInAValue) {
  EXPECT_EQ(failure_of(std::string((1 << 20) + 1, ' ')).kind, ParseFailure::Kind::kTooLarge);
  EXPECT_EQ(failure_of("x = " + std::string(500, '(') + "1" + std::string(500, ')') + "\n").kind,
            ParseFailure::Kind::kTooDeep);
  EXPECT_EQ(failure_of("x = " + std::string(60'000, '-') + "1\n").kind, ParseFailure::Kind::kTooDeep);
  std::string wide = "x = [";
  for (int i = 0; i < 410'000; ++i) wide += "1,";
  EXPECT_EQ(failure_of(wide + "]\n", {.max_time = std::chrono::seconds(60)}).kind, ParseFailure::Kind::kTooLarge);
  EXPECT_NO_THROW(parsed("x = " + std::string(100, '(') + "1" + std::string(100, ')') + "\n"));
}

TEST(ParseTest, HostileTextsEnd) {
  for (const char bracket : {'(', '[', '{'}) {
    const std::string open((1 << 20) - 10, bracket);
    EXPECT_NE(failure_of(open).line, 0) << bracket;
  }
  EXPECT_NE(failure_of("x = " + std::string(500'000, '(') + std::string(500'000, ')')).line, 0);
  EXPECT_NO_THROW(parsed("x = '" + std::string(900'000, 'a') + "'\n")) << "one long line";
  std::string nested;
  for (int i = 0; i < 600; ++i) nested += std::string(static_cast<std::size_t>(i), ' ') + "if x:\n";
  EXPECT_NE(failure_of(nested + std::string(600, ' ') + "pass\n").line, 0);
  std::string strings = "x = ";
  for (int i = 0; i < 300; ++i) strings += "f'{";
  EXPECT_NE(failure_of(strings).line, 0);
}

TEST(ParseTest, ATimeLimitIsKept) {
  std::string slow;
  for (int i = 0; i < 40'000; ++i) slow += "x = a[b(c.d, *e)]\n";
  const ParseFailure failure = failure_of(slow, {.max_time = std::chrono::milliseconds(1)});
  EXPECT_EQ(failure.kind, ParseFailure::Kind::kTooSlow);
}

TEST(ModuleTest, StringValuesAreReadWithoutRunningThem) {
  const auto value_of = [](const std::string& literal) {
    const Module module = parsed("x = " + literal + "\n");
    std::string value = "?";
    const NodeId right = module.child(first(module, Kind::kAssignment), Field::kRight);
    return module.string_value(right, value) ? value : "?";
  };
  EXPECT_EQ(value_of("'mm'"), "mm");
  EXPECT_EQ(value_of("\"\"\"mm\"\"\""), "mm");
  EXPECT_EQ(value_of("('m' \"m\")"), "mm");
  EXPECT_EQ(value_of("r'a\\b'"), "a\\b");
  EXPECT_EQ(value_of("''"), "");
  EXPECT_EQ(value_of("'a\\x6d'"), "?") << "escapes are not read";
  EXPECT_EQ(value_of("f'{y}'"), "?");
  EXPECT_EQ(value_of("b'mm'"), "?");
  EXPECT_EQ(value_of("'m' + 'm'"), "?");
}

TEST(FoldNameTest, DisguisedLettersBecomeAscii) {
  EXPECT_EQ(fold_name("plain_1"), "plain_1");
  EXPECT_EQ(fold_name("ｅｘｅｃ"), "exec");
  EXPECT_EQ(fold_name("𝐞𝐱𝐞𝐜"), "exec");
  EXPECT_EQ(fold_name("𝓮𝔁𝓮𝓬"), "exec");
  EXPECT_EQ(fold_name("𝚎𝚡𝚎𝚌𝟷"), "exec1");
  EXPECT_EQ(fold_name("ﬁle"), "file") << "a ligature";
  EXPECT_EQ(fold_name("ſum"), "sum") << "a long s";
  EXPECT_EQ(fold_name("xₙ"), "xn") << "a subscript";
  EXPECT_EQ(fold_name("Ⅳ"), "IV");
  EXPECT_EQ(fold_name("α_β"), "α_β") << "letters of their own stay";
  EXPECT_EQ(fold_name("＿＿ｉｍｐｏｒｔ＿＿"), "__import__");
}

TEST(ParseTest, NamesAreFolded) {
  const Module module = parsed("ｅｘｅｃ('x')\n");
  EXPECT_EQ(module.name_of(module.child(first(module, Kind::kCall), Field::kFunction)), "exec");
}

}  // namespace
}  // namespace autotriton::syntax
