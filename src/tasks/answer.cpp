#include "tasks/answer.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "base/text_encoding.h"
#include "tasks/python_outline.h"

namespace autotriton::tasks {
namespace {

constexpr int kMaxNestedFences = 4;
constexpr std::array<std::string_view, 3> kThinkTags = {"think", "thinking", "seed:think"};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) { return lower(x) == lower(y); });
}

// A fence line: its indentation, its run of '`' or '~', and the text after it.
struct Fence {
  std::size_t indent = 0;
  char sign = '`';
  std::size_t length = 0;
  std::string_view info;
};

std::optional<Fence> read_fence(std::string_view line) {
  Fence fence;
  while (fence.indent < line.size() && (line[fence.indent] == ' ' || line[fence.indent] == '\t')) ++fence.indent;
  line.remove_prefix(fence.indent);
  if (line.empty() || (line[0] != '`' && line[0] != '~')) return std::nullopt;
  fence.sign = line[0];
  while (fence.length < line.size() && line[fence.length] == fence.sign) ++fence.length;
  if (fence.length < 3) return std::nullopt;
  fence.info = trimmed(line.substr(fence.length));
  if (fence.sign == '`' && fence.info.find('`') != std::string_view::npos) return std::nullopt;  // Inline code.
  return fence;
}

enum class Language { kPython, kUnnamed, kMarkdown, kOther };

// The first word of an info string: "python", "Python title=x", "{.python}", "py:file.py".
Language language_of(std::string_view info) {
  std::string word;
  for (const char c : info) {
    if (c == ' ' || c == '\t' || c == ',' || c == ':' || c == '}') break;
    if (c != '{' && c != '.') word += lower(c);
  }
  static constexpr std::array<std::string_view, 6> kPython = {"python", "py",      "python3",
                                                              "triton", "pytorch", "ipython"};
  static constexpr std::array<std::string_view, 4> kMarkdown = {"markdown", "md", "text", "txt"};
  if (word.empty()) return Language::kUnnamed;
  if (std::find(kPython.begin(), kPython.end(), word) != kPython.end()) return Language::kPython;
  if (std::find(kMarkdown.begin(), kMarkdown.end(), word) != kMarkdown.end()) return Language::kMarkdown;
  return Language::kOther;
}

struct Line {
  std::size_t number = 0;  // In the answer, from 1.
  std::string_view text;
};

struct Block {
  Language language = Language::kUnnamed;
  std::vector<Line> lines;
  bool closed = true;
  bool cut_by_next = false;  // Ended where the next one began.
};

// The answer with its reasoning left out but for its line ends, so that line numbers hold.
struct Visible {
  std::string text;
  bool reasoning_seen = false;  // At least its end, or its start.
  bool reasoning_open = false;  // It never ended.
  bool reasoning_cut = false;   // Its start was not in the answer.
};

struct Tag {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool opening = true;
};

// Finds the next `<think>` or `</think>` at or after `from`.
std::optional<Tag> next_tag(std::string_view text, std::size_t from) {
  for (std::size_t at = text.find('<', from); at != std::string_view::npos; at = text.find('<', at + 1)) {
    const bool opening = at + 1 >= text.size() || text[at + 1] != '/';
    const std::size_t name_at = at + (opening ? 1 : 2);
    for (const std::string_view name : kThinkTags) {
      if (!equal_ignoring_case(text.substr(std::min(name_at, text.size()), name.size()), name)) continue;
      const std::size_t end = name_at + name.size();
      if (end < text.size() && text[end] == '>') return Tag{at, end + 1, opening};
    }
  }
  return std::nullopt;
}

// NUL bytes, which no answer holds by now, mark what is to be left out.
void blank(std::string& text, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    if (text[i] != '\n') text[i] = '\0';
  }
}

// Tells, reading forwards only, whether an offset lies in a fenced block; tags there belong to code.
class FenceCursor {
 public:
  explicit FenceCursor(std::string_view text) : text_(text) {}

