#include <algorithm>
#include <array>
#include <cctype>

#include "rules/context.h"

/// Family 3: what PyTorch computes on the path from the entry point was not computed by a kernel.
namespace autotriton::rules {

using syntax::Field;
using syntax::Kind;
using syntax::kNoNode;
using syntax::NodeId;
using syntax::Op;
using syntax::Value;
using syntax::ValueKind;

namespace {

constexpr std::string_view kRule = "torch-compute";

/// Parts of torch that compute, whatever the name below them.
constexpr auto kComputeNamespaces = std::to_array<std::string_view>({
    "_C",        "_VF",       "_decomp",       "_inductor",    "_ops",   "_prims", "_refs",   "ao",
    "cuda.comm", "cuda.nccl", "distributions", "fft",          "func",   "jit",    "linalg",  "masked",
    "nested",    "ops",       "nn.quantized",  "quantization", "signal", "sparse", "special",
});
/// Packages of torch whose functions other than those above do no arithmetic.
constexpr auto kQuietPackages = std::to_array<std::string_view>({
    "_dynamo", "_utils", "accelerator", "amp", "backends",  "compiler", "cpu",    "cuda",  "hpu",     "library",
    "mps",     "mtia",   "musa",        "npu", "overrides", "profiler", "random", "utils", "version", "xpu",
});
/// Attributes that ask where a storage lies and how large it is.
constexpr auto kStorageQuestions =
    std::to_array<std::string_view>({"data_ptr", "device", "element_size", "nbytes", "nelement", "size"});
/// Functions of one number that may finish a reduction: the norm is the root of the sum.
constexpr auto kFinishers =
    std::to_array<std::string_view>({"abs", "exp", "log", "neg", "reciprocal", "rsqrt", "sqrt", "square"});
/// Modules of torch.nn that hand their input on.
constexpr auto kPassiveModules = std::to_array<std::string_view>({"nn.Identity", "nn.Flatten", "nn.Unflatten"});
/// Builtins that fall back on a tensor's own arithmetic.
constexpr auto kArithmeticBuiltins =
    std::to_array<std::string_view>({"abs", "divmod", "max", "min", "pow", "round", "sum"});

/// What a check of an argument may call.
constexpr auto kCheckCalls = std::to_array<std::string_view>(
    {"abs",         "all",        "any",        "bool",  "dim",   "float", "int",
     "isfinite",    "isinf",      "isinstance", "isnan", "item",  "len",   "logical_and",
     "logical_not", "logical_or", "max",        "min",   "numel", "size",  "tuple"});

/// Builtins that spell or copy what a tensor holds.
constexpr auto kTextBuiltins =
    std::to_array<std::string_view>({"ascii", "bytearray", "bytes", "format", "memoryview", "print", "repr", "str"});

std::string_view last_part(std::string_view name) { return name.substr(name.rfind('.') + 1); }
std::string_view first_part(std::string_view name) { return name.substr(0, name.find('.')); }
bool is_part_of(std::string_view name, std::string_view package) {
  return name.starts_with(package) && (name.size() == package.size() || name[package.size()] == '.');
}
bool is_capitalised(std::string_view name) {
  return !name.empty() && std::isupper(static_cast<unsigned char>(name.front())) != 0;
}

class TorchCompute {
 public:
  explicit TorchCompute(Context& context)
      : context_(context),
        module_(context.module),
        level_(context.options.report_torch_compute ? Level::kNote : Level::kReject) {}

  void run() {
    // forward itself may be something of torch: ModelNew.forward = torch.relu.
    for (const Value& value : context_.entry_values) {
      const std::string name(context_.resolver.text(value));
      if (value.kind == ValueKind::kExternal && name.starts_with("torch.") && name != "torch.nn.Module.forward") {
        refuse(context_.entry_node, name + " in the place of forward");
      }
    }
    for (const NodeId node : context_.forward.nodes()) {
      switch (module_.kind(node)) {
        case Kind::kCall:
          check_call(node);
          break;
        case Kind::kBinary:
          check_binary(node);
          break;
        case Kind::kUnary:
          if (context_.tensors.is_tensor(module_.child(node, Field::kArgument)) || context_.tensors.makes_tensor(node))
            refuse_arithmetic(node);
          break;
        case Kind::kComparison:
          check_comparison(node);
          break;
        case Kind::kInterpolation:
          check_interpolation(node);
          break;
        case Kind::kAugmented:
          check_augmented(node);
          break;
        case Kind::kIdentifier:
        case Kind::kAttribute:
          check_passed_function(node);
          break;
        default:
          break;
      }
    }
  }

