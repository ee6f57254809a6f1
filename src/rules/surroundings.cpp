#include <algorithm>
#include <array>

#include "rules/context.h"

/// Family 8: an answer changes nothing around it, looks at nothing but its inputs, and starts nothing else.
namespace autotriton::rules {

using syntax::Field;
using syntax::Kind;
using syntax::NodeId;
using syntax::Value;
using syntax::ValueKind;

namespace {

/// A name, or a whole package where it ends with a dot.
struct Entry {
  std::string_view name;
  std::string_view rule;
  Level level = Level::kReject;
};

constexpr auto kNames = std::to_array<Entry>({
    // Reading what lies outside the answer.
    {"builtins.globals", "sniffing"},
    {"builtins.__builtins__", "sniffing"},
    {"builtins.__loader__", "sniffing"},
    {"builtins.__spec__", "sniffing"},
    {"builtins.__file__", "sniffing"},
    {"gc.", "sniffing"},
    {"inspect.", "sniffing"},
    {"traceback.", "sniffing"},
    {"platform.", "sniffing"},
    {"sys._getframe", "sniffing"},
    {"sys._current_frames", "sniffing"},
    {"sys.argv", "sniffing"},
    {"sys.modules", "sniffing"},
    {"sys.settrace", "sniffing"},
    {"sys.setprofile", "sniffing"},
    {"sys.exc_info", "sniffing"},
    {"sys.gettrace", "sniffing"},
    {"sys.orig_argv", "sniffing"},
    {"sys.meta_path", "tampering"},
    {"sys.path", "side-effects"},
    {"sys.exit", "side-effects"},
    {"sys.setrecursionlimit", "side-effects", Level::kSuspicious},
    {"os.environ", "sniffing"},
    {"os.getenv", "sniffing"},
    {"os.", "side-effects"},
    {"triton.knobs", "sniffing"},
    {"triton.runtime.interpreter", "sniffing"},
    {"triton.runtime.driver", "device-read", Level::kNote},
    {"triton.runtime.driver.driver", "device-read", Level::kNote},
    {"torch.overrides.", "sniffing"},
    {"torch.get_num_threads", "sniffing"},
    {"torch.cuda.Event().elapsed_time", "sniffing"},
    {"torch.cuda.Event().query", "sniffing"},
    {"torch.cuda.max_memory_allocated", "sniffing"},
    {"torch.cuda.max_memory_reserved", "sniffing"},
    {"torch.cuda.memory_allocated", "sniffing"},
    {"torch.cuda.memory_reserved", "sniffing"},
    {"torch.cuda.memory_stats", "sniffing"},
    {"torch.cuda.utilization", "sniffing"},
    // Starting or reaching something else.
    {"atexit.", "side-effects"},
    {"asyncio.", "side-effects"},
    {"concurrent.", "side-effects"},
    {"glob.", "side-effects"},
    {"io.", "side-effects"},
    {"logging.handlers.", "side-effects"},
    {"multiprocessing.", "side-effects"},
    {"pathlib.", "side-effects"},
    {"shutil.", "side-effects"},
    {"signal.", "side-effects"},
    {"socket.", "side-effects"},
    {"subprocess.", "side-effects"},
    {"tempfile.", "side-effects"},
    {"threading.", "side-effects"},
    {"time.sleep", "side-effects"},
    {"time.", "side-effects", Level::kSuspicious},
    {"timeit.", "side-effects", Level::kSuspicious},
    {"builtins.open", "side-effects"},
    {"builtins.input", "side-effects"},
    {"builtins.breakpoint", "side-effects"},
    {"builtins.exit", "side-effects"},
    {"builtins.quit", "side-effects"},
    {"builtins.SystemExit", "side-effects"},
    {"builtins.KeyboardInterrupt", "side-effects"},
    {"torch.load", "side-effects"},
    {"torch.save", "side-effects"},
    {"torch.hub.", "side-effects"},
    {"torch.multiprocessing.", "side-effects"},
    {"torch.distributed.", "side-effects"},
    {"torch.cuda.Stream", "side-effects"},
    {"torch.cuda.ExternalStream", "side-effects"},
    {"torch.cuda.stream", "side-effects"},
    {"torch.cuda.StreamContext", "side-effects"},
    {"torch.cuda.set_stream", "side-effects"},
    {"torch.cuda.CUDAGraph", "side-effects"},
    {"torch.cuda.graph", "side-effects"},
    {"torch.cuda.graphs.", "side-effects"},
    {"torch.cuda.make_graphed_callables", "side-effects"},
    {"torch.cuda._sleep", "side-effects"},
    {"torch.set_num_threads", "side-effects"},
    {"torch.nn.parallel.", "side-effects"},
    {"torch.nn.DataParallel", "side-effects"},
    // Changing what others rely on.
    {"torch.set_float32_matmul_precision", "tampering"},
    {"torch.use_deterministic_algorithms", "tampering"},
    {"torch.library.Library", "tampering"},
    {"torch.library.impl", "tampering"},
    {"torch.library.define", "tampering"},
    {"torch.library.register_kernel", "tampering"},
    {"torch.library.register_torch_dispatch", "tampering"},
    {"torch.set_printoptions", "tampering", Level::kSuspicious},
    {"triton.runtime.driver.active.launcher_cls", "tampering"},
    {"triton.runtime.driver.active.utils.load_binary", "tampering"},
    {"triton.runtime.driver.driver.active.launcher_cls", "tampering"},
    {"triton.runtime.driver.driver.active.utils.load_binary", "tampering"},
    {"triton.runtime.driver.driver.reset_active", "tampering"},
    {"triton.runtime.driver.driver.set_active", "tampering"},
    {"triton.runtime.driver.reset_active", "tampering"},
    {"triton.runtime.driver.set_active", "tampering"},
    {"unittest.mock.", "tampering"},
    {"unittest.", "side-effects"},
    {"unittest.TestCase", "side-effects", Level::kSuspicious},
    {"unittest.skip", "side-effects", Level::kSuspicious},
    {"unittest.skipIf", "side-effects", Level::kSuspicious},
    {"unittest.skipUnless", "side-effects", Level::kSuspicious},
    {"pytest.", "side-effects"},
    {"pytest.fixture", "side-effects", Level::kSuspicious},
    {"pytest.mark", "side-effects", Level::kSuspicious},
    {"pytest.raises", "side-effects", Level::kSuspicious},
    {"pytest.MonkeyPatch", "tampering"},
    {"torch._C._DisableTorchDispatch", "tampering"},
    {"torch.utils._python_dispatch.", "tampering"},
    {"torch.set_default_tensor_type", "tampering"},
    {"builtins.__build_class__", "tampering"},
});

constexpr auto kFrameAttributes = std::to_array<std::string_view>({
    "__builtins__", "__globals__", "__subclasses__", "ag_frame",     "cr_frame",      "f_back",   "f_builtins",
    "f_code",       "f_globals",   "f_locals",       "func_globals", "gi_code",       "gi_frame", "tb_frame",
    "tb_next",      "__module__",  "__mro__",        "__bases__",    "__traceback__", "__base__", "mro",
});
constexpr auto kHookMethods = std::to_array<std::string_view>(
    {"__torch_function__", "__torch_dispatch__", "__array_function__", "__array_ufunc__", "__set_name__",
     "__init_subclass__", "__class_getitem__", "__instancecheck__", "__subclasscheck__"});
/// What a problem's file defines.
constexpr auto kProblemNames = std::to_array<std::string_view>({"Model", "get_init_inputs", "get_inputs"});
/// Builtins that tell what kind of object something is, and what tuned kernels may be asked for by name.
constexpr auto kLooks = std::to_array<std::string_view>(
    {"ascii", "dir", "format", "getattr", "hasattr", "isinstance", "issubclass", "repr", "str", "type"});
constexpr auto kKernelFacts = std::to_array<std::string_view>({"best_config", "configs", "n_regs", "n_spills"});
/// Names by which Python tells whose code something is.
constexpr auto kIdentityNames =
    std::to_array<std::string_view>({"__builtins__", "__file__", "__loader__", "__module__", "__name__", "__package__",
                                     "__path__", "__qualname__", "__spec__"});
/// What torch.nn.Module keeps its parts in, and the methods by which others list them.
constexpr auto kModuleTables = std::to_array<std::string_view>({"_buffers", "_modules", "_parameters"});
constexpr auto kModuleListings =
    std::to_array<std::string_view>({"buffers", "children", "modules", "named_buffers", "named_children",
                                     "named_modules", "named_parameters", "parameters", "state_dict"});
constexpr auto kNumbers = std::to_array<std::string_view>(
    {"builtins.bool", "builtins.bytes", "builtins.complex", "builtins.float", "builtins.int", "builtins.str"});
constexpr auto kOperators = std::to_array<std::string_view>(
    {"__abs__",   "__add__",  "__bool__", "__eq__",   "__float__",    "__ge__",  "__gt__",
     "__index__", "__int__",  "__le__",   "__lt__",   "__mul__",      "__ne__",  "__neg__",
     "__pow__",   "__radd__", "__rmul__", "__rsub__", "__rtruediv__", "__sub__", "__truediv__"});
constexpr auto kDeviceAttributes = std::to_array<std::string_view>({"is_cuda", "is_cpu", "is_xpu", "is_meta"});

std::string remedy_for(std::string_view rule) {
  if (rule == "tampering") return "leave torch, triton and Python as they are";
  if (rule == "sniffing") return "compute from the inputs alone";
  return "do the work in the kernel and nothing besides";
}

/// Packages of torch whose private names honest answers use: torch.nn.init._calculate_fan_in_and_fan_out.
constexpr auto kOpenPackages = std::to_array<std::string_view>({"amp", "backends", "cuda", "nn", "optim"});

/// Whether a full name leads into torch's own machinery: torch.utils._mode_utils, torch._C._ExcludeDispatchKeyGuard.
bool is_private_part(std::string_view name) {
  if (!name.starts_with("torch.") || name.find("()") != std::string_view::npos) return false;
  name.remove_prefix(6);
  if (name.starts_with("_C.")) {
    for (const std::string_view word : {"Dispatch", "DisableTorch", "Guard", "Mode", "mode"}) {
      if (name.find(word) != std::string_view::npos) return true;
    }
  }
  const std::string_view first = name.substr(0, name.find('.'));
  if (first.starts_with('_')) return first == "_subclasses" || first == "_guards" || first == "_library";
  if (std::ranges::find(kOpenPackages, first) != kOpenPackages.end()) return false;
  for (std::size_t dot = name.find("._"); dot != std::string_view::npos; dot = name.find("._", dot + 1)) {
    if (!name.substr(dot + 1).starts_with("__")) return true;
  }
  return false;
}

const Entry* find_entry(std::string_view name) {
  const Entry* best = nullptr;
  for (const Entry& entry : kNames) {
    const bool matches =
        entry.name.ends_with('.')
            ? name.starts_with(entry.name)
            : name == entry.name ||
                  (name.starts_with(entry.name) && (name[entry.name.size()] == '.' || name[entry.name.size()] == '['));
    if (matches && (best == nullptr || entry.name.size() > best->name.size())) best = &entry;
  }
  return best;
}

class Surroundings {
 public:
  explicit Surroundings(Context& context) : context_(context), module_(context.module), resolver_(context.resolver) {}

