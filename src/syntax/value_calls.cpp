#include <algorithm>

#include "syntax/known_names.h"
#include "syntax/value_set.h"
#include "syntax/values.h"

/// The half of Resolver that follows calls, parameters and attributes.
namespace autotriton::syntax {
NodeId Resolver::argument(NodeId call, std::size_t index, std::string_view keyword) const {
  std::size_t position = 0;
  bool behind_star = false;
  for (const NodeId argument : module_.children(module_.child(call, Field::kArguments))) {
    switch (module_.kind(argument)) {
      case Kind::kKeywordArgument:
        if (!keyword.empty() && module_.name_of(module_.child(argument, Field::kName)) == keyword) {
          return module_.child(argument, Field::kValue);
        }
        break;
      case Kind::kListSplat:
      case Kind::kDictionarySplat:
        behind_star = true;
        break;
      default:
        if (!behind_star && position == index) return argument;
        ++position;
    }
  }
  return kNoNode;
}

ValueSet Resolver::compute_call(NodeId call) {
  ValueSet result;
  const NodeId function = module_.unwrap(module_.child(call, Field::kFunction));
  // dictionary.get(key), .values(), .items(): an element.
  if (module_.kind(function) == Kind::kAttribute) {
    const std::string_view method = module_.name_of(module_.child(function, Field::kAttribute));
    if (method == "get" || method == "values" || method == "items" || method == "pop" || method == "setdefault") {
      const ValueSet objects = values(module_.child(function, Field::kObject));
      for (const Value& object : objects) {
        const bool is_single = method == "get" || method == "pop" || method == "setdefault";
        if (is_single) {
          add_all(result, elements(object));
        } else if (object.kind == ValueKind::kContainer || object.kind == ValueKind::kResult) {
          add(result, object);  // Iterating over it gives its elements.
        }
      }
      if (!result.empty()) return result;
    }
  }
  const ValueSet callees = values(function);
  for (const Value& callee : callees) add_all(result, call_value(callee, call));
  return result;
}

ValueSet Resolver::call_value(const Value& callee, NodeId call) {
  ValueSet result;
  switch (callee.kind) {
    case ValueKind::kExternal:
    case ValueKind::kResult:
      return call_external(callee, call);
    case ValueKind::kFunction:
      for (const NodeId returned : scopes_.returns_of(callee.node)) add_all(result, values(returned));
      return result;
    case ValueKind::kClass:
      add(result, {.kind = ValueKind::kInstance, .node = callee.node});
      return result;
    case ValueKind::kInstance:
      for (const std::string_view name : {"__call__", "forward"}) {
        const NodeId function = method(callee.node, name);
        if (function == kNoNode) continue;
        for (const NodeId returned : scopes_.returns_of(function)) add_all(result, values(returned));
      }
      return result;
    default:
      return result;
  }
}

ValueSet Resolver::call_external(const Value& callee, NodeId call) {
  ValueSet result;
  const std::string name(text(callee));
  const NodeId first = argument(call, 0, "fn");
  const bool is_wrapper = callee.kind == ValueKind::kResult;
  if (is_jit_decorator(name) && first != kNoNode) {
    // triton.jit(function); triton.jit(None) and triton.jit(debug=True) still wait for theirs.
    ValueSet wrapped = jit_of(values(first));
    if (std::ranges::any_of(wrapped, [](const Value& value) { return value.kind == ValueKind::kJit; })) return wrapped;
  }
  if (is_wrapper ? makes_wrapper(name) : passes_through(name)) {
    // functools.lru_cache(maxsize=None) and torch.no_grad() have no function yet.
    if (first != kNoNode) {
      const ValueSet& inner = values(first);
      const bool is_callable =
          std::ranges::any_of(inner, [](const Value& value) { return value.kind != ValueKind::kLiteral; });
      if (is_callable) return inner;
    }
  }
  if (name == "builtins.super") {
    for (NodeId node = module_.enclosing(call, Kind::kClass); node != kNoNode; node = kNoNode) {
      add(result, {.kind = ValueKind::kSuper, .node = node});
    }
    return result;
  }
  if (name == "builtins.getattr") {
    std::string attribute_name;
    if (module_.string_value(argument(call, 1, ""), attribute_name)) {
      const ValueSet objects = values(first);
      for (const Value& object : objects) add_all(result, attribute(object, attribute_name));
    }
    add_all(result, values(argument(call, 2, "")));
    return result;
  }
  if (name == "builtins.type" && module_.num_children(module_.child(call, Field::kArguments)) == 1) {
    const ValueSet objects = values(first);
    for (const Value& object : objects) {
      if (object.kind == ValueKind::kInstance) add(result, {.kind = ValueKind::kClass, .node = object.node});
      if (object.kind == ValueKind::kJit) add(result, external_value("triton.JITFunction"));
    }
    if (!result.empty()) return result;
  }
  add(result, {.kind = ValueKind::kResult, .node = call, .text = intern(name)});
  return result;
}

ValueSet Resolver::attribute(const Value& object, std::string_view name) {
  ValueSet result;
  switch (object.kind) {
    case ValueKind::kExternal:
      add(result, external_value(std::string(text(object)) + "." + std::string(name)));
      break;
    case ValueKind::kResult:
      add(result, external_value(std::string(text(object)) + "()." + std::string(name)));
      break;
    case ValueKind::kJit:
    case ValueKind::kLaunch:
      if (name == "run" || name == "__call__" || name == "__getitem__")
        add(result, {.kind = ValueKind::kLaunch, .node = object.node});
      if (name == "fn") add(result, {.kind = ValueKind::kFunction, .node = object.node});
      break;
    case ValueKind::kFunction:
      if (name == "__call__" || name == "__func__" || name == "func") add(result, object);
      break;
    case ValueKind::kClass:
      return class_attribute(object.node, name, /*bound=*/false, /*skip_own=*/false);
    case ValueKind::kInstance:
      return instance_attribute(object.node, name);
    case ValueKind::kSuper:
      return class_attribute(object.node, name, /*bound=*/true, /*skip_own=*/true);
    default:
      break;
  }
  return result;
}

ValueSet Resolver::class_attribute(NodeId class_definition, std::string_view name, bool bound, bool skip_own) {
  ValueSet result;
  const NameId id = module_.find_name(name);
  for (const NodeId owner : bases(class_definition)) {
    if (skip_own && owner == class_definition) continue;
    // Owner.name = value, outside the class.
    const NameId owner_name = module_[module_.child(owner, Field::kName)].name;
    for (const AttributeStore& store : scopes_.attribute_stores(name)) {
      if (store.object == owner_name && store.value != kNoNode) add_all(result, item_of(store.value, store.item));
    }
    if (id == kNoName) continue;
    const auto found = scopes_.bindings(scopes_.scope_opened_by(owner), id);
    if (found.empty()) continue;
    for (const Binding& binding : found) {
      for (Value value : compute_binding(binding)) {
        value.bound = bound && value.kind == ValueKind::kFunction && module_.kind(value.node) == Kind::kFunction;
        for (const NodeId decorator :
             value.kind == ValueKind::kFunction ? decorators(value.node) : std::vector<NodeId>{}) {
          if (may_be(decorator, "builtins.staticmethod")) value.bound = false;
          if (may_be(decorator, "builtins.classmethod")) value.bound = true;
        }
        add(result, value);
      }
    }
    return result;
  }
  if (!result.empty()) return result;
  const std::vector<std::string> outside = external_bases(class_definition);
  const bool is_autograd = std::ranges::any_of(outside, [](const std::string& base) {
    return base == "torch.autograd.Function" || base == "torch.autograd.function.Function";
  });
  if (name == "apply" && is_autograd) {
    if (const NodeId forward = method(class_definition, "forward"); forward != kNoNode) {
      const bool takes_context = method(class_definition, "setup_context") == kNoNode;
      add(result, {.kind = ValueKind::kFunction, .bound = takes_context, .node = forward});
      return result;
    }
  }
  for (const std::string& base : outside) add(result, external_value(base + "." + std::string(name)));
  return result;
}

ValueSet Resolver::instance_attribute(NodeId class_definition, std::string_view name) {
  ValueSet result;
  if (name == "__class__") {
    add(result, {.kind = ValueKind::kClass, .node = class_definition});
    return result;
  }
  const std::vector<NodeId> family = bases(class_definition);
  for (const AttributeStore& store : scopes_.attribute_stores(name)) {
    if (store.value == kNoNode || result.size() == kMaxValues) continue;
    // The object must be the first parameter of a method of the class, of a base, or of a class derived from it.
    const NodeId function = scopes_.function_of(store.target);
    if (function == kNoNode) continue;
    const NodeId owner = scopes_.class_of_method(function);
    if (owner == kNoNode) continue;
    const auto parameters = scopes_.parameters(function);
    if (parameters.empty() || parameters.front().first != store.object) continue;
    bool is_related = std::ranges::find(family, owner) != family.end();
    if (!is_related) {
      const std::vector<NodeId> others = bases(owner);
      is_related = std::ranges::find(others, class_definition) != others.end();
    }
    if (is_related) add_all(result, item_of(store.value, store.item));
  }
  if (!result.empty()) return result;
  return class_attribute(class_definition, name, /*bound=*/true, /*skip_own=*/false);
}

std::vector<NodeId> Resolver::bases(NodeId class_definition) {
  if (const auto found = bases_memo_.find(class_definition); found != bases_memo_.end()) return found->second;
  std::vector<NodeId> result{class_definition};
  for (std::size_t i = 0; i < result.size() && result.size() < 32; ++i) {
    for (const NodeId base : module_.children(module_.child(result[i], Field::kSuperclasses))) {
      const ValueSet parents = values(base);
      for (const Value& parent : parents) {
        if (parent.kind == ValueKind::kClass && std::ranges::find(result, parent.node) == result.end())
          result.push_back(parent.node);
      }
    }
  }
  if (in_progress_.empty()) bases_memo_.emplace(class_definition, result);
  return result;
}

std::vector<std::string> Resolver::external_bases(NodeId class_definition) {
  std::vector<std::string> result;
  for (const NodeId owner : bases(class_definition)) {
    for (const NodeId base : module_.children(module_.child(owner, Field::kSuperclasses))) {
      const ValueSet parents = values(base);
      for (const Value& parent : parents) {
        if (parent.kind == ValueKind::kExternal || parent.kind == ValueKind::kUnresolved)
          result.emplace_back(text(parent));
      }
    }
  }
  return result;
}

NodeId Resolver::method(NodeId class_definition, std::string_view name) {
  const NameId id = module_.find_name(name);
  if (id == kNoName) return kNoNode;
  for (const NodeId owner : bases(class_definition)) {
    const auto found = scopes_.bindings(scopes_.scope_opened_by(owner), id);
    if (found.empty()) continue;
    for (const Binding& binding : found) {
      for (const Value& value : compute_binding(binding)) {
        if (value.kind == ValueKind::kFunction) return value.node;
      }
    }
    return kNoNode;
  }
  return kNoNode;
}

std::vector<NodeId> Resolver::special_methods(NodeId class_definition) {
  std::vector<NodeId> result;
  for (const NodeId owner : bases(class_definition)) {
    for (const NodeId function : scopes_.methods_of(owner)) {
      const std::string_view name = module_.name_of(module_.child(function, Field::kName));
      if (name.size() > 4 && name.starts_with("__") && name.ends_with("__")) result.push_back(function);
    }
  }
  return result;
}

void Resolver::add_call_site(const Value& callee, CallSite site) {
  switch (callee.kind) {
    case ValueKind::kFunction:
      site.offset = callee.bound ? 1 : 0;
      call_sites_[callee.node].push_back(site);
      break;
    case ValueKind::kLaunch:
      call_sites_[callee.node].push_back(site);
      break;
    case ValueKind::kClass:
      if (const NodeId init = method(callee.node, "__init__"); init != kNoNode) {
        site.offset = 1;
        call_sites_[init].push_back(site);
      }
      break;
    case ValueKind::kInstance:
      for (const std::string_view name : {"forward", "__call__"}) {
        if (const NodeId function = method(callee.node, name); function != kNoNode) {
          site.offset = 1;
          call_sites_[function].push_back(site);
        }
      }
      break;
    default:
      break;
  }
}

void Resolver::index_call_sites() {
  indexing_sites_ = true;
  for (const NodeId call : scopes_.calls()) {
    const ValueSet callees = values(module_.child(call, Field::kFunction));
    for (const Value& callee : callees) add_call_site(callee, {.call = call});
  }
  for (const NodeId definition : scopes_.functions()) {
    if (module_.kind(definition) != Kind::kFunction) continue;
    for (const NodeId decorator : decorators(definition)) {
      const ValueSet callees = values(decorator);
      for (const Value& callee : callees) {
        if (callee.kind == ValueKind::kFunction || callee.kind == ValueKind::kClass)
          add_call_site(callee, {.call = definition, .decorates = true});
        if (callee.kind != ValueKind::kInstance) continue;
        if (const NodeId call = method(callee.node, "__call__"); call != kNoNode)
          call_sites_[call].push_back({.call = definition, .offset = 1, .decorates = true});
      }
    }
  }
  indexing_sites_ = false;
  sites_indexed_ = true;
  definition_memo_.clear();
}

std::vector<NodeId> Resolver::arguments_for(NodeId function, std::size_t index) {
  std::vector<NodeId> result;
  if (!sites_indexed_) return result;
  const auto found = call_sites_.find(function);
  if (found == call_sites_.end()) return result;
  const auto parameters = scopes_.parameters(function);
  const std::string_view name = index < parameters.size() ? module_.name(parameters[index].first) : std::string_view{};
  for (const CallSite& site : found->second) {
    if (site.decorates || index < site.offset) continue;
    if (result.size() >= 64) break;  // More callers say nothing new.
    if (const NodeId passed = argument(site.call, index - site.offset, name); passed != kNoNode)
      result.push_back(passed);
  }
  return result;
}

std::vector<NodeId> Resolver::calls_of(NodeId function) const {
  std::vector<NodeId> result;
  const auto found = call_sites_.find(function);
  if (!sites_indexed_ || found == call_sites_.end()) return result;
  for (const CallSite& site : found->second) {
    if (!site.decorates && result.size() < 64) result.push_back(site.call);
  }
  return result;
}

ValueSet Resolver::compute_parameter(const Binding& binding) {
  ValueSet result;
  const NodeId function = scopes_[binding.scope].node;
  const auto parameters = scopes_.parameters(function);
  std::size_t index = 0;
  while (index < parameters.size() && parameters[index].second != binding.value) ++index;
  if (index == 0 && module_.kind(function) == Kind::kFunction) {
    if (const NodeId owner = scopes_.class_of_method(function); owner != kNoNode) {
      bool is_static = false;
      bool is_class = module_.name_of(module_.child(function, Field::kName)) == "__new__";
      for (const NodeId decorator : decorators(function)) {
        is_static = is_static || may_be(decorator, "builtins.staticmethod");
        is_class = is_class || may_be(decorator, "builtins.classmethod");
      }
      if (!is_static) {
        add(result, {.kind = is_class ? ValueKind::kClass : ValueKind::kInstance, .node = owner});
        return result;
      }
    }
  }
  if (indexing_sites_) {
    ++cycles_met_;  // Not known yet; the partial answer is not kept.
  } else if (!sites_indexed_) {
    index_call_sites();
  }
  const Kind kind = module_.kind(binding.value);
  const bool is_rest = kind == Kind::kListSplatPattern || kind == Kind::kDictionarySplatPattern;
  if (!is_rest && !indexing_sites_) {
    for (const NodeId passed : arguments_for(function, index)) add_all(result, values(passed));
    if (const auto found = call_sites_.find(function); found != call_sites_.end()) {
      for (const CallSite& site : std::vector<CallSite>(found->second)) {
        if (site.decorates && site.offset == index) add_all(result, beneath_decorator(site.call, function));
      }
    }
  }
  add_all(result, values(module_.child(binding.value, Field::kValue)));
  return result;
}

}  // namespace autotriton::syntax
