#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "syntax/syntax.h"

/// Who binds which name: Python's scopes, without following the flow of control. A name bound twice has two bindings.
namespace autotriton::syntax {

using ScopeId = std::uint32_t;
inline constexpr ScopeId kNoScope = 0xffffffff;

enum class ScopeKind : std::uint8_t { kModule, kClass, kFunction, kLambda, kComprehension };

struct Scope {
  ScopeKind kind = ScopeKind::kModule;
  NodeId node = 0;  ///< The definition, lambda or comprehension.
  ScopeId parent = kNoScope;
};

enum class BindingKind : std::uint8_t {
  kImport,
  kAssign,
  kParameter,
  kFunction,
  kClass,
  kLoop,
  kWith,
  kExcept,
  kWalrus,
  kAugment,
  kDelete,
  kAnnotation,  ///< `x: int` without a value.
  kMatch,
};

/// Where in a value the bound part stands.
inline constexpr int kWhole = -1;     ///< All of it.
inline constexpr int kSomeItem = -2;  ///< An item, not known which.

struct Binding {
  ScopeId scope = 0;
  NameId name = kNoName;
  BindingKind kind = BindingKind::kAssign;
  int item = kWhole;            ///< For `a, b = value`: the position.
  NodeId target = kNoNode;      ///< The name's node.
  NodeId value = kNoNode;       ///< The expression, iterable, definition or parameter; kNoNode if there is none.
  std::uint32_t qualified = 0;  ///< Of imports: index for Scopes::import_path.
};

/// `self.x = value`, or setattr(self, "x", value), or self.add_module("x", value).
struct AttributeStore {
  NameId object = kNoName;  ///< Name of the object, such as `self`.
  std::string_view attribute;
  NodeId target = kNoNode;
  NodeId value = kNoNode;
  int item = kWhole;
};

class Scopes {
 public:
  explicit Scopes(const Module& module);

  const Module& module() const { return module_; }
  const Scope& operator[](ScopeId id) const { return scopes_[id]; }
  /// The scope in which `node` is evaluated; for a definition, the one around it.
  ScopeId scope_of(NodeId node) const { return node_scopes_[node]; }
  /// The scope that `definition` (function, lambda, class, comprehension) opens.
  ScopeId scope_opened_by(NodeId definition) const;
  /// Bindings of `name` in this very scope.
  std::span<const Binding> bindings(ScopeId scope, NameId name) const;
  /// Bindings that an identifier sees, by Python's rules; empty if only a builtin or nothing has that name.
  std::span<const Binding> lookup(NodeId identifier) const;
  std::span<const Binding> all_bindings() const { return bindings_; }
  std::string_view import_path(const Binding& binding) const { return import_paths_[binding.qualified]; }
  /// Modules of `from m import *` at module level.
  std::span<const std::string> wildcard_imports() const { return wildcards_; }

  /// Stores to an attribute of this name, whatever the object.
  std::span<const AttributeStore> attribute_stores(std::string_view attribute) const;
  const std::unordered_map<std::string_view, std::vector<AttributeStore>>& all_attribute_stores() const {
    return attribute_stores_;
  }
  std::span<const NodeId> calls() const { return calls_; }
  /// The calls below `node`.
  std::span<const NodeId> calls_in(NodeId node) const;
  std::span<const NodeId> functions() const { return functions_; }
  std::span<const NodeId> classes() const { return classes_; }
  std::span<const NodeId> imports() const { return imports_; }
  /// Expressions returned by `function` (the body, for a lambda).
  std::span<const NodeId> returns_of(NodeId function) const;
  /// Functions defined directly in the body of a class.
  std::span<const NodeId> methods_of(NodeId class_definition) const;
  /// The function definition or lambda whose code `node` belongs to, or kNoNode at module and class level.
  NodeId function_of(NodeId node) const;
  /// The class whose body directly holds `function`, or kNoNode.
  NodeId class_of_method(NodeId function) const;
  /// Names of the parameters, in order, with the node of each (the parameter node, not the identifier).
  std::vector<std::pair<NameId, NodeId>> parameters(NodeId function) const;

 private:
  void visit(NodeId id, ScopeId scope);
  void visit_children(NodeId id, ScopeId scope);
  void visit_function(NodeId id, ScopeId scope);
  void visit_parameters(NodeId id, ScopeId outer, ScopeId inner);
  void visit_import(NodeId id, ScopeId scope);
  void visit_call(NodeId id);
  void bind(ScopeId scope, BindingKind kind, NodeId target, NodeId value, int item = kWhole,
            std::uint32_t qualified = 0);
  void bind_target(ScopeId scope, BindingKind kind, NodeId target, NodeId value, int item = kWhole);
  ScopeId open(ScopeKind kind, NodeId node, ScopeId parent);
  std::uint32_t add_import_path(std::string path);

  const Module& module_;
  std::vector<Scope> scopes_;
  std::vector<ScopeId> node_scopes_;
  std::vector<Binding> bindings_;
  std::vector<std::string> import_paths_;
  std::vector<std::string> wildcards_;
  std::unordered_map<std::uint64_t, ScopeId> redirected_;  // Names that global or nonlocal moves, by scope and name.
  std::unordered_map<NodeId, ScopeId> opened_;
  std::unordered_map<std::string_view, std::vector<AttributeStore>> attribute_stores_;
  std::vector<std::unique_ptr<std::string>> attribute_names_;
  std::vector<NodeId> calls_, functions_, classes_, imports_;
  std::unordered_map<NodeId, std::vector<NodeId>> returns_, methods_;
};

}  // namespace autotriton::syntax
