#include "tasks/python_outline.h"

#include <algorithm>
#include <array>
#include <optional>

namespace autotriton::tasks {
namespace {

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}
bool is_name_part(char c) { return is_name_start(c) || (c >= '0' && c <= '9'); }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\f' || c == '\r' || c == '\v'; }

std::string without_strings_and_comments(std::string_view source) {
  std::string code(source);
  std::size_t i = 0;
  const auto blank = [&](std::size_t end) {
    for (; i < end; ++i) {
      if (code[i] != '\n') code[i] = ' ';
    }
  };
  while (i < source.size()) {
    const char c = source[i];
    if (c == '#') {
      blank(std::min(source.find('\n', i), source.size()));
    } else if (c == '"' || c == '\'') {
      const bool triple = source.substr(i, 3) == std::string(3, c);
      const std::size_t quote = triple ? 3 : 1;
      std::size_t end = i + quote;
      while (end < source.size()) {
        if (source[end] == '\\') {
          end += 2;
        } else if (source.substr(end, quote) == source.substr(i, quote)) {
          end += quote;
          break;
        } else if (!triple && source[end] == '\n') {
          break;  // A string that is not closed ends with its line.
        } else {
          ++end;
        }
      }
      blank(std::min(end, source.size()));
    } else {
      ++i;
    }
  }
  return code;
}

// Reads words, names and signs of one statement from left to right.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  bool at_end() {
    skip_space();
    return rest_.empty();
  }
  std::string_view name() {
    skip_space();
    if (rest_.empty() || !is_name_start(rest_[0])) return {};
    std::size_t length = 1;
    while (length < rest_.size() && is_name_part(rest_[length])) ++length;
    return take(length);
  }
  bool accept(char sign) {
    skip_space();
    if (rest_.empty() || rest_[0] != sign) return false;
    take(1);
    return true;
  }
  bool accept_word(std::string_view word) {
    const std::string_view before = rest_;
    if (name() == word) return true;
    rest_ = before;
    return false;
  }
  std::string_view rest() const { return rest_; }
  void skip_one() {
    if (!rest_.empty()) take(1);
  }

 private:
  void skip_space() {
    while (!rest_.empty() && (is_space(rest_[0]) || rest_[0] == '\\')) rest_.remove_prefix(1);
  }
  std::string_view take(std::size_t length) {
    const std::string_view taken = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return taken;
  }

  std::string_view rest_;
};

// `import a.b as c, d` binds c and d; `import a.b` binds a.
void read_import(Reader reader, std::size_t line, std::vector<Definition>& definitions) {
  do {
    std::string_view bound = reader.name();
    if (bound.empty()) return;
    while (reader.accept('.')) reader.name();
    if (reader.accept_word("as")) bound = reader.name();
    definitions.push_back({DefinitionKind::kImport, std::string(bound), line, false});
  } while (reader.accept(','));
}

// `from a import b as c, d`, with or without parentheses.
void read_from_import(Reader reader, std::size_t line, std::vector<Definition>& definitions) {
  while (!reader.accept_word("import")) {
    if (reader.at_end()) return;
    if (reader.name().empty() && !reader.accept('.')) return;
  }
  reader.accept('(');
  do {
    std::string_view bound = reader.name();
    if (bound.empty()) return;
    if (reader.accept_word("as")) bound = reader.name();
    definitions.push_back({DefinitionKind::kImport, std::string(bound), line, false});
  } while (reader.accept(','));
}

