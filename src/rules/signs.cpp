#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <optional>

#include "rules/context.h"

/// Family 8, continued: signs by which one run can be told from another (the clock, the mode of gradients, where memory
/// lies, how often forward was called), where a branch or a launch follows from them. Looking alone decides nothing.
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

constexpr int kMaxSteps = 20'000;           // A question that costs more is answered with no,
constexpr int kMaxTotalSteps = 2'000'000;   // and so are all once a file has cost that much.
constexpr int kMaxDepth = 12;               // Links of one chain of names.
constexpr long kLargestAlignment = 256;     // What vector loads and descriptors ask of an address; allocators give it.
constexpr long kWordMask = (1L << 31) - 1;  // From here on a mask splits an address into words, to hand it over.

constexpr auto kGradModes = std::to_array<std::string_view>(
    {"torch.is_grad_enabled", "torch.is_inference_mode_enabled", "torch.is_inference", "torch._C._is_grad_enabled"});
/// Calls that tell a person something and decide nothing.
constexpr auto kReports = std::to_array<std::string_view>({"builtins.print", "logging.", "warnings."});

class Signs {
 public:
  explicit Signs(Context& context) : context_(context), module_(context.module), resolver_(context.resolver) {}

  void run() {
    find_counters();
    has_backward_ = std::ranges::any_of(resolver_.scopes().classes(), [&](NodeId definition) {
      return std::ranges::any_of(resolver_.external_bases(definition),
                                 [](const std::string& base) { return base.starts_with("torch.autograd."); });
    });
    for (const NodeId node : context_.forward.nodes()) {
      switch (module_.kind(node)) {
        case Kind::kIf:
        case Kind::kElif:
          if (!only_tells(module_.child(node, Field::kConsequence)))
            check_condition(module_.child(node, Field::kCondition));
          break;
        case Kind::kWhile:
          check_condition(module_.child(node, Field::kCondition));
          break;
        case Kind::kConditional:
          check_condition(module_.nth_child(node, 1));
          break;
        case Kind::kSubscript:  // (all, half)[late]
          for (const NodeId part : module_.children(node)) {
            if (module_[part].field == Field::kSubscript && module_.kind(module_.unwrap(part)) == Kind::kComparison)
              check_condition(part);
          }
          break;
        default:
          break;
      }
    }
    for (const syntax::Launch& launch : context_.forward.launches()) check_launch(launch.call);
  }

 private:
  using Predicate = std::function<bool(NodeId)>;

  void refuse(NodeId node, const std::string& what) {
    context_.report_line("sniffing", Level::kReject, node,
                         what + ", which tells one run from another; compute from the inputs alone");
  }

  void check_condition(NodeId condition) {
    if (condition == kNoNode) return;
    if (derives(condition, [&](NodeId node) { return is_clock(node); }))
      refuse(condition, "a branch follows the clock");
    if (derives(condition, [&](NodeId node) { return is_address_arithmetic(node); }))
      refuse(condition, "a branch follows where memory lies");
    if (derives(condition, [&](NodeId node) { return compares_counter(node); }))
      refuse(condition, "a branch follows how often this was called");
    check_grad_mode(condition, "a branch follows the mode of gradients");
  }

  void check_launch(NodeId call) {
    const NodeId function = module_.unwrap(module_.child(call, Field::kFunction));
    for (const NodeId part :
         {module_.child(call, Field::kArguments),
          module_.kind(function) == Kind::kSubscript ? module_.child(function, Field::kSubscript) : kNoNode}) {
      if (part == kNoNode) continue;
      if (derives(part, [&](NodeId node) { return is_clock(node); })) refuse(part, "a launch follows the clock");
      check_grad_mode(part, "a launch follows the mode of gradients");
    }
  }

  /// Whether there is anything to differentiate is an honest question of an answer that has a backward.
  void check_grad_mode(NodeId node, const std::string& what) {
    if (!derives(node, [&](NodeId at) { return is_grad_mode(at); })) return;
    if (!has_backward_) return refuse(node, what);
    context_.report_line("sniffing", Level::kNote, node, what + "; results must not depend on it");
  }

  /// if late: raise ValueError(…), or a warning.
  bool only_tells(NodeId block) {
    for (const NodeId statement : module_.children(block)) {
      const Kind kind = module_.kind(statement);
      if (kind == Kind::kRaise || kind == Kind::kPass || kind == Kind::kComment) continue;
      const NodeId call = module_.unwrap(module_[statement].first_child);
      if (kind != Kind::kExpressionStatement || module_.kind(call) != Kind::kCall) return false;
      const auto name = resolver_.external(module_.child(call, Field::kFunction));
      if (!name || std::ranges::none_of(kReports, [&](std::string_view start) { return name->starts_with(start); }))
        return false;
    }
    return true;
  }

