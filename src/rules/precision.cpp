#include <algorithm>
#include <array>
#include <set>

#include "rules/context.h"

/// Family 12: a product or a sum in fewer bits than its inputs have. Right for a half-precision task and wrong for a
/// single-precision one, which only the run can tell; so these are notes that a verdict shows beside its errors.
namespace autotriton::rules {

using syntax::Binding;
using syntax::Field;
using syntax::Kind;
using syntax::kNoNode;
using syntax::NodeId;
using syntax::Value;
using syntax::ValueKind;

namespace {

constexpr std::string_view kRule = "lowered-precision";

constexpr auto kLowMethods = std::to_array<std::string_view>({"half", "bfloat16"});
constexpr auto kReductions =
    std::to_array<std::string_view>({"triton.language.dot", "triton.language.dot_scaled", "triton.language.sum",
                                     "triton.language.cumsum", "triton.language.associative_scan"});

class Precision {
 public:
  explicit Precision(Context& context) : context_(context), module_(context.module), resolver_(context.resolver) {}

  void run() {
    for (const NodeId function : context_.launched) {
      for (const NodeId call : resolver_.scopes().calls_in(function)) check_kernel_call(call);
    }
    for (const NodeId node : context_.forward.nodes()) {
      if (module_.kind(node) == Kind::kCall) check_host_call(node);
    }
  }

 private:
  static bool is_low(std::string_view name) {
    const std::size_t dot = name.rfind('.');
    const std::string_view type = name.substr(dot + 1);
    const bool is_ours = name.starts_with("torch.") || name.starts_with("triton.language.");
    return is_ours && (type == "float16" || type == "half" || type == "bfloat16" || type.starts_with("float8"));
  }

  bool is_low_type(NodeId expression) {
    return std::ranges::any_of(resolver_.values(expression), [&](const Value& value) {
      return value.kind == ValueKind::kExternal && is_low(resolver_.text(value));
    });
  }

  void check_kernel_call(NodeId call) {
    const auto name = resolver_.external(module_.child(call, Field::kFunction));
    if (!name || std::ranges::find(kReductions, *name) == kReductions.end()) return;
    if (name->ends_with(".dot")) {
      const NodeId allowed = module_.unwrap(resolver_.argument(call, 4, "allow_tf32"));
      std::string precision;
      if (module_.kind(allowed) == Kind::kTrue ||
          (module_.string_value(module_.unwrap(resolver_.argument(call, 3, "input_precision")), precision) &&
           precision.starts_with("tf32") && precision != "tf32x3")) {
        context_.report_line(kRule, Level::kNote, call,
                             "this product of fp32 values keeps 10 bits of each; use input_precision=\"ieee\" where "
                             "the task is in fp32");
      }
    }
    for (const NodeId argument : module_.children(module_.child(call, Field::kArguments))) {
      if (module_.kind(argument) == Kind::kKeywordArgument) continue;
      seen_.clear();
      if (const NodeId cast = low_cast(argument, 0); cast != kNoNode) {
        context_.report_line(kRule, Level::kNote, cast,
                             "values are rounded to fewer bits before a product or a sum; keep the inputs' dtype "
                             "where the task is in fp32");
      }
    }
  }

  /// p.to(tl.float16), tl.cast(p, tl.bfloat16), or a local that is only ever that.
  NodeId low_cast(NodeId expression, int depth) {
    expression = module_.unwrap(expression);
    if (expression == kNoNode || depth > 6) return kNoNode;
    if (module_.kind(expression) == Kind::kIdentifier) {
      for (const Binding& binding : resolver_.scopes().lookup(expression)) {
        if (binding.kind != syntax::BindingKind::kAssign || binding.item != syntax::kWhole || binding.scope == 0 ||
            !seen_.insert(binding.target).second)
          continue;
        if (const NodeId cast = low_cast(binding.value, depth + 1); cast != kNoNode) return cast;
      }
      return kNoNode;
    }
    if (module_.kind(expression) != Kind::kCall) return kNoNode;
    const NodeId function = module_.unwrap(module_.child(expression, Field::kFunction));
    if (module_.kind(function) != Kind::kAttribute) return kNoNode;
    const std::string_view name = module_.name_of(module_.child(function, Field::kAttribute));
    if (name == "to" && is_low_type(resolver_.argument(expression, 0, "dtype"))) return expression;
    if (name == "cast" && is_low_type(resolver_.argument(expression, 1, "dtype"))) return expression;
    if (name == "trans" || name == "reshape" || name == "view")
      return low_cast(module_.nth_child(module_.child(expression, Field::kArguments), 0), depth + 1);
    return kNoNode;
  }

  /// x.half() and x.to(torch.bfloat16) of a tensor on the way to a launch.
  void check_host_call(NodeId call) {
    const NodeId function = module_.unwrap(module_.child(call, Field::kFunction));
    if (module_.kind(function) != Kind::kAttribute) return;
    const std::string_view name = module_.name_of(module_.child(function, Field::kAttribute));
    const bool lowers = std::ranges::find(kLowMethods, name) != kLowMethods.end()
                            ? module_.num_children(module_.child(call, Field::kArguments)) == 0
                            : (name == "to" || name == "type") && (is_low_type(resolver_.argument(call, 0, "dtype")) ||
                                                                   is_low_type(resolver_.argument(call, 1, "dtype")));
    if (!lowers || !context_.tensors.is_tensor(module_.child(function, Field::kObject))) return;
    // out.to(torch.float16) of a finished result is the task's own dtype.
    if (context_.flow().may_come_from_kernel(module_.child(function, Field::kObject))) return;
    context_.report_line(kRule, Level::kNote, call,
                         "an input is rounded to fewer bits before the kernel sees it; keep its dtype where the task "
                         "is in fp32");
  }

  Context& context_;
  const syntax::Module& module_;
  syntax::Resolver& resolver_;
  std::set<NodeId> seen_;
};

}  // namespace

void check_precision(Context& context) {
  if (!context.launched.empty()) Precision(context).run();
}

}  // namespace autotriton::rules
