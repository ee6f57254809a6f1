#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "fuzz/require.h"
#include "tasks/answer.h"

/// A model's raw reply through the extraction of its code.
namespace {

using namespace autotriton::tasks;

void require_lines(const Extraction& extraction, std::string_view answer) {
  if (const auto* failure = std::get_if<ExtractionFailure>(&extraction)) {
    FUZZ_REQUIRE(!failure->message.empty() && !problem_id(failure->problem).empty());
    return;
  }
  const auto& found = std::get<ExtractedCode>(extraction);
  const auto code_lines = static_cast<std::size_t>(std::count(found.code.begin(), found.code.end(), '\n'));
  const bool open_end = !found.code.empty() && found.code.back() != '\n';
  FUZZ_REQUIRE(found.answer_lines.size() == code_lines + (open_end ? 1 : 0));
  std::size_t most = 1;
  for (const char byte : answer) most += byte == '\n' || byte == '\r' ? 1 : 0;
  for (const std::size_t line : found.answer_lines) FUZZ_REQUIRE(line >= 1 && line <= most);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view answer(reinterpret_cast<const char*>(data), size);
  for (const char* entry : {"ModelNew", "f"}) require_lines(extract_code(answer, entry), answer);
  require_lines(take_candidate(answer), answer);
  form_of(answer);
  return 0;
}