  void run() {
    for (const NodeId node : context_.live) {
      switch (module_.kind(node)) {
        case Kind::kIdentifier:
          check_name(node);
          check_own_name(node);
          break;
        case Kind::kAttribute:
          check_name(node);
          check_attribute(node);
          break;
        case Kind::kComparison:
          check_address(node);
          break;
        case Kind::kInterpolation:
          if (is_kernel(module_.nth_child(node, 0))) looks_at_kernel(node);
          break;
        case Kind::kAssignment:
        case Kind::kAugmented:
          check_target(module_.child(node, Field::kLeft));
          break;
        case Kind::kDelete:
        case Kind::kFor:
          check_target(module_.kind(node) == Kind::kFor ? module_.child(node, Field::kLeft)
                                                        : module_[node].first_child);
          break;
        case Kind::kTypeAlias:  // The grammar reads `type(kernel).run = …` so; a real alias needs a later Python.
          tampers(node, "assigning through type(…)");
          break;
        case Kind::kCall:
          check_setattr(node);
          check_look_at_kernel(node);
          break;
        case Kind::kFunction:
          check_hook(node);
          break;
        case Kind::kClass:
          check_bases(node);
          break;
        default:
          break;
      }
    }
    note_device_reads();
  }

 private:
  /// The longest name an expression spells: sys.modules in sys.modules["x"], and not sys alone.
  bool is_inner(NodeId node) const {
    const NodeId parent = module_[node].parent;
    return module_.kind(parent) == Kind::kAttribute;
  }

