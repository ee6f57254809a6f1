#pragma once

#include <set>
#include <unordered_map>
#include <utility>

#include "rules/glue.h"
#include "syntax/values.h"

namespace autotriton::rules {

/// Tells which expressions are certainly torch tensors. "No" means not certain: sizes, hyper-parameters and anything
/// whose origin is not seen. So a rule that refuses tensor arithmetic cannot refuse arithmetic on integers.
class TensorTypes {
 public:
  TensorTypes(syntax::Resolver& resolver, const Glue& glue);
  bool is_tensor(syntax::NodeId expression);
  /// Whether `expression` is all that a variable is ever bound to, and the variable is used as only a tensor is.
  bool makes_tensor(syntax::NodeId expression);

 private:
  using Variable = std::pair<syntax::ScopeId, syntax::NameId>;

  bool judge(syntax::NodeId expression);
  bool judge_kind(syntax::NodeId expression);
  bool judge_name(syntax::NodeId identifier);
  bool judge_binding(const syntax::Binding& binding);
  bool judge_parameter(const syntax::Binding& binding);
  bool judge_call(syntax::NodeId call);
  bool judge_attribute(syntax::NodeId attribute);
  void collect_evidence();
  bool ground() {
    ++num_grounds_;
    return true;
  }

  syntax::Resolver& resolver_;
  const syntax::Module& module_;
  const Glue& glue_;
  std::set<Variable> used_as_tensor_;  // Variables asked for a shape, a stride, …
  std::set<Variable> type_tested_;     // Variables whose type the code itself asks for.
  bool evidence_collected_ = false;
  std::set<syntax::NodeId> in_progress_;
  std::unordered_map<syntax::NodeId, bool> known_;
  int steps_ = 0;
  int total_steps_ = 0;
  int depth_ = 0;
  int num_grounds_ = 0;  // Facts that the judgement rests on; a name that depends on itself alone has none.
};

}  // namespace autotriton::rules
