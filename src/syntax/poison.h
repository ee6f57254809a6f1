#pragma once

#include <cstdint>
#include <string>

#include "syntax/values.h"

namespace autotriton::syntax {

enum class Poison : std::uint8_t {
  kNumber,  ///< Stores (v)*0 - 13337.
  kZero,    ///< Stores (v)*0: for bool and small integers, which -13337 may turn into a plausible value.
};

/// The kernel knock-out: the same file with every value that a jit body stores replaced by a constant of the same shape
/// and type. tl.store, tl.atomic_*, the methods store and atomic_* of pointers and descriptors are known under any
/// alias; the lines keep their numbers. An output that stays right did not come from these kernels.
std::string poison_stores(const Module& module, Poison poison);

}  // namespace autotriton::syntax
