#include "rules/context.h"

/// Family 10: when a launch fails or is not possible, an answer fails with it.
namespace autotriton::rules {

using syntax::Field;
using syntax::Kind;
using syntax::kNoNode;
using syntax::NodeId;
using syntax::ValueKind;

namespace {

constexpr std::string_view kRule = "fallback";

class Fallbacks {
 public:
  explicit Fallbacks(Context& context) : context_(context), module_(context.module) {}

  void run() {
    if (context_.launched.empty()) return;
    for (const NodeId node : context_.forward.nodes()) {
      if (module_.kind(node) == Kind::kTry) check_try(node);
      if (module_.kind(node) == Kind::kIf) check_if(node);
      if (module_.kind(node) == Kind::kWithItem) check_suppress(node);
    }
  }

 private:
  /// try: launch; except: something else.
  void check_try(NodeId statement) {
    if (!context_.flow().launches(module_.child(statement, Field::kBody))) return;
    for (const NodeId handler : module_.children(statement)) {
      if (module_.kind(handler) != Kind::kExcept || context_.flow().launches(handler)) continue;
      if (raises(handler)) continue;
      if (const NodeId result = result_in(handler); result != kNoNode) {
        context_.report_line(kRule, Level::kReject, result,
                             "when the launch fails, this takes the place of what the kernel computes; let the "
                             "exception through");
      } else {
        context_.report_line(kRule, Level::kSuspicious, handler,
                             "a launch that fails is passed over in silence; let the exception through");
      }
    }
  }

  /// with contextlib.suppress(Exception): launch.
  void check_suppress(NodeId item) {
    const NodeId statement = module_.enclosing(item, Kind::kWith);
    if (statement == kNoNode || !context_.flow().launches(module_.child(statement, Field::kBody))) return;
    NodeId manager = module_.unwrap(module_[item].first_child);
    if (module_.kind(manager) == Kind::kAsPattern) manager = module_.unwrap(module_[manager].first_child);
    if (module_.kind(manager) != Kind::kCall ||
        !context_.resolver.may_be(module_.child(manager, Field::kFunction), "contextlib.suppress"))
      return;
    context_.report_line(kRule, Level::kSuspicious, item,
                         "a launch that fails is passed over in silence; let the exception through");
  }

  /// Whether every way through the handler raises.
  bool raises(NodeId node) const {
    switch (module_.kind(node)) {
      case Kind::kRaise:
        return true;
      case Kind::kExcept:
      case Kind::kBlock:
        for (const NodeId inner : module_.children(node)) {
          if (raises(inner)) return true;
        }
        return false;
      case Kind::kIf: {
        bool has_else = false;
        if (!raises(module_.child(node, Field::kConsequence))) return false;
        for (const NodeId part : module_.children(node)) {
          if (module_.kind(part) == Kind::kElif && !raises(module_.child(part, Field::kConsequence))) return false;
          if (module_.kind(part) != Kind::kElse) continue;
          has_else = true;
          if (!raises(module_.child(part, Field::kBody))) return false;
        }
        return has_else;
      }
      default:
        return false;
    }
  }

  /// What the handler gives instead: a value returned, or assigned to a name that outlives it.
  NodeId result_in(NodeId handler) {
    for (NodeId node = handler; node < module_.after(handler); ++node) {
      const Kind kind = module_.kind(node);
      if (kind == Kind::kFunction || kind == Kind::kLambda) {
        node = module_.after(node) - 1;
        continue;
      }
      if (kind == Kind::kReturn) {
        const NodeId value = module_[node].first_child;
        if (value != kNoNode && !context_.flow().is_no_result(value)) return value;
      }
      if (kind == Kind::kAssignment) {
        const NodeId value = module_.child(node, Field::kRight);
        if (value != kNoNode && !context_.flow().is_no_result(value) && context_.tensors.is_tensor(value)) return value;
      }
    }
    return kNoNode;
  }

  /// if not x.is_cuda: return x.clone(); if not HAS_TRITON: return plain(x).
  void check_if(NodeId statement) {
    const NodeId condition = module_.child(statement, Field::kCondition);
    if (!asks_machine(condition)) return;
    const auto check_part = [&](NodeId block) {
      if (block == kNoNode || context_.flow().launches(block)) return;
      for (NodeId node = block; node < module_.after(block); ++node) {
        if (module_.kind(node) == Kind::kFunction || module_.kind(node) == Kind::kLambda) {
          node = module_.after(node) - 1;
          continue;
        }
        if (module_.kind(node) != Kind::kReturn || !context_.is_live(node)) continue;
        const NodeId value = module_[node].first_child;
        if (value == kNoNode || !context_.flow().comes_from_no_kernel(value)) continue;
        context_.report_line(kRule, Level::kReject, value,
                             "on another machine this returns what no kernel computed; raise an error there instead");
      }
    };
    check_part(module_.child(statement, Field::kConsequence));
    for (const NodeId part : module_.children(statement)) {
      if (module_.kind(part) == Kind::kElse) check_part(module_.child(part, Field::kBody));
      if (module_.kind(part) == Kind::kElif) check_part(module_.child(part, Field::kConsequence));
    }
  }

  /// Whether a condition asks for the device, or for whether something could be imported.
  bool asks_machine(NodeId condition) {
    if (condition == kNoNode) return false;
    for (NodeId node = condition; node < module_.after(condition); ++node) {
      if (module_.kind(node) == Kind::kAttribute) {
        const std::string_view name = module_.name_of(module_.child(node, Field::kAttribute));
        if (name == "is_cuda" || name == "is_cpu" || name == "device" || name == "is_available" || name == "is_xpu")
          return true;
      }
      if (module_.kind(node) != Kind::kIdentifier) continue;
      for (const syntax::Binding& binding : context_.resolver.scopes().lookup(node)) {
        if (module_.enclosing(binding.target, Kind::kExcept) != kNoNode && binding.scope == 0) return true;
      }
    }
    return false;
  }

  Context& context_;
  const syntax::Module& module_;
};

}  // namespace

void check_fallbacks(Context& context) { Fallbacks(context).run(); }

}  // namespace autotriton::rules
