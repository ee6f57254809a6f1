#pragma once

#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "syntax/reach.h"
#include "syntax/values.h"

namespace autotriton::rules {

struct Context;

/// Where values may come from: which variables a launched kernel may have stored to, and what is drawn from them. It
/// follows assignments, views, calls, parameters and attributes in any order, so that "may come from a kernel" is
/// generous and "comes from none" is certain.
class KernelFlow {
 public:
  explicit KernelFlow(Context& context);

  /// Whether the value of `expression` may have been made by a kernel, or by something that cannot be followed.
  bool may_come_from_kernel(syntax::NodeId expression);
  /// Whether `expression` is nothing that a task could ask for: None, a number, a text, a truth.
  bool is_no_result(syntax::NodeId expression) const;
  /// Whether `expression` is a result, all of whose parts certainly come from no kernel.
  bool comes_from_no_kernel(syntax::NodeId expression);

  /// Whether values of an argument of the entry point may be in `expression`; its sizes and types do not count.
  bool may_hold_input(syntax::NodeId expression);
  /// The same of those arguments that are certainly tensors.
  bool may_hold_input_tensor(syntax::NodeId expression);
  /// The parameters of a jit function that it may store through.
  const std::set<syntax::NameId>& stored_parameters(syntax::NodeId jit_function);

  /// Whether code below `node` launches a kernel, itself or through functions that it calls.
  bool launches(syntax::NodeId node) const;
  /// Whether `statement` launches a kernel on every way through it.
  bool always_launches(syntax::NodeId statement) const;
  /// Whether a launch stands on every way from the start of `node`'s function to `node`, or inside `node`.
  bool follows_launch(syntax::NodeId node) const;
  /// Whether calling `function` launches a kernel.
  bool is_launching(syntax::NodeId function) const { return launching_.contains(function); }

 private:
  using Variable = std::uint32_t;
  struct Source {
    Variable variable = 0;
    bool is_alias = false;  // The same storage, perhaps; else values drawn from it.
  };
  static constexpr Variable kKernel = 0;  // Stands for every kernel, and for what cannot be followed.

  Variable variable(syntax::ScopeId scope, syntax::NameId name);
  Variable attribute_variable(syntax::NameId name) { return variable(syntax::kNoScope, name); }
  void find_launching_functions();
  void link_all();
  void link(Variable target, syntax::NodeId value, bool is_alias = true);
  void link_parameter(const syntax::Binding& binding, Variable target);
  void link_call(syntax::NodeId call);
  const std::vector<syntax::NameId>& fields_of(syntax::NodeId class_definition);
  void link_fields(syntax::NodeId call, syntax::NodeId class_definition);
  void touch_launch(const syntax::Launch& launch);
  void touch(syntax::NodeId expression);
  void spread(std::vector<bool>& reached) const;
  void sources(syntax::NodeId expression, bool is_alias, std::vector<Source>& into, int depth);
  void call_sources(syntax::NodeId call, bool is_alias, std::vector<Source>& into, int depth);
  void argument_sources(syntax::NodeId call, bool is_alias, std::vector<Source>& into, int depth);
  bool may_hold(syntax::NodeId expression, std::vector<bool>& inputs, bool only_tensors);
  void mentioned_parameters(syntax::NodeId node, std::set<syntax::NodeId>& seen, std::set<syntax::NameId>& into) const;

  Context& context_;
  const syntax::Module& module_;
  syntax::Resolver& resolver_;
  std::unordered_map<std::uint64_t, Variable> variables_;
  std::vector<std::vector<Variable>> flows_to_;  // By variable: those that may hold its values.
  std::vector<bool> touched_;
  std::vector<bool> inputs_;  // Those that may hold an argument of the entry point; made when first asked for.
  std::vector<bool> input_tensors_;
  std::unordered_set<syntax::NodeId> launching_;  // Functions.
  std::vector<syntax::NodeId> launching_calls_;   // Sorted.
  std::map<syntax::NodeId, std::set<syntax::NameId>> stored_;
  std::map<syntax::NodeId, std::vector<syntax::NameId>> fields_;  // By class.
  int steps_ = 0;
  int total_steps_ = 0;
};

}  // namespace autotriton::rules
