#include "tasks/answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>

#include "base/file.h"
#include "tasks/python_outline.h"

namespace autotriton::tasks {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::string_view kModel = "class ModelNew(nn.Module):\n    pass\n";

const ExtractedCode* code_of(const Extraction& extraction) { return std::get_if<ExtractedCode>(&extraction); }

std::string failure_of(const Extraction& extraction) {
  const auto* failure = std::get_if<ExtractionFailure>(&extraction);
  return failure == nullptr ? "none" : std::string(problem_id(failure->problem)) + ": " + failure->message;
}

// A case file: `# key: value` lines, then the sections `--- answer` and, where code is expected, `--- code`.
//   expect: code | empty-answer | no-code | entry-missing …      entry: NAME (ModelNew if left out)
//   line: the answer's line of the code's first line              note, message: a part of one
struct Case {
  std::map<std::string, std::string> keys;
  std::string answer;
  std::string code;
};

Case read_case(const fs::path& path) {
  Case result;
  std::string* section = nullptr;
  const std::string text = read_file(path);
  for (const std::string_view line : lines_of(text)) {
    if (line == "--- answer") {
      section = &result.answer;
    } else if (line == "--- code") {
      section = &result.code;
    } else if (section != nullptr) {
      *section += std::string(line) + "\n";
    } else if (const auto colon = line.find(':'); line.starts_with("# ") && colon != std::string_view::npos) {
      result.keys[std::string(trimmed(line.substr(2, colon - 2)))] = trimmed(line.substr(colon + 1));
    }
  }
  return result;
}

class AnswerCaseTest : public testing::TestWithParam<fs::path> {};

TEST_P(AnswerCaseTest, YieldsWhatTheCaseSays) {
  Case item = read_case(GetParam());
  ASSERT_TRUE(item.keys.contains("name") && item.keys.contains("expect"));
  const std::string entry = item.keys.contains("entry") ? item.keys["entry"] : "ModelNew";
  const Extraction extraction = extract_code(item.answer, entry);
  if (item.keys["expect"] != "code") {
    EXPECT_THAT(failure_of(extraction), testing::StartsWith(item.keys["expect"] + ": "));
    EXPECT_THAT(failure_of(extraction), HasSubstr(item.keys["message"]));
    return;
  }
  const ExtractedCode* code = code_of(extraction);
  ASSERT_NE(code, nullptr) << failure_of(extraction);
  EXPECT_EQ(code->code, item.code);
  ASSERT_EQ(code->answer_lines.size(), lines_of(code->code).size());
  if (item.keys.contains("line")) {
    EXPECT_EQ(std::to_string(code->answer_lines.front()), item.keys["line"]);
  }
  // Each line of the code is the answer's line that it names.
  const auto answer_lines = lines_of(item.answer);
  const auto code_lines = lines_of(code->code);
  for (std::size_t i = 0; i < code_lines.size(); ++i) {
    ASSERT_LE(code->answer_lines[i], answer_lines.size());
    EXPECT_EQ(trimmed(answer_lines[code->answer_lines[i] - 1]), trimmed(code_lines[i]));
  }
  if (item.keys.contains("note")) {
    EXPECT_THAT(code->notes, testing::Contains(HasSubstr(item.keys["note"])));
  } else {
    EXPECT_THAT(code->notes, testing::IsEmpty());
  }
}

std::vector<fs::path> case_files() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(fs::path(ROOM_TESTDATA_DIR) / "answers")) {
    if (entry.path().extension() == ".case") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

INSTANTIATE_TEST_SUITE_P(Files, AnswerCaseTest, testing::ValuesIn(case_files()),
                         [](const auto& file) { return file.param.stem().string(); });

TEST(ExtractCodeTest, EmptyAnswersAreNoCode) {
  for (const std::string_view answer : {"", "  \n\t\r\n", "\xEF\xBB\xBF\n"})
    EXPECT_THAT(failure_of(extract_code(answer, "f")), testing::StartsWith("empty-answer"));
}

TEST(ExtractCodeTest, BytesThatAreNoTextNameTheirOffset) {
  EXPECT_THAT(failure_of(extract_code("```python\n# it\x92s\n```\n", "f")),
              AllOf(testing::StartsWith("not-text"), HasSubstr("byte 14")));
  EXPECT_THAT(failure_of(extract_code(std::string_view("a\0b", 3), "f")),
              AllOf(testing::StartsWith("not-text"), HasSubstr("NUL byte at offset 1")));
  EXPECT_THAT(failure_of(take_candidate("\xFF")), testing::StartsWith("not-text"));
}

TEST(ExtractCodeTest, SizesAreLimited) {
  EXPECT_THAT(failure_of(extract_code(std::string(11, 'x'), "f", 10)),
              AllOf(testing::StartsWith("too-large"), HasSubstr("11 bytes")));
  EXPECT_THAT(failure_of(take_candidate(std::string(11, 'x'), 10)), testing::StartsWith("too-large"));
}

TEST(ExtractCodeTest, WindowsLinesAndMarksAreMadePlainAndKeepTheirNumbers) {
  const Extraction extraction =
      extract_code("\xEF\xBB\xBFHere:\r\n```python\r\nclass ModelNew:\r\n    pass\r\n```\r\n", "ModelNew");
  ASSERT_NE(code_of(extraction), nullptr) << failure_of(extraction);
  EXPECT_EQ(code_of(extraction)->code, "class ModelNew:\n    pass\n");
  EXPECT_THAT(code_of(extraction)->answer_lines, ElementsAre(3, 4));
}

TEST(ExtractCodeTest, ALoneCarriageReturnEndsALineAsItDoesForPython) {
  const Extraction extraction = take_candidate("# harmless\rimport os\n");
  ASSERT_NE(code_of(extraction), nullptr);
  EXPECT_EQ(code_of(extraction)->code, "# harmless\nimport os\n");
}

TEST(ExtractCodeTest, EveryInfoStringOfPythonIsUnderstood) {
  for (const std::string_view info : {"python", "py", "Python", "python3", "triton", "python title=\"a.py\"",
                                      "{.python}", "py:a.py", "", " python ", "python,ignore"}) {
    const Extraction extraction =
        extract_code("```" + std::string(info) + "\n" + std::string(kModel) + "```\n", "ModelNew");
    ASSERT_NE(code_of(extraction), nullptr) << info;
    EXPECT_EQ(code_of(extraction)->code, kModel) << info;
    EXPECT_THAT(code_of(extraction)->notes, testing::IsEmpty()) << info;
  }
}

TEST(ReplyFormTest, CountsTheBlocksOutsideTheReasoningAndSeesHowItEnds) {
  using Reasoning = ReplyForm::Reasoning;
  struct Row {
    std::string_view reply;
    Reasoning reasoning;
    std::size_t blocks;
    bool closed;
  };
  for (const Row& row : {
           Row{"```python\na = 1\n```\n", Reasoning::kNone, 1, true},
           Row{"<think>a draft:\n```python\na\n```\n</think>\n```python\na = 1\n```\n", Reasoning::kClosed, 1, true},
           Row{"so it goes</think>\n```\na = 1\n```\nor\n```\na = 2\n```\n", Reasoning::kClosed, 2, true},
           Row{"<think>and on\n```python\na\n```\n", Reasoning::kOpen, 0, true},
           Row{"```python\na = 1\n", Reasoning::kNone, 1, false},
           Row{"```python\ns = '<think>'\n```\n", Reasoning::kNone, 1, true},
           Row{"", Reasoning::kNone, 0, true},
       }) {
    const auto form = form_of(row.reply);
    ASSERT_TRUE(form.has_value()) << row.reply;
    EXPECT_EQ(form->reasoning, row.reasoning) << row.reply;
    EXPECT_EQ(form->fenced_blocks, row.blocks) << row.reply;
    EXPECT_EQ(form->fences_closed, row.closed) << row.reply;
  }
  EXPECT_FALSE(form_of("\xff").has_value());
}

TEST(ExtractCodeTest, HostileAnswersEndQuickly) {
  const auto repeated = [](std::string_view piece, std::size_t bytes) {
    std::string text;
    while (text.size() < bytes) text += piece;
    return text;
  };
  constexpr std::size_t kBytes = 900'000;
  for (const std::string_view piece :
       {"<think></think>", "<think>", "</think>", "```md\n", "````\n```\n", "~~~md\n```md\n", "```python\n", "\"\"\"\n",
        "(", "`", "<", "class A:\n", "```python\nclass ModelNew: a=b\n```\n", "```python\ndef f(): g\n```\n", "import ",
        "from x import y\n"}) {
    const Extraction extraction = extract_code(repeated(piece, kBytes), "ModelNew");
    EXPECT_EQ(code_of(extraction) != nullptr, piece.find("ModelNew") != std::string_view::npos) << piece;
  }
}

}  // namespace
}  // namespace autotriton::tasks