  /// Goes on at `offset`, outside any block.
  void restart_at(std::size_t offset) {
    at_ = offset;
    in_block_ = false;
  }
  /// `offset` never lies before that of an earlier call.
  bool inside(std::size_t offset) {
    while (true) {
      const std::size_t end = text_.find('\n', at_);
      if (end == std::string_view::npos || end >= offset) return in_block_;
      const auto fence = read_fence(text_.substr(at_, end - at_));
      if (fence && !in_block_) {
        open_ = *fence;
        in_block_ = true;
      } else if (fence && fence->sign == open_.sign && fence->length >= open_.length && fence->info.empty()) {
        in_block_ = false;
      }
      at_ = end + 1;
    }
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
  Fence open_;  // Of the block, while in one.
  bool in_block_ = false;
};

Visible without_reasoning(std::string text) {
  Visible visible{.text = std::move(text)};
  std::string& whole = visible.text;
  std::size_t at = 0;
  // A prompt that ends with the opening tag leaves only the closing one in the reply.
  if (const auto first = next_tag(whole, 0); first && !first->opening) {
    blank(whole, 0, first->end);
    visible.reasoning_seen = true;
    visible.reasoning_cut = true;
    at = first->end;
  }
  FenceCursor fences(whole);
  fences.restart_at(at);
  while (const auto tag = next_tag(whole, at)) {
    if (fences.inside(tag->begin)) {
      at = tag->end;
      continue;
    }
    if (!tag->opening) {  // A stray one.
      blank(whole, tag->begin, tag->end);
      at = tag->end;
      continue;
    }
    std::optional<Tag> close = next_tag(whole, tag->end);
    while (close && close->opening) close = next_tag(whole, close->end);
    visible.reasoning_seen = true;
    visible.reasoning_open = !close;
    at = close ? close->end : whole.size();
    blank(whole, tag->begin, at);
    fences.restart_at(at);
  }
  std::erase(whole, '\0');
  return visible;
}

std::vector<Line> numbered(std::string_view text) {
  std::vector<Line> lines;
  for (const std::string_view line : lines_of(text)) lines.push_back({lines.size() + 1, line});
  return lines;
}

std::string_view without_indent(std::string_view line, std::size_t indent) {
  std::size_t white = 0;
  while (white < indent && white < line.size() && (line[white] == ' ' || line[white] == '\t')) ++white;
  return line.substr(white);
}

// Blocks in order. A block of Markdown that holds fences of its own yields those, down to `depth` levels.
void find_blocks(const std::vector<Line>& lines, int depth, std::vector<Block>& blocks) {
  static constexpr std::size_t kMaxClosingIndent = 3;  // As in CommonMark: what is further in is the block's content.
  std::size_t i = 0;
  while (i < lines.size()) {
    const auto open = read_fence(lines[i].text);
    ++i;
    if (!open) continue;
    Block block{.language = language_of(open->info), .lines = {}, .closed = false};
    for (; i < lines.size(); ++i) {
      const auto fence = read_fence(lines[i].text);
      if (fence && fence->sign == open->sign && fence->indent <= open->indent + kMaxClosingIndent) {
        if (fence->length >= open->length && fence->info.empty()) {
          block.closed = true;
          ++i;
          break;
        }
        // No Python line looks like "```python": the block before was left open.
        if (block.language != Language::kMarkdown && fence->length == open->length &&
            language_of(fence->info) == Language::kPython) {
          block.cut_by_next = true;
          break;
        }
      }
      block.lines.push_back({lines[i].number, without_indent(lines[i].text, open->indent)});
    }
    const bool has_fences = std::any_of(block.lines.begin(), block.lines.end(),
                                        [](const Line& line) { return read_fence(line.text).has_value(); });
    if (has_fences && depth > 0 &&
        (block.language == Language::kMarkdown || (block.language == Language::kUnnamed && open->length > 3))) {
      find_blocks(block.lines, depth - 1, blocks);
    } else {
      blocks.push_back(std::move(block));
    }
  }
}

struct Source {
  std::string code;
  PythonOutline outline;
};

Source source_of(const Block& block) {
  Source source;
  for (const Line& line : block.lines) {
    source.code += line.text;
    source.code += '\n';
  }
  source.outline = outline_of(source.code);
  return source;
}

// Functions, classes, imports, and constants in capitals: what a block may take from another one. Other variables are
// mostly those of an example of use.
bool can_be_lent(const Definition& item) {
  if (item.kind != DefinitionKind::kAssignment) return true;
  return std::none_of(item.name.begin(), item.name.end(), [](char c) { return c >= 'a' && c <= 'z'; });
}

// The blocks that `chosen` needs, itself included, in order.
std::set<std::size_t> needed_blocks(const std::vector<Source>& sources, const std::vector<bool>& usable,
                                    std::size_t chosen, std::string_view entry_point) {
  std::set<std::size_t> needed = {chosen};
  std::vector<std::size_t> open = {chosen};
  std::set<std::string, std::less<>> defined;
  const auto add_definitions = [&](std::size_t index) {
    for (const Definition& item : sources[index].outline.definitions) defined.insert(item.name);
  };
  add_definitions(chosen);
  // For each name the blocks that lend it, in order.
  std::map<std::string, std::vector<std::size_t>, std::less<>> lenders;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (!usable[i] || sources[i].outline.find(entry_point) != nullptr) continue;  // An earlier version lends nothing.
    for (const Definition& item : sources[i].outline.definitions) {
      if (can_be_lent(item)) lenders[item.name].push_back(i);
    }
  }
  while (!open.empty()) {
    const std::size_t current = open.back();
    open.pop_back();
    for (const auto& [name, offset] : sources[current].outline.names_used()) {
      const auto found = lenders.find(name);
      if (defined.contains(name) || found == lenders.end()) continue;
      // The nearest one before the chosen block, else the first one after it.
      const auto after = std::lower_bound(found->second.begin(), found->second.end(), chosen);
      const std::size_t lender = after != found->second.begin() ? *std::prev(after) : *after;
      if (!needed.insert(lender).second) continue;
      add_definitions(lender);
      open.push_back(lender);
    }
  }
  return needed;
}