 private:
  void refuse(NodeId node, const std::string& what) {
    if (is_check(node)) return note_check(node, what);
    context_.report_line(kRule, level_, node, what + " computes in PyTorch on the path; do this inside a kernel");
  }
  void note_check(NodeId node, const std::string& what) {
    context_.report_line(kRule, Level::kNote, node,
                         what + " checks an argument in PyTorch; the result must not depend on it");
  }

  /// assert (index < rows).all(), and if (x <= 0).any(): raise: nothing comes out of it but an error.
  bool is_check(NodeId node) {
    NodeId condition = kNoNode;
    for (NodeId at = node; at != kNoNode && condition == kNoNode; at = module_[at].parent) {
      const NodeId parent = module_[at].parent;
      const Kind kind = module_.kind(parent);
      if (kind == Kind::kAssert) {
        condition = at;
      } else if (kind == Kind::kIf && module_[at].field == Field::kCondition) {
        const NodeId block = module_.child(parent, Field::kConsequence);
        if (module_.num_children(block) != 1 || module_.kind(module_[block].first_child) != Kind::kRaise) return false;
        condition = at;
      } else if (kind == Kind::kBlock || kind == Kind::kLambda) {
        return false;
      }
    }
    if (condition == kNoNode) return false;
    for (NodeId at = condition; at < module_.after(condition); ++at) {
      const Kind kind = module_.kind(at);
      if (kind == Kind::kNamed || kind == Kind::kLambda || kind == Kind::kAwait || kind == Kind::kYield) return false;
      if (kind != Kind::kCall) continue;
      const NodeId function = module_.unwrap(module_.child(at, Field::kFunction));
      const std::string_view name = module_.kind(function) == Kind::kAttribute
                                        ? module_.name_of(module_.child(function, Field::kAttribute))
                                        : module_.name_of(function);
      const std::string_view group = context_.glue.method_group(name);
      const bool is_glue = (group == "view" || group == "copy" || group == "query") && !name.ends_with('_');
      if (!is_glue && std::ranges::find(kCheckCalls, name) == kCheckCalls.end()) return false;
    }
    return true;
  }

  void refuse_arithmetic(NodeId node) {
    if (is_check(node)) return note_check(node, "`" + short_text(node) + "`");
    context_.report_line(
        kRule, level_, node,
        "`" + short_text(node) + "` is tensor arithmetic in PyTorch on the path; do this inside a kernel");
  }

  std::string short_text(NodeId node) const {
    std::string_view text = module_.text(node);
    text = text.substr(0, text.find('\n'));
    if (text.size() <= 60) return std::string(text);
    std::size_t end = 57;  // Cut before a character's first byte.
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
    return std::string(text.substr(0, end)) + "…";
  }

  void check_call(NodeId call) {
    const NodeId function = module_.unwrap(module_.child(call, Field::kFunction));
    const auto callees = context_.resolver.values(function);
    bool is_ours = false;
    bool is_foreign_function = false;
    for (const Value& callee : callees) {
      switch (callee.kind) {
        case ValueKind::kExternal: {
          const std::string name(context_.resolver.text(callee));
          if (name.find("()") != std::string::npos) {
            check_result_member(call, name);
          } else {
            is_foreign_function = true;
            check_external(call, name);
          }
          break;
        }
        case ValueKind::kResult:
          check_called_result(call, std::string(context_.resolver.text(callee)), callee);
          break;
        case ValueKind::kUnresolved:
          break;
        default:
          is_ours = true;
      }
    }
    if (!is_ours && !is_foreign_function && module_.kind(function) == Kind::kAttribute) check_method(call, function);
  }