  void check_name(NodeId node) {
    if (is_inner(node)) {
      if (module_[node].field == Field::kAttribute) return;
      // `os.environ` inside `os.environ.get`: the outer attribute spells more. Judge the longest only.
      if (!resolver_.values(module_[node].parent).empty()) return;
    }
    for (const Value& value : resolver_.values(node)) {
      if (value.kind == ValueKind::kUnresolved && module_.kind(node) == Kind::kIdentifier &&
          std::ranges::find(kProblemNames, resolver_.text(value)) != kProblemNames.end()) {
        context_.report_line("sniffing", Level::kReject, node,
                             "`" + std::string(resolver_.text(value)) +
                                 "` is not defined in this file and the reference is not within reach; write the "
                                 "module out");
      }
      if (value.kind != ValueKind::kExternal) continue;
      const std::string_view name = resolver_.text(value);
      if (is_private_part(name) && context_.glue.function_group(name.substr(6)).empty()) {
        tampers(node, "using " + std::string(name) + ", a private part of torch,");
        continue;
      }
      const Entry* entry = find_entry(name);
      if (entry == nullptr || (entry->rule == "side-effects" && only_names_type(node))) continue;
      const std::string shown(name.starts_with("builtins.") ? name.substr(9) : name);
      context_.report_line(entry->rule, entry->level, node,
                           entry->level == Level::kNote
                               ? shown + " reads the device; the answer must not depend on it"
                               : shown + " is out of bounds for an answer; " + remedy_for(entry->rule));
    }
  }