// `import a.b as c, d` and nothing more: a sentence may start with the word too.
bool is_plain_import(std::string_view line) {
  if (!line.starts_with("import ")) return false;
  std::string_view rest = line.substr(7);
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = trimmed(rest.substr(0, comma));
    const std::size_t space = part.find(' ');
    const bool renamed = space != std::string_view::npos && part.substr(space).starts_with(" as ");
    if (part.empty() || part.ends_with('.') || (space != std::string_view::npos && !renamed)) return false;
    if (comma == std::string_view::npos) return true;
    rest.remove_prefix(comma + 1);
  }
}

// An import, a decorator or a definition: how source starts, and prose does not.
bool looks_like_source(std::string_view line) {
  if (line.starts_with("@triton.") || line.starts_with("from __future__ ")) return true;
  const PythonOutline outline = outline_of(line);
  if (outline.definitions.empty()) return false;
  const std::string_view code = trimmed(outline.code_only);
  switch (outline.definitions[0].kind) {
    case DefinitionKind::kFunction:
      return code.find('(') != std::string_view::npos;
    case DefinitionKind::kClass:
      return code.ends_with(':') || code.ends_with(')') || code.ends_with('(');
    case DefinitionKind::kImport:
      return code.starts_with("from ") || is_plain_import(code);
    case DefinitionKind::kAssignment:
      return false;
  }
  return false;
}

std::string joined_names(const std::set<std::string>& names) {
  std::string text;
  std::size_t shown = 0;
  for (const std::string& name : names) {
    if (++shown > 8) return text + " …";
    text += (text.empty() ? "`" : ", `") + name + "`";
  }
  return text;
}

ExtractedCode code_from(const std::vector<Line>& lines) {
  ExtractedCode result;
  for (const Line& line : lines) {
    result.code += line.text;
    result.code += '\n';
    result.answer_lines.push_back(line.number);
  }
  return result;
}

