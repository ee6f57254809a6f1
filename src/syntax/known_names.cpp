#include "syntax/known_names.h"

#include <algorithm>
#include <array>
#include <utility>

namespace autotriton::syntax {
namespace {

constexpr auto kBuiltins = std::to_array<std::string_view>({
    "ArithmeticError", "AssertionError", "AttributeError", "BaseException", "BufferError", "EOFError", "Ellipsis",
    "Exception", "False", "FileNotFoundError", "FloatingPointError", "ImportError", "IndexError", "KeyError",
    "KeyboardInterrupt", "LookupError", "MemoryError", "ModuleNotFoundError", "NameError", "None", "NotImplemented",
    "NotImplementedError", "OSError", "OverflowError", "RecursionError", "RuntimeError", "RuntimeWarning", "StopIteration",
    "SyntaxError", "SystemError", "SystemExit", "TimeoutError", "True", "TypeError", "UserWarning", "ValueError", "Warning",
    "ZeroDivisionError", "__build_class__", "__builtins__", "__debug__", "__doc__", "__file__", "__import__", "__loader__",
    "__name__", "__package__", "__spec__", "abs", "all", "any", "ascii", "bin", "bool", "breakpoint", "bytearray", "bytes",
    "callable", "chr", "classmethod", "compile", "complex", "copyright", "delattr", "dict", "dir", "divmod", "enumerate",
    "eval", "exec", "exit", "filter", "float", "format", "frozenset", "getattr", "globals", "hasattr", "hash", "help", "hex",
    "id", "input", "int", "isinstance", "issubclass", "iter", "len", "list", "locals", "map", "max", "memoryview", "min",
    "next", "object", "oct", "open", "ord", "pow", "print", "property", "quit", "range", "repr", "reversed", "round", "set",
    "setattr", "slice", "sorted", "staticmethod", "str", "sum", "super", "tuple", "type", "vars", "zip",
});
static_assert(std::ranges::is_sorted(kBuiltins));

constexpr auto kJitDecorators = std::to_array<std::string_view>({
    "triton.JITFunction", "triton.jit", "triton.runtime.JITFunction", "triton.runtime.jit", "triton.runtime.jit.JITFunction",
    "triton.runtime.jit.jit",
});

constexpr auto kPassThrough = std::to_array<std::string_view>({
    "builtins.classmethod", "builtins.property", "builtins.staticmethod", "contextlib.contextmanager", "copy.copy",
    "copy.deepcopy", "functools.cache", "functools.cached_property", "functools.lru_cache", "functools.partial",
    "functools.wraps", "torch.autograd.function.once_differentiable", "torch.compile", "torch.compiler.disable",
    "torch.cuda.amp.custom_bwd", "torch.cuda.amp.custom_fwd", "torch.inference_mode", "torch.jit.ignore", "torch.jit.script",
    "torch.jit.unused", "torch.library.wrap_triton", "torch.no_grad", "triton.runtime.Autotuner", "triton.runtime.Heuristics",
    "triton.runtime.autotuner.Autotuner", "triton.runtime.autotuner.Heuristics",
});

constexpr auto kWrapperMakers = std::to_array<std::string_view>({
    "functools.lru_cache", "functools.wraps", "torch.amp.custom_bwd", "torch.amp.custom_fwd", "torch.compile",
    "torch.compiler.disable", "torch.cuda.amp.custom_bwd", "torch.cuda.amp.custom_fwd", "torch.inference_mode",
    "torch.library.custom_op", "torch.library.triton_op", "torch.no_grad", "triton.autotune", "triton.heuristics", "triton.jit",
    "triton.runtime.autotune", "triton.runtime.autotuner.autotune", "triton.runtime.heuristics", "triton.runtime.jit",
    "triton.runtime.jit.jit",
});

constexpr auto kHolders = std::to_array<std::string_view>({
    "builtins.dict", "builtins.enumerate", "builtins.frozenset", "builtins.iter", "builtins.list", "builtins.reversed",
    "builtins.set", "builtins.sorted", "builtins.tuple", "builtins.zip", "collections.OrderedDict", "itertools.chain",
    "torch.nn.ModuleDict", "torch.nn.ModuleList", "torch.nn.ParameterDict", "torch.nn.ParameterList", "torch.nn.Sequential",
    "types.SimpleNamespace",
});

constexpr auto kModulesSeenThrough = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"_os", "os"},           {"_sys", "sys"},           {"ast", "ast"},               {"builtins", "builtins"},
    {"ctypes", "ctypes"},    {"gc", "gc"},              {"importlib", "importlib"},   {"inspect", "inspect"},
    {"np", "numpy"},         {"numpy", "numpy"},        {"os", "os"},                 {"pickle", "pickle"},
    {"shutil", "shutil"},    {"socket", "socket"},      {"subprocess", "subprocess"}, {"sys", "sys"},
    {"threading", "threading"}, {"torch", "torch"},     {"traceback", "traceback"},
});

template <typename List>
bool holds(const List& sorted, std::string_view name) {
  return std::ranges::binary_search(sorted, name);
}

}  // namespace

bool is_builtin(std::string_view name) { return holds(kBuiltins, name); }
std::string_view module_seen_through(std::string_view name) {
  const auto* found = std::ranges::find(kModulesSeenThrough, name, &std::pair<std::string_view, std::string_view>::first);
  return found == kModulesSeenThrough.end() ? std::string_view{} : found->second;
}
bool is_jit_decorator(std::string_view name) { return holds(kJitDecorators, name); }
bool passes_through(std::string_view name) { return holds(kPassThrough, name); }
bool makes_wrapper(std::string_view name) { return holds(kWrapperMakers, name); }
bool holds_its_arguments(std::string_view name) { return holds(kHolders, name); }

}  // namespace autotriton::syntax
