#include <algorithm>
#include <array>
#include <set>

#include "rules/context.h"

/// Family 11: every call computes its result anew. What depends on the weights or the shapes alone may be kept.
namespace autotriton::rules {

using syntax::Binding;
using syntax::BindingKind;
using syntax::Field;
using syntax::Kind;
using syntax::kNoNode;
using syntax::NameId;
using syntax::NodeId;
using syntax::Value;
using syntax::ValueKind;

namespace {

constexpr std::string_view kRule = "result-cache";
constexpr int kMaxDepth = 8;

constexpr auto kReaders = std::to_array<std::string_view>(
    {"get", "pop", "setdefault", "clone", "detach", "view", "view_as", "reshape", "contiguous", "__getitem__"});
constexpr auto kWriters =
    std::to_array<std::string_view>({"append", "setdefault", "update", "add", "insert", "__setitem__", "appendleft"});

template <typename List>
bool has(const List& list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

class ResultCaches {
 public:
  explicit ResultCaches(Context& context) : context_(context), module_(context.module), resolver_(context.resolver) {}

  void run() {
    if (context_.launched.empty()) return;
    for (const NodeId function : context_.entry_functions()) check_function(function, 0);
    check_memoised();
    check_keys();
  }

 private:
  /// Something that outlives a call: an attribute, a name of the module, a default argument.
  struct Place {
    syntax::ScopeId scope = syntax::kNoScope;  // kNoScope: an attribute.
    NameId name = syntax::kNoName;
    bool operator==(const Place&) const = default;
  };

  void check_function(NodeId function, int depth) {
    if (depth > 3) return;
    result_makers_.insert(function);
    for (const NodeId returned : resolver_.scopes().returns_of(function)) {
      if (!context_.is_live(returned)) continue;
      if (!context_.flow().follows_launch(returned)) {
        for (const Place& place : places_of(returned, 0)) {
          if (!keeps_result(place)) continue;
          context_.report_line(kRule, Level::kReject, returned,
                               "this may return the result of an earlier call, kept in `" +
                                   std::string(module_.name(place.name)) +
                                   "`, without a launch; launch the kernel in every call");
          break;
        }
      }
      // return self._run(x): the other function's returns are this one's.
      const NodeId plain = module_.unwrap(returned);
      if (module_.kind(plain) != Kind::kCall) continue;
      for (const Value& callee : syntax::ValueSet(resolver_.values(module_.child(plain, Field::kFunction)))) {
        if (callee.kind == ValueKind::kFunction && callee.node != function) check_function(callee.node, depth + 1);
      }
    }
  }

  /// The places that an expression may be read from, unchanged.
  std::vector<Place> places_of(NodeId expression, int depth) {
    std::vector<Place> found;
    expression = module_.unwrap(expression);
    if (expression == kNoNode || depth > kMaxDepth) return found;
    const auto add = [&](NodeId part) {
      const auto more = places_of(part, depth + 1);
      found.insert(found.end(), more.begin(), more.end());
    };
    switch (module_.kind(expression)) {
      case Kind::kIdentifier:
        for (const Binding& binding : resolver_.scopes().lookup(expression)) {
          if (binding.scope == 0 && is_variable(binding)) found.push_back({0, binding.name});
          if (binding.scope == 0) continue;
          if (binding.kind == BindingKind::kAssign || binding.kind == BindingKind::kWalrus) {
            add(binding.value);
          } else if (binding.kind == BindingKind::kParameter) {
            const Kind kind = module_.kind(module_.unwrap(module_.child(binding.value, Field::kValue)));
            if (kind == Kind::kDictionary || kind == Kind::kList) found.push_back({binding.scope, binding.name});
          }
          if (found.size() > 16) break;
        }
        break;
      case Kind::kAttribute:
        if (keeps_state(module_.child(expression, Field::kObject)))
          found.push_back({syntax::kNoScope, module_[module_.child(expression, Field::kAttribute)].name});
        break;
      case Kind::kSubscript:
        add(module_.child(expression, Field::kValue));
        break;
      case Kind::kConditional:
        add(module_.nth_child(expression, 0));
        add(module_.nth_child(expression, 2));
        break;
      case Kind::kCall: {
        const NodeId function = module_.unwrap(module_.child(expression, Field::kFunction));
        if (module_.kind(function) == Kind::kAttribute &&
            has(kReaders, module_.name_of(module_.child(function, Field::kAttribute))))
          add(module_.child(function, Field::kObject));
        break;
      }
      case Kind::kTuple:
      case Kind::kExpressionList:
      case Kind::kList:
        for (const NodeId part : module_.children(expression)) add(part);
        break;
      default:
        break;
    }
    return found;
  }

  static bool is_variable(const Binding& binding) {
    return binding.kind == BindingKind::kAssign || binding.kind == BindingKind::kAnnotation;
  }

  /// self, a class or function of this file, or an object that the module holds.
  bool keeps_state(NodeId object) {
    const auto& values = resolver_.values(object);
    return std::ranges::any_of(values, [](const Value& value) {
      return value.kind == ValueKind::kInstance || value.kind == ValueKind::kClass ||
             value.kind == ValueKind::kFunction;
    });
  }

  /// Whether the path puts what a kernel made into `place`.
  bool keeps_result(const Place& place) {
    for (const NodeId node : context_.forward.nodes()) {
      NodeId holder = kNoNode;
      NodeId value = kNoNode;
      if (module_.kind(node) == Kind::kAssignment) {
        holder = module_.child(node, Field::kLeft);
        value = module_.child(node, Field::kRight);
        if (module_.kind(module_.unwrap(holder)) == Kind::kIdentifier && place.scope == syntax::kNoScope) continue;
      } else if (module_.kind(node) == Kind::kCall) {
        const NodeId function = module_.unwrap(module_.child(node, Field::kFunction));
        if (module_.kind(function) != Kind::kAttribute ||
            !has(kWriters, module_.name_of(module_.child(function, Field::kAttribute))))
          continue;
        holder = module_.child(function, Field::kObject);
        value = module_.child(node, Field::kArguments);
      } else {
        continue;
      }
      if (!is_in(holder, place) || value == kNoNode) continue;
      // A buffer made here and filled below is kept for its memory; only what has been computed is a result.
      if (context_.flow().follows_launch(node) && context_.flow().may_come_from_kernel(value)) return true;
    }
    return false;
  }

  /// Whether a target lies in `place`: self.cache, self.cache[key], CACHE[key], and each part of `a, b = …`.
  bool is_in(NodeId target, const Place& place) {
    target = module_.unwrap(target);
    for (int depth = 0; depth < kMaxDepth && module_.kind(target) == Kind::kSubscript; ++depth)
      target = module_.unwrap(module_.child(target, Field::kValue));
    switch (module_.kind(target)) {
      case Kind::kIdentifier:
        for (const Binding& binding : resolver_.scopes().lookup(target)) {
          if (binding.scope == place.scope && binding.name == place.name) return true;
        }
        // cache = self.cache; cache[key] = y
        return module_[target].field != Field::kLeft &&
               std::ranges::any_of(places_of(target, 0), [&](const Place& other) { return other == place; });
      case Kind::kAttribute:
        return place.scope == syntax::kNoScope && module_[module_.child(target, Field::kAttribute)].name == place.name;
      case Kind::kPatternList:
      case Kind::kTuplePattern:
      case Kind::kExpressionList:
      case Kind::kTuple:
        for (const NodeId part : module_.children(target)) {
          if (is_in(part, place)) return true;
        }
        return false;
      default:
        return false;
    }
  }

  /// @functools.lru_cache over a function that launches.
  void check_memoised() {
    for (const NodeId function : context_.forward.bodies()) {
      if (module_.kind(function) != Kind::kFunction || !context_.flow().is_launching(function)) continue;
      for (const NodeId decorator : resolver_.decorators(function)) {
        bool memoises = false;
        for (const Value& value : resolver_.values(decorator)) {
          const std::string_view name = resolver_.text(value);
          memoises = memoises || name == "functools.lru_cache" || name == "functools.cache";
        }
        const NodeId called = module_.unwrap(decorator);
        if (module_.kind(called) == Kind::kCall)
          memoises = memoises || resolver_.may_be(module_.child(called, Field::kFunction), "functools.lru_cache");
        if (!memoises) continue;
        context_.report_line(kRule, result_makers_.contains(function) ? Level::kReject : Level::kSuspicious, decorator,
                             "a second call with the same object gets the first one's result, whatever it holds by "
                             "then; launch the kernel in every call");
      }
    }
  }

  /// CACHE[x.data_ptr()], seen.get(id(x)): a key that says where an input lies and not what it holds.
  void check_keys() {
    for (const NodeId node : context_.forward.nodes()) {
      if (module_.kind(node) != Kind::kSubscript) continue;
      for (const NodeId part : module_.children(node)) {
        if (module_[part].field != Field::kSubscript || !says_where(part)) continue;
        context_.report_line(kRule, Level::kSuspicious, node,
                             "the key says where a tensor lies and not what it holds; keep nothing by it but what "
                             "depends on weights alone");
      }
    }
  }

  bool says_where(NodeId key) {
    for (NodeId node = key; node < module_.after(key); ++node) {
      if (module_.kind(node) == Kind::kIdentifier && module_[node].field != Field::kAttribute) {
        for (const Binding& binding : resolver_.scopes().lookup(node)) {
          if (binding.kind == BindingKind::kAssign && binding.item == syntax::kWhole && binding.scope != 0 &&
              binding.value != kNoNode && asks_where(binding.value))
            return true;
        }
      }
    }
    return asks_where(key);
  }

  bool asks_where(NodeId expression) {
    for (NodeId node = expression; node < module_.after(expression); ++node) {
      if (module_.kind(node) != Kind::kCall) continue;
      const NodeId function = module_.unwrap(module_.child(node, Field::kFunction));
      if (resolver_.may_be(function, "builtins.id") || resolver_.may_be(function, "builtins.hash")) return true;
      if (module_.kind(function) == Kind::kAttribute &&
          module_.name_of(module_.child(function, Field::kAttribute)) == "data_ptr")
        return true;
    }
    return false;
  }

  Context& context_;
  const syntax::Module& module_;
  syntax::Resolver& resolver_;
  std::set<NodeId> result_makers_;  // Functions whose result is the entry point's.
};

}  // namespace

void check_result_caches(Context& context) { ResultCaches(context).run(); }

}  // namespace autotriton::rules
