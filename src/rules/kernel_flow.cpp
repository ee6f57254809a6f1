#include "rules/kernel_flow.h"

#include <algorithm>
#include <array>

#include "rules/context.h"

namespace autotriton::rules {

using syntax::Binding;
using syntax::BindingKind;
using syntax::Field;
using syntax::Kind;
using syntax::kNoNode;
using syntax::NameId;
using syntax::NodeId;
using syntax::Value;
using syntax::ValueKind;

namespace {

// Beyond these an expression counts as one that cannot be followed.
constexpr int kMaxDepth = 60;
constexpr int kMaxSteps = 3'000;
constexpr int kMaxTotalSteps = 300'000;
constexpr std::size_t kMaxFields = 64;

/// Attributes and methods that say something about a tensor and hold none of its values.
constexpr auto kQuestions = std::to_array<std::string_view>(
    {"shape", "dtype", "device", "ndim", "is_cuda", "requires_grad", "layout", "size", "stride", "numel", "dim",
     "element_size", "is_contiguous", "nelement", "get_device", "itemsize", "type", "is_floating_point"});
/// Builtins that hand their arguments on or count; any other builtin cannot be followed.
constexpr auto kPlainBuiltins = std::to_array<std::string_view>(
    {"abs", "all",   "any",    "bool", "dict", "divmod", "enumerate", "float",     "int",
     "len", "list",  "max",    "min",  "pow",  "print",  "range",     "reversed",  "round",
     "set", "slice", "sorted", "str",  "sum",  "tuple",  "zip",       "isinstance"});

template <typename List>
bool has(const List& list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

}  // namespace

KernelFlow::KernelFlow(Context& context) : context_(context), module_(context.module), resolver_(context.resolver) {
  variables_.emplace(~std::uint64_t{0}, kKernel);
  flows_to_.emplace_back();
  touched_.push_back(true);
  find_launching_functions();
  link_all();
  for (const syntax::Reach* region : {&context_.import_time, &context_.construction, &context_.forward}) {
    for (const syntax::Launch& launch : region->launches()) touch_launch(launch);
  }
  spread(touched_);
}

KernelFlow::Variable KernelFlow::variable(syntax::ScopeId scope, NameId name) {
  const auto [found, is_new] =
      variables_.emplace((std::uint64_t{scope} << 32) | name, static_cast<Variable>(flows_to_.size()));
  if (is_new) {
    flows_to_.emplace_back();
    touched_.push_back(false);
  }
  return found->second;
}

void KernelFlow::find_launching_functions() {
  for (const syntax::Launch& launch : context_.forward.launches()) {
    launching_calls_.push_back(launch.call);
    if (const NodeId function = resolver_.scopes().function_of(launch.call); function != kNoNode)
      launching_.insert(function);
  }
  // Calls of functions that launch, until nothing new is found.
  std::vector<std::pair<NodeId, std::vector<NodeId>>> calls;
  for (const NodeId node : context_.forward.nodes()) {
    if (module_.kind(node) != Kind::kCall) continue;
    std::vector<NodeId> callees;
    const auto add = [&](NodeId function) {
      if (function != kNoNode) callees.push_back(function);
    };
    const auto follow = [&](const Value& value) {
      if (value.kind == ValueKind::kFunction) add(value.node);
      if (value.kind == ValueKind::kInstance) {
        add(resolver_.method(value.node, "__call__"));
        add(resolver_.method(value.node, "forward"));
      }
      if (value.kind == ValueKind::kClass) add(resolver_.method(value.node, "__init__"));
    };
    for (const Value& value : resolver_.values(module_.child(node, Field::kFunction))) {
      follow(value);
      if (value.kind == ValueKind::kResult) {
        for (const Value& element : resolver_.elements(value)) follow(element);
      }
    }
    // A function handed to something that may call it.
    for (const NodeId argument : module_.children(module_.child(node, Field::kArguments))) {
      const NodeId passed =
          module_.kind(argument) == Kind::kKeywordArgument ? module_.child(argument, Field::kValue) : argument;
      for (const Value& value : resolver_.values(passed)) {
        if (value.kind == ValueKind::kFunction) add(value.node);
        if (value.kind == ValueKind::kLaunch || value.kind == ValueKind::kJit) {
          launching_calls_.push_back(node);
          if (const NodeId function = resolver_.scopes().function_of(node); function != kNoNode)
            launching_.insert(function);
        }
      }
    }
    if (!callees.empty()) calls.emplace_back(node, std::move(callees));
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& [call, callees] : calls) {
      const NodeId function = resolver_.scopes().function_of(call);
      if (function == kNoNode || launching_.contains(function)) continue;
      if (std::ranges::any_of(callees, [&](NodeId callee) { return launching_.contains(callee); })) {
        launching_.insert(function);
        changed = true;
      }
    }
  }
  for (const auto& [call, callees] : calls) {
    if (std::ranges::any_of(callees, [&](NodeId callee) { return launching_.contains(callee); }))
      launching_calls_.push_back(call);
  }
  std::ranges::sort(launching_calls_);
}

bool KernelFlow::launches(NodeId node) const {
  if (node == kNoNode) return false;
  const auto first = std::ranges::lower_bound(launching_calls_, node);
  return first != launching_calls_.end() && *first < module_.after(node);
}

bool KernelFlow::always_launches(NodeId statement) const {
  if (!launches(statement)) return false;
  switch (module_.kind(statement)) {
    case Kind::kFunction:
    case Kind::kClass:
    case Kind::kDecorated:
      return false;
    case Kind::kBlock:
      for (const NodeId inner : module_.children(statement)) {
        if (always_launches(inner)) return true;
        if (syntax::ends_block(module_, inner)) return false;
      }
      return false;
    case Kind::kIf: {
      if (launches(module_.child(statement, Field::kCondition))) return true;
      if (!always_launches(module_.child(statement, Field::kConsequence))) return false;
      bool has_else = false;
      for (const NodeId part : module_.children(statement)) {
        if (module_.kind(part) == Kind::kElif && !always_launches(module_.child(part, Field::kConsequence)))
          return false;
        if (module_.kind(part) != Kind::kElse) continue;
        has_else = true;
        if (!always_launches(module_.child(part, Field::kBody))) return false;
      }
      return has_else;
    }
    case Kind::kFor:
    case Kind::kWhile:
    case Kind::kWith:
    case Kind::kTry:
      return true;
    default:
      return true;
  }
}

bool KernelFlow::follows_launch(NodeId node) const {
  if (launches(node)) return true;
  for (NodeId at = node; at != kNoNode; at = module_[at].parent) {
    const Kind kind = module_.kind(at);
    if (kind == Kind::kFunction || kind == Kind::kLambda || kind == Kind::kClass || kind == Kind::kModule) return false;
    const NodeId parent = module_[at].parent;
    if (module_.kind(parent) != Kind::kBlock) continue;
    for (const NodeId statement : module_.children(parent)) {
      if (statement == at) break;
      if (always_launches(statement)) return true;
    }
  }
  return false;
}

void KernelFlow::link_all() {
  const auto jit_functions = resolver_.jit_functions();
  for (const Binding& binding : resolver_.scopes().all_bindings()) {
    if (std::ranges::binary_search(jit_functions, resolver_.scopes()[binding.scope].node)) continue;
    const Variable target = variable(binding.scope, binding.name);
    switch (binding.kind) {
      case BindingKind::kAssign:
      case BindingKind::kWalrus:
      case BindingKind::kLoop:
      case BindingKind::kWith:
        link(target, binding.value);
        break;
      case BindingKind::kAugment:
        link(target, binding.value, /*is_alias=*/false);
        break;
      case BindingKind::kParameter:
        link_parameter(binding, target);
        break;
      case BindingKind::kFunction:
      case BindingKind::kClass:
      case BindingKind::kMatch:
      case BindingKind::kImport:
        flows_to_[kKernel].push_back(target);
        break;
      default:
        break;
    }
  }
  for (const auto& [name, stores] : resolver_.scopes().all_attribute_stores()) {
    const NameId id = module_.find_name(name);
    if (id == syntax::kNoName) continue;
    for (const syntax::AttributeStore& store : stores) link(attribute_variable(id), store.value);
  }
  for (NodeId node = 0; node < module_.num_nodes(); ++node) {
    switch (module_.kind(node)) {
      case Kind::kFunction:
        if (std::ranges::binary_search(jit_functions, node)) node = module_.after(node) - 1;
        break;
      case Kind::kCall:
        link_call(node);
        break;
      case Kind::kAssignment:
      case Kind::kAugmented: {
        // out[i] = y, and a.b.c = y.
        const NodeId target = module_.unwrap(module_.child(node, Field::kLeft));
        if (module_.kind(target) != Kind::kSubscript && module_.kind(target) != Kind::kAttribute) break;
        std::vector<Source> holders;
        sources(target, true, holders, 0);
        for (const Source& holder : holders) {
          if (holder.variable != kKernel) link(holder.variable, module_.child(node, Field::kRight));
        }
        break;
      }
      default:
        break;
    }
  }
}

void KernelFlow::link(Variable target, NodeId value, bool is_alias) {
  if (value == kNoNode) return;
  std::vector<Source> found;
  sources(value, is_alias, found, 0);
  for (const Source& source : found) {
    flows_to_[source.variable].push_back(target);
    if (source.is_alias && source.variable != kKernel) flows_to_[target].push_back(source.variable);
  }
}

void KernelFlow::link_parameter(const Binding& binding, Variable target) {
  const Kind kind = module_.kind(binding.value);
  if (kind == Kind::kListSplatPattern || kind == Kind::kDictionarySplatPattern) {
    flows_to_[kKernel].push_back(target);
    resolver_.values(binding.target);
    // def launch(*args): kernel[grid](*args)
    for (const NodeId call : resolver_.calls_of(resolver_.scopes()[binding.scope].node)) {
      for (const NodeId argument : module_.children(module_.child(call, Field::kArguments)))
        link(target,
             module_.kind(argument) == Kind::kKeywordArgument ? module_.child(argument, Field::kValue) : argument);
    }
    return;
  }
  link(target, module_.child(binding.value, Field::kValue));
  const NodeId function = resolver_.scopes()[binding.scope].node;
  resolver_.values(binding.target);  // So that the calls of each function are known.
  const auto parameters = resolver_.scopes().parameters(function);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].second != binding.value) continue;
    for (const NodeId passed : resolver_.arguments_for(function, i)) link(target, passed);
  }
}

