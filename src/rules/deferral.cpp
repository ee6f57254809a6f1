#include <algorithm>
#include <array>

#include "rules/context.h"

/// Family 13: when the entry point returns, its work is done, by its own code. Streams, graphs and threads are among
/// the side-effects; here stands what puts work off or hands it to a compiler by other means.
namespace autotriton::rules {

using syntax::Field;
using syntax::Kind;
using syntax::kNoNode;
using syntax::NodeId;
using syntax::Value;
using syntax::ValueKind;

namespace {

constexpr std::string_view kRule = "deferred-work";

/// A name, or a whole package where it ends with a dot.
constexpr auto kCompilers = std::to_array<std::string_view>({
    "torch.compile",
    "torch.compiler.compile",
    "torch.jit.freeze",
    "torch.jit.optimize_for_inference",
    "torch.jit.script",
    "torch.jit.script_if_tracing",
    "torch.jit.trace",
    "torch.jit.trace_module",
    "torch.export.",
    "torch._dynamo.optimize",
});
constexpr auto kLater = std::to_array<std::string_view>({
    "contextvars.",
    "sched.",
    "torch.futures.",
    "torch.jit.fork",
    "torch.jit.wait",
    "torch.nn.utils.parametrize.",
    "torch.nn.parameter.UninitializedParameter",
    "torch.nn.parameter.UninitializedTensorMixin",
    "torch.autograd.graph.",
    "weakref.WeakMethod",
    "weakref.finalize",
    "weakref.ref",
    "weakref.proxy",
});

template <typename List>
bool lists(const List& names, std::string_view name) {
  return std::ranges::any_of(
      names, [&](std::string_view entry) { return entry.ends_with('.') ? name.starts_with(entry) : name == entry; });
}

}  // namespace

void check_deferral(Context& context) {
  const syntax::Module& module = context.module;
  for (const NodeId node : context.live) {
    const Kind kind = module.kind(node);
    if (kind == Kind::kFunction) {
      if (module.name_of(module.child(node, Field::kName)) == "__del__") {
        context.report_line(kRule, Level::kReject, node,
                            "__del__ runs when nobody looks; do the work before the entry point returns");
      }
      continue;
    }
    if (kind != Kind::kIdentifier && kind != Kind::kAttribute) continue;
    // The longest name that is spelled here.
    if (module.kind(module[node].parent) == Kind::kAttribute) continue;
    for (const Value& value : context.resolver.values(node)) {
      if (value.kind != ValueKind::kExternal) continue;
      const std::string_view name = context.resolver.text(value);
      if (lists(kCompilers, name)) {
        context.report_line(kRule, Level::kReject, node,
                            std::string(name) + " hands code to another compiler; write the kernel in Triton");
      } else if (lists(kLater, name)) {
        context.report_line(kRule, Level::kReject, node,
                            std::string(name) + " lets code run later; do the work before the entry point returns");
      }
    }
  }
  for (const NodeId function : context.entry_functions()) {
    if (!context.resolver.decorators(function).empty()) continue;  // @contextlib.contextmanager
    for (NodeId node = function; node < module.after(function); ++node) {
      if (module.kind(node) != Kind::kYield || context.resolver.scopes().function_of(node) != function) continue;
      context.report_line(kRule, Level::kReject, node,
                          "an entry point that yields returns a generator and no result; return the outputs");
      break;
    }
  }
}

}  // namespace autotriton::rules
