#include "syntax/poison.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace autotriton::syntax {
namespace {

/// Where a store's value stands among its arguments, and the keyword it may come by.
struct ValueSlot {
  std::string_view function;
  std::size_t position;
  std::string_view keyword;
};

// As functions of triton.language; as methods of a pointer each position is one less.
constexpr auto kFunctions = std::to_array<ValueSlot>({
    {"store", 1, "value"},
    {"atomic_add", 1, "val"},
    {"atomic_max", 1, "val"},
    {"atomic_min", 1, "val"},
    {"atomic_and", 1, "val"},
    {"atomic_or", 1, "val"},
    {"atomic_xor", 1, "val"},
    {"atomic_xchg", 1, "val"},
    {"atomic_cas", 2, "val"},
    {"store_tensor_descriptor", 2, "value"},
    {"_experimental_descriptor_store", 1, "value"},
    {"experimental_descriptor_store", 1, "value"},
});

const ValueSlot* slot_of(std::string_view function) {
  const auto* found = std::ranges::find(kFunctions, function, &ValueSlot::function);
  return found == kFunctions.end() ? nullptr : found;
}

bool is_sequence(const Module& module, NodeId expression) {
  const Kind kind = module.kind(module.unwrap(expression));
  return kind == Kind::kList || kind == Kind::kTuple || kind == Kind::kListComprehension;
}

/// The expression that a call inside a jit body stores, or kNoNode.
NodeId stored_value(Resolver& resolver, NodeId call) {
  const Module& module = resolver.module();
  const NodeId function = module.unwrap(module.child(call, Field::kFunction));
  for (const Value& callee : ValueSet(resolver.values(function))) {
    if (callee.kind != ValueKind::kExternal) continue;
    const std::string_view name = resolver.text(callee);
    if (!name.starts_with("triton.")) continue;
    if (const ValueSlot* slot = slot_of(name.substr(name.rfind('.') + 1))) {
      return resolver.argument(call, slot->position, slot->keyword);
    }
    return kNoNode;
  }
  if (module.kind(function) != Kind::kAttribute) return kNoNode;
  const std::string_view method = module.name_of(module.child(function, Field::kAttribute));
  const ValueSlot* slot = slot_of(method);
  if (slot == nullptr || method.find("descriptor") != std::string_view::npos) return kNoNode;
  // A descriptor's methods take the offsets first: desc.store([row, column], value).
  const NodeId first = resolver.argument(call, 0, "");
  bool takes_offsets = is_sequence(module, first) || resolver.argument(call, 9, "offsets") != kNoNode;
  if (!takes_offsets && module.kind(module.unwrap(first)) == Kind::kIdentifier) {
    for (const Value& value : ValueSet(resolver.values(first)))
      takes_offsets = takes_offsets || value.kind == ValueKind::kContainer;
  }
  if (takes_offsets) {
    const bool is_keyword = resolver.argument(call, 9, "offsets") != kNoNode;
    return resolver.argument(call, is_keyword ? 0 : 1, "value");
  }
  return resolver.argument(call, slot->position - 1, slot->keyword);
}

}  // namespace

std::string poison_stores(const Module& module, Poison poison) {
  Resolver resolver(module);
  const std::span<const NodeId> jit_functions = resolver.jit_functions();
  std::vector<std::pair<std::uint32_t, std::string_view>> insertions;
  const std::string_view suffix = poison == Poison::kNumber ? ")*0 - 13337)" : ")*0)";
  std::set<NodeId> calls;
  for (const NodeId function : jit_functions) {
    const auto inside = resolver.scopes().calls_in(function);
    calls.insert(inside.begin(), inside.end());
  }
  for (const NodeId call : calls) {
    const NodeId value = stored_value(resolver, call);
    if (value == kNoNode) continue;
    insertions.emplace_back(module[value].begin, "((");
    insertions.emplace_back(module[value].end, suffix);
  }
  std::ranges::stable_sort(insertions, {}, [](const auto& insertion) { return insertion.first; });
  std::string result;
  std::uint32_t copied = 0;
  for (const auto& [at, text] : insertions) {
    result += module.source().substr(copied, at - copied);
    result += text;
    copied = at;
  }
  result += module.source().substr(copied);
  return result;
}

}  // namespace autotriton::syntax