  /// A function outside the file, called by its full name.
  void check_external(NodeId call, const std::string& name) {
    if (name.starts_with("torch.")) {
      check_torch(call, name.substr(6), name);
    } else if (name.starts_with("numpy.")) {
      if (!context_.glue.is_scalar_numpy(std::string_view(name).substr(6))) {
        context_.report_line(kRule, level_, call, name + " computes in numpy on the path; do this inside a kernel");
      }
    } else if (name.starts_with("einops.")) {
      const std::string_view function = last_part(name);
      if (function == "einsum" || function == "reduce") refuse(call, name);
    } else if (name == "pprint.pformat" || name == "pprint.saferepr" || name == "reprlib.repr") {
      if (any_argument_is_tensor(call)) refuse_text(call);
    } else if (name == "operator.matmul") {
      refuse(call, name);
    } else if (name.starts_with("operator.") || name.starts_with("builtins.")) {
      const std::string_view function = last_part(name);
      if (name.starts_with("builtins.")) check_text(call, function);
      const bool is_arithmetic =
          name.starts_with("operator.")
              ? function != "itemgetter" && function != "getitem" && function != "index" && !function.starts_with("is_")
              : std::ranges::find(kArithmeticBuiltins, function) != kArithmeticBuiltins.end();
      if (is_arithmetic && (any_argument_is_tensor(call) || context_.tensors.makes_tensor(call)))
        refuse_arithmetic(call);
    } else if (name == "functools.reduce" || name == "itertools.accumulate") {
      const auto function = context_.resolver.external(context_.resolver.argument(call, 0, ""));
      if (function && function->starts_with("operator.") && context_.tensors.makes_tensor(call))
        refuse_arithmetic(call);
    }
  }

  /// str(x) spells a tensor's values: text is a way around every kernel.
  void check_text(NodeId call, std::string_view function) {
    if (std::ranges::find(kTextBuiltins, function) == kTextBuiltins.end()) return;
    // Printing is honest where nobody can read it back.
    if (function == "print" && context_.resolver.argument(call, module_.num_nodes(), "file") == kNoNode) return;
    if (any_argument_is_tensor(call)) refuse_text(call);
  }

  /// f"{x}", but for the message of an error.
  void check_interpolation(NodeId node) {
    if (module_.enclosing(node, Kind::kRaise) != kNoNode || module_.enclosing(node, Kind::kAssert) != kNoNode) return;
    const NodeId call = module_.enclosing(node, Kind::kCall);
    if (call != kNoNode && context_.resolver.may_be(module_.child(call, Field::kFunction), "builtins.print")) return;
    if (context_.tensors.is_tensor(module_.nth_child(node, 0))) refuse_text(node);
  }

  void refuse_text(NodeId node) {
    context_.report_line("sniffing", Level::kReject, node,
                         "`" + short_text(node) + "` turns a tensor's values into text; read values in a kernel");
  }

  void check_torch(NodeId node, std::string_view name, const std::string& full) {
    const Glue& glue = context_.glue;
    if (name.starts_with("Tensor.")) {
      const std::string_view method = last_part(name);
      const std::string_view group = glue.method_group(method);
      if (glue.is_partial_reduction(method)) {
        note_reduction(node, full);
      } else if (group == "compute" || group == "compute_if_tensor" ||
                 (group.empty() && method != "__init__" && method != "__new__")) {
        refuse(node, full);
      }
      return;
    }
    if (takes_values(node, name)) return refuse(node, full + " with a tensor of numbers");
    if (!glue.function_group(name).empty() || is_size_arithmetic(node)) return;
    if (glue.is_partial_reduction(name)) {
      note_reduction(node, full);
      return;
    }
    if (is_finished_reduction(node, name)) return note_reduction(node, full);
    const std::string_view first = first_part(name);
    const std::string_view last = last_part(name);
    if (last == "__init__") return;  // super().__init__(…)
    if (std::ranges::any_of(kComputeNamespaces, [&](std::string_view package) { return is_part_of(name, package); }))
      return refuse(node, full);
    if (is_capitalised(last)) return;  // Making an object: nn.Linear(…), cuda.Event(…).
    for (const std::string_view prefix : {"is_", "are_", "get_", "set_"}) {  // Questions and settings.
      if (name.starts_with(prefix)) return;
    }
    if (name.starts_with("nn.")) {
      const std::string_view below = name.substr(3);
      const std::string_view holder = first_part(below);
      if (holder == "functional" || holder == "utils" || holder == "init" || holder == "attention")
        return refuse(node, full);
      if (last == "forward" || last == "__call__") {
        if (std::ranges::find(kPassiveModules, name.substr(0, name.rfind('.'))) == kPassiveModules.end())
          refuse(node, full);
      } else if (holder != "Module") {
        check_method_name(node, last,
                          /*receiver_is_tensor=*/true);  // self.weight.mul(…) of a class built on nn.Linear.
      }
      return;
    }
    if (first == name || std::ranges::find(kQuietPackages, first) == kQuietPackages.end()) refuse(node, full);
  }

