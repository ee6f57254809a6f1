#include "syntax/values.h"

#include <algorithm>

#include "syntax/known_names.h"
#include "syntax/value_set.h"

namespace autotriton::syntax {
namespace {

constexpr std::size_t kMaxDepth = 400;      // Links of one chain of names; longer ones mean nothing.
constexpr std::size_t kMaxSteps = 200'000;  // Beyond it every result is kept, so that cycles cannot cost more.

}  // namespace

bool is_literal(Kind kind) {
  switch (kind) {
    case Kind::kInteger:
    case Kind::kFloat:
    case Kind::kString:
    case Kind::kConcatenatedString:
    case Kind::kTrue:
    case Kind::kFalse:
    case Kind::kNone:
    case Kind::kComparison:
    case Kind::kNot:
      return true;
    default:
      return false;
  }
}

Resolver::Resolver(const Module& module) : module_(module), scopes_(module) { texts_.emplace_back(); }

std::uint32_t Resolver::intern(std::string text) {
  if (const auto found = text_ids_.find(text); found != text_ids_.end()) return found->second;
  texts_.push_back(text);
  const auto id = static_cast<std::uint32_t>(texts_.size() - 1);
  text_ids_.emplace(std::move(text), id);
  return id;
}

Value Resolver::external_value(std::string name) {
  // dataclasses.sys is sys, and torch.os is os: a module seen through another one is that module.
  for (std::size_t dot = name.find('.'); dot != std::string::npos && name.find("()") == std::string::npos;
       dot = name.find('.', dot + 1)) {
    const std::string_view part = std::string_view(name).substr(dot + 1, name.find('.', dot + 1) - dot - 1);
    if (const std::string_view seen = module_seen_through(part); !seen.empty()) {
      name = std::string(seen) + name.substr(std::min(name.find('.', dot + 1), name.size()));
      dot = 0;
    }
  }
  return {.kind = ValueKind::kExternal, .text = intern(std::move(name))};
}

const ValueSet& Resolver::values(NodeId expression) {
  static const ValueSet kNone;
  expression = module_.unwrap(expression);
  return expression == kNoNode ? kNone : remembered(expression);
}

const ValueSet& Resolver::remembered(NodeId expression) {
  static const ValueSet kNone;
  if (const auto found = memo_.find(expression); found != memo_.end()) return found->second;
  if (in_progress_.size() >= kMaxDepth || !in_progress_.insert(expression).second) {
    ++cycles_met_;
    return kNone;
  }
  ++steps_;
  const std::size_t cycles_before = cycles_met_;
  ValueSet result =
      expression < module_.num_nodes() ? compute(expression) : compute_bindings(expression - module_.num_nodes());
  in_progress_.erase(expression);
  const bool is_complete = cycles_met_ == cycles_before || (in_progress_.empty() && !indexing_sites_);
  if (is_complete || steps_ > kMaxSteps) {
    return memo_.insert_or_assign(expression, std::move(result)).first->second;
  }
  // A partial result: kept out of the memo, in a slot that lives as long as the resolver.
  partial_.push_back(std::move(result));
  return partial_.back();
}

ValueSet Resolver::compute(NodeId expression) {
  ValueSet result;
  switch (module_.kind(expression)) {
    case Kind::kIdentifier:
      return compute_name(expression);
    case Kind::kAttribute: {
      const std::string_view name = module_.name_of(module_.child(expression, Field::kAttribute));
      const ValueSet objects = values(module_.child(expression, Field::kObject));
      for (const Value& object : objects) add_all(result, attribute(object, name));
      return result;
    }
    case Kind::kCall:
      return compute_call(expression);
    case Kind::kSubscript: {
      const ValueSet objects = values(module_.child(expression, Field::kValue));
      for (const Value& object : objects) add_all(result, subscript_value(object, expression));
      return result;
    }
    case Kind::kConditional:
      add_all(result, values(module_.nth_child(expression, 0)));
      add_all(result, values(module_.nth_child(expression, 2)));
      return result;
    case Kind::kBoolean:
      for (const NodeId side : module_.children(expression)) add_all(result, values(side));
      return result;
    case Kind::kNamed:
      return values(module_.child(expression, Field::kValue));
    case Kind::kAwait:
      return values(module_[expression].first_child);
    case Kind::kLambda:
      add(result, {.kind = ValueKind::kFunction, .node = expression});
      return result;
    case Kind::kTuple:
    case Kind::kList:
    case Kind::kSet:
    case Kind::kExpressionList:
    case Kind::kDictionary:
    case Kind::kListComprehension:
    case Kind::kSetComprehension:
    case Kind::kDictionaryComprehension:
    case Kind::kGenerator:
      add(result, {.kind = ValueKind::kContainer, .node = expression});
      return result;
    default:
      if (is_literal(module_.kind(expression))) add(result, {.kind = ValueKind::kLiteral, .node = expression});
      return result;
  }
}

ValueSet Resolver::compute_name(NodeId identifier) {
  ValueSet result;
  // The `input` of f(input=x) and of x.input is a label, not a name that is looked up.
  const Kind around = module_.kind(module_[identifier].parent);
  if ((around == Kind::kKeywordArgument && module_[identifier].field == Field::kName) ||
      (around == Kind::kAttribute && module_[identifier].field == Field::kAttribute))
    return result;
  const auto found = scopes_.lookup(identifier);
  if (!found.empty()) {
    const auto first = static_cast<std::size_t>(found.data() - scopes_.all_bindings().data());
    return remembered(static_cast<NodeId>(module_.num_nodes() + first));
  }
  const std::string name(module_.name_of(identifier));
  if (is_builtin(name)) {
    add(result, external_value("builtins." + name));
    return result;
  }
  for (const std::string& from : scopes_.wildcard_imports()) add(result, external_value(from + "." + name));
  if (result.empty()) add(result, {.kind = ValueKind::kUnresolved, .text = intern(name)});
  return result;
}

ValueSet Resolver::compute_bindings(std::size_t first) {
  ValueSet result;
  const Binding& shared = scopes_.all_bindings()[first];
  for (const Binding& binding : scopes_.bindings(shared.scope, shared.name)) {
    add_all(result, compute_binding(binding));
    if (result.size() == kMaxValues) break;
  }
  return result;
}

ValueSet Resolver::compute_binding(const Binding& binding) {
  ValueSet result;
  switch (binding.kind) {
    case BindingKind::kImport:
      add(result, external_value(std::string(scopes_.import_path(binding))));
      return result;
    case BindingKind::kFunction:
    case BindingKind::kClass:
      return definition_values(binding.value);
    case BindingKind::kParameter:
      return compute_parameter(binding);
    case BindingKind::kLoop:
      for (const Value& item : item_of(binding.value, kSomeItem)) {
        if (binding.item == kWhole) {
          add(result, item);
        } else {
          add_all(result, elements(item));
        }
      }
      return result;
    case BindingKind::kAssign:
    case BindingKind::kWalrus:
    case BindingKind::kWith:
      return item_of(binding.value, binding.item);
    default:
      return result;
  }
}

ValueSet Resolver::item_of(NodeId expression, int item) {
  if (item == kWhole) return values(expression);
  ValueSet result;
  const ValueSet holders = values(expression);
  for (const Value& holder : holders) {
    if (holder.kind == ValueKind::kContainer && item >= 0) {
      const NodeId node = module_.nth_child(holder.node, static_cast<std::size_t>(item));
      const Kind kind = module_.kind(holder.node);
      if (kind == Kind::kTuple || kind == Kind::kList || kind == Kind::kExpressionList) {
        add_all(result, values(node));
        continue;
      }
    }
    add_all(result, elements(holder));
  }
  return result;
}

ValueSet Resolver::elements(const Value& container) {
  ValueSet result;
  NodeId holder = container.node;
  if (container.kind == ValueKind::kResult) {
    const std::string_view maker = text(container);
    if (maker.ends_with(".children") || maker.ends_with(".modules") || maker.ends_with(".named_children") ||
        maker.ends_with("_modules.values")) {
      for (const auto& [name, stores] : scopes_.all_attribute_stores()) {
        for (const AttributeStore& store : stores) {
          for (const Value& value : ValueSet(values(store.value))) {
            if (value.kind == ValueKind::kResult && text(value).starts_with("torch.nn.")) add(result, value);
            if (value.kind == ValueKind::kInstance) add(result, value);
          }
        }
      }
      return result;
    }
    if (!holds_its_arguments(maker)) return result;
    const NodeId first = module_.child(holder, Field::kArguments);
    for (const NodeId argument : module_.children(first)) {
      const ValueSet inner =
          values(module_.kind(argument) == Kind::kKeywordArgument ? module_.child(argument, Field::kValue)
                 : module_.kind(argument) == Kind::kListSplat     ? module_[argument].first_child
                                                                  : argument);
      for (const Value& value : inner) {
        if (value.kind == ValueKind::kContainer) {
          add_all(result, elements(value));
        } else {
          add(result, value);
        }
      }
    }
    return result;
  }
  if (container.kind != ValueKind::kContainer) return result;
  for (const NodeId item : module_.children(holder)) {
    switch (module_.kind(item)) {
      case Kind::kPair:
        add_all(result, values(module_.child(item, Field::kValue)));
        break;
      case Kind::kForIn:
      case Kind::kIfClause:
        break;
      case Kind::kListSplat:
      case Kind::kDictionarySplat:
        for (const Value& inner : ValueSet(values(module_[item].first_child))) add_all(result, elements(inner));
        break;
      default:
        add_all(result, values(item));
    }
  }
  return result;
}

ValueSet Resolver::subscript_value(const Value& object, NodeId subscript) {
  ValueSet result;
  switch (object.kind) {
    case ValueKind::kJit:
      add(result, {.kind = ValueKind::kLaunch, .node = object.node});
      break;
    case ValueKind::kInstance:
      if (const NodeId function = method(object.node, "__getitem__"); function != kNoNode) {
        for (const NodeId returned : scopes_.returns_of(function)) add_all(result, values(returned));
      }
      break;
    case ValueKind::kContainer:
    case ValueKind::kResult: {
      const NodeId index = module_.unwrap(module_.child(subscript, Field::kSubscript));
      const Kind holder = module_.kind(object.node);
      if (module_.kind(index) == Kind::kInteger && (holder == Kind::kTuple || holder == Kind::kList) &&
          module_.text(index).size() < 4) {
        std::size_t position = 0;
        for (const char c : module_.text(index)) position = position * 10 + static_cast<std::size_t>(c - '0');
        const NodeId item = module_.nth_child(object.node, position);
        if (item != kNoNode && module_.kind(item) != Kind::kListSplat) return values(item);
      }
      return elements(object);
    }
    case ValueKind::kExternal:
      // Generic aliases such as Callable[..., int], and tables such as sys.modules["torch"].
      add(result, external_value(std::string(text(object)) + "[]"));
      break;
    default:
      break;
  }
  return result;
}

ValueSet Resolver::definition_values(NodeId definition) {
  if (const auto found = definition_memo_.find(definition); found != definition_memo_.end()) return found->second;
  ValueSet result;
  add(result, {.kind = module_.kind(definition) == Kind::kClass ? ValueKind::kClass : ValueKind::kFunction,
               .node = definition});
  definition_memo_[definition] = result;  // A decorator may lead back here.
  std::vector<NodeId> applied = decorators(definition);
  std::ranges::reverse(applied);
  for (const NodeId decorator : applied) decorate(result, decorator);
  definition_memo_[definition] = result;
  return result;
}

void Resolver::decorate(ValueSet& decorated, NodeId decorator) {
  const ValueSet callees = values(decorator);
  for (const Value& callee : callees) {
    const bool is_jit =
        (callee.kind == ValueKind::kExternal || callee.kind == ValueKind::kResult) && is_jit_decorator(text(callee));
    if (is_jit) {
      decorated = jit_of(decorated);
    } else if (callee.kind == ValueKind::kClass) {
      decorated = {{.kind = ValueKind::kInstance, .node = callee.node}};
    } else if (callee.kind == ValueKind::kFunction) {
      for (const NodeId returned : scopes_.returns_of(callee.node)) add_all(decorated, values(returned));
    } else if (callee.kind == ValueKind::kInstance) {
      if (const NodeId call = method(callee.node, "__call__"); call != kNoNode) {
        for (const NodeId returned : scopes_.returns_of(call)) add_all(decorated, values(returned));
      }
    }
  }
}

/// What a decorator is given: the definition, under the decorators that stand below it.
ValueSet Resolver::beneath_decorator(NodeId definition, NodeId decorating_function) {
  ValueSet result;
  add(result, {.kind = module_.kind(definition) == Kind::kClass ? ValueKind::kClass : ValueKind::kFunction,
               .node = definition});
  std::vector<NodeId> applied = decorators(definition);
  std::ranges::reverse(applied);
  for (const NodeId decorator : applied) {
    const ValueSet callees = values(decorator);
    const bool is_reached = std::ranges::any_of(callees, [&](const Value& callee) {
      if (callee.kind == ValueKind::kFunction) return callee.node == decorating_function;
      if (callee.kind == ValueKind::kClass) return method(callee.node, "__init__") == decorating_function;
      return callee.kind == ValueKind::kInstance && method(callee.node, "__call__") == decorating_function;
    });
    if (is_reached) return result;
    decorate(result, decorator);
  }
  return result;
}

ValueSet Resolver::jit_of(const ValueSet& functions) {
  ValueSet result;
  for (const Value& value : functions) {
    if (value.kind == ValueKind::kFunction || value.kind == ValueKind::kJit) {
      add(result, {.kind = ValueKind::kJit, .node = value.node});
    } else {
      add(result, value);
    }
  }
  return result;
}

std::vector<NodeId> Resolver::decorators(NodeId definition) const {
  std::vector<NodeId> result;
  const NodeId parent = module_[definition].parent;
  if (module_.kind(parent) != Kind::kDecorated) return result;
  for (const NodeId child : module_.children(parent)) {
    if (module_.kind(child) == Kind::kDecorator) result.push_back(module_[child].first_child);
  }
  return result;
}

bool Resolver::may_be(NodeId expression, std::string_view name) {
  return std::ranges::any_of(values(expression), [&](const Value& value) {
    return value.kind == ValueKind::kExternal && text(value) == name;
  });
}

std::optional<std::string_view> Resolver::external(NodeId expression) {
  const ValueSet& set = values(expression);
  if (set.size() != 1 || set.front().kind != ValueKind::kExternal) return std::nullopt;
  return text(set.front());
}

std::span<const NodeId> Resolver::jit_functions() {
  if (!jit_functions_) {
    std::vector<NodeId> found;
    const auto collect = [&](const ValueSet& set) {
      for (const Value& value : set) {
        if (value.kind == ValueKind::kJit) found.push_back(value.node);
      }
    };
    for (const NodeId function : scopes_.functions()) {
      if (module_.kind(function) != Kind::kFunction) continue;
      collect(definition_values(function));
      for (const NodeId decorator : decorators(function)) {  // A class keeps the kernel that it decorates.
        for (const Value& callee : ValueSet(values(decorator))) {
          if (callee.kind == ValueKind::kClass) collect(beneath_decorator(function, method(callee.node, "__init__")));
        }
      }
    }
    for (const NodeId call : scopes_.calls()) {
      const ValueSet callees = values(module_.child(call, Field::kFunction));
      const bool makes_jit = std::ranges::any_of(callees, [&](const Value& callee) {
        return (callee.kind == ValueKind::kExternal || callee.kind == ValueKind::kResult) &&
               is_jit_decorator(text(callee));
      });
      if (makes_jit) collect(values(call));
    }
    std::ranges::sort(found);
    found.erase(std::unique(found.begin(), found.end()), found.end());
    jit_functions_ = std::move(found);
  }
  return *jit_functions_;
}

ValueSet Resolver::global(std::string_view name) {
  ValueSet result;
  const NameId id = module_.find_name(name);
  if (id == kNoName) return result;
  for (const Binding& binding : scopes_.bindings(0, id)) add_all(result, compute_binding(binding));
  return result;
}

}  // namespace autotriton::syntax
