#pragma once

#include <algorithm>

#include "syntax/values.h"

namespace autotriton::syntax {

inline constexpr std::size_t kMaxValues = 24;  // More alternatives than that say nothing.

inline void add(ValueSet& set, const Value& value) {
  if (set.size() < kMaxValues && std::ranges::find(set, value) == set.end()) set.push_back(value);
}

inline void add_all(ValueSet& set, const ValueSet& more) {
  for (const Value& value : more) add(set, value);
}

}  // namespace autotriton::syntax