  /// torch.linspace(a, b, n) between tensors interpolates, and torch.repeat_interleave(counts) counts: what is glue
  /// with plain numbers computes with tensors.
  bool takes_values(NodeId node, std::string_view name) {
    if (module_.kind(node) != Kind::kCall) return false;
    if (name == "linspace" || name == "logspace") {
      return context_.tensors.is_tensor(context_.resolver.argument(node, 0, "start")) ||
             context_.tensors.is_tensor(context_.resolver.argument(node, 1, "end"));
    }
    if (name != "repeat_interleave") return false;
    const NodeId repeats = context_.resolver.argument(node, 1, "repeats");
    return repeats == kNoNode ? module_.num_children(module_.child(node, Field::kArguments)) == 1
                              : context_.tensors.is_tensor(repeats);
  }

  /// torch.sqrt(partial.sum()): a function of the one number that a final reduction leaves.
  bool is_finished_reduction(NodeId node, std::string_view name) {
    if (module_.kind(node) != Kind::kCall || std::ranges::find(kFinishers, name) == kFinishers.end() ||
        module_.num_children(module_.child(node, Field::kArguments)) != 1)
      return false;
    return is_full_reduction(module_.nth_child(module_.child(node, Field::kArguments), 0), 0);
  }

  /// `x.sum()`, `torch.sum(x)`, or a variable that is only ever that.
  bool is_full_reduction(NodeId expression, int depth) {
    expression = module_.unwrap(expression);
    if (depth > 4) return false;
    if (module_.kind(expression) == Kind::kIdentifier) {
      const auto found = context_.resolver.scopes().lookup(expression);
      return found.size() == 1 && found.front().kind == syntax::BindingKind::kAssign &&
             found.front().item == syntax::kWhole && is_full_reduction(found.front().value, depth + 1);
    }
    if (module_.kind(expression) != Kind::kCall) return false;
    const NodeId function = module_.unwrap(module_.child(expression, Field::kFunction));
    const std::size_t num_arguments = module_.num_children(module_.child(expression, Field::kArguments));
    if (const auto name = context_.resolver.external(function);
        name && name->starts_with("torch.") && name->find("()") == std::string_view::npos) {
      const std::string_view below = name->substr(6);
      return num_arguments == 1 &&
             (context_.glue.is_partial_reduction(below) || is_finished_reduction(expression, below));
    }
    return module_.kind(function) == Kind::kAttribute && num_arguments == 0 &&
           context_.glue.is_partial_reduction(module_.name_of(module_.child(function, Field::kAttribute)));
  }

  /// torch.prod(torch.tensor(x.shape)): sizes in a tensor of their own. What the run sees of it, it judges.
  bool is_size_arithmetic(NodeId node) {
    if (module_.kind(node) != Kind::kCall) return false;
    return holds_sizes(context_.resolver.argument(node, 0, "input")) &&
           context_.resolver.argument(node, 1, "") == kNoNode;
  }

  /// torch.tensor(x.shape)[1:]
  bool holds_sizes(NodeId expression) {
    expression = module_.unwrap(expression);
    while (module_.kind(expression) == Kind::kSubscript)
      expression = module_.unwrap(module_.child(expression, Field::kValue));
    if (module_.kind(expression) != Kind::kCall) return false;
    const auto maker = context_.resolver.external(module_.child(expression, Field::kFunction));
    if (maker != "torch.tensor" && maker != "torch.as_tensor" && maker != "torch.Tensor") return false;
    const NodeId data = module_.unwrap(context_.resolver.argument(expression, 0, "data"));
    return data != kNoNode && !context_.tensors.is_tensor(data);
  }