std::string entry_missing_message(std::string_view entry_point, const std::set<std::string>& defined) {
  std::string message = "the code defines no `" + std::string(entry_point) + "` at its top level";
  if (entry_point == "ModelNew" && defined.contains("Model")) return message + ", but `Model`: rename it to `ModelNew`";
  if (!defined.empty()) message += "; it defines " + joined_names(defined);
  return message + ": define `" + std::string(entry_point) + "`";
}

void add_defined(const PythonOutline& outline, std::set<std::string>& defined) {
  for (const Definition& item : outline.definitions) {
    if (item.kind == DefinitionKind::kFunction || item.kind == DefinitionKind::kClass) defined.insert(item.name);
  }
}

// The lines before any fence, if they are source that defines the entry point, without prose in front.
std::optional<ExtractedCode> unfenced_source(const std::vector<Line>& lines, std::string_view entry_point,
                                             std::set<std::string>& defined) {
  const auto fence =
      std::find_if(lines.begin(), lines.end(), [](const Line& line) { return read_fence(line.text).has_value(); });
  std::vector<Line> before(lines.begin(), fence);
  while (!before.empty() && trimmed(before.back().text).empty()) before.pop_back();
  const auto filled =
      std::find_if(before.begin(), before.end(), [](const Line& line) { return !trimmed(line.text).empty(); });
  if (filled == before.end()) return std::nullopt;
  const std::string_view first = filled->text;
  // A comment or docstring may open a file, but so may prose in quotes; the definitions decide.
  const bool from_start =
      first.starts_with('#') || first.starts_with("\"\"\"") || first.starts_with("'''") || looks_like_source(first);
  const auto start =
      from_start ? filled
                 : std::find_if(filled, before.end(), [](const Line& line) { return looks_like_source(line.text); });
  const std::vector<Line> source_lines(start, before.end());
  ExtractedCode result = code_from(source_lines);
  const PythonOutline outline = outline_of(result.code);
  add_defined(outline, defined);
  if (outline.find(entry_point) == nullptr) return std::nullopt;
  if (start != filled) result.notes.emplace_back("Text before the code was left out.");
  return result;
}

std::optional<ExtractionFailure> refuse_bytes(std::string_view bytes, std::size_t max_bytes) {
  if (bytes.size() > max_bytes) {
    return ExtractionFailure{ExtractionProblem::kTooLarge, "the answer has " + std::to_string(bytes.size()) +
                                                               " bytes: " + std::to_string(max_bytes) + " are allowed"};
  }
  if (const auto offset = first_invalid_utf8(bytes)) {
    return ExtractionFailure{ExtractionProblem::kNotText,
                             "the answer is not UTF-8 at byte " + std::to_string(*offset) + ": send UTF-8 text"};
  }
  if (const std::size_t at = bytes.find('\0'); at != std::string_view::npos) {
    return ExtractionFailure{ExtractionProblem::kNotText,
                             "the answer holds a NUL byte at offset " + std::to_string(at) + ": send text"};
  }
  return std::nullopt;
}

}  // namespace

std::string_view problem_id(ExtractionProblem problem) {
  switch (problem) {
    case ExtractionProblem::kEmptyAnswer:
      return "empty-answer";
    case ExtractionProblem::kNotText:
      return "not-text";
    case ExtractionProblem::kTooLarge:
      return "too-large";
    case ExtractionProblem::kNoCode:
      return "no-code";
    case ExtractionProblem::kEntryMissing:
      return "entry-missing";
  }
  return "no-code";
}

std::string_view reasoning_name(ReplyForm::Reasoning reasoning) {
  switch (reasoning) {
    case ReplyForm::Reasoning::kClosed:
      return "closed";
    case ReplyForm::Reasoning::kOpen:
      return "open";
    case ReplyForm::Reasoning::kNone:
      break;
  }
  return "none";
}

std::optional<ReplyForm> form_of(std::string_view answer, std::size_t max_bytes) {
  if (refuse_bytes(answer, max_bytes)) return std::nullopt;
  const std::string plain = with_plain_lines(answer);
  const Visible visible = without_reasoning(plain);
  std::vector<Block> blocks;
  find_blocks(numbered(visible.text), kMaxNestedFences, blocks);
  ReplyForm form;
  form.fenced_blocks = blocks.size();
  form.fences_closed = std::ranges::all_of(blocks, [](const Block& block) { return block.closed; });
  if (visible.reasoning_open) {
    form.reasoning = ReplyForm::Reasoning::kOpen;
  } else if (visible.reasoning_seen) {
    form.reasoning = ReplyForm::Reasoning::kClosed;
  }
  return form;
}