  /// group: Optional[torch.distributed.ProcessGroup] = None: the annotation does nothing.
  bool only_names_type(NodeId node) const {
    for (NodeId at = node; at != syntax::kNoNode; at = module_[at].parent) {
      if (module_.kind(at) == Kind::kType) return true;
      if (module_.kind(at) == Kind::kCall || module_.kind(at) == Kind::kBlock) return false;
    }
    return false;
  }

  /// __name__ says who loads the answer; only the main guard and a logger may ask.
  void check_own_name(NodeId node) {
    if (module_.name_of(node) != "__name__" || !resolver_.may_be(node, "builtins.__name__")) return;
    const NodeId around = module_[node].parent;
    if (syntax::is_main_guard(module_, around)) return;
    for (NodeId call = module_.enclosing(node, Kind::kCall); call != syntax::kNoNode;
         call = module_.enclosing(call, Kind::kCall)) {
      if (resolver_.may_be(module_.child(call, Field::kFunction), "logging.getLogger")) return;
    }
    context_.report_line("sniffing", Level::kReject, node,
                         "__name__ says who loads the answer; " + remedy_for("sniffing"));
  }

  /// x.data_ptr() == 0: whether there is memory at all, which only a trial run without any has not.
  void check_address(NodeId comparison) {
    bool is_address = false;
    bool is_number = false;
    for (const NodeId side : module_.children(comparison)) {
      const NodeId plain = module_.unwrap(side);
      const NodeId function = module_.unwrap(module_.child(plain, Field::kFunction));
      is_number = is_number || module_.kind(plain) == Kind::kInteger;
      is_address = is_address || (module_.kind(plain) == Kind::kCall && module_.kind(function) == Kind::kAttribute &&
                                  module_.name_of(module_.child(function, Field::kAttribute)) == "data_ptr");
    }
    if (is_address && is_number) {
      context_.report_line("sniffing", Level::kReject, comparison,
                           "an address compared with a number tells one run from another; " + remedy_for("sniffing"));
    }
  }

  bool is_kernel(NodeId expression) {
    return std::ranges::any_of(resolver_.values(expression), [](const Value& value) {
      return value.kind == ValueKind::kJit || value.kind == ValueKind::kLaunch;
    });
  }

  void looks_at_kernel(NodeId node) {
    context_.report_line(
        "sniffing", Level::kReject, node,
        "this asks what kind of object a kernel is, which differs between machines; " + remedy_for("sniffing"));
  }