  /// torch.empty(…).exp(), self.conv.forward(x), self.fc.weight.t().
  void check_result_member(NodeId call, const std::string& name) {
    const std::string_view method = last_part(name);
    const std::string made_by = name.substr(0, name.find("()"));
    if (made_by.starts_with("torch.nn.") && (method == "forward" || method == "__call__")) {
      check_module_call(call, made_by);
    } else if (made_by.starts_with("torch.optim.") && method == "step") {
      refuse(call, made_by + ".step");
    } else if (made_by.starts_with("torch.") || made_by.find("torch") == std::string::npos) {
      const NodeId function = module_.unwrap(module_.child(call, Field::kFunction));
      if (module_.kind(function) == Kind::kAttribute) check_method(call, function);
    }
  }

  void check_called_result(NodeId call, const std::string& made_by, const Value& callee) {
    if (!made_by.starts_with("torch.")) return;
    if (made_by == "torch.nn.Sequential" || made_by == "torch.nn.ModuleList") {
      bool all_ours = true;
      bool any = false;
      for (const Value& element : context_.resolver.elements(callee)) {
        any = true;
        all_ours = all_ours && element.kind == ValueKind::kInstance;
      }
      if (any && all_ours) return;  // Reach has followed them.
    }
    if (made_by.starts_with("torch.nn.") && is_capitalised(last_part(made_by))) {
      check_module_call(call, made_by);
    } else if (context_.glue.function_group(made_by.substr(6)).empty()) {
      refuse(call, "what " + made_by + " returned");
    }
  }

  void check_module_call(NodeId call, const std::string& made_by) {
    if (std::ranges::find(kPassiveModules, std::string_view(made_by).substr(6)) != kPassiveModules.end()) return;
    context_.report_line(kRule, level_, call,
                         "this calls a " + made_by +
                             ", which computes in PyTorch; keep the module as a holder of its " +
                             "parameters and compute with a kernel");
  }

  bool is_no_tensor(const Value& value) const {
    const std::string_view name = context_.resolver.text(value);
    switch (value.kind) {
      case ValueKind::kUnresolved:
        return false;
      case ValueKind::kLiteral:
        return module_.kind(value.node) != Kind::kNone;  // `self.seen = None` holds the place for something.
      case ValueKind::kResult:
        return !name.starts_with("torch.") && name != "builtins.type";
      case ValueKind::kExternal:
        return !name.starts_with("torch.") && name.find("()") == std::string_view::npos;
      default:
        return true;
    }
  }

  void check_method(NodeId call, NodeId function) {
    const NodeId object = module_.child(function, Field::kObject);
    if (module_.kind(module_.unwrap(object)) == Kind::kString && any_argument_is_tensor(call) &&
        module_.enclosing(call, Kind::kRaise) == kNoNode && module_.enclosing(call, Kind::kAssert) == kNoNode)
      return refuse_text(call);
    if (holds_sizes(object) && module_.num_children(module_.child(call, Field::kArguments)) == 0) return;
    const auto receivers = context_.resolver.values(object);
    bool is_other = !receivers.empty();  // Known, and nothing among it can be a tensor.
    for (const Value& receiver : receivers) is_other = is_other && is_no_tensor(receiver);
    if (is_other || is_counted(call, function)) return;
    check_method_name(call, module_.name_of(module_.child(function, Field::kAttribute)),
                      context_.tensors.is_tensor(object));
  }

  /// bn.num_batches_tracked.add_(1): a count of batches, to which only a number of the host is added.
  bool is_counted(NodeId call, NodeId function) {
    const NodeId object = module_.child(function, Field::kObject);
    const NodeId arguments = module_.child(call, Field::kArguments);
    if (module_.name_of(module_.child(function, Field::kAttribute)) != "add_" || module_.num_children(arguments) != 1 ||
        module_.kind(module_.nth_child(arguments, 0)) != Kind::kInteger || !is_integer_buffer(object))
      return false;
    note_count(call);
    return true;
  }

