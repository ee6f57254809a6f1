#include <algorithm>
#include <array>
#include <set>

#include "rules/context.h"

/// Family 7: a jit body is Triton, not Python: the interpreter would run anything that stands there.
namespace autotriton::rules {

using syntax::Binding;
using syntax::BindingKind;
using syntax::Field;
using syntax::Kind;
using syntax::kNoNode;
using syntax::NodeId;
using syntax::Op;
using syntax::Value;
using syntax::ValueKind;

namespace {

constexpr std::string_view kRule = "jit-body-not-triton";

std::string_view refused_statement(Kind kind) {
  switch (kind) {
    case Kind::kTry:
      return "try";
    case Kind::kLambda:
      return "lambda";
    case Kind::kImport:
    case Kind::kImportFrom:
    case Kind::kFutureImport:
      return "import";
    case Kind::kYield:
      return "yield";
    case Kind::kAwait:
      return "await";
    case Kind::kGlobal:
      return "global";
    case Kind::kNonlocal:
      return "nonlocal";
    case Kind::kClass:
      return "class";
    case Kind::kTypeAlias:
      return "type";
    case Kind::kDelete:
      return "del";
    case Kind::kExec:
      return "exec";
    case Kind::kPrint:
      return "print";
    case Kind::kSetComprehension:
    case Kind::kDictionaryComprehension:
    case Kind::kGenerator:
      return "a comprehension";
    default:
      return {};
  }
}

class JitBodies {
 public:
  explicit JitBodies(Context& context) : context_(context), module_(context.module), resolver_(context.resolver) {}

  void run() {
    const auto all = resolver_.jit_functions();
    // Kernels that nothing launches are another family's finding; without any launch, judge what is there.
    std::vector<NodeId> judged = context_.launched;
    if (judged.empty()) judged.assign(all.begin(), all.end());
    for (const NodeId function : judged) {
      visit(module_.child(function, Field::kBody));
    }
    for (const syntax::Launch& launch : context_.forward.launches()) check_constants(launch);
    if (!context_.launched.empty()) check_memory();
  }

 private:
  void refuse(NodeId node, const std::string& what) {
    context_.report_line(kRule, Level::kReject, node,
                         what + " inside a jit body is not Triton; use tl operations on the parameters");
  }

  void visit(NodeId node) {
    const Kind kind = module_.kind(node);
    if (kind == Kind::kType) return;
    if (const std::string_view statement = refused_statement(kind); !statement.empty()) {
      refuse(node, std::string(statement));
      return;
    }
    switch (kind) {
      case Kind::kFunction:
        refuse(node, "a nested function");
        return;
      case Kind::kAssignment:
      case Kind::kAugmented:
        if (module_.kind(module_.unwrap(module_.child(node, Field::kLeft))) == Kind::kAttribute) {
          refuse(node, "assigning to an attribute");
          return;
        }
        break;
      case Kind::kWithItem: {
        const NodeId item = module_.unwrap(module_[node].first_child);
        const NodeId manager = module_.kind(item) == Kind::kAsPattern ? module_[item].first_child : item;
        const auto name = resolver_.external(
            module_.kind(manager) == Kind::kCall ? module_.child(manager, Field::kFunction) : manager);
        if (!name || !name->starts_with("triton.")) {
          refuse(node, "with");
          return;
        }
        break;
      }
      case Kind::kCall:
        check_call(node);
        break;
      case Kind::kComparison:
        if (module_[node].op == Op::kIdentity) check_identity(node);
        break;
      case Kind::kAttribute:
        if (!check_attribute(node)) return;
        break;
      case Kind::kIdentifier:
        check_name(node);
        return;
      default:
        break;
    }
    for (const NodeId child : module_.children(node)) {
      const bool is_label = (kind == Kind::kKeywordArgument && module_[child].field == Field::kName) ||
                            (kind == Kind::kAttribute && module_[child].field == Field::kAttribute);
      if (!is_label) visit(child);
    }
  }

