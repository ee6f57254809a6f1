#include "syntax/scopes.h"

#include <algorithm>
#include <tuple>

namespace autotriton::syntax {
namespace {

std::uint64_t pair_key(ScopeId scope, NameId name) { return (std::uint64_t{scope} << 32) | name; }

auto key_of(const Binding& binding) { return std::tuple(binding.scope, binding.name); }

bool opens_scope(Kind kind) {
  switch (kind) {
    case Kind::kListComprehension:
    case Kind::kSetComprehension:
    case Kind::kDictionaryComprehension:
    case Kind::kGenerator:
      return true;
    default:
      return false;
  }
}

/// The text of a dotted name without spaces or comments, folded: `torch . nn` is torch.nn.
std::string dotted_text(const Module& module, NodeId id) {
  if (module.kind(id) == Kind::kIdentifier) return std::string(module.name_of(id));
  std::string path;
  if (module.kind(id) == Kind::kRelativeImport) path = ".";
  for (const NodeId part : module.children(id)) {
    const std::string piece = dotted_text(module, part);
    if (piece.empty()) continue;
    if (!path.empty() && path != ".") path += '.';
    path += piece;
  }
  return path;
}

}  // namespace

Scopes::Scopes(const Module& module) : module_(module) {
  node_scopes_.assign(module.num_nodes(), 0);
  bindings_.reserve(128);
  open(ScopeKind::kModule, module.root(), kNoScope);
  if (module.num_nodes() != 0) visit_children(module.root(), 0);
  std::ranges::stable_sort(bindings_, {}, key_of);
  std::ranges::sort(calls_);
}

ScopeId Scopes::open(ScopeKind kind, NodeId node, ScopeId parent) {
  scopes_.push_back({.kind = kind, .node = node, .parent = parent});
  opened_.emplace(node, static_cast<ScopeId>(scopes_.size() - 1));
  return static_cast<ScopeId>(scopes_.size() - 1);
}

std::uint32_t Scopes::add_import_path(std::string path) {
  import_paths_.push_back(std::move(path));
  return static_cast<std::uint32_t>(import_paths_.size() - 1);
}

ScopeId Scopes::scope_opened_by(NodeId definition) const {
  const auto found = opened_.find(definition);
  return found == opened_.end() ? kNoScope : found->second;
}

void Scopes::bind(ScopeId scope, BindingKind kind, NodeId target, NodeId value, int item, std::uint32_t qualified) {
  const NameId name = module_[target].name;
  if (const auto moved = redirected_.find(pair_key(scope, name)); moved != redirected_.end()) scope = moved->second;
  bindings_.push_back({.scope = scope,
                       .name = name,
                       .kind = kind,
                       .item = item,
                       .target = target,
                       .value = value,
                       .qualified = qualified});
}

void Scopes::bind_target(ScopeId scope, BindingKind kind, NodeId target, NodeId value, int item) {
  target = module_.unwrap(target);
  switch (module_.kind(target)) {
    case Kind::kIdentifier:
      bind(scope, kind, target, value, item);
      return;
    case Kind::kListSplatPattern:
    case Kind::kListSplat:
      bind_target(scope, kind, module_[target].first_child, value, kSomeItem);
      return;
    case Kind::kPatternList:
    case Kind::kTuplePattern:
    case Kind::kListPattern:
    case Kind::kTuple:
    case Kind::kList:
    case Kind::kExpressionList: {
      const NodeId plain = module_.unwrap(value);
      const Kind value_kind = module_.kind(plain);
      const bool is_written_out =
          item == kWhole && kind == BindingKind::kAssign &&
          (value_kind == Kind::kTuple || value_kind == Kind::kList || value_kind == Kind::kExpressionList) &&
          module_.num_children(plain) == module_.num_children(target);
      int index = 0;
      for (const NodeId part : module_.children(target)) {
        if (is_written_out) {
          bind_target(scope, kind, part, module_.nth_child(plain, static_cast<std::size_t>(index)));
        } else {
          bind_target(scope, kind, part, value, item == kWhole ? index : kSomeItem);
        }
        ++index;
      }
      return;
    }
    case Kind::kAttribute: {
      const NodeId object = module_.unwrap(module_.child(target, Field::kObject));
      if (module_.kind(object) == Kind::kIdentifier) {
        const std::string_view attribute = module_.name_of(module_.child(target, Field::kAttribute));
        attribute_stores_[attribute].push_back(
            {.object = module_[object].name, .attribute = attribute, .target = target, .value = value, .item = item});
      }
      return;
    }
    default:
      return;
  }
}

void Scopes::visit_children(NodeId id, ScopeId scope) {
  for (const NodeId child : module_.children(id)) visit(child, scope);
}

void Scopes::visit(NodeId id, ScopeId scope) {
  node_scopes_[id] = scope;
  const Kind kind = module_.kind(id);
  if (opens_scope(kind)) {
    visit_children(id, open(ScopeKind::kComprehension, id, scope));
    return;
  }
  switch (kind) {
    case Kind::kFunction:
    case Kind::kLambda:
      visit_function(id, scope);
      return;
    case Kind::kClass: {
      classes_.push_back(id);
      bind(scope, BindingKind::kClass, module_.child(id, Field::kName), id);
      const ScopeId inner = open(ScopeKind::kClass, id, scope);
      for (const NodeId child : module_.children(id)) {
        visit(child, module_[child].field == Field::kBody ? inner : scope);
      }
      return;
    }
    case Kind::kImport:
    case Kind::kImportFrom:
    case Kind::kFutureImport:
      visit_import(id, scope);
      break;
    case Kind::kAssignment: {
      NodeId value = module_.child(id, Field::kRight);
      while (module_.kind(value) == Kind::kAssignment) value = module_.child(value, Field::kRight);
      const bool is_bare = value == kNoNode;
      bind_target(scope, is_bare ? BindingKind::kAnnotation : BindingKind::kAssign, module_.child(id, Field::kLeft),
                  value);
      break;
    }
    case Kind::kAugmented:
      bind_target(scope, BindingKind::kAugment, module_.child(id, Field::kLeft), module_.child(id, Field::kRight));
      break;
    case Kind::kNamed: {
      ScopeId holder = scope;
      while (scopes_[holder].kind == ScopeKind::kComprehension) holder = scopes_[holder].parent;
      bind_target(holder, BindingKind::kWalrus, module_.child(id, Field::kName), module_.child(id, Field::kValue));
      break;
    }
    case Kind::kFor:
    case Kind::kForIn:
      bind_target(scope, BindingKind::kLoop, module_.child(id, Field::kLeft), module_.child(id, Field::kRight));
      break;
    case Kind::kAsPattern: {
      const NodeId alias = module_.child(id, Field::kAlias);
      const bool is_except = module_.kind(module_[id].parent) == Kind::kExcept;
      const bool is_case =
          module_.enclosing(id, Kind::kCase) != kNoNode && module_.kind(module_[id].parent) != Kind::kWithItem;
      const BindingKind bound = is_except ? BindingKind::kExcept : is_case ? BindingKind::kMatch : BindingKind::kWith;
      const NodeId target = module_.kind(alias) == Kind::kAsPatternTarget ? module_[alias].first_child : alias;
      bind_target(scope, bound, target, module_[id].first_child);
      break;
    }
    case Kind::kDottedName:
      if (module_.kind(module_[id].parent) == Kind::kCasePattern && module_.num_children(id) == 1) {
        bind(scope, BindingKind::kMatch, module_[id].first_child, kNoNode);
      }
      break;
    case Kind::kDelete:
      for (const NodeId target : module_.children(id)) bind_target(scope, BindingKind::kDelete, target, kNoNode);
      break;
    case Kind::kGlobal:
    case Kind::kNonlocal:
      for (const NodeId name : module_.children(id)) {
        ScopeId holder = 0;
        if (kind == Kind::kNonlocal) {
          holder = scopes_[scope].parent;
          while (holder != kNoScope && holder != 0 && scopes_[holder].kind == ScopeKind::kClass)
            holder = scopes_[holder].parent;
        }
        redirected_.emplace(pair_key(scope, module_[name].name), holder == kNoScope ? 0 : holder);
      }
      break;
    case Kind::kReturn: {
      const NodeId function = function_of(id);
      if (function != kNoNode && module_[id].first_child != kNoNode)
        returns_[function].push_back(module_[id].first_child);
      break;
    }
    case Kind::kCall:
      visit_call(id);
      break;
    default:
      break;
  }
  visit_children(id, scope);
}

void Scopes::visit_function(NodeId id, ScopeId scope) {
  const bool is_lambda = module_.kind(id) == Kind::kLambda;
  functions_.push_back(id);
  if (scopes_[scope].kind == ScopeKind::kClass && !is_lambda) methods_[scopes_[scope].node].push_back(id);
  if (!is_lambda) bind(scope, BindingKind::kFunction, module_.child(id, Field::kName), id);
  const ScopeId inner = open(is_lambda ? ScopeKind::kLambda : ScopeKind::kFunction, id, scope);
  for (const NodeId child : module_.children(id)) {
    const Field field = module_[child].field;
    if (field == Field::kParameters) {
      visit_parameters(child, scope, inner);
    } else if (field == Field::kBody) {
      visit(child, inner);
      if (is_lambda) returns_[id].push_back(child);
    } else {
      visit(child, scope);
    }
  }
}

void Scopes::visit_parameters(NodeId id, ScopeId outer, ScopeId inner) {
  node_scopes_[id] = outer;
  for (const NodeId parameter : module_.children(id)) {
    NodeId name = parameter;
    while (name != kNoNode && module_.kind(name) != Kind::kIdentifier) {
      node_scopes_[name] = inner;
      const NodeId named = module_.child(name, Field::kName);
      name = named != kNoNode ? named : module_[name].first_child;
    }
    if (name == kNoNode) continue;
    node_scopes_[name] = inner;
    bind(inner, BindingKind::kParameter, name, parameter);
    for (const NodeId part : module_.children(parameter)) {
      if (module_[part].field == Field::kType || module_[part].field == Field::kValue) visit(part, outer);
    }
  }
}

void Scopes::visit_import(NodeId id, ScopeId scope) {
  imports_.push_back(id);
  const bool is_from = module_.kind(id) != Kind::kImport;
  std::string base;
  if (module_.kind(id) == Kind::kFutureImport) base = "__future__";
  if (const NodeId from = module_.child(id, Field::kModuleName); from != kNoNode) base = dotted_text(module_, from);
  for (const NodeId part : module_.children(id)) {
    if (module_[part].field == Field::kModuleName) continue;
    if (module_.kind(part) == Kind::kWildcardImport) {
      wildcards_.push_back(base);
      continue;
    }
    const bool is_aliased = module_.kind(part) == Kind::kAliasedImport;
    const NodeId dotted = is_aliased ? module_.child(part, Field::kName) : part;
    const NodeId alias = is_aliased ? module_.child(part, Field::kAlias) : kNoNode;
    const NodeId first = module_.kind(dotted) == Kind::kDottedName ? module_[dotted].first_child : dotted;
    if (module_.kind(first) != Kind::kIdentifier) continue;
    std::string path = dotted_text(module_, dotted);
    if (is_from) {
      path = base.ends_with('.') ? base + path : base + "." + path;
    } else if (alias == kNoNode) {
      path = module_.name_of(first);  // `import torch.nn` binds torch.
    }
    bind(scope, BindingKind::kImport, alias == kNoNode ? first : alias, id, kWhole, add_import_path(std::move(path)));
  }
}

void Scopes::visit_call(NodeId id) {
  calls_.push_back(id);
  // setattr(self, "name", value) and self.add_module("name", value) store attributes too.
  const NodeId function = module_.child(id, Field::kFunction);
  const NodeId arguments = module_.child(id, Field::kArguments);
  NodeId object = kNoNode;
  std::size_t name_at = 0;
  if (module_.kind(function) == Kind::kIdentifier && module_.name_of(function) == "setattr") {
    object = module_.nth_child(arguments, 0);
    name_at = 1;
  } else if (module_.kind(function) == Kind::kAttribute) {
    const std::string_view method = module_.name_of(module_.child(function, Field::kAttribute));
    if (method != "add_module" && method != "register_module" && method != "register_parameter" &&
        method != "register_buffer")
      return;
    object = module_.child(function, Field::kObject);
  }
  if (module_.kind(object) != Kind::kIdentifier) return;
  std::string name;
  const NodeId value = module_.nth_child(arguments, name_at + 1);
  if (value == kNoNode || !module_.string_value(module_.nth_child(arguments, name_at), name)) return;
  attribute_names_.push_back(std::make_unique<std::string>(std::move(name)));
  const std::string_view attribute = *attribute_names_.back();
  attribute_stores_[attribute].push_back(
      {.object = module_[object].name, .attribute = attribute, .target = id, .value = value});
}

std::span<const Binding> Scopes::bindings(ScopeId scope, NameId name) const {
  const auto range = std::ranges::equal_range(bindings_, std::tuple(scope, name), {}, key_of);
  return {range.begin(), range.end()};
}

std::span<const Binding> Scopes::lookup(NodeId identifier) const {
  const NameId name = module_[identifier].name;
  const ScopeId start = node_scopes_[identifier];
  for (ScopeId scope = start; scope != kNoScope; scope = scopes_[scope].parent) {
    if (scopes_[scope].kind == ScopeKind::kClass && scope != start) continue;
    if (const auto moved = redirected_.find(pair_key(scope, name)); moved != redirected_.end()) {
      if (const auto found = bindings(moved->second, name); !found.empty()) return found;
      continue;
    }
    if (const auto found = bindings(scope, name); !found.empty()) return found;
  }
  return {};
}

std::span<const NodeId> Scopes::returns_of(NodeId function) const {
  const auto found = returns_.find(function);
  return found == returns_.end() ? std::span<const NodeId>{} : found->second;
}

std::span<const NodeId> Scopes::methods_of(NodeId class_definition) const {
  const auto found = methods_.find(class_definition);
  return found == methods_.end() ? std::span<const NodeId>{} : found->second;
}

std::span<const AttributeStore> Scopes::attribute_stores(std::string_view attribute) const {
  const auto found = attribute_stores_.find(attribute);
  return found == attribute_stores_.end() ? std::span<const AttributeStore>{} : found->second;
}

std::span<const NodeId> Scopes::calls_in(NodeId node) const {
  const auto first = std::ranges::lower_bound(calls_, node);
  return {first, std::ranges::lower_bound(calls_, module_.after(node))};
}

NodeId Scopes::function_of(NodeId node) const {
  for (ScopeId scope = node_scopes_[node]; scope != kNoScope; scope = scopes_[scope].parent) {
    if (scopes_[scope].kind == ScopeKind::kFunction || scopes_[scope].kind == ScopeKind::kLambda)
      return scopes_[scope].node;
    if (scopes_[scope].kind == ScopeKind::kClass) return kNoNode;
  }
  return kNoNode;
}

NodeId Scopes::class_of_method(NodeId function) const {
  const Scope& scope = scopes_[node_scopes_[function]];
  return scope.kind == ScopeKind::kClass ? scope.node : kNoNode;
}

std::vector<std::pair<NameId, NodeId>> Scopes::parameters(NodeId function) const {
  std::vector<std::pair<NameId, NodeId>> result;
  for (const NodeId parameter : module_.children(module_.child(function, Field::kParameters))) {
    NodeId name = parameter;
    while (name != kNoNode && module_.kind(name) != Kind::kIdentifier) {
      const NodeId named = module_.child(name, Field::kName);
      name = named != kNoNode ? named : module_[name].first_child;
    }
    if (name != kNoNode) result.emplace_back(module_[name].name, parameter);
  }
  return result;
}

}  // namespace autotriton::syntax
