#include "rules/tensor_types.h"

#include <algorithm>
#include <array>

namespace autotriton::rules {

using syntax::Binding;
using syntax::BindingKind;
using syntax::Field;
using syntax::Kind;
using syntax::kNoNode;
using syntax::NodeId;
using syntax::Value;
using syntax::ValueKind;

namespace {

constexpr int kMaxSteps = 2'000;         // A question that costs more is answered with "not certain",
constexpr int kMaxTotalSteps = 400'000;  // and so are all once a file has cost that much.
constexpr int kMaxDepth = 200;

constexpr auto kTensorAttributes =
    std::to_array<std::string_view>({"shape", "device", "is_cuda", "requires_grad", "layout"});
constexpr auto kTensorMethods =
    std::to_array<std::string_view>({"stride", "numel", "contiguous", "data_ptr", "is_contiguous", "element_size",
                                     "size", "dim", "new_empty", "new_zeros"});
/// Methods that only a tensor has, so that their result is one whatever the receiver.
constexpr auto kTensorOnly =
    std::to_array<std::string_view>({"contiguous", "new_empty", "new_zeros", "new_ones", "new_full", "unsqueeze",
                                     "squeeze", "permute", "expand_as", "view_as", "type_as", "detach", "clone"});
/// Methods whose result is a tuple, a number or a type.
constexpr auto kNotTensors =
    std::to_array<std::string_view>({"split", "chunk", "unbind", "tensor_split", "split_with_sizes", "hsplit", "vsplit",
                                     "dsplit", "broadcast_tensors"});

template <typename List>
bool has(const List& list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

bool is_tensor_group(std::string_view group) {
  return group == "allocate" || group == "constant" || group == "view" || group == "copy" || group == "move" ||
         group == "random";
}

}  // namespace

TensorTypes::TensorTypes(syntax::Resolver& resolver, const Glue& glue)
    : resolver_(resolver), module_(resolver.module()), glue_(glue) {}

bool TensorTypes::is_tensor(NodeId expression) {
  if (!evidence_collected_) collect_evidence();
  if (total_steps_ > kMaxTotalSteps) return false;
  const auto known = known_.find(expression);
  if (known != known_.end()) return known->second;
  steps_ = 0;
  num_grounds_ = 0;
  in_progress_.clear();
  const bool result = judge(expression) && num_grounds_ > 0;
  total_steps_ += steps_;
  known_.emplace(expression, result);
  return result;
}

bool TensorTypes::makes_tensor(NodeId expression) {
  if (!evidence_collected_) collect_evidence();
  while (module_.kind(module_[expression].parent) == Kind::kParenthesized) expression = module_[expression].parent;
  const NodeId assignment = module_[expression].parent;
  if (module_.kind(assignment) != Kind::kAssignment || module_[expression].field != Field::kRight) return false;
  const NodeId target = module_.child(assignment, Field::kLeft);
  if (module_.kind(target) != Kind::kIdentifier) return false;
  const auto found = resolver_.scopes().lookup(target);
  return found.size() == 1 && used_as_tensor_.contains({found.front().scope, found.front().name}) &&
         !type_tested_.contains({found.front().scope, found.front().name});
}

void TensorTypes::collect_evidence() {
  evidence_collected_ = true;
  const auto note = [&](NodeId object, std::set<Variable>& into) {
    object = module_.unwrap(object);
    if (module_.kind(object) != Kind::kIdentifier) return;
    for (const Binding& binding : resolver_.scopes().lookup(object)) {
      into.emplace(binding.scope, binding.name);
    }
  };
  for (NodeId id = 0; id < module_.num_nodes(); ++id) {
    if (module_.kind(id) != Kind::kAttribute) continue;
    const std::string_view name = module_.name_of(module_.child(id, Field::kAttribute));
    const bool is_called = module_.kind(module_[id].parent) == Kind::kCall && module_[id].field == Field::kFunction;
    if (has(kTensorAttributes, name) || (is_called && has(kTensorMethods, name))) {
      note(module_.child(id, Field::kObject), used_as_tensor_);
    }
  }
  for (const NodeId call : resolver_.scopes().calls()) {
    const NodeId function = module_.child(call, Field::kFunction);
    const std::string_view name = module_.kind(function) == Kind::kIdentifier ? module_.name_of(function)
                                  : module_.kind(function) == Kind::kAttribute
                                      ? module_.name_of(module_.child(function, Field::kAttribute))
                                      : std::string_view{};
    if (name == "isinstance" || name == "is_tensor" || name == "hasattr" || name == "type") {
      note(resolver_.argument(call, 0, ""), type_tested_);
    } else if (name == "empty_like" || name == "zeros_like" || name == "ones_like") {
      note(resolver_.argument(call, 0, "input"), used_as_tensor_);
    }
  }
}

bool TensorTypes::judge(NodeId expression) {
  expression = module_.unwrap(expression);
  if (expression == kNoNode || ++steps_ > kMaxSteps || depth_ >= kMaxDepth) return false;
  ++depth_;
  const bool result = judge_kind(expression);
  --depth_;
  return result;
}

bool TensorTypes::judge_kind(NodeId expression) {
  switch (module_.kind(expression)) {
    case Kind::kIdentifier:
      return judge_name(expression);
    case Kind::kCall:
      return judge_call(expression);
    case Kind::kAttribute:
      return judge_attribute(expression);
    case Kind::kSubscript:
      return judge(module_.child(expression, Field::kValue));
    case Kind::kBinary:
      return judge(module_.child(expression, Field::kLeft)) || judge(module_.child(expression, Field::kRight));
    case Kind::kUnary:
      return judge(module_.child(expression, Field::kArgument));
    case Kind::kConditional:
      return judge(module_.nth_child(expression, 0)) && judge(module_.nth_child(expression, 2));
    case Kind::kNamed:
      return judge(module_.child(expression, Field::kValue));
    default:
      return false;
  }
}

bool TensorTypes::judge_name(NodeId identifier) {
  const auto found = resolver_.scopes().lookup(identifier);
  if (found.empty()) return false;
  bool any = false;
  for (const Binding& binding : found) {
    if (binding.kind == BindingKind::kAugment || binding.kind == BindingKind::kAnnotation ||
        binding.kind == BindingKind::kDelete)
      continue;
    // While a binding is being judged, a use of the same name is taken to agree with it: `x = x.view(-1)`.
    if (!in_progress_.insert(binding.target).second) continue;
    const bool is_one = judge_binding(binding);
    in_progress_.erase(binding.target);
    if (!is_one) return false;
    any = true;
  }
  return any || !in_progress_.empty();
}

bool TensorTypes::judge_binding(const Binding& binding) {
  switch (binding.kind) {
    case BindingKind::kParameter:
      return judge_parameter(binding);
    case BindingKind::kAssign:
    case BindingKind::kWalrus: {
      if (binding.item == syntax::kWhole) return judge(binding.value);
      // `a, b = x.chunk(2)` and `a, b = helper(x)`.
      const NodeId value = module_.unwrap(binding.value);
      if (module_.kind(value) != Kind::kCall) return false;
      const NodeId function = module_.unwrap(module_.child(value, Field::kFunction));
      if (module_.kind(function) == Kind::kAttribute) {
        const std::string_view method = module_.name_of(module_.child(function, Field::kAttribute));
        if (has(kNotTensors, method))
          return judge(module_.child(function, Field::kObject)) || judge(resolver_.argument(value, 0, "input"));
      }
      const auto callees = resolver_.values(function);
      if (callees.empty() || binding.item < 0) return false;
      for (const Value& callee : callees) {
        if (callee.kind != ValueKind::kFunction) return false;
        const auto returned = resolver_.scopes().returns_of(callee.node);
        if (returned.empty()) return false;
        for (const NodeId expression : returned) {
          const NodeId plain = module_.unwrap(expression);
          if (module_.kind(plain) != Kind::kTuple && module_.kind(plain) != Kind::kExpressionList) return false;
          if (!judge(module_.nth_child(plain, static_cast<std::size_t>(binding.item)))) return false;
        }
      }
      return true;
    }
    default:
      return false;
  }
}

bool TensorTypes::judge_parameter(const Binding& binding) {
  const Kind kind = module_.kind(binding.value);
  if (kind == Kind::kListSplatPattern || kind == Kind::kDictionarySplatPattern) return false;
  if (const NodeId type = module_.child(binding.value, Field::kType); type != kNoNode) {
    const std::string_view text = module_.text(type);
    if (text == "Tensor" || text == "torch.Tensor" || text == "Optional[torch.Tensor]" || text == "Optional[Tensor]" ||
        text == "torch.Tensor | None" || text == "torch.FloatTensor") {
      return !type_tested_.contains({binding.scope, binding.name}) && ground();
    }
    return false;
  }
  if (type_tested_.contains({binding.scope, binding.name})) return false;
  for (const Value& value : resolver_.values(binding.target)) {
    if (value.kind != ValueKind::kResult && value.kind != ValueKind::kExternal && value.kind != ValueKind::kLiteral)
      return false;
  }
  if (used_as_tensor_.contains({binding.scope, binding.name})) return ground();
  const NodeId function = resolver_.scopes()[binding.scope].node;
  const auto parameters = resolver_.scopes().parameters(function);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].second != binding.value) continue;
    const auto passed = resolver_.arguments_for(function, i);
    return std::ranges::any_of(passed, [&](NodeId argument) { return judge(argument); });
  }
  return false;
}