/// The annotated names of a class and its bases, in the order of their definition, the nearest class last.
const std::vector<NameId>& KernelFlow::fields_of(NodeId class_definition) {
  const auto [entry, is_new] = fields_.try_emplace(class_definition);
  std::vector<NameId>& fields = entry->second;
  if (!is_new || resolver_.method(class_definition, "__init__") != kNoNode) return fields;
  std::vector<NodeId> family = resolver_.bases(class_definition);
  std::ranges::reverse(family);
  for (const NodeId owner : family) {
    for (const NodeId statement : module_.children(module_.child(owner, Field::kBody))) {
      const NodeId field = module_[statement].first_child;
      const NodeId name = module_.child(field, Field::kLeft);
      if (module_.kind(field) != Kind::kAssignment || module_.kind(name) != Kind::kIdentifier ||
          module_.child(field, Field::kType) == kNoNode)
        continue;
      if (fields.size() <= kMaxFields && std::ranges::find(fields, module_[name].name) != fields.end()) continue;
      fields.push_back(module_[name].name);
    }
  }
  if (fields.size() > kMaxFields) {  // More than anyone names: what they hold cannot be followed.
    for (const NameId field : fields) {
      const Variable held = attribute_variable(field);  // May make room in flows_to_ first.
      flows_to_[kKernel].push_back(held);
    }
    fields.clear();
  }
  return fields;
}