  void note_count(NodeId node) {
    context_.report_line(kRule, Level::kNote, node, "a counter is raised in PyTorch; the result must not depend on it");
  }

  /// A counter of torch's batch norms, or an attribute that only ever is a tensor of one integer.
  bool is_integer_buffer(NodeId object) {
    object = module_.unwrap(object);
    if (module_.kind(object) != Kind::kAttribute) return false;
    const std::string_view name = module_.name_of(module_.child(object, Field::kAttribute));
    for (const Value& holder : syntax::ValueSet(context_.resolver.values(module_.child(object, Field::kObject)))) {
      if (holder.kind == ValueKind::kResult) {
        if (name == "num_batches_tracked" && is_batch_norm(context_.resolver.text(holder))) return true;
        continue;
      }
      if (holder.kind != ValueKind::kInstance) continue;
      const auto stores = context_.resolver.scopes().attribute_stores(name);
      if (stores.empty())
        return name == "num_batches_tracked" &&
               std::ranges::any_of(context_.resolver.external_bases(holder.node),
                                   [](const std::string& base) { return is_batch_norm(base); });
      return std::ranges::all_of(stores, [&](const syntax::AttributeStore& store) {
        return store.item == syntax::kWhole && is_integer_tensor(store.value);
      });
    }
    return false;
  }

  static bool is_batch_norm(std::string_view name) {
    return name.starts_with("torch.nn.") && last_part(name).find("BatchNorm") != std::string_view::npos;
  }

  /// torch.tensor(0), torch.zeros((), dtype=torch.long)
  bool is_integer_tensor(NodeId expression) {
    expression = module_.unwrap(expression);
    if (module_.kind(expression) == Kind::kNone) return true;
    if (module_.kind(expression) != Kind::kCall) return false;
    const auto maker = context_.resolver.external(module_.child(expression, Field::kFunction));
    const NodeId first = module_.unwrap(context_.resolver.argument(expression, 0, "data"));
    if (maker == "torch.tensor") return module_.kind(first) == Kind::kInteger;
    if (maker != "torch.zeros") return false;
    const auto type = context_.resolver.external(context_.resolver.argument(expression, module_.num_nodes(), "dtype"));
    const bool is_one = (module_.kind(first) == Kind::kTuple && module_.num_children(first) == 0) ||
                        (module_.kind(first) == Kind::kInteger && module_.text(first) == "1");
    return is_one && (type == "torch.long" || type == "torch.int64" || type == "torch.int32" || type == "torch.int");
  }

  void check_method_name(NodeId call, std::string_view method, bool receiver_is_tensor) {
    if (method == "__call__") {  // x.mul.__call__(y)
      const NodeId inner =
          module_.unwrap(module_.child(module_.unwrap(module_.child(call, Field::kFunction)), Field::kObject));
      if (module_.kind(inner) == Kind::kAttribute) check_method(call, inner);
      return;
    }
    std::string_view group = context_.glue.method_group(method);
    // clip_, sin_: no other object has methods in place.
    if (group == "compute_if_tensor" && method.ends_with('_') && !method.ends_with("__")) group = "compute";
    if (receiver_is_tensor && (method == "__repr__" || method == "__str__" || method == "__format__")) {
      refuse_text(call);
    } else if (context_.glue.is_partial_reduction(method)) {
      note_reduction(call, "." + std::string(method) + "()");
    } else if (group == "storage" && !asks_only_about(call)) {
      context_.report_line("sniffing", Level::kReject, call,
                           "." + std::string(method) + "() opens the bytes below a tensor; read values in a kernel");
    } else if (group == "compute" || (receiver_is_tensor && group == "compute_if_tensor")) {
      refuse(call, "." + std::string(method) + "()");
    }
  }

  /// x.untyped_storage().data_ptr(), and not a storage to read or keep.
  bool asks_only_about(NodeId call) const {
    const NodeId parent = module_[call].parent;
    if (module_.kind(parent) != Kind::kAttribute) return false;
    const std::string_view name = module_.name_of(module_.child(parent, Field::kAttribute));
    return std::ranges::find(kStorageQuestions, name) != kStorageQuestions.end();
  }

