#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Where rounding ends and being wrong begins, per task and leaf.
namespace autotriton::verify {

/// The oracle's statistics of one output leaf (worker/compare.py).
struct LeafStatistics {
  std::string path;
  std::string dtype;
  bool tensor = true;
  bool floating = false;
  std::uint64_t count = 0;
  double rms = 0;  ///< Of the expected values, in float64.
  double max_abs = 0;
  double noise = 0;         ///< Largest |native - float64| of the reference, cliffs aside.
  double half_error = 0;    ///< The same after rounding inputs and weights to half precision.
  std::uint64_t jumps = 0;  ///< Elements where the native and the float64 run part: a cliff.
};

/// An element is right if |actual - expected| <= absolute + relative * |expected|.
struct Tolerance {
  double absolute = 0;
  double relative = 0;
};

/// float32: 1e-4 of the value plus 1e-4 of the leaf's rms, wider where the reference's own rounding says so (16 times
/// it), narrower where half the error of a cast to half precision lies below, so that lowered precision is refused.
/// float64: 1e-9. Half formats: one unit in the last place. Integers and booleans: exact.
Tolerance tolerance_for(const LeafStatistics& leaf);

/// Share of the leaf's elements that stand at a cliff, above which the task cannot be judged.
inline constexpr double kMaxJumpShare = 0.01;
bool stands_at_cliff(const LeafStatistics& leaf);

/// What the oracle counted when it compared one leaf.
struct LeafComparison {
  std::string path;
  std::string problem;  ///< "", "shape", "dtype"
  std::uint64_t count = 0;
  std::uint64_t bad = 0;
  std::uint64_t nonfinite = 0;
  double max_abs = 0;
  double max_rel = 0;
  std::vector<std::int64_t> index{};  ///< Of the worst element.
  std::string expected{};
  std::string actual{};
};

/// A trial's comparison: structure first, then leaves.
struct Comparison {
  bool applies = true;    ///< False where a stand-in has no meaning for the task.
  std::string structure;  ///< Where structures differ; empty if they agree.
  std::string inputs;     ///< What became of the inputs; empty if nothing wrong.
  std::vector<LeafComparison> leaves;
};

/// Whether nothing at all is wrong.
bool matches(const Comparison& comparison);

}  // namespace autotriton::verify