  bool is_local(NodeId identifier) const {
    const auto found = resolver_.scopes().lookup(identifier);
    return !found.empty() && found.front().scope != 0;
  }

  /// `bias is None` and `dtype is tl.float16` mean the same to the compiler and the interpreter; `a is b` does not.
  void check_identity(NodeId comparison) {
    bool is_fixed = false;
    for (const NodeId side : module_.children(comparison)) {
      const NodeId plain = module_.unwrap(side);
      const Kind kind = module_.kind(plain);
      const auto name = resolver_.external(plain);
      const bool is_constant = kind == Kind::kNone || kind == Kind::kTrue || kind == Kind::kFalse ||
                               (name && name->starts_with("triton.language."));
      is_fixed = is_fixed || is_constant;
      if (!is_constant && !resolver_.scopes().calls_in(plain).empty())
        return refuse(comparison, "`is` on what a call returned");
    }
    if (!is_fixed) refuse(comparison, "`is` between two objects");
  }

  /// getattr(tl, "float16") and hasattr(tl, "float8e4nv") ask Triton itself.
  bool asks_triton(NodeId identifier) {
    const NodeId call = module_[identifier].parent;
    if (module_.kind(call) != Kind::kCall || module_[identifier].field != Field::kFunction) return false;
    const std::string_view name = module_.name_of(identifier);
    std::string literal;
    return (name == "getattr" || name == "hasattr") &&
           resolver_.external(resolver_.argument(call, 0, "")) == "triton.language" &&
           module_.string_value(resolver_.argument(call, 1, ""), literal);
  }

  void check_name(NodeId node) {
    if (is_local(node) || asks_triton(node)) return;
    for (const Value& value : resolver_.values(node)) {
      const std::string name(resolver_.text(value));
      if (value.kind == ValueKind::kUnresolved) {
        // The interpreter defines tl by itself, so that only reading finds this one; the run finds the others.
        const bool is_injected = name == "tl" || name == "triton" || name == "language";
        context_.report_line(kRule, is_injected ? Level::kReject : Level::kSuspicious, node,
                             "nothing defines `" + name + "`, which this jit body uses; import or define it");
      } else if (value.kind == ValueKind::kExternal) {
        check_external(node, name);
      }
    }
  }

  void check_external(NodeId node, const std::string& name) {
    if (name == "math" || name.starts_with("math.")) return;
    for (const std::string_view inner :
         {"triton.runtime", "triton.compiler", "triton.backends", "triton.knobs", "triton.testing", "triton._C"}) {
      if (name.starts_with(inner)) return refuse(node, "`" + name + "`");
    }
    if (name == "triton" || name.starts_with("triton.")) return;
    if (name.starts_with("typing.") || name == "typing") return;
    if (name.starts_with("builtins.")) {
      if (!context_.glue.is_jit_builtin(std::string_view(name).substr(9))) refuse(node, "`" + name.substr(9) + "`");
      return;
    }
    refuse(node, "`" + name + "`");
  }

  /// False if the attribute was judged whole.
  bool check_attribute(NodeId node) {
    const std::string_view name = module_.name_of(module_.child(node, Field::kAttribute));
    bool is_external = false;
    for (const Value& value : resolver_.values(node)) {
      if (value.kind != ValueKind::kExternal) continue;
      const std::string full(resolver_.text(value));
      if (full.find("()") != std::string::npos) continue;
      is_external = true;
      check_external(node, full);
    }
    if (is_external) return false;
    if (name.starts_with('_') || context_.glue.is_jit_attribute_refused(name)) {
      refuse(node, "`." + std::string(name) + "`");
      return false;
    }
    return true;
  }

