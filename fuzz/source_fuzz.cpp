#include <algorithm>
#include <cstdint>
#include <string>
#include <variant>

#include "fuzz/require.h"
#include "rules/glue.h"
#include "rules/rules.h"
#include "syntax/poison.h"
#include "syntax/syntax.h"

/// An answer's source through the parser, the rules and the kernel knock-out.
namespace {

using namespace autotriton;

auto lines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string source(reinterpret_cast<const char*>(data), size);
  const auto parsed = syntax::parse(source);
  if (const auto* failure = std::get_if<syntax::ParseFailure>(&parsed)) {
    FUZZ_REQUIRE(failure->line >= 1 && failure->column >= 1 && !failure->message.empty());
    return 0;
  }
  const auto& module = std::get<syntax::Module>(parsed);
  const std::string read(module.source());
  for (const auto& entry : {rules::EntryPoint{rules::EntryKind::kModule, "ModelNew"},
                            rules::EntryPoint{rules::EntryKind::kFunction, "f"}}) {
    for (const bool report_torch : {false, true}) {
      const rules::Report report =
          rules::check(module, entry, rules::Glue::embedded(), {.report_torch_compute = report_torch});
      for (const rules::Finding& finding : report.findings) {
        FUZZ_REQUIRE(rules::find_rule(finding.rule) != nullptr);
        FUZZ_REQUIRE(finding.line >= 1 && finding.line <= lines(read) + 1 && finding.column >= 1);
      }
    }
  }
  for (const syntax::Poison poison : {syntax::Poison::kNumber, syntax::Poison::kZero}) {
    FUZZ_REQUIRE(lines(syntax::poison_stores(module, poison)) == lines(read));
  }
  return 0;
}
