#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

/// The code in what a model wrote.
///
///     auto found = extract_code(reply, answer_entry_point(task));
///     if (auto* failure = std::get_if<ExtractionFailure>(&found)) return reject(failure->message);
///
/// Reasoning (`<think>…</think>`, also without its opening tag) is left aside with the drafts in it. Of the fenced
/// blocks the last that defines the entry point is taken, joined with earlier ones only where it uses names that those
/// define. An answer that is nothing but code needs no fence. Nothing is repaired or decoded: what is broken stays
/// broken.
namespace autotriton::tasks {

enum class ExtractionProblem : std::uint8_t { kEmptyAnswer, kNotText, kTooLarge, kNoCode, kEntryMissing };

/// "empty-answer", "not-text", "too-large", "no-code", "entry-missing".
std::string_view problem_id(ExtractionProblem problem);

struct ExtractionFailure {
  ExtractionProblem problem = ExtractionProblem::kNoCode;
  std::string message;  ///< What was found and what to write instead.
};

struct ExtractedCode {
  std::string code;                       ///< UTF-8, lines ended by LF.
  std::vector<std::size_t> answer_lines;  ///< For each line of `code`, its line in the answer; both counted from 1.
  std::vector<std::string> notes;         ///< What was out of the ordinary, as sentences.
};

/// The most bytes an answer or a candidate may have.
inline constexpr std::size_t kMaxAnswerBytes = 1'000'000;

/// How a raw reply is built, whatever its code is worth.
struct ReplyForm {
  enum class Reasoning : std::uint8_t {
    kNone,    ///< No tags.
    kClosed,  ///< `<think>…</think>`, or only its end, as where the prompt ends with the opening tag.
    kOpen,    ///< It never ends.
  };
  Reasoning reasoning = Reasoning::kNone;
  std::size_t fenced_blocks = 0;  ///< Outside the reasoning.
  bool fences_closed = true;
};

/// "none", "closed", "open".
std::string_view reasoning_name(ReplyForm::Reasoning reasoning);

/// Reads only the form; empty where `answer` is no text. Never throws.
std::optional<ReplyForm> form_of(std::string_view answer, std::size_t max_bytes = kMaxAnswerBytes);

using Extraction = std::variant<ExtractedCode, ExtractionFailure>;

/// Extracts the code that defines `entry_point` at its top level from a raw reply.
Extraction extract_code(std::string_view answer, std::string_view entry_point, std::size_t max_bytes = kMaxAnswerBytes);

/// Takes source as it is: only size, text and emptiness are checked, and lines are made plain.
Extraction take_candidate(std::string_view candidate, std::size_t max_bytes = kMaxAnswerBytes);

}  // namespace autotriton::tasks