bool TensorTypes::judge_call(NodeId call) {
  const NodeId function = module_.unwrap(module_.child(call, Field::kFunction));
  const auto callees = resolver_.values(function);
  bool is_known = false;
  for (const Value& callee : callees) {
    if (callee.kind == ValueKind::kFunction) {
      const auto returned = resolver_.scopes().returns_of(callee.node);
      if (returned.empty() || !std::ranges::all_of(returned, [&](NodeId value) { return judge(value); })) return false;
      is_known = true;
    } else if (callee.kind == ValueKind::kExternal) {
      const std::string_view name = resolver_.text(callee);
      if (name == "torch.nn.Parameter" || name == "torch.nn.parameter.Parameter") return ground();
      if (name.find("()") != std::string_view::npos || name.find("torch.nn.Module.") == 0) continue;
      if (!name.starts_with("torch.")) return false;
      const std::string_view rest = name.substr(6);
      return is_tensor_group(glue_.function_group(rest)) && !has(kNotTensors, rest) && rest != "seed" &&
             rest != "Generator" && rest != "manual_seed" && rest != "initial_seed" && ground();
    } else {
      return false;
    }
  }
  if (is_known) return true;
  if (module_.kind(function) != Kind::kAttribute) return false;
  const std::string_view method = module_.name_of(module_.child(function, Field::kAttribute));
  const std::string_view group = glue_.method_group(method);
  if (has(kNotTensors, method)) return false;
  if (has(kTensorOnly, method)) return ground();
  // `partial.sum() / n` scales a scalar; the run decides on the sum.
  if (glue_.is_partial_reduction(method) && module_.num_children(module_.child(call, Field::kArguments)) == 0)
    return false;
  const bool returns_tensor = group == "compute" || group == "compute_if_tensor" || is_tensor_group(group) ||
                              glue_.is_partial_reduction(method);
  return returns_tensor && judge(module_.child(function, Field::kObject));
}

bool TensorTypes::judge_attribute(NodeId attribute) {
  const std::string_view name = module_.name_of(module_.child(attribute, Field::kAttribute));
  const NodeId object = module_.child(attribute, Field::kObject);
  if (name == "T" || name == "mT" || name == "H" || name == "data") return judge(object);
  // self.weight, stored as a Parameter or a tensor; self.linear.weight, of a module that holds parameters.
  for (const Value& holder : syntax::ValueSet(resolver_.values(object))) {
    if (holder.kind == ValueKind::kResult) {
      const std::string_view made_by = resolver_.text(holder);
      if (made_by.starts_with("torch.nn.") &&
          (name == "weight" || name == "bias" || name == "running_mean" || name == "running_var"))
        return ground();
    }
    if (holder.kind != ValueKind::kInstance) continue;
    bool any = false;
    for (const auto& store : resolver_.scopes().attribute_stores(name)) {
      if (store.value == kNoNode) continue;
      if (!in_progress_.insert(store.target).second) continue;
      const bool is_one = store.item == syntax::kWhole && judge(store.value);
      in_progress_.erase(store.target);
      if (!is_one) return false;
      any = true;
    }
    return any;
  }
  return false;
}

}  // namespace autotriton::rules