/// Result(y, n), of a dataclass or a named tuple: the fields hold what the class is called with.
void KernelFlow::link_fields(NodeId call, NodeId class_definition) {
  const std::vector<NameId>& fields = fields_of(class_definition);
  bool has_star = false;
  for (const NodeId argument : module_.children(module_.child(call, Field::kArguments))) {
    const Kind kind = module_.kind(argument);
    has_star = has_star || kind == Kind::kListSplat || kind == Kind::kDictionarySplat;
  }
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const Variable field = attribute_variable(fields[i]);
    if (has_star) {
      flows_to_[kKernel].push_back(field);
    } else {
      link(field, resolver_.argument(call, i, module_.name(fields[i])));
    }
  }
}

/// y.copy_(z), outs.append(y): what is handed to a method may stay in its object.
void KernelFlow::link_call(NodeId call) {
  const NodeId function = module_.unwrap(module_.child(call, Field::kFunction));
  const NodeId arguments = module_.child(call, Field::kArguments);
  if (module_.num_children(arguments) == 0) return;
  for (const Value& callee : syntax::ValueSet(resolver_.values(function))) {
    if (callee.kind == ValueKind::kClass) link_fields(call, callee.node);
  }
  const auto link_to = [&](NodeId holder_expression) {
    std::vector<Source> holders;
    sources(holder_expression, true, holders, 0);
    for (const Source& holder : holders) {
      if (holder.variable == kKernel) continue;
      for (const NodeId argument : module_.children(arguments)) {
        if (module_.kind(argument) == Kind::kInteger) continue;
        const bool is_keyword = module_.kind(argument) == Kind::kKeywordArgument;
        link(holder.variable, is_keyword ? module_.child(argument, Field::kValue) : argument);
      }
    }
  };
  // torch.mm(a, b, out=c)
  if (const NodeId out = resolver_.argument(call, module_.num_nodes(), "out"); out != kNoNode) link_to(out);
  if (module_.kind(function) != Kind::kAttribute) return;
  const NodeId object = module_.unwrap(module_.child(function, Field::kObject));
  for (const Value& value : resolver_.values(object)) {
    if (value.kind == ValueKind::kExternal || value.kind == ValueKind::kJit || value.kind == ValueKind::kSuper) return;
  }
  const std::string_view method = module_.name_of(module_.child(function, Field::kAttribute));
  if (has(kQuestions, method) || method == "requires_grad_") return;
  link_to(object);
}

