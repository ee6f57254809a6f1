#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rules/glue.h"
#include "syntax/syntax.h"

/// The rule-based half of the verdict: reads an answer's source and says what is not Triton in it, with line and
/// remedy.
///
///     const rules::Report report = rules::check(module, {rules::EntryKind::kModule, "ModelNew"},
///     rules::Glue::embedded()); if (!report.is_triton()) show(report.findings);
///
/// Only code that the entry point can reach is judged: statements of the module, the construction of the entry's class
/// and, for torch compute and launches, the path from its forward. What no rule can be certain of is left to the run.
namespace autotriton::rules {

enum class Level { kReject, kSuspicious, kNote };
std::string_view level_name(Level level);  ///< "reject", "suspicious", "note".

struct Finding {
  std::string rule;
  Level level = Level::kReject;
  int line = 0;         ///< From 1.
  int column = 0;       ///< From 1, in bytes.
  std::string message;  ///< What is wrong here; then what to change.
};

/// One rule as people read it.
struct RuleInfo {
  std::string_view id;
  Level level;
  std::string_view sentence;  ///< What it refuses or notes.
  std::string_view reason;    ///< Why.
  std::string_view remedy;    ///< How to mend an answer.
};

/// Every rule, family by family, in the order of the registry.
std::span<const RuleInfo> all_rules();
/// The rule with this id, or nullptr.
const RuleInfo* find_rule(std::string_view id);

enum class EntryKind {
  kModule,    ///< A class with a forward method.
  kFunction,  ///< A function of the module.
};

/// What the task calls.
struct EntryPoint {
  EntryKind kind = EntryKind::kModule;
  std::string name = "ModelNew";
};

struct Report {
  std::vector<Finding> findings;           ///< By line, then column.
  std::vector<std::string> jit_functions;  ///< Names, in source order.
  std::vector<std::string> launched;       ///< Of these, the ones that the entry point may launch.
  bool entry_found = false;                ///< Without the entry point nothing but imports and module code was judged.
  /// Whether no finding refuses the answer.
  bool is_triton() const;
};

struct Options {
  /// What PyTorch computes on the path is noted and not refused: for answers that may leave part of the work to it.
  bool report_torch_compute = false;
};

/// Judges a parsed answer. Never throws for anything the source may hold.
Report check(const syntax::Module& module, const EntryPoint& entry, const Glue& glue, const Options& options = {});

}  // namespace autotriton::rules