  void note_reduction(NodeId node, const std::string& what) {
    context_.report_line(
        "partial-reduction", Level::kNote, node,
        what +
            " is accepted only as the last step over a kernel's partial results, which the run decides; "
            "reduce inside the kernel to be sure");
  }

  bool any_argument_is_tensor(NodeId call) {
    for (const NodeId argument : module_.children(module_.child(call, Field::kArguments))) {
      if (context_.tensors.is_tensor(argument)) return true;
    }
    return false;
  }

  void check_binary(NodeId node) {
    const NodeId left = module_.child(node, Field::kLeft);
    const NodeId right = module_.child(node, Field::kRight);
    if (module_[node].op == Op::kMatmul) {
      for (const Value& value : context_.resolver.values(left)) {
        if (value.kind == ValueKind::kInstance) return;
      }
      context_.report_line(
          kRule, level_, node,
          "`" + short_text(node) + "` is a matrix product in PyTorch on the path; use tl.dot inside a kernel");
      return;
    }
    if (context_.tensors.is_tensor(left) || context_.tensors.is_tensor(right) || context_.tensors.makes_tensor(node))
      refuse_arithmetic(node);
  }

  void check_comparison(NodeId node) {
    if (module_[node].op != Op::kCompare) return;
    for (const NodeId side : module_.children(node)) {
      if (module_.kind(side) == Kind::kNone) return;  // `x == None` asks for a presence.
    }
    for (const NodeId side : module_.children(node)) {
      if (context_.tensors.is_tensor(side)) return refuse_arithmetic(node);
    }
    if (context_.tensors.makes_tensor(node)) refuse_arithmetic(node);
  }

  void check_augmented(NodeId node) {
    const NodeId target = module_.child(node, Field::kLeft);
    if (module_[node].op == Op::kMatmul) return refuse_arithmetic(node);
    if (module_.kind(module_.child(node, Field::kRight)) == Kind::kInteger && is_integer_buffer(target))
      return note_count(node);
    if (context_.tensors.is_tensor(target) || context_.tensors.is_tensor(module_.child(node, Field::kRight)))
      refuse_arithmetic(node);
  }

  /// map(torch.relu, …), functools.partial(F.linear, …): a function handed to someone who calls it.
  void check_passed_function(NodeId node) {
    const NodeId parent = module_[node].parent;
    const bool is_callee = module_.kind(parent) == Kind::kCall && module_[node].field == Field::kFunction;
    if (module_.kind(node) == Kind::kAttribute && !is_callee && module_.kind(parent) != Kind::kAttribute) {
      // f = x.matmul, to be called later.
      const std::string_view method = module_.name_of(module_.child(node, Field::kAttribute));
      const std::string_view group = context_.glue.method_group(method);
      const bool computes =
          group == "compute" || (group == "compute_if_tensor" && method != "real" && method != "imag");
      if (computes && context_.tensors.is_tensor(module_.child(node, Field::kObject)))
        return refuse(node, "." + std::string(method));
    }
    const bool is_argument = module_.kind(parent) == Kind::kArguments ||
                             (module_.kind(parent) == Kind::kKeywordArgument && module_[node].field == Field::kValue);
    if (!is_argument) return;
    for (const Value& value : context_.resolver.values(node)) {
      if (value.kind != ValueKind::kExternal) continue;
      const std::string name(context_.resolver.text(value));
      if (name.find("()") != std::string::npos) continue;
      if (name.starts_with("torch.Tensor.") || name.starts_with("torch.ops.") || name.starts_with("torch._C.") ||
          name.starts_with("torch.nn.functional.")) {
        check_torch(node, std::string_view(name).substr(6), name);
      } else if (name.starts_with("torch.") && name.find('.', 6) == std::string::npos) {
        const std::string_view group = context_.glue.method_group(last_part(name));
        if (group == "compute" || group == "compute_if_tensor") refuse(node, name);
      }
    }
  }

  Context& context_;
  const syntax::Module& module_;
  const Level level_;
};

}  // namespace

void check_torch_compute(Context& context) { TorchCompute(context).run(); }

}  // namespace autotriton::rules