  /// type(kernel), repr(kernel), hasattr(kernel, "rewrite"): whether the kernel is compiled or interpreted.
  void check_look_at_kernel(NodeId call) {
    const NodeId first = resolver_.argument(call, 0, "");
    if (first == syntax::kNoNode || !is_kernel(first)) return;
    const auto function = resolver_.external(module_.child(call, Field::kFunction));
    if (!function || !function->starts_with("builtins.")) return;
    if (std::ranges::find(kLooks, function->substr(9)) == kLooks.end()) return;
    std::string literal;
    const bool asks_by_name = module_.string_value(resolver_.argument(call, 1, ""), literal);
    if (asks_by_name && std::ranges::find(kKernelFacts, literal) != kKernelFacts.end()) return;
    looks_at_kernel(call);
  }

  void check_attribute(NodeId node) {
    const std::string_view name = module_.name_of(module_.child(node, Field::kAttribute));
    if (is_kernel(module_.child(node, Field::kObject)) && (name == "rewrite" || name == "__class__")) {
      looks_at_kernel(node);
    }
    if (name == "register_kernel" || name == "register_torch_dispatch")
      tampers(node, "." + std::string(name) + " gives an operator other code on another device: this");
    if (name == "add_pre_run_hook" || name == "pre_run_hooks")
      tampers(node, "." + std::string(name) + " runs code at each launch: this");
    if (name.starts_with("register_") && name.ends_with("_hook") && name != "register_hook") {
      tampers(node, "." + std::string(name) + " lets other code change what forward returns: this");
    }
    if (std::ranges::find(kFrameAttributes, name) != kFrameAttributes.end()) {
      context_.report_line(
          "sniffing", Level::kReject, node,
          "." + std::string(name) + " looks into frames or types of the interpreter; " + remedy_for("sniffing"));
    }
  }

  void check_target(NodeId target) {
    target = module_.unwrap(target);
    switch (module_.kind(target)) {
      case Kind::kIdentifier:
        if (std::ranges::find(kIdentityNames, module_.name_of(target)) != kIdentityNames.end() &&
            resolver_.scopes().function_of(target) == syntax::kNoNode) {
          tampers(target, "assigning to " + std::string(module_.name_of(target)));
        }
        return;
      case Kind::kPatternList:
      case Kind::kTuplePattern:
      case Kind::kListPattern:
      case Kind::kExpressionList:
      case Kind::kTuple:
        for (const NodeId part : module_.children(target)) check_target(part);
        return;
      case Kind::kAttribute: {
        const std::string_view name = module_.name_of(module_.child(target, Field::kAttribute));
        const NodeId object = module_.child(target, Field::kObject);
        if (name == "__class__" || std::ranges::find(kIdentityNames, name) != kIdentityNames.end())
          return tampers(target, "assigning to " + std::string(name));
        if (std::ranges::find(kModuleTables, name) != kModuleTables.end() && is_own_module(object))
          return tampers(target, "replacing ." + std::string(name) + " of a torch module");
        check_owner(target, object);
        return;
      }
      case Kind::kSubscript:
        check_owner(target, module_.child(target, Field::kValue));
        return;
      default:
        return;
    }
  }

  void check_owner(NodeId target, NodeId owner) {
    for (const Value& value : resolver_.values(owner)) {
      if (value.kind == ValueKind::kExternal && resolver_.text(value).find("()") == std::string_view::npos &&
          !resolver_.text(value).starts_with("torch.nn.Module.") &&
          resolver_.text(value).find("[]") == std::string_view::npos) {
        if (resolver_.text(value).starts_with("os.environ")) return;  // Named by its own rule.
        return tampers(target, "assigning into " + std::string(resolver_.text(value)));
      }
      if (value.kind == ValueKind::kJit || value.kind == ValueKind::kLaunch) {
        if (module_.kind(target) != Kind::kAttribute) continue;
        const std::string_view name = module_.name_of(module_.child(target, Field::kAttribute));
        if (name != "configs") return tampers(target, "assigning to ." + std::string(name) + " of a kernel");
        context_.report_line("tampering", Level::kSuspicious, target,
                             "the kernel's configs change at run time; list them in triton.autotune");
      }
    }
  }

