#include "verify/thresholds.h"

#include <algorithm>

namespace autotriton::verify {
namespace {

constexpr double kBase = 1e-4;        // Of value and rms, float32.
constexpr double kDoubleBase = 1e-9;  // The same for float64: float32 work inside is off by 1e-7.
constexpr double kNoiseMargin = 16;   // An honest kernel sums in another order, or uses another formula.
constexpr double kLowPrecisionShare = 0.5;
constexpr double kNoiseFloor = 4;  // The limit never goes below this many times the reference's own rounding.

double unit_of(std::string_view dtype) {
  if (dtype == "bfloat16") return 1.0 / 128;
  if (dtype == "float16") return 1.0 / 1024;
  if (dtype == "float8_e4m3fn") return 1.0 / 8;
  if (dtype == "float8_e5m2") return 1.0 / 4;
  return 0;
}

}  // namespace

Tolerance tolerance_for(const LeafStatistics& leaf) {
  if (!leaf.tensor) return {.absolute = 1e-6, .relative = kBase};
  if (!leaf.floating) return {};
  if (const double unit = unit_of(leaf.dtype); unit != 0) {
    return {.absolute = std::max(unit * leaf.rms / 4, 4 * leaf.noise), .relative = unit};
  }
  if (leaf.dtype == "float64" || leaf.dtype == "complex128") {
    return {.absolute = std::max({kDoubleBase * leaf.rms, kNoiseMargin * leaf.noise, 1e-300}), .relative = kDoubleBase};
  }
  double absolute = std::max(kBase * leaf.rms, kNoiseMargin * leaf.noise);
  const bool decidable = leaf.half_error > 2 * kNoiseFloor * leaf.noise;
  if (decidable)
    absolute = std::min(absolute, std::max(kLowPrecisionShare * leaf.half_error, kNoiseFloor * leaf.noise));
  return {.absolute = std::max(absolute, 1e-30), .relative = kBase};
}

bool stands_at_cliff(const LeafStatistics& leaf) {
  return leaf.count != 0 && static_cast<double>(leaf.jumps) > kMaxJumpShare * static_cast<double>(leaf.count);
}

bool matches(const Comparison& comparison) {
  return comparison.structure.empty() && comparison.inputs.empty() &&
         std::all_of(comparison.leaves.begin(), comparison.leaves.end(), [](const LeafComparison& leaf) {
           return leaf.problem.empty() && leaf.bad == 0 && leaf.nonfinite == 0;
         });
}

}  // namespace autotriton::verify
