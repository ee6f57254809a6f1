#include <algorithm>
#include <array>
#include <cctype>

#include "rules/context.h"

/// Family 4: code that only exists when it runs cannot be judged by reading it.
namespace autotriton::rules {

using syntax::Field;
using syntax::Kind;
using syntax::kNoNode;
using syntax::NodeId;
using syntax::Value;
using syntax::ValueKind;

namespace {

constexpr std::string_view kRule = "dynamic-code";

constexpr auto kDynamicCalls = std::to_array<std::string_view>({
    "builtins.__import__",
    "builtins.compile",
    "builtins.delattr",
    "builtins.eval",
    "builtins.exec",
    "dataclasses.make_dataclass",
    "operator.attrgetter",
    "operator.methodcaller",
    "timeit.Timer",
    "timeit.main",
    "timeit.repeat",
    "timeit.timeit",
    "torch.jit.CompilationUnit",
    "torch.utils.cpp_extension.load",
    "torch.utils.cpp_extension.load_inline",
    "types.CodeType",
    "types.FunctionType",
    "types.LambdaType",
    "types.new_class",
    "typing.ForwardRef",
    "typing._eval_type",
    "typing.evaluate_forward_ref",
    "typing.get_type_hints",
    "typing_extensions.ForwardRef",
    "typing_extensions.evaluate_forward_ref",
    "typing_extensions.get_type_hints",
});
/// Modules that run text as code, find names by text, or load either.
constexpr auto kDynamicModules = std::to_array<std::string_view>({
    "ast.",    "base64.",  "bdb.",    "binascii.", "bz2.",     "cProfile.", "cffi.",      "code.",
    "codecs.", "codeop.",  "ctypes.", "doctest.",  "gzip.",    "imp.",      "importlib.", "logging.config.",
    "lzma.",   "marshal.", "pdb.",    "pickle.",   "pkgutil.", "profile.",  "runpy.",     "torch.utils.benchmark.",
    "trace.",  "zlib.",
});
constexpr auto kDynamicAttributes =
    std::to_array<std::string_view>({"__closure__", "__code__", "__defaults__", "__dict__", "__getattribute__",
                                     "__import__", "__kwdefaults__", "__reduce__", "__reduce_ex__", "_evaluate"});

/// Whether the text of an annotation would do more than name a type if something evaluates it, as custom_op and
/// singledispatch do.
bool acts_when_evaluated(std::string_view text) {
  for (std::size_t at = text.find('('); at != std::string_view::npos; at = text.find('(', at + 1)) {
    if (at == 0) continue;
    const char before = text[at - 1];  // `f(…)`, and not the words "rows (all of them)".
    if (std::isalnum(static_cast<unsigned char>(before)) != 0 || before == '_' || before == ']' || before == ')')
      return true;
  }
  return text.find(":=") != std::string_view::npos;
}

/// Whether the name that getattr or setattr takes is written out, so that it resolves like a dot.
bool is_written_out(Context& context, NodeId name) {
  std::string value;
  if (context.module.string_value(name, value)) return true;
  const auto values = context.resolver.values(name);
  return !values.empty() && std::ranges::all_of(values, [&](const Value& candidate) {
    return candidate.kind == ValueKind::kLiteral && context.module.string_value(candidate.node, value);
  });
}

void check_attribute_by_name(Context& context, NodeId call, std::string_view function) {
  const NodeId object = context.resolver.argument(call, 0, "");
  const NodeId name = context.resolver.argument(call, 1, "");
  std::string literal;
  if (context.module.string_value(name, literal) && function != "getattr") return;
  bool reaches_outside = name == kNoNode;
  bool is_triton = false;  // getattr(tl, dtype) can only fetch what a kernel may use.
  for (const Value& value : context.resolver.values(object)) {
    reaches_outside = reaches_outside || value.kind == ValueKind::kExternal || value.kind == ValueKind::kUnresolved;
    is_triton = is_triton || (value.kind == ValueKind::kExternal && context.resolver.text(value) == "triton.language");
  }
  if (context.module.string_value(name, literal)) {
    if (literal.starts_with("__") && literal.ends_with("__") && literal != "__name__" && literal != "__class__") {
      context.report(kRule, Level::kReject, call,
                     std::string(function) + " fetches " + literal + "; use plain attributes");
    }
    return;
  }
  const bool is_known = is_written_out(context, name) && function == "getattr";
  if (is_known && (!reaches_outside || is_triton)) return;
  context.report(kRule, reaches_outside && !is_triton ? Level::kReject : Level::kSuspicious, call,
                 std::string(function) + " with a computed name hides what is meant; write the attribute out");
}

}  // namespace

void check_dynamic_code(Context& context) {
  const syntax::Module& module = context.module;
  for (const NodeId node : context.live) {
    switch (module.kind(node)) {
      case Kind::kString:
        if (module.enclosing(node, Kind::kType) != kNoNode && acts_when_evaluated(module.text(node))) {
          context.report_line(kRule, Level::kReject, node,
                              "the text of this annotation is code that others may run; name a type");
        }
        break;
      case Kind::kExec:
        context.report(kRule, Level::kReject, node, "exec runs text as code; write the code out");
        break;
      case Kind::kIdentifier:
      case Kind::kAttribute: {
        const NodeId parent = module[node].parent;
        if (module.kind(node) == Kind::kAttribute) {
          const std::string_view name = module.name_of(module.child(node, Field::kAttribute));
          if (std::ranges::find(kDynamicAttributes, name) != kDynamicAttributes.end()) {
            context.report_line(
                kRule, Level::kReject, node,
                "." + std::string(name) + " reaches into Python's own tables; use plain names and attributes");
            break;
          }
        }
        if (module.kind(parent) == Kind::kAttribute && module[node].field == Field::kAttribute) break;
        for (const Value& value : context.resolver.values(node)) {
          const std::string_view name = context.resolver.text(value);
          if (value.kind == ValueKind::kUnresolved && module.kind(node) == Kind::kIdentifier) {
            const bool is_ascii =
                std::ranges::all_of(name, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
            if (!is_ascii) {
              context.report_line(kRule, Level::kReject, node,
                                  "nothing binds `" + std::string(name) + "` as it is spelled; use ASCII names");
            }
          }
          if (value.kind != ValueKind::kExternal) continue;
          const bool is_callee = module.kind(parent) == Kind::kCall && module[node].field == Field::kFunction;
          if ((name == "builtins.getattr" || name == "builtins.setattr") && !is_callee) {
            context.report_line(
                kRule, Level::kReject, node,
                std::string(name.substr(9)) + " handed on takes names that nobody can read; write the attributes out");
          }
          const bool is_dynamic =
              std::ranges::find(kDynamicCalls, name) != kDynamicCalls.end() ||
              std::ranges::any_of(kDynamicModules, [&](std::string_view prefix) { return name.starts_with(prefix); });
          if (is_dynamic) {
            context.report_line(kRule, Level::kReject, node,
                                std::string(name.starts_with("builtins.") ? name.substr(9) : name) +
                                    " makes code or names at run time; write the code out");
          }
        }
        break;
      }
      case Kind::kCall: {
        const NodeId function = module.child(node, Field::kFunction);
        for (const Value& callee : syntax::ValueSet(context.resolver.values(function))) {
          if (callee.kind != ValueKind::kExternal) continue;
          const std::string_view name = context.resolver.text(callee);
          if (name == "builtins.getattr" || name == "builtins.setattr") {
            check_attribute_by_name(context, node, name.substr(9));
          } else if (name == "builtins.type" && module.num_children(module.child(node, Field::kArguments)) == 3) {
            context.report(kRule, Level::kReject, node,
                           "type(…) with three arguments makes a class at run time; write the class out");
          } else if (name == "builtins.vars" || name == "builtins.locals") {
            context.report(kRule, Level::kReject, node,
                           std::string(name.substr(9)) + "() looks names up at run time; use the names themselves");
          }
        }
        break;
      }
      default:
        break;
    }
  }
}

}  // namespace autotriton::rules
