#include <algorithm>
#include <array>
#include <cctype>

#include "rules/context.h"

/// Family 14: the text means to a reader what it means to Python.
namespace autotriton::rules {

using syntax::Kind;
using syntax::kNoNode;
using syntax::NodeId;

namespace {

constexpr std::string_view kRule = "misleading-text";
constexpr std::size_t kLongLine = 4'000;
constexpr std::size_t kLongRun = 400;        // Characters of base64 or hexadecimal without a break.
constexpr std::size_t kManyNumbers = 1'500;  // Numbers written out in one list.

/// Letters that look like an ASCII one.
struct LookAlike {
  char32_t letter;
  char ascii;
};
constexpr auto kLookAlikes = std::to_array<LookAlike>({
    // Greek capitals, omicron and what is drawn like a Latin letter.
    {0x391, 'A'},
    {0x392, 'B'},
    {0x395, 'E'},
    {0x396, 'Z'},
    {0x397, 'H'},
    {0x399, 'I'},
    {0x39a, 'K'},
    {0x39c, 'M'},
    {0x39d, 'N'},
    {0x39f, 'O'},
    {0x3a1, 'P'},
    {0x3a4, 'T'},
    {0x3a5, 'Y'},
    {0x3a7, 'X'},
    {0x3b9, 'i'},
    {0x3bd, 'v'},
    {0x3bf, 'o'},
    {0x3c1, 'p'},
    {0x3f2, 'c'},
    {0x3f3, 'j'},
    // Cyrillic.
    {0x405, 'S'},
    {0x406, 'I'},
    {0x408, 'J'},
    {0x410, 'A'},
    {0x412, 'B'},
    {0x415, 'E'},
    {0x41a, 'K'},
    {0x41c, 'M'},
    {0x41d, 'H'},
    {0x41e, 'O'},
    {0x420, 'P'},
    {0x421, 'C'},
    {0x422, 'T'},
    {0x423, 'Y'},
    {0x425, 'X'},
    {0x430, 'a'},
    {0x435, 'e'},
    {0x43e, 'o'},
    {0x440, 'p'},
    {0x441, 'c'},
    {0x443, 'y'},
    {0x445, 'x'},
    {0x455, 's'},
    {0x456, 'i'},
    {0x458, 'j'},
    {0x4bb, 'h'},
    {0x501, 'd'},
    {0x51b, 'q'},
    {0x51d, 'w'},
    {0x4cf, 'l'},
    {0x433, 'r'},
    {0x43c, 'm'},
    {0x442, 't'},
    // Armenian and Latin of other kinds.
    {0x578, 'n'},
    {0x585, 'o'},
    {0x57d, 'u'},
    {0x131, 'i'},
    {0x1c3, '!'},
    {0x237, 'j'},
    {0x251, 'a'},
    {0x261, 'g'},
});

bool is_cyrillic(char32_t c) { return c >= 0x400 && c <= 0x52f; }

struct Decoded {
  char32_t letter = 0;
  std::size_t length = 1;
};

/// One character of valid UTF-8.
Decoded decode(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : std::uint32_t{0x80};
  };
  const std::uint32_t first = byte(0);
  if (first < 0x80) return {.letter = first, .length = 1};
  if (first < 0xe0) return {.letter = ((first & 0x1f) << 6) | (byte(1) & 0x3f), .length = 2};
  if (first < 0xf0) return {.letter = ((first & 0x0f) << 12) | ((byte(1) & 0x3f) << 6) | (byte(2) & 0x3f), .length = 3};
  return {.letter = ((first & 0x07) << 18) | ((byte(1) & 0x3f) << 12) | ((byte(2) & 0x3f) << 6) | (byte(3) & 0x3f),
          .length = 4};
}

/// Which kind of hidden character this is: 2 turns the order of the text or hides letters, 1 is invisible, 0 neither.
int hidden(char32_t c) {
  if ((c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || (c >= 0xe0000 && c <= 0xe007f)) return 2;
  if (c == 0x200b || c == 0x2060 || c == 0x180e || (c >= 0x2061 && c <= 0x2064) || c == 0xfeff || c == 0xad) return 1;
  return 0;
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// `text` in lower case with every run of other characters than letters and digits as one blank.
std::string plain_words(std::string_view text) {
  std::string words(" ");
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (u < 0x80 && std::isalnum(u) == 0) {
      if (words.back() != ' ') words += ' ';
    } else {
      words += static_cast<char>(std::tolower(u));
    }
  }
  words += ' ';
  return words;
}

/// Words, in order and with up to `gap` other words between two of them.
struct Phrase {
  std::array<std::string_view, 3> words;  // Each may hold alternatives, parted by |.
  int gap;
};
constexpr auto kOrders = std::to_array<Phrase>({
    {{"ignore|disregard|forget", "previous|prior|above|earlier|all", "instructions|instruction|rules|checks|prompt"},
     2},
    {{"return|answer|respond|output|reply|say", "accept|accepted|correct|pass|passed",
      "verdict|judge|grader|evaluator"},
     4},
    {{"dear|attention|note|message", "judge|grader|evaluator|reviewer|verifier|llm|ai",
      "please|this|you|the|accept|mark"},
     4},
    {{"you", "judge|grader|evaluator|verifier", "must|should|accept|mark|score|give|are"}, 4},
    {{"give|award|assign|grant", "full|maximum|highest|perfect|high|top", "score|marks|reward|credit|grade|points"}, 4},
    {{"mark|grade|score|rate|classify", "this|answer|solution|submission|kernel",
      "correct|accepted|passed|valid|triton"},
     3},
    {{"system", "prompt", "override|says|ignore|instructions"}, 3},
});

bool is_one_of(std::string_view word, std::string_view alternatives) {
  while (!alternatives.empty()) {
    const std::size_t bar = alternatives.find('|');
    if (word == alternatives.substr(0, bar)) return true;
    if (bar == std::string_view::npos) break;
    alternatives.remove_prefix(bar + 1);
  }
  return false;
}

/// Whether some phrase is in the words. Linear in the words: each start looks at a handful of words.
bool gives_orders(const std::vector<std::string_view>& words) {
  for (const Phrase& phrase : kOrders) {
    for (std::size_t start = 0; start < words.size(); ++start) {
      if (!is_one_of(words[start], phrase.words[0])) continue;
      std::size_t at = start;
      bool all = true;
      for (std::size_t part = 1; part < phrase.words.size() && !phrase.words[part].empty(); ++part) {
        const std::size_t last = std::min(words.size(), at + 2 + static_cast<std::size_t>(phrase.gap));
        std::size_t next = at + 1;
        while (next < last && !is_one_of(words[next], phrase.words[part])) ++next;
        if (next >= last) {
          all = false;
          break;
        }
        at = next;
      }
      if (all) return true;
    }
  }
  return false;
}

class TextTricks {
 public:
  explicit TextTricks(Context& context)
      : context_(context), module_(context.module), source_(context.module.source()) {}

  void run() {
    check_lines();
    check_characters();
    if (has_non_ascii_) check_names();
    check_nodes();
  }

 private:
  void check_lines() {
    for (std::size_t start = 0; start < source_.size();) {
      const std::size_t end = std::min(source_.find('\n', start), source_.size());
      if (end - start > kLongLine) {
        context_.report_at(kRule, Level::kSuspicious, start,
                           "this line is " + std::to_string(end - start) +
                               " bytes long, and nobody sees what stands at its end; break it");
      }
      start = end + 1;
    }
  }

  void check_characters() {
    for (std::size_t at = 0; at < source_.size();) {
      if (static_cast<unsigned char>(source_[at]) < 0x80) {
        ++at;
        continue;
      }
      has_non_ascii_ = true;
      const Decoded one = decode(source_, at);
      const int kind = hidden(one.letter);
      if (kind == 2) {
        context_.report_at(kRule, Level::kReject, at,
                           "a character here turns or hides the text, so that a reader sees other code than Python "
                           "runs; remove it");
      } else if (kind == 1 && at != 0) {
        context_.report_at(kRule, Level::kSuspicious, at, "a character here is invisible; remove it");
      }
      at += one.length;
    }
  }

  /// A name with letters of another script that look like an ASCII name of this file.
  void check_names() {
    for (NodeId node = 0; node < module_.num_nodes(); ++node) {
      if (module_.kind(node) != Kind::kIdentifier) continue;
      const std::string_view name = module_.text(node);
      if (std::ranges::all_of(name, [](char c) { return static_cast<unsigned char>(c) < 0x80; })) continue;
      std::string plain;
      bool has_latin = false;
      bool has_cyrillic = false;
      bool all_alike = true;
      for (std::size_t at = 0; at < name.size();) {
        const Decoded one = decode(name, at);
        at += one.length;
        if (one.letter < 0x80) {
          has_latin = has_latin || std::isalpha(static_cast<int>(one.letter)) != 0;
          plain += static_cast<char>(one.letter);
          continue;
        }
        has_cyrillic = has_cyrillic || is_cyrillic(one.letter);
        const auto* const found = std::ranges::find(kLookAlikes, one.letter, &LookAlike::letter);
        if (found == kLookAlikes.end()) {
          all_alike = false;
        } else {
          plain += found->ascii;
        }
      }
      const bool looks_like = all_alike && (module_.find_name(plain) != syntax::kNoName || plain == "tl" ||
                                            plain == "torch" || plain == "triton");
      if (looks_like && (plain.size() > 1 || has_cyrillic)) {
        context_.report_line(
            kRule, Level::kReject, node,
            "`" + std::string(name) + "` looks like `" + plain + "` and is another name; use ASCII names");
      } else if (has_latin && has_cyrillic) {
        context_.report_line(kRule, Level::kSuspicious, node,
                             "`" + std::string(name) + "` mixes letters of two scripts; use ASCII names");
      }
    }
  }

  void check_nodes() {
    std::size_t after_strings = 0;
    for (NodeId node = 0; node < module_.num_nodes(); ++node) {
      switch (module_.kind(node)) {
        case Kind::kString:
          if (module_[node].begin < after_strings) break;  // Inside an f-string.
          find_comments(after_strings, module_[node].begin);
          after_strings = module_[node].end;
          check_blob(module_[node].begin, module_.text(node));
          check_orders(module_[node].begin, module_.text(node));
          break;
        case Kind::kList:
        case Kind::kTuple:
          if (module_.after(node) - node > kManyNumbers) check_numbers(node);
          break;
        default:
          break;
      }
    }
    find_comments(after_strings, source_.size());
    finish_comment();
  }

  /// Comments between two strings; those that follow each other, line by line, are one text.
  void find_comments(std::size_t begin, std::size_t end) {
    for (std::size_t at = source_.find('#', begin); at < end; at = source_.find('#', at)) {
      const std::size_t line_end = std::min(source_.find('\n', at), source_.size());
      const bool follows =
          comment_end_ != 0 && at > comment_end_ &&
          source_.substr(comment_end_ + 1, at - comment_end_ - 1).find_first_not_of(" \t") == std::string_view::npos;
      if (!follows) finish_comment();
      if (comment_.empty()) comment_begin_ = at;
      comment_ += source_.substr(at, line_end - at);
      comment_ += ' ';
      comment_end_ = line_end;
      at = line_end;
    }
  }

  void finish_comment() {
    check_blob(comment_begin_, comment_);
    check_orders(comment_begin_, comment_);
    comment_.clear();
  }

  void check_orders(std::size_t offset, std::string_view text) {
    if (text.size() < 12) return;
    const std::string plain = plain_words(text);
    std::vector<std::string_view> words;
    for (std::size_t at = 1; at < plain.size();) {
      const std::size_t end = plain.find(' ', at);
      words.push_back(std::string_view(plain).substr(at, end - at));
      at = end + 1;
    }
    if (!gives_orders(words)) return;
    context_.report_at(kRule, Level::kReject, offset,
                       "this text tells whoever judges the answer what to say; say what the code does, or nothing");
  }

  void check_blob(std::size_t offset, std::string_view text) {
    if (text.size() < kLongRun) return;
    std::size_t run = 0;
    for (const char c : text) {
      run = is_word(c) || c == '+' || c == '/' || c == '=' || c == '\\' ? run + 1 : 0;
      if (run < kLongRun) continue;
      context_.report_at(kRule, Level::kSuspicious, offset,
                         "a text without a blank, as encoded data have it; write out what the answer needs");
      return;
    }
  }

  void check_numbers(NodeId node) {
    std::size_t numbers = 0;
    for (NodeId inner = node; inner < module_.after(node); ++inner) {
      const Kind kind = module_.kind(inner);
      numbers += kind == Kind::kInteger || kind == Kind::kFloat ? 1 : 0;
    }
    if (numbers < kManyNumbers) return;
    context_.report_line(
        kRule, Level::kSuspicious, node,
        std::to_string(numbers) + " numbers are written out here, as stored results are; compute them");
  }

  Context& context_;
  const syntax::Module& module_;
  std::string_view source_;
  bool has_non_ascii_ = false;
  std::string comment_;  // The one being read.
  std::size_t comment_begin_ = 0;
  std::size_t comment_end_ = 0;
};

}  // namespace

void check_text(Context& context) { TextTricks(context).run(); }

}  // namespace autotriton::rules