void KernelFlow::touch(NodeId expression) {
  std::vector<Source> found;
  sources(expression, true, found, 0);
  for (const Source& source : found) {
    if (source.variable != kKernel) touched_[source.variable] = true;
  }
}

void KernelFlow::touch_launch(const syntax::Launch& launch) {
  const NodeId arguments = module_.child(launch.call, Field::kArguments);
  const auto touch_all = [&] {
    for (const NodeId argument : module_.children(arguments)) {
      touch(module_.kind(argument) == Kind::kKeywordArgument ? module_.child(argument, Field::kValue) : argument);
    }
  };
  if (launch.jit_function == kNoNode) return touch_all();
  for (const NodeId argument : module_.children(arguments)) {
    if (module_.kind(argument) == Kind::kListSplat || module_.kind(argument) == Kind::kDictionarySplat)
      return touch_all();
  }
  const auto& stored = stored_parameters(launch.jit_function);
  const auto parameters = resolver_.scopes().parameters(launch.jit_function);
  bool any = false;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!stored.contains(parameters[i].first)) continue;
    const NodeId passed = resolver_.argument(launch.call, i, module_.name(parameters[i].first));
    if (passed == kNoNode) continue;
    any = true;
    touch(passed);
  }
  if (any) return;
  // Bound before, as functools.partial does, or stored in a way that cannot be seen: every variable may be meant.
  touch_all();
  for (const NodeId call : resolver_.scopes().calls()) {
    for (const NodeId argument : module_.children(module_.child(call, Field::kArguments))) {
      const bool hands_on_kernel = std::ranges::any_of(resolver_.values(argument), [](const Value& value) {
        return value.kind == ValueKind::kLaunch || value.kind == ValueKind::kJit;
      });
      if (!hands_on_kernel) continue;
      for (const NodeId other : module_.children(module_.child(call, Field::kArguments))) {
        touch(module_.kind(other) == Kind::kKeywordArgument ? module_.child(other, Field::kValue) : other);
      }
      break;
    }
  }
}