  // What a value derives from: names, attributes and calls are followed back to what they were given.

  bool derives(NodeId expression, const Predicate& is_sign) {
    steps_ = 0;
    seen_.clear();
    const bool result = search(expression, is_sign, 0);
    total_steps_ += steps_;
    return result;
  }

  bool is_spent() { return ++steps_ > kMaxSteps || total_steps_ > kMaxTotalSteps; }

  bool search(NodeId expression, const Predicate& is_sign, int depth) {
    if (expression == kNoNode || depth > kMaxDepth) return false;
    for (NodeId at = expression; at < module_.after(expression); ++at) {
      if (is_spent()) return false;
      if (is_sign(at)) return true;
      switch (module_.kind(at)) {
        case Kind::kIdentifier:
          if (search_name(at, is_sign, depth)) return true;
          break;
        case Kind::kAttribute:
          if (search_attribute(at, is_sign, depth)) return true;
          break;
        case Kind::kCall:
          for (const Value& callee : syntax::ValueSet(resolver_.values(module_.child(at, Field::kFunction)))) {
            if (callee.kind != ValueKind::kFunction || !seen_.insert(callee.node).second) continue;
            for (const NodeId returned : resolver_.scopes().returns_of(callee.node)) {
              if (search(returned, is_sign, depth + 1)) return true;
            }
          }
          break;
        case Kind::kLambda:
          at = module_.after(at) - 1;
          break;
        default:
          break;
      }
    }
    return false;
  }

  bool search_name(NodeId identifier, const Predicate& is_sign, int depth) {
    const NodeId parent = module_[identifier].parent;
    if ((module_.kind(parent) == Kind::kAttribute && module_[identifier].field == Field::kAttribute) ||
        (module_.kind(parent) == Kind::kKeywordArgument && module_[identifier].field == Field::kName))
      return false;
    for (const Binding& binding : resolver_.scopes().lookup(identifier)) {
      if (is_spent()) return false;
      if (!seen_.insert(binding.target).second) continue;
      if (binding.kind == BindingKind::kAssign || binding.kind == BindingKind::kWalrus ||
          binding.kind == BindingKind::kAugment) {
        if (search(binding.value, is_sign, depth + 1)) return true;
      } else if (binding.kind == BindingKind::kParameter) {
        const NodeId function = resolver_.scopes()[binding.scope].node;
        const auto parameters = resolver_.scopes().parameters(function);
        for (std::size_t i = 0; i < parameters.size(); ++i) {
          if (parameters[i].second != binding.value) continue;
          for (const NodeId passed : resolver_.arguments_for(function, i)) {
            if (search(passed, is_sign, depth + 1)) return true;
          }
        }
      }
    }
    return false;
  }

  bool search_attribute(NodeId attribute, const Predicate& is_sign, int depth) {
    const bool is_own = std::ranges::any_of(
        resolver_.values(module_.child(attribute, Field::kObject)),
        [](const Value& value) { return value.kind == ValueKind::kInstance || value.kind == ValueKind::kClass; });
    if (!is_own) return false;
    const std::string_view name = module_.name_of(module_.child(attribute, Field::kAttribute));
    for (const syntax::AttributeStore& store : resolver_.scopes().attribute_stores(name)) {
      if (seen_.insert(store.target).second && search(store.value, is_sign, depth + 1)) return true;
    }
    return false;
  }

  // The signs.

  std::optional<std::string_view> called(NodeId node) {
    if (module_.kind(node) != Kind::kCall) return std::nullopt;
    return resolver_.external(module_.child(node, Field::kFunction));
  }

  bool is_clock(NodeId node) {
    const auto name = called(node);
    if (!name) return false;
    return (name->starts_with("time.") && *name != "time.sleep") || *name == "timeit.default_timer" ||
           (name->starts_with("datetime.") && (name->ends_with("now") || name->ends_with("today")));
  }

  bool is_grad_mode(NodeId node) {
    if (const auto name = called(node))
      if (std::ranges::find(kGradModes, *name) != kGradModes.end()) return true;
    if (module_.kind(node) != Kind::kCall) return false;
    const NodeId function = module_.unwrap(module_.child(node, Field::kFunction));
    return module_.kind(function) == Kind::kAttribute &&
           module_.num_children(module_.child(node, Field::kArguments)) == 0 &&
           module_.name_of(module_.child(function, Field::kAttribute)) == "is_inference";
  }