  void check_call(NodeId call) {
    const NodeId function = module_.unwrap(module_.child(call, Field::kFunction));
    for (const Value& callee : syntax::ValueSet(resolver_.values(function))) {
      switch (callee.kind) {
        case ValueKind::kFunction: {
          if (runs_while_compiling(callee.node)) {
            // Its body is Python that the compiler runs on constants: held to what a jit body may say.
            if (constant_functions_.insert(callee.node).second) visit(module_.child(callee.node, Field::kBody));
            break;
          }
          const NodeId named = module_.child(callee.node, Field::kName);
          refuse(call,
                 "calling " + (named == kNoNode ? std::string("a lambda")
                                                : std::string(module_.name_of(named)) + ", which has no @triton.jit,"));
          break;
        }
        case ValueKind::kExternal:
          check_external_call(call, std::string(resolver_.text(callee)));
          if (is_local(function) && module_.kind(function) == Kind::kIdentifier)
            check_external(call, std::string(resolver_.text(callee)));
          break;
        case ValueKind::kInstance:
        case ValueKind::kLaunch:
          refuse(call, callee.kind == ValueKind::kLaunch ? "launching a kernel" : "calling an object");
          break;
        case ValueKind::kClass:
          break;  // A named tuple; the compiler decides.
        default:
          break;
      }
    }
  }

  /// @triton.constexpr_function, and nothing else above it.
  bool runs_while_compiling(NodeId function) {
    const auto decorators = resolver_.decorators(function);
    return decorators.size() == 1 && std::ranges::all_of(decorators, [&](NodeId decorator) {
             const auto name = resolver_.external(decorator);
             return name && name->starts_with("triton.") && name->ends_with(".constexpr_function");
           });
  }

  void check_external_call(NodeId call, const std::string& name) {
    std::string literal;
    if (name == "builtins.getattr" && !module_.string_value(resolver_.argument(call, 1, ""), literal)) {
      refuse(call, "getattr with a computed name");
    }
    // A store whose value cannot be seen could not be knocked out.
    const std::string_view last = std::string_view(name).substr(name.rfind('.') + 1);
    if (!name.starts_with("triton.") || (last.find("store") == std::string_view::npos && !last.starts_with("atomic_")))
      return;
    for (const NodeId argument : module_.children(module_.child(call, Field::kArguments))) {
      if (module_.kind(argument) == Kind::kListSplat || module_.kind(argument) == Kind::kDictionarySplat) {
        refuse(call, std::string(last) + " with starred arguments");
      }
    }
  }

  /// A tensor in the place of a constant would be torch's inside the kernel.
  void check_constants(const syntax::Launch& launch) {
    if (launch.jit_function == kNoNode) return;
    const auto parameters = resolver_.scopes().parameters(launch.jit_function);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const NodeId type = module_.child(parameters[i].second, Field::kType);
      if (type == kNoNode || !module_.text(type).ends_with("constexpr")) continue;
      const NodeId passed = module_.unwrap(resolver_.argument(launch.call, i, module_.name(parameters[i].first)));
      bool holds_tensor = context_.tensors.is_tensor(passed);
      if (module_.kind(passed) == Kind::kTuple || module_.kind(passed) == Kind::kList) {
        for (const NodeId item : module_.children(passed))
          holds_tensor = holds_tensor || context_.tensors.is_tensor(item);
      }
      if (holds_tensor)
        context_.report_line(kRule, Level::kReject, passed,
                             "a tensor is passed for the constexpr parameter " +
                                 std::string(module_.name(parameters[i].first)) +
                                 "; pass it for an ordinary parameter and load from it");
    }
  }