Extraction take_candidate(std::string_view candidate, std::size_t max_bytes) {
  if (auto failure = refuse_bytes(candidate, max_bytes)) return *failure;
  const std::string plain = with_plain_lines(candidate);
  if (trimmed(plain).empty())
    return ExtractionFailure{ExtractionProblem::kEmptyAnswer, "the candidate is empty: write the code"};
  return code_from(numbered(plain));
}

Extraction extract_code(std::string_view answer, std::string_view entry_point, std::size_t max_bytes) {
  if (auto failure = refuse_bytes(answer, max_bytes)) return *failure;
  const std::string plain = with_plain_lines(answer);
  if (trimmed(plain).empty())
    return ExtractionFailure{ExtractionProblem::kEmptyAnswer,
                             "the answer is empty: write the code in a ```python block"};
  const Visible visible = without_reasoning(plain);
  const std::vector<Line> lines = numbered(visible.text);
  std::vector<std::string> notes;
  if (visible.reasoning_cut)
    notes.emplace_back("The reasoning has an end but no start; all before its end was left aside.");

  std::vector<Block> blocks;
  find_blocks(lines, kMaxNestedFences, blocks);
  std::vector<Source> sources;
  std::set<std::string> defined;
  for (const Block& block : blocks) {
    sources.push_back(source_of(block));
    add_defined(sources.back().outline, defined);
  }

  // The last block that defines the entry point; one of another language only where no other does.
  std::optional<std::size_t> chosen;
  for (const bool other_languages : {false, true}) {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const bool other = blocks[i].language == Language::kOther;
      if (other == other_languages && sources[i].outline.find(entry_point) != nullptr) chosen = i;
    }
    if (chosen) break;
  }

  if (!chosen) {
    if (auto source = unfenced_source(lines, entry_point, defined)) {
      source->notes.insert(source->notes.begin(), notes.begin(), notes.end());
      return *source;
    }
    if (!defined.empty())
      return ExtractionFailure{ExtractionProblem::kEntryMissing, entry_missing_message(entry_point, defined)};
    std::string message = "the answer holds no code";
    if (visible.reasoning_open)
      message = "the reasoning never ends (`<think>` without `</think>`), so there is no answer after it";
    return ExtractionFailure{ExtractionProblem::kNoCode, message + ": write the code in a ```python block"};
  }

  std::vector<bool> usable;
  for (const Block& block : blocks)
    usable.push_back(block.language == Language::kPython || block.language == Language::kUnnamed);
  const std::set<std::size_t> needed = needed_blocks(sources, usable, *chosen, entry_point);
  std::vector<Line> code;
  for (const std::size_t index : needed)
    code.insert(code.end(), blocks[index].lines.begin(), blocks[index].lines.end());
  ExtractedCode result = code_from(code);
  if (blocks[*chosen].cut_by_next) {
    notes.emplace_back("The block's fence is not closed; it ends where the next one starts.");
  } else if (!blocks[*chosen].closed) {
    notes.emplace_back("The block's fence is not closed; the answer may have been cut off.");
  }
  if (blocks[*chosen].language == Language::kOther)
    notes.emplace_back("The code stands in a block that is not marked as Python.");
  if (needed.size() > 1)
    notes.emplace_back("The code is spread over " + std::to_string(needed.size()) +
                       " blocks, which were joined in order.");
  const auto num_versions = std::count_if(sources.begin(), sources.end(), [&](const Source& source) {
    return source.outline.find(entry_point) != nullptr;
  });
  if (num_versions > 1) {
    notes.emplace_back(std::to_string(num_versions) + " blocks define `" + std::string(entry_point) +
                       "`; the last one was taken.");
  }
  result.notes = std::move(notes);
  return result;
}

}  // namespace autotriton::tasks