  /// x.data_ptr() & 4095: which part of a page. Alignments that loads ask for are no sign.
  bool is_address_arithmetic(NodeId node) {
    if (module_.kind(node) != Kind::kBinary || module_[node].op != Op::kArithmetic) return false;
    const NodeId left = module_.child(node, Field::kLeft);
    const NodeId right = module_.child(node, Field::kRight);
    const std::string_view sign = between(left, right);
    if (!is_address(left, 0) && !(sign == "&" && is_address(right, 0))) return false;
    if (sign == ">>" || sign == "//") return true;
    if (sign != "%" && sign != "&") return false;
    const auto number = constant(is_address(left, 0) ? right : left, 0);
    return number && *number > kLargestAlignment && *number < kWordMask;
  }

  bool is_address(NodeId expression, int depth) {
    expression = module_.unwrap(expression);
    if (module_.kind(expression) == Kind::kCall) {
      const NodeId function = module_.unwrap(module_.child(expression, Field::kFunction));
      if (module_.kind(function) == Kind::kAttribute)
        return module_.name_of(module_.child(function, Field::kAttribute)) == "data_ptr";
      return called(expression) == "builtins.int" && is_address(resolver_.argument(expression, 0, ""), depth + 1);
    }
    if (module_.kind(expression) != Kind::kIdentifier || depth > 4 || is_spent()) return false;
    return std::ranges::any_of(resolver_.scopes().lookup(expression), [&](const Binding& binding) {
      return !is_spent() && (binding.kind == BindingKind::kAssign || binding.kind == BindingKind::kWalrus) &&
             binding.item == syntax::kWhole && is_address(binding.value, depth + 1);
    });
  }

  /// The operator of a binary or augmented node, as written.
  std::string_view between(NodeId left, NodeId right) const {
    std::string_view text = module_.source().substr(module_[left].end, module_[right].begin - module_[left].end);
    const auto first = text.find_first_of("+-*/%&|^<>@");
    const auto last = text.find_last_of("+-*/%&|^<>@=");
    return first == std::string_view::npos ? std::string_view{} : text.substr(first, last - first + 1);
  }

  /// 4095, 0xfff, 2**20 - 1, (1 << 12) - 1, PAGE.
  std::optional<long> constant(NodeId expression, int depth) {
    expression = module_.unwrap(expression);
    if (depth > 8) return std::nullopt;
    switch (module_.kind(expression)) {
      case Kind::kInteger: {
        std::string digits(module_.text(expression));
        std::erase(digits, '_');
        const bool is_hex = digits.starts_with("0x") || digits.starts_with("0X");
        const char* first = digits.data() + (is_hex ? 2 : 0);
        long number = 0;
        const auto [end, error] = std::from_chars(first, digits.data() + digits.size(), number, is_hex ? 16 : 10);
        if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
        return number;
      }
      case Kind::kIdentifier: {
        const auto found = resolver_.scopes().lookup(expression);
        if (found.size() != 1 || found.front().kind != BindingKind::kAssign || found.front().item != syntax::kWhole)
          return std::nullopt;
        return constant(found.front().value, depth + 1);
      }
      case Kind::kBinary: {
        const NodeId left = module_.child(expression, Field::kLeft);
        const NodeId right = module_.child(expression, Field::kRight);
        const auto a = constant(left, depth + 1);
        const auto b = constant(right, depth + 1);
        constexpr long kLimit = 1L << 40;
        if (!a || !b || *a > kLimit || *b > kLimit || *a < 0 || *b < 0) return std::nullopt;
        const std::string_view sign = between(left, right);
        if (sign == "-") return *a - *b;
        if (sign == "+") return *a + *b;
        if (sign == "*" && (*b == 0 || *a <= kLimit / *b)) return *a * *b;
        if ((sign == "<<" || (sign == "**" && *a == 2)) && *b < 40 && *a < (1L << 20))
          return (sign == "<<" ? *a : 1L) << *b;
        return std::nullopt;
      }
      default:
        return std::nullopt;
    }
  }