  void check_memory() {
    bool loads = false;
    bool stores = false;
    const bool takes_no_tensor = entry_takes_no_tensor();
    std::set<NodeId> calls;
    for (const NodeId function : context_.launched) {
      const auto inside = resolver_.scopes().calls_in(function);
      calls.insert(inside.begin(), inside.end());
    }
    for (const NodeId call : calls) {
      if (loads && stores) break;
      const NodeId function = module_.unwrap(module_.child(call, Field::kFunction));
      std::string_view name;
      if (module_.kind(function) == Kind::kAttribute)
        name = module_.name_of(module_.child(function, Field::kAttribute));
      for (const Value& callee : resolver_.values(function)) {
        const std::string_view full = resolver_.text(callee);
        if (callee.kind == ValueKind::kExternal && full.starts_with("triton.")) name = full.substr(full.rfind('.') + 1);
      }
      const bool is_load =
          name == "load" || name.ends_with("descriptor_load") || name == "load_tensor_descriptor" || name == "gather";
      const bool is_store = name == "store" || name.ends_with("descriptor_store") ||
                            name == "store_tensor_descriptor" || name == "scatter";
      const bool is_atomic = name.starts_with("atomic_");
      if (!is_load && !is_store && !is_atomic) continue;
      if (!reaches_parameter(call, function)) continue;
      loads = loads || is_load || is_atomic || (is_store && takes_no_tensor && stores_parameter(call));
      stores = stores || is_store || is_atomic;
    }
    NodeId first = context_.launched.front();
    for (const syntax::Launch& launch : context_.forward.launches()) {
      if (launch.jit_function != kNoNode) first = launch.jit_function;
    }
    const std::string name(module_.name_of(module_.child(first, Field::kName)));
    if (!loads && launches_pass_inputs_by(stores)) {
      context_.report("jit-body-no-load", Level::kReject, first,
                      name +
                          " and the other launched kernels read no argument, neither with tl.load nor as a number; "
                          "load the inputs in the kernel");
    }
    if (!stores) {
      context_.report(
          "jit-body-no-store", Level::kReject, first,
          name + " and the other launched kernels write no argument with tl.store; store the result in the kernel");
    }
  }

  /// Whether the address of a load or store comes from a parameter of its jit function.
  bool reaches_parameter(NodeId call, NodeId function) {
    seen_.clear();
    if (module_.kind(function) == Kind::kAttribute && mentions_parameter(module_.child(function, Field::kObject)))
      return true;
    const NodeId address = module_.nth_child(module_.child(call, Field::kArguments), 0);
    return mentions_parameter(module_.kind(address) == Kind::kKeywordArgument ? module_.child(address, Field::kValue)
                                                                              : address);
  }

  /// Whether a launch is handed an input that its kernel, which loads nothing, passes by. ones_like(x) hands over a
  /// size and a buffer, and what fills the caller's buffer with numbers made of a seed stores to it: nothing is to be
  /// loaded.
  bool launches_pass_inputs_by(bool stores) {
    KernelFlow& flow = context_.flow();
    for (const syntax::Launch& launch : context_.forward.launches()) {
      const NodeId arguments = module_.child(launch.call, Field::kArguments);
      const bool is_plain =
          std::ranges::none_of(std::to_array({Kind::kListSplat, Kind::kDictionarySplat}), [&](Kind kind) {
            for (const NodeId argument : module_.children(arguments)) {
              if (module_.kind(argument) == kind) return true;
            }
            return false;
          });
      if (launch.jit_function == kNoNode || !is_plain || !stores) {
        for (const NodeId argument : module_.children(arguments)) {
          const bool is_keyword = module_.kind(argument) == Kind::kKeywordArgument;
          if (flow.may_hold_input(is_keyword ? module_.child(argument, Field::kValue) : argument)) return true;
        }
        continue;
      }
      const std::set<syntax::NameId> stored = flow.stored_parameters(launch.jit_function);
      const std::set<syntax::NameId> by_value = stored_by_value(launch.jit_function);
      const auto parameters = resolver_.scopes().parameters(launch.jit_function);
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        if (stored.contains(parameters[i].first)) continue;
        const NodeId passed = resolver_.argument(launch.call, i, module_.name(parameters[i].first));
        if (passed == kNoNode) continue;
        // A seed is a number of the caller's; a value read from a tensor is none.
        if (by_value.contains(parameters[i].first) ? flow.may_hold_input_tensor(passed) : flow.may_hold_input(passed))
          return true;
      }
    }
    return context_.forward.launches().empty();
  }