  /// Whether the expression is an instance of a class of this file that derives from torch's modules.
  bool is_own_module(NodeId expression) {
    return std::ranges::any_of(syntax::ValueSet(resolver_.values(expression)), [&](const Value& value) {
      return value.kind == ValueKind::kInstance && derives_from_module(value.node);
    });
  }

  bool derives_from_module(NodeId class_definition) {
    return std::ranges::any_of(resolver_.external_bases(class_definition),
                               [](const std::string& base) { return base.starts_with("torch.nn."); });
  }

  void check_setattr(NodeId call) {
    for (const Value& callee : syntax::ValueSet(resolver_.values(module_.child(call, Field::kFunction)))) {
      if (callee.kind != ValueKind::kExternal) continue;
      const std::string_view name = resolver_.text(callee);
      if (name == "builtins.setattr" || name == "builtins.delattr") check_owner(call, resolver_.argument(call, 0, ""));
    }
  }

  void check_hook(NodeId function) {
    const std::string_view name = module_.name_of(module_.child(function, Field::kName));
    if (std::ranges::find(kHookMethods, name) != kHookMethods.end()) {
      tampers(function, "defining " + std::string(name) + " changes how torch or Python treat the object: this");
    }
  }

  void check_bases(NodeId definition) {
    if (derives_from_module(definition)) {
      for (const NodeId function : resolver_.scopes().methods_of(definition)) {
        const std::string_view name = module_.name_of(module_.child(function, Field::kName));
        if (std::ranges::find(kModuleListings, name) != kModuleListings.end())
          tampers(function, "overriding " + std::string(name) + ", by which others list a module's tensors,");
      }
    }
    for (const NodeId base : module_.children(module_.child(definition, Field::kSuperclasses))) {
      if (module_.kind(base) == Kind::kKeywordArgument) {
        if (module_.name_of(module_.child(base, Field::kName)) == "metaclass" &&
            !resolver_.may_be(module_.child(base, Field::kValue), "abc.ABCMeta")) {
          tampers(base, "a metaclass");
        }
        continue;
      }
      const auto name = resolver_.external(base);
      if (name && std::ranges::find(kNumbers, *name) != kNumbers.end()) check_number(definition);
      if (resolver_.may_be(base, "torch.Tensor") || resolver_.may_be(base, "torch.nn.Parameter"))
        tampers(base, "a subclass of Tensor");
      if (resolver_.may_be(base, "triton.JITFunction") || resolver_.may_be(base, "triton.runtime.JITFunction"))
        tampers(base, "a subclass of JITFunction");
    }
  }

  /// class Lazy(float) with an __add__ of its own: a constant that computes.
  void check_number(NodeId definition) {
    for (const NodeId function : resolver_.scopes().methods_of(definition)) {
      if (std::ranges::find(kOperators, module_.name_of(module_.child(function, Field::kName))) != kOperators.end())
        return tampers(function, "a number with operators of its own");
    }
  }

  void tampers(NodeId node, const std::string& what) {
    context_.report_line("tampering", Level::kReject, node, what + " is tampering; " + remedy_for("tampering"));
  }

  void note_device_reads() {
    for (const NodeId node : context_.forward.nodes()) {
      if (module_.kind(node) != Kind::kAttribute) continue;
      const std::string_view name = module_.name_of(module_.child(node, Field::kAttribute));
      const NodeId object = module_.unwrap(module_.child(node, Field::kObject));
      bool reads = std::ranges::find(kDeviceAttributes, name) != kDeviceAttributes.end();
      reads = reads || (name == "type" && module_.kind(object) == Kind::kAttribute &&
                        module_.name_of(module_.child(object, Field::kAttribute)) == "device");
      for (const Value& value : resolver_.values(node)) {
        const std::string_view full = resolver_.text(value);
        if (value.kind == ValueKind::kExternal && full.starts_with("torch.")) {
          reads = reads || context_.glue.function_group(full.substr(6)) == "device";
        }
      }
      if (reads) {
        context_.report_line("device-read", Level::kNote, node,
                             "this reads the device; results must not depend on what it says");
      }
    }
  }

  Context& context_;
  const syntax::Module& module_;
  syntax::Resolver& resolver_;
};

}  // namespace

void check_surroundings(Context& context) {
  Surroundings(context).run();
  check_signs(context);
}

}  // namespace autotriton::rules