// `a = …`, `a: T = …`, `a, b = …`, `a = b = …`. Anything else binds nothing that matters here.
void read_assignment(Reader reader, std::size_t line, std::vector<Definition>& definitions) {
  while (true) {
    std::vector<std::string> names;
    reader.accept('(');
    do {
      const std::string_view bound = reader.name();
      if (bound.empty()) return;
      names.emplace_back(bound);
    } while (reader.accept(','));
    reader.accept(')');
    if (reader.accept(':')) {
      int depth = 0;
      while (!reader.at_end() && (depth > 0 || reader.rest()[0] != '=')) {
        const char sign = reader.rest()[0];
        if (sign == '[' || sign == '(') ++depth;
        if (sign == ']' || sign == ')') --depth;
        reader.skip_one();
      }
    }
    if (!reader.accept('=') || (!reader.rest().empty() && reader.rest()[0] == '=')) return;
    for (std::string& name : names) definitions.push_back({DefinitionKind::kAssignment, std::move(name), line, false});
  }
}

// Words that cannot continue an open bracket at column 0, so that one bracket too many hides no definition.
bool starts_statement(std::string_view line) {
  static constexpr std::array<std::string_view, 6> kStarts = {"class ", "def ", "import ", "from ", "async def ", "@"};
  return std::any_of(kStarts.begin(), kStarts.end(), [&](std::string_view start) { return line.starts_with(start); });
}

}  // namespace

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

PythonOutline outline_of(std::string_view source) {
  PythonOutline outline;
  outline.code_only = without_strings_and_comments(source);
  const std::vector<std::string_view> lines = lines_of(outline.code_only);

  // Where each statement at column 0 starts; it reaches to the next one's start.
  std::vector<std::size_t> starts;
  int depth = 0;
  bool continued = false;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string_view line = lines[i];
    if (!line.empty() && !is_space(line[0]) && !continued) {
      if (starts_statement(line)) depth = 0;
      if (depth == 0) starts.push_back(i);
    }
    for (const char c : line) {
      if (c == '(' || c == '[' || c == '{') ++depth;
      if (c == ')' || c == ']' || c == '}') depth = std::max(0, depth - 1);
    }
    continued = line.ends_with('\\');
  }

  bool jit = false;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::size_t first = starts[i];
    const char* begin = lines[first].data();
    const char* end =
        i + 1 < starts.size() ? lines[starts[i + 1]].data() : outline.code_only.data() + outline.code_only.size();
    const std::string_view statement(begin, static_cast<std::size_t>(end - begin));
    const std::size_t line = first + 1;
    Reader reader(statement);
    if (reader.accept('@')) {
      const bool torch_jit = statement.find("torch.jit") != std::string_view::npos;  // Not Triton's.
      jit = jit || (!torch_jit && statement.find("jit") != std::string_view::npos);
      continue;  // The definition it decorates comes next.
    }
    if (reader.accept_word("async")) {
    }
    if (reader.accept_word("def")) {
      if (const auto name = reader.name(); !name.empty()) {
        outline.definitions.push_back({DefinitionKind::kFunction, std::string(name), line, jit});
      }
    } else if (reader.accept_word("class")) {
      if (const auto name = reader.name(); !name.empty()) {
        outline.definitions.push_back({DefinitionKind::kClass, std::string(name), line, false});
      }
    } else if (reader.accept_word("import")) {
      read_import(reader, line, outline.definitions);
    } else if (reader.accept_word("from")) {
      read_from_import(reader, line, outline.definitions);
    } else {
      read_assignment(reader, line, outline.definitions);
    }
    jit = false;
  }
  return outline;
}

const Definition* PythonOutline::find(std::string_view name) const {
  const auto found =
      std::find_if(definitions.rbegin(), definitions.rend(), [&](const Definition& item) { return item.name == name; });
  return found == definitions.rend() ? nullptr : &*found;
}

std::map<std::string, std::size_t, std::less<>> PythonOutline::names_used() const {
  std::map<std::string, std::size_t, std::less<>> names;
  std::size_t i = 0;
  while (i < code_only.size()) {
    if (!is_name_part(code_only[i])) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < code_only.size() && is_name_part(code_only[end])) ++end;
    const bool attribute = i > 0 && code_only[i - 1] == '.';
    if (!attribute && is_name_start(code_only[i])) names.emplace(code_only.substr(i, end - i), i);
    i = end;
  }
  return names;
}

}  // namespace autotriton::tasks
