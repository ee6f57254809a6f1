#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "syntax/scopes.h"

/// What an expression may mean: names followed through imports, assignments, attributes, calls, parameters and
/// containers. The answer is a set, since a name may be bound more than once; an empty set means unknown, never
/// "nothing".
namespace autotriton::syntax {

/// Whether an expression of this kind is a number, a text or a truth value of its own: literals, comparisons, `not`.
bool is_literal(Kind kind);

enum class ValueKind : std::uint8_t {
  kExternal,    ///< Something outside the file, by its full name: torch.nn.functional.relu, builtins.exec.
  kUnresolved,  ///< A name that nothing binds.
  kFunction,    ///< A function or lambda of this file.
  kJit,         ///< A function of this file under triton.jit.
  kLaunch,      ///< kernel[grid] or kernel.run: calling it launches the jit function.
  kClass,       ///< A class of this file.
  kInstance,    ///< An instance of a class of this file.
  kSuper,       ///< super() inside a class of this file.
  kResult,      ///< What calling something external returned; `text` names the callee, `node` is the call.
  kContainer,   ///< A list, tuple, set, dictionary or comprehension.
  kLiteral,     ///< A number, a string, None, True, False.
};

struct Value {
  ValueKind kind = ValueKind::kLiteral;
  bool bound = false;      ///< A method taken from an instance: the first parameter is filled.
  NodeId node = kNoNode;   ///< The definition, call, literal or container.
  std::uint32_t text = 0;  ///< Of kExternal, kUnresolved, kResult: index for Resolver::text.
  auto operator<=>(const Value&) const = default;
};

using ValueSet = std::vector<Value>;

class Resolver {
 public:
  explicit Resolver(const Module& module);
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  const Module& module() const { return module_; }
  const Scopes& scopes() const { return scopes_; }
  std::string_view text(const Value& value) const { return texts_[value.text]; }

  /// What `expression` may be.
  const ValueSet& values(NodeId expression);
  /// What `object.name` may be.
  ValueSet attribute(const Value& object, std::string_view name);
  /// What a definition's name is bound to once its decorators have run.
  ValueSet definition_values(NodeId definition);
  /// Whether some possible value is the external `name`.
  bool may_be(NodeId expression, std::string_view name);
  /// The full name if the expression can only be that one external thing.
  std::optional<std::string_view> external(NodeId expression);

  /// Jit functions of the file in source order.
  std::span<const NodeId> jit_functions();
  /// What the module binds to `name` at its top level.
  ValueSet global(std::string_view name);
  /// A class with its bases of this file, nearest first.
  std::vector<NodeId> bases(NodeId class_definition);
  /// Full names of a class's bases outside this file.
  std::vector<std::string> external_bases(NodeId class_definition);
  /// The function that `class.name` is, looked up along the bases; kNoNode if none is in this file.
  NodeId method(NodeId class_definition, std::string_view name);
  /// The special methods (__call__, __enter__, __getattr__, …) that a class has along its bases of this file.
  std::vector<NodeId> special_methods(NodeId class_definition);
  /// The decorators of a function or class, outermost first (the expressions behind the @).
  std::vector<NodeId> decorators(NodeId definition) const;
  /// Elements that a container literal or comprehension holds (values, for a dictionary).
  ValueSet elements(const Value& container);
  /// The expressions that calls of `function` pass for the parameter at `index`.
  std::vector<NodeId> arguments_for(NodeId function, std::size_t index);
  /// The calls of `function`; a definition that it decorates is none.
  std::vector<NodeId> calls_of(NodeId function) const;
  /// The argument of a call for a name or position; kNoNode if absent or hidden behind a star.
  NodeId argument(NodeId call, std::size_t index, std::string_view keyword) const;

 private:
  struct CallSite {
    NodeId call = kNoNode;
    std::size_t offset = 0;  // Parameters filled before the first argument.
    bool decorates = false;  // `call` is then the decorated definition itself.
  };

  ValueSet compute(NodeId expression);
  ValueSet compute_name(NodeId identifier);
  ValueSet compute_bindings(std::size_t first);
  ValueSet compute_binding(const Binding& binding);
  ValueSet compute_parameter(const Binding& binding);
  ValueSet compute_call(NodeId call);
  ValueSet call_value(const Value& callee, NodeId call);
  ValueSet call_external(const Value& callee, NodeId call);
  ValueSet subscript_value(const Value& object, NodeId subscript);
  ValueSet item_of(NodeId expression, int item);
  ValueSet jit_of(const ValueSet& functions);
  void decorate(ValueSet& decorated, NodeId decorator);
  ValueSet beneath_decorator(NodeId definition, NodeId decorating_function);
  ValueSet instance_attribute(NodeId class_definition, std::string_view name);
  ValueSet class_attribute(NodeId class_definition, std::string_view name, bool bound, bool skip_own);
  void index_call_sites();
  void add_call_site(const Value& callee, CallSite site);
  Value external_value(std::string name);
  std::uint32_t intern(std::string text);

  const Module& module_;
  Scopes scopes_;
  std::vector<std::string> texts_;
  std::unordered_map<std::string, std::uint32_t> text_ids_;
  const ValueSet& remembered(NodeId key);

  std::unordered_map<NodeId, ValueSet>
      memo_;  // By node; names with equal bindings share num_nodes() + their first binding.
  std::unordered_map<NodeId, ValueSet> definition_memo_;
  std::deque<ValueSet> partial_;  // Results that a cycle cut short; callers still hold references to them.
  std::unordered_set<NodeId> in_progress_;
  std::size_t cycles_met_ = 0;  // Cycles that cut a result short: such results are not kept.
  std::size_t steps_ = 0;
  bool sites_indexed_ = false;
  bool indexing_sites_ = false;
  std::unordered_map<NodeId, std::vector<CallSite>> call_sites_;
  std::optional<std::vector<NodeId>> jit_functions_;
  std::unordered_map<NodeId, std::vector<NodeId>> bases_memo_;
};

}  // namespace autotriton::syntax
