#include "tasks/python_outline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace autotriton::tasks {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

std::vector<std::string> names(std::string_view source) {
  std::vector<std::string> found;
  for (const Definition& item : outline_of(source).definitions) found.push_back(item.name);
  return found;
}

TEST(OutlineTest, FindsWhatTheTopLevelDefines) {
  EXPECT_THAT(
      names("import torch.nn as nn, math\nimport a.b\nfrom x.y import (c as d,\n  e)\nfrom . import f\n"
            "class Model(nn.Module):\n    def forward(self): pass\nasync def g(): pass\nSIZE: dict[str, int] = 4\n"
            "p, q = 1, 2\nr = s = 3\n"),
      ElementsAre("nn", "math", "a", "d", "e", "f", "Model", "g", "SIZE", "p", "q", "r", "s"));
}

TEST(OutlineTest, TellsJitFunctionsAndLines) {
  const PythonOutline outline = outline_of(
      "import triton\n\n@triton.autotune(\n  configs=[],\n)\n@triton.jit\ndef k(x):\n  pass\ndef w(x): pass\n");
  ASSERT_EQ(outline.definitions.size(), 3u);
  EXPECT_EQ(outline.definitions[1].line, 7u);
  EXPECT_TRUE(outline.definitions[1].jit);
  EXPECT_FALSE(outline.definitions[2].jit);
}

TEST(OutlineTest, TorchsJitIsNotTritons) {
  EXPECT_FALSE(outline_of("@torch.jit.script\ndef f(x): return x\n").definitions.at(0).jit);
  EXPECT_TRUE(outline_of("@jit\ndef f(x): return x\n").definitions.at(0).jit);
}

TEST(OutlineTest, StringsAndCommentsDefineNothing) {
  EXPECT_THAT(names("\"\"\"\nclass Model: pass\n\"\"\"\n# class Model\ns = '''\ndef f(): pass\n'''\n"),
              ElementsAre("s"));
  EXPECT_THAT(names("r = r'''\\'''\ndef g(): pass\n'''\n"),
              ElementsAre("r"));  // A backslash keeps a quote even in raw strings.
  EXPECT_THAT(names("a = 'it'\nb = \"don't\"\ndef f(): pass\n"), ElementsAre("a", "b", "f"));
}

TEST(OutlineTest, ContinuedLinesAreNoStatements) {
  EXPECT_THAT(names("x = (\nclass_ if y else\nz)\n"), ElementsAre("x"));
  EXPECT_THAT(names("x = 1 + \\\ny\n"), ElementsAre("x"));
  EXPECT_THAT(names("x = (1,\n\ndef f(): pass\n"), ElementsAre("x", "f"));  // A bracket left open hides nothing.
}

TEST(OutlineTest, ComparisonsAndCallsBindNothing) {
  EXPECT_THAT(names("x == 1\nprint(x)\nx.y = 2\nx[0] = 1\nif a: pass\nfor i in b: pass\n"), IsEmpty());
}

TEST(OutlineTest, NamesUsedLeaveOutAttributesStringsAndComments) {
  EXPECT_THAT(outline_of("y = torch.relu(x2) # c\ns = 'd'\n").names_used(),
              ElementsAre(Pair("s", 23), Pair("torch", 4), Pair("x2", 15), Pair("y", 0)));
}

TEST(OutlineTest, HostileTextsEndQuickly) {
  std::string deep(2'000'000, '(');
  EXPECT_THAT(names(deep), IsEmpty());
  std::string quotes;
  for (int i = 0; i < 300'000; ++i) quotes += "\"\"\"\n'";
  names(quotes);
  names("x = '\\");
  names("from");
  names("import ,");
  names("x: [");
}

TEST(LinesTest, KeepsEmptyLinesAndCountsNoneAfterTheLastEnd) {
  EXPECT_THAT(lines_of("a\n\nb\n"), ElementsAre("a", "", "b"));
  EXPECT_THAT(lines_of(""), IsEmpty());
}

}  // namespace
}  // namespace autotriton::tasks