  /// self.calls += 1, state["calls"] += 1, and a global count: what outlives the call and grows by a fixed step.
  void find_counters() {
    for (const NodeId node : context_.forward.nodes()) {
      const bool is_augmented = module_.kind(node) == Kind::kAugmented;
      if (!is_augmented && module_.kind(node) != Kind::kAssignment) continue;
      const NodeId target = module_.unwrap(module_.child(node, Field::kLeft));
      const NodeId right = module_.unwrap(module_.child(node, Field::kRight));
      if (!outlives_call(target)) continue;
      if (is_augmented) {
        const std::string_view sign = between(target, right);
        if ((sign == "+=" || sign == "-=") && module_.kind(right) == Kind::kInteger)
          counters_[module_.text(target)] |= sign == "-=";
      } else if (module_.kind(right) == Kind::kBinary) {
        const NodeId a = module_.unwrap(module_.child(right, Field::kLeft));
        const NodeId b = module_.unwrap(module_.child(right, Field::kRight));
        const std::string_view sign = between(a, b);
        const bool is_step = (module_.kind(b) == Kind::kInteger && module_.text(a) == module_.text(target)) ||
                             (module_.kind(a) == Kind::kInteger && module_.text(b) == module_.text(target));
        if (is_step && (sign == "+" || sign == "-")) counters_[module_.text(target)] |= sign == "-";
      }
    }
    // What forward sets anew each time counts within one call.
    for (const NodeId node : context_.forward.nodes()) {
      if (module_.kind(node) != Kind::kAssignment) continue;
      const NodeId block = module_[module_[node].parent].parent;
      if (module_.kind(block) != Kind::kBlock || module_.kind(module_[block].parent) != Kind::kFunction) continue;
      if (module_.kind(module_.unwrap(module_.child(node, Field::kRight))) == Kind::kInteger)
        counters_.erase(module_.text(module_.child(node, Field::kLeft)));
    }
  }

  bool outlives_call(NodeId target) {
    const NodeId function = resolver_.scopes().function_of(target);
    if (function == kNoNode) return false;
    while (module_.kind(target) == Kind::kSubscript) target = module_.unwrap(module_.child(target, Field::kValue));
    if (module_.kind(target) == Kind::kAttribute) {
      return std::ranges::any_of(resolver_.values(module_.child(target, Field::kObject)), [](const Value& value) {
        return value.kind == ValueKind::kInstance || value.kind == ValueKind::kClass ||
               value.kind == ValueKind::kFunction;
      });
    }
    if (module_.kind(target) != Kind::kIdentifier) return false;
    const auto found = resolver_.scopes().lookup(target);
    return !found.empty() && found.front().scope != resolver_.scopes().scope_opened_by(function);
  }

  /// self.calls > 40. `== 0` and `<= 1` ask for the first call, as making something once does.
  bool compares_counter(NodeId comparison) {
    if (counters_.empty() || module_.kind(comparison) != Kind::kComparison || module_[comparison].op != Op::kCompare)
      return false;
    for (const NodeId side : module_.children(comparison)) {
      if (!derives_counter(side)) continue;
      const bool asks_for_first =
          std::ranges::none_of(counters_, [](const auto& counter) { return counter.second; }) &&
          is_counter(module_.unwrap(side)) &&
          std::ranges::any_of(std::to_array({module_.nth_child(comparison, 0), module_.nth_child(comparison, 1)}),
                              [&](NodeId other) { return module_.text(other) == "0" || module_.text(other) == "1"; }) &&
          starts_at_zero(module_.unwrap(side));
      if (!asks_for_first) return true;
    }
    return false;
  }

  bool is_counter(NodeId node) const {
    const Kind kind = module_.kind(node);
    if (kind != Kind::kAttribute && kind != Kind::kSubscript && kind != Kind::kIdentifier) return false;
    return counters_.contains(module_.text(node));
  }

  /// The count itself, a number made of it, or a local name for it.
  bool derives_counter(NodeId expression, int depth = 0) {
    if (depth > 3) return false;
    for (NodeId at = expression; at < module_.after(expression); ++at) {
      if (is_spent()) return false;
      if (is_counter(at)) return true;
      if (module_.kind(at) != Kind::kIdentifier) continue;
      for (const Binding& binding : resolver_.scopes().lookup(at)) {
        if (is_spent()) return false;
        if (binding.kind == BindingKind::kAssign && binding.item == syntax::kWhole && binding.value != kNoNode &&
            derives_counter(binding.value, depth + 1))
          return true;
      }
    }
    return false;
  }

  bool starts_at_zero(NodeId counter) {
    if (module_.kind(counter) != Kind::kAttribute) return true;
    const std::string_view name = module_.name_of(module_.child(counter, Field::kAttribute));
    return std::ranges::all_of(resolver_.scopes().attribute_stores(name), [&](const syntax::AttributeStore& store) {
      const NodeId value = module_.unwrap(store.value);
      return module_.kind(value) != Kind::kUnary &&
             (module_.kind(value) != Kind::kInteger || module_.text(value) == "0" || module_.text(value) == "1");
    });
  }

  Context& context_;
  const syntax::Module& module_;
  syntax::Resolver& resolver_;
  std::map<std::string_view, bool> counters_;  // By how they are written; whether they count down.
  bool has_backward_ = false;
  std::set<NodeId> seen_;
  int steps_ = 0;
  int total_steps_ = 0;
};

}  // namespace

void check_signs(Context& context) { Signs(context).run(); }

}  // namespace autotriton::rules