const std::set<NameId>& KernelFlow::stored_parameters(NodeId jit_function) {
  const auto [entry, is_new] = stored_.try_emplace(jit_function);
  if (!is_new) return entry->second;
  std::set<NameId> found;
  for (const NodeId call : resolver_.scopes().calls_in(jit_function)) {
    const NodeId function = module_.unwrap(module_.child(call, Field::kFunction));
    const NodeId arguments = module_.child(call, Field::kArguments);
    std::string_view name;
    bool is_triton = false;
    bool is_ours = false;
    if (module_.kind(function) == Kind::kAttribute) name = module_.name_of(module_.child(function, Field::kAttribute));
    for (const Value& callee : resolver_.values(function)) {
      const std::string_view full = resolver_.text(callee);
      is_ours = is_ours || callee.kind != ValueKind::kExternal;
      if (callee.kind != ValueKind::kExternal) continue;
      is_triton = full.starts_with("triton.") && full.find("()") == std::string_view::npos;
      name = full.substr(full.rfind('.') + 1);
    }
    const bool is_store =
        name.find("store") != std::string_view::npos || name.find("atomic") != std::string_view::npos ||
        name.find("scatter") != std::string_view::npos || name.find("asm") != std::string_view::npos ||
        name.find("extern") != std::string_view::npos || name.find("copy") != std::string_view::npos;
    std::set<NodeId> seen;
    if (is_store) {
      if (module_.kind(function) == Kind::kAttribute && !is_triton)
        mentioned_parameters(module_.child(function, Field::kObject), seen, found);
      const bool any_argument =
          name.find("asm") != std::string_view::npos || name.find("extern") != std::string_view::npos;
      std::size_t position = 0;
      for (const NodeId argument : module_.children(arguments)) {
        const bool is_keyword = module_.kind(argument) == Kind::kKeywordArgument;
        const std::string_view label = is_keyword ? module_.name_of(module_.child(argument, Field::kName)) : "";
        const bool is_address = is_keyword ? label == "pointer" || label == "desc" || label == "ptr" : position == 0;
        if (!is_keyword) ++position;
        if (is_address || any_argument)
          mentioned_parameters(is_keyword ? module_.child(argument, Field::kValue) : argument, seen, found);
      }
    } else if (is_ours || (!is_triton && module_.kind(function) != Kind::kAttribute)) {
      mentioned_parameters(arguments, seen, found);  // Another jit function may store there.
    }
  }
  return stored_[jit_function] = std::move(found);
}

void KernelFlow::mentioned_parameters(NodeId node, std::set<NodeId>& seen, std::set<NameId>& into) const {
  if (node == kNoNode) return;
  std::vector<NodeId> pending{node};
  while (!pending.empty()) {
    const NodeId at = pending.back();
    pending.pop_back();
    for (NodeId inner = at; inner < module_.after(at); ++inner) {
      if (module_.kind(inner) != Kind::kIdentifier) continue;
      for (const Binding& binding : resolver_.scopes().lookup(inner)) {
        if (binding.scope == 0 || !seen.insert(binding.target).second) continue;
        if (binding.kind == BindingKind::kParameter) {
          into.insert(binding.name);
        } else if (binding.value != kNoNode) {
          pending.push_back(binding.value);
        }
      }
    }
  }
}

void KernelFlow::spread(std::vector<bool>& reached) const {
  std::vector<Variable> pending;
  for (Variable at = 0; at < reached.size(); ++at) {
    if (reached[at]) pending.push_back(at);
  }
  while (!pending.empty()) {
    const Variable at = pending.back();
    pending.pop_back();
    for (const Variable next : flows_to_[at]) {
      if (reached[next]) continue;
      reached[next] = true;
      pending.push_back(next);
    }
  }
}

