#include "reward/prompt.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace autotriton::reward {
namespace {

constexpr std::size_t kMaxTokensBefore = 200;  // Bytes of special tokens that a tokenizer may put first.
constexpr std::size_t kMinCutPrompt = 32;      // Of a prompt that lost its start, this much must be there.

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

struct Compact {
  std::string text;
  std::vector<std::size_t> ends;  // For each byte, where it ends in the whole text.
};

Compact compact(std::string_view whole) {
  Compact result;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (is_blank(whole[i])) continue;
    result.text += whole[i];
    result.ends.push_back(i + 1);
  }
  return result;
}

// Length of the longest end of `pattern` that `text` begins with (the failure function of Knuth, Morris and Pratt).
std::size_t overlap(std::string_view pattern, std::string_view text) {
  const std::string joined = std::string(text.substr(0, pattern.size())) + '\0' + std::string(pattern);
  std::vector<std::size_t> border(joined.size(), 0);
  for (std::size_t i = 1; i < joined.size(); ++i) {
    std::size_t length = border[i - 1];
    while (length > 0 && joined[i] != joined[length]) length = border[length - 1];
    border[i] = joined[i] == joined[length] ? length + 1 : length;
  }
  return joined.empty() ? 0 : border.back();
}

}  // namespace

std::optional<std::string_view> strip_prompt(std::string_view query, std::string_view prompt) {
  if (query.starts_with(prompt)) return query.substr(prompt.size());
  const Compact whole = compact(query);
  const Compact start = compact(prompt);
  if (start.text.empty()) return query;
  const std::size_t at = std::string_view(whole.text).substr(0, start.text.size() + kMaxTokensBefore).find(start.text);
  if (at != std::string_view::npos) return query.substr(whole.ends[at + start.text.size() - 1]);
  const std::size_t length = overlap(start.text, whole.text);
  if (length >= kMinCutPrompt) return query.substr(whole.ends[length - 1]);
  return std::nullopt;
}

std::string_view strip_end_tokens(std::string_view answer) {
  static constexpr std::array<std::string_view, 7> kTokens = {"</s>",
                                                              "<eos>",
                                                              "<pad>",
                                                              "<end_of_turn>",
                                                              "<eot>",
                                                              "[EOS]",
                                                              "<\xef\xbd\x9c"
                                                              "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>"};
  for (bool found = true; found;) {
    found = false;
    while (!answer.empty() && is_blank(answer.back())) answer.remove_suffix(1);
    for (const std::string_view token : kTokens) {
      if (!answer.ends_with(token)) continue;
      answer.remove_suffix(token.size());
      found = true;
    }
    if (!answer.ends_with("|>")) continue;
    const auto begin = answer.rfind("<|");
    if (begin == std::string_view::npos || answer.size() - begin > 48) continue;
    const std::string_view name = answer.substr(begin + 2, answer.size() - begin - 4);
    if (!std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; }))
      continue;
    answer.remove_suffix(answer.size() - begin);
    found = true;
  }
  return answer;
}

}  // namespace autotriton::reward
