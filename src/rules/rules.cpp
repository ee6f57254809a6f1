#include "rules/rules.h"

#include <algorithm>
#include <tuple>

#include "rules/context.h"

namespace autotriton::rules {

std::string_view level_name(Level level) {
  switch (level) {
    case Level::kReject:
      return "reject";
    case Level::kSuspicious:
      return "suspicious";
    case Level::kNote:
      return "note";
  }
  return "reject";
}

std::span<const RuleInfo> all_rules() {
  static const std::vector<RuleInfo> kRules = [] {
    std::vector<RuleInfo> rules;
    for (const Family& family : all_families()) rules.insert(rules.end(), family.rules.begin(), family.rules.end());
    return rules;
  }();
  return kRules;
}

const RuleInfo* find_rule(std::string_view id) {
  const auto rules = all_rules();
  const auto found = std::ranges::find(rules, id, &RuleInfo::id);
  return found == rules.end() ? nullptr : &*found;
}

bool Report::is_triton() const {
  return std::ranges::none_of(findings, [](const Finding& finding) { return finding.level == Level::kReject; });
}

Report check(const syntax::Module& module, const EntryPoint& entry, const Glue& glue, const Options& options) {
  Context context(module, entry, glue, options);
  for (const Family& family : all_families()) family.check(context);
  std::ranges::stable_sort(context.findings, {},
                           [](const Finding& finding) { return std::tuple(finding.line, finding.column); });

  Report report;
  const auto name_of = [&](syntax::NodeId function) {
    const syntax::NodeId name = module.child(function, syntax::Field::kName);
    return name == syntax::kNoNode ? std::string("<lambda>") : std::string(module.name_of(name));
  };
  for (const syntax::NodeId function : context.resolver.jit_functions())
    report.jit_functions.push_back(name_of(function));
  for (const syntax::NodeId function : context.launched) report.launched.push_back(name_of(function));
  report.findings = std::move(context.findings);
  report.entry_found = context.entry_found;
  return report;
}

}  // namespace autotriton::rules