void KernelFlow::sources(NodeId expression, bool is_alias, std::vector<Source>& into, int depth) {
  expression = module_.unwrap(expression);
  if (expression == kNoNode) return;
  if (depth == 0) steps_ = 0;
  ++total_steps_;
  if (++steps_ > kMaxSteps || total_steps_ > kMaxTotalSteps || depth > kMaxDepth) {
    if (into.empty() || into.back().variable != kKernel) into.push_back({kKernel, false});
    return;
  }
  switch (module_.kind(expression)) {
    case Kind::kIdentifier: {
      const auto found = resolver_.scopes().lookup(expression);
      if (found.empty()) {
        into.push_back({kKernel, false});
      } else {
        into.push_back({variable(found.front().scope, found.front().name), is_alias});
      }
      return;
    }
    case Kind::kAttribute: {
      const NodeId attribute = module_.child(expression, Field::kAttribute);
      if (has(kQuestions, module_.name_of(attribute))) return;
      if (const auto name = resolver_.external(expression); name && name->find("()") == std::string_view::npos) return;
      into.push_back({attribute_variable(module_[attribute].name), is_alias});
      const NodeId object = module_.child(expression, Field::kObject);
      const bool is_own = std::ranges::any_of(resolver_.values(object), [](const Value& value) {
        return value.kind == ValueKind::kInstance || value.kind == ValueKind::kClass;
      });
      if (!is_own) sources(object, is_alias, into, depth + 1);
      return;
    }
    case Kind::kSubscript:
      sources(module_.child(expression, Field::kValue), is_alias, into, depth + 1);
      for (const NodeId part : module_.children(expression)) {
        if (module_[part].field == Field::kSubscript) sources(part, false, into, depth + 1);
      }
      return;
    case Kind::kBinary:
    case Kind::kUnary:
    case Kind::kComparison:
    case Kind::kNot:
      for (const NodeId part : module_.children(expression)) sources(part, false, into, depth + 1);
      return;
    case Kind::kConditional:
      sources(module_.nth_child(expression, 0), is_alias, into, depth + 1);
      sources(module_.nth_child(expression, 2), is_alias, into, depth + 1);
      return;
    case Kind::kCall:
      call_sources(expression, is_alias, into, depth);
      return;
    case Kind::kInteger:
    case Kind::kFloat:
    case Kind::kString:
    case Kind::kConcatenatedString:
    case Kind::kTrue:
    case Kind::kFalse:
    case Kind::kNone:
    case Kind::kEllipsis:
    case Kind::kComment:
      return;
    case Kind::kLambda:
    case Kind::kYield:
    case Kind::kAwait:
      into.push_back({kKernel, false});
      return;
    case Kind::kKeywordArgument:
      sources(module_.child(expression, Field::kValue), is_alias, into, depth + 1);
      return;
    default:
      for (const NodeId part : module_.children(expression)) sources(part, is_alias, into, depth + 1);
      return;
  }
}

void KernelFlow::argument_sources(NodeId call, bool is_alias, std::vector<Source>& into, int depth) {
  const NodeId arguments = module_.child(call, Field::kArguments);
  if (module_.kind(arguments) != Kind::kArguments) return sources(arguments, is_alias, into, depth + 1);  // f(x for …)
  for (const NodeId argument : module_.children(arguments)) sources(argument, is_alias, into, depth + 1);
}

void KernelFlow::call_sources(NodeId call, bool is_alias, std::vector<Source>& into, int depth) {
  const NodeId function = module_.unwrap(module_.child(call, Field::kFunction));
  const syntax::ValueSet callees = resolver_.values(function);
  // What cannot be followed may keep hold of all that it is given: TensorDescriptor.from_tensor(y, …).
  const auto unknown = [&] {
    into.push_back({kKernel, false});
    argument_sources(call, is_alias, into, depth);
    if (module_.kind(function) == Kind::kAttribute)
      sources(module_.child(function, Field::kObject), is_alias, into, depth + 1);
  };
  // A method of something that is not known: of a tensor, as a rule.
  const auto method = [&] {
    const std::string_view name = module_.name_of(module_.child(function, Field::kAttribute));
    if (has(kQuestions, name)) return;
    const std::string_view group = context_.glue.method_group(name);
    if (group == "allocate" || group == "random") return;
    const bool keeps_storage =
        name != "clone" && (group.empty() || group == "view" || group == "copy" || group == "query" || group == "move");
    sources(module_.child(function, Field::kObject), is_alias && keeps_storage, into, depth + 1);
    argument_sources(call, is_alias && group.empty(), into, depth);
  };
  if (callees.empty()) {
    if (module_.kind(function) == Kind::kAttribute) {
      const auto receivers = resolver_.values(module_.child(function, Field::kObject));
      const bool is_own = std::ranges::any_of(receivers, [](const Value& value) {
        return value.kind == ValueKind::kInstance || value.kind == ValueKind::kClass || value.kind == ValueKind::kSuper;
      });
      if (!is_own) return method();
    }
    return unknown();
  }
  for (const Value& callee : callees) {
    switch (callee.kind) {
      case ValueKind::kFunction:
        for (const NodeId returned : resolver_.scopes().returns_of(callee.node))
          sources(returned, is_alias, into, depth + 1);
        break;
      case ValueKind::kInstance:
        for (const std::string_view name : {"__call__", "forward"}) {
          const NodeId own = resolver_.method(callee.node, name);
          if (own == kNoNode) continue;
          for (const NodeId returned : resolver_.scopes().returns_of(own)) sources(returned, is_alias, into, depth + 1);
        }
        break;
      case ValueKind::kExternal: {
        const std::string_view full = resolver_.text(callee);
        if (full.find("()") != std::string_view::npos) {
          if (module_.kind(function) == Kind::kAttribute) {
            method();
          } else {
            unknown();
          }
          break;
        }
        if (full.starts_with("builtins.")) {
          if (!has(kPlainBuiltins, full.substr(9))) return unknown();
          argument_sources(call, is_alias, into, depth);
          break;
        }
        if (full.starts_with("math.") || full.starts_with("numpy.") || full == "triton.cdiv" ||
            full == "triton.next_power_of_2") {
          argument_sources(call, false, into, depth);
          break;
        }
        if (!full.starts_with("torch.") || full.starts_with("torch.ops.") || full.ends_with(".apply")) return unknown();
        const std::string_view group = context_.glue.function_group(full.substr(6));
        if (group == "allocate" || group == "random" || group == "query" || group == "device" || group == "constant") {
          sources(resolver_.argument(call, module_.num_nodes(), "out"), is_alias, into, depth + 1);
          if (group == "constant") argument_sources(call, false, into, depth);
          break;
        }
        if (group.empty() && full.find('.', 6) != std::string_view::npos && !full.starts_with("torch.nn.functional.") &&
            !full.starts_with("torch.linalg.") && !full.starts_with("torch.Tensor.") &&
            !full.starts_with("torch.special.") && !full.starts_with("torch.fft."))
          return unknown();  // torch.compile's like: who knows what it runs.
        if (full == "torch.compile" || full == "torch.vmap" || full == "torch.cond") return unknown();
        argument_sources(call, is_alias && (group == "view" || group == "copy" || group == "context"), into, depth);
        break;
      }
      default:
        return unknown();
    }
  }
}