  /// The parameters that the values and masks of a jit function's stores are made of.
  std::set<syntax::NameId> stored_by_value(NodeId jit_function) {
    std::set<syntax::NameId> found;
    for (const NodeId call : resolver_.scopes().calls_in(jit_function)) {
      const NodeId function = module_.unwrap(module_.child(call, Field::kFunction));
      const std::string_view name = module_.kind(function) == Kind::kAttribute
                                        ? module_.name_of(module_.child(function, Field::kAttribute))
                                        : module_.name_of(function);
      if (name.find("store") == std::string_view::npos) continue;
      std::size_t position = 0;
      for (const NodeId argument : module_.children(module_.child(call, Field::kArguments))) {
        if (position++ > 0) collect_parameters(argument, found);
      }
    }
    return found;
  }

  void collect_parameters(NodeId expression, std::set<syntax::NameId>& found) {
    std::set<NodeId> seen;
    std::vector<NodeId> pending{expression};
    while (!pending.empty()) {
      const NodeId top = pending.back();
      pending.pop_back();
      for (NodeId at = top; at < module_.after(top); ++at) {
        if (module_.kind(at) != Kind::kIdentifier) continue;
        for (const Binding& binding : resolver_.scopes().lookup(at)) {
          if (binding.scope == 0 || !seen.insert(binding.target).second) continue;
          if (binding.kind == BindingKind::kParameter) {
            found.insert(binding.name);
          } else if (binding.value != kNoNode) {
            pending.push_back(binding.value);
          }
        }
      }
    }
  }

  /// arange(start, end, step): what makes a tensor of numbers has nothing to load.
  bool entry_takes_no_tensor() {
    const auto functions = context_.entry_functions();
    for (const NodeId function : functions) {
      const syntax::ScopeId scope = resolver_.scopes().scope_opened_by(function);
      for (const auto& [name, node] : resolver_.scopes().parameters(function)) {
        if (module_.name(name) == "out") continue;
        for (const Binding& binding : resolver_.scopes().bindings(scope, name)) {
          if (binding.kind == BindingKind::kParameter && context_.tensors.is_tensor(binding.target)) return false;
        }
      }
    }
    return !functions.empty();
  }

  /// tl.store(out + offsets, start + step * offsets): the inputs are numbers, handed over by value.
  bool stores_parameter(NodeId call) {
    NodeId value = resolver_.argument(call, 1, "value");
    if (module_.kind(value) == Kind::kKeywordArgument) value = module_.child(value, Field::kValue);
    seen_.clear();
    return mentions_parameter(value, /*by_value=*/true);
  }

  bool mentions_parameter(NodeId node, bool by_value = false) {
    if (node == kNoNode) return false;
    if (module_.kind(node) == Kind::kIdentifier) {
      for (const Binding& binding : resolver_.scopes().lookup(node)) {
        if (binding.kind == BindingKind::kParameter) {
          const NodeId type = module_.child(binding.value, Field::kType);
          if (by_value && type != kNoNode && module_.text(type).ends_with("constexpr")) continue;
          return true;
        }
        if (binding.scope == 0 || !seen_.insert(binding.target).second) continue;
        if (mentions_parameter(binding.value, by_value)) return true;
      }
      return false;
    }
    for (const NodeId child : module_.children(node)) {
      if (mentions_parameter(child, by_value)) return true;
    }
    return false;
  }

  Context& context_;
  const syntax::Module& module_;
  syntax::Resolver& resolver_;
  std::set<NodeId> seen_;
  std::set<NodeId> constant_functions_;
};

}  // namespace

void check_jit_bodies(Context& context) { JitBodies(context).run(); }

}  // namespace autotriton::rules