bool KernelFlow::may_come_from_kernel(NodeId expression) {
  std::vector<Source> found;
  sources(expression, false, found, 0);
  return std::ranges::any_of(found, [&](const Source& source) { return touched_[source.variable]; });
}

bool KernelFlow::may_hold_input(NodeId expression) { return may_hold(expression, inputs_, /*only_tensors=*/false); }
bool KernelFlow::may_hold_input_tensor(NodeId expression) {
  return may_hold(expression, input_tensors_, /*only_tensors=*/true);
}

bool KernelFlow::may_hold(NodeId expression, std::vector<bool>& inputs, bool only_tensors) {
  std::vector<Source> found;
  sources(expression, false, found, 0);
  std::vector<Variable> parameters;
  if (!only_tensors) parameters.push_back(kKernel);
  for (const NodeId function : context_.entry_functions()) {
    const syntax::ScopeId scope = resolver_.scopes().scope_opened_by(function);
    for (const auto& [name, node] : resolver_.scopes().parameters(function)) {
      if (module_.name(name) == "out" || module_.name(name) == "self") continue;
      const auto bindings = resolver_.scopes().bindings(scope, name);
      const bool is_tensor = std::ranges::any_of(bindings, [&](const Binding& binding) {
        return binding.kind == BindingKind::kParameter && context_.tensors.is_tensor(binding.target);
      });
      if (is_tensor || !only_tensors) parameters.push_back(variable(scope, name));
    }
  }
  if (inputs.size() != flows_to_.size()) {
    inputs.assign(flows_to_.size(), false);
    for (const Variable parameter : parameters) inputs[parameter] = true;
    spread(inputs);
  }
  return std::ranges::any_of(found, [&](const Source& source) { return inputs[source.variable]; });
}

bool KernelFlow::is_no_result(NodeId expression) const {
  expression = module_.unwrap(expression);
  const Kind kind = module_.kind(expression);
  if (kind == Kind::kTuple || kind == Kind::kList) return module_.num_children(expression) == 0;
  return kind == Kind::kOther || syntax::is_literal(kind);
}

bool KernelFlow::comes_from_no_kernel(NodeId expression) {
  return !is_no_result(expression) && !may_come_from_kernel(expression);
}

}  // namespace autotriton::rules
