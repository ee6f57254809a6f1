#include "verify/thresholds.h"

#include <gtest/gtest.h>

#include <cmath>

namespace autotriton::verify {
namespace {

// Worked by hand from the rule in thresholds.h; no number here comes from running the code.

LeafStatistics float32(double rms, double noise, double half_error) {
  LeafStatistics leaf;
  leaf.path = "output";
  leaf.dtype = "float32";
  leaf.floating = true;
  leaf.count = 1000;
  leaf.rms = rms;
  leaf.noise = noise;
  leaf.half_error = half_error;
  return leaf;
}

TEST(ToleranceTest, ExactReferenceGetsATenThousandthOfValueAndRms) {
  const Tolerance bounds = tolerance_for(float32(2.0, 0, 0));
  EXPECT_DOUBLE_EQ(bounds.absolute, 2e-4);
  EXPECT_DOUBLE_EQ(bounds.relative, 1e-4);
}

TEST(ToleranceTest, ANoisyReferenceWidensTheBoundToSixteenTimesItsNoise) {
  EXPECT_DOUBLE_EQ(tolerance_for(float32(1.0, 1e-4, 0)).absolute, 16e-4);
}

TEST(ToleranceTest, NoiseBelowASixteenthOfTheBaseChangesNothing) {
  EXPECT_DOUBLE_EQ(tolerance_for(float32(1.0, 6.25e-6, 0)).absolute, 1e-4);
}

TEST(ToleranceTest, HalfTheErrorOfLoweredPrecisionIsRefused) {
  // A cast to half costs 1e-4 here, the same as the base: half of it must lie outside.
  EXPECT_DOUBLE_EQ(tolerance_for(float32(1.0, 1e-7, 1e-4)).absolute, 5e-5);
}

TEST(ToleranceTest, LoweredPrecisionThatCannotBeToldFromRoundingDoesNotNarrow) {
  // 8 times the noise is 8e-5, so 8e-5 does not decide; 9e-5 does: min(16e-5, 4.5e-5).
  EXPECT_DOUBLE_EQ(tolerance_for(float32(1.0, 1e-5, 8e-5)).absolute, 1.6e-4);
  EXPECT_DOUBLE_EQ(tolerance_for(float32(1.0, 1e-5, 9e-5)).absolute, 4.5e-5);
}

TEST(ToleranceTest, TheBoundNeverFallsBelowFourTimesTheReferencesNoise) {
  for (const double noise : {1e-9, 1e-7, 1e-5, 1e-3}) {
    for (const double factor : {0.0, 1.0, 8.1, 20.0, 1e3, 1e6}) {
      EXPECT_GE(tolerance_for(float32(1.0, noise, factor * noise)).absolute, 4 * noise) << noise << " " << factor;
    }
  }
}

TEST(ToleranceTest, ALargeLowPrecisionErrorLeavesTheBaseBound) {
  EXPECT_DOUBLE_EQ(tolerance_for(float32(1.0, 1e-7, 1.0)).absolute, 1e-4);
}

TEST(ToleranceTest, ALeafOfZerosAllowsNothingThatAnyoneCouldSee) {
  const Tolerance bounds = tolerance_for(float32(0, 0, 0));
  EXPECT_GT(bounds.absolute, 0);
  EXPECT_LT(bounds.absolute, 1e-20);
}

TEST(ToleranceTest, HalfFormatsGetOneUnitInTheLastPlace) {
  LeafStatistics leaf = float32(1.0, 0, 0);
  const struct {
    const char* dtype;
    double unit;
  } formats[] = {
      {"bfloat16", 1.0 / 128}, {"float16", 1.0 / 1024}, {"float8_e4m3fn", 1.0 / 8}, {"float8_e5m2", 1.0 / 4}};
  for (const auto& format : formats) {
    leaf.dtype = format.dtype;
    const Tolerance bounds = tolerance_for(leaf);
    EXPECT_DOUBLE_EQ(bounds.relative, format.unit) << format.dtype;
    EXPECT_DOUBLE_EQ(bounds.absolute, format.unit / 4) << format.dtype;
  }
}

TEST(ToleranceTest, Float64IsNotJudgedLikeFloat32) {
  LeafStatistics leaf = float32(1.0, 0, 0);
  leaf.dtype = "float64";
  EXPECT_DOUBLE_EQ(tolerance_for(leaf).absolute, 1e-9);
  EXPECT_DOUBLE_EQ(tolerance_for(leaf).relative, 1e-9);
}

TEST(ToleranceTest, HalfFormatsWidenWithTheReferencesNoise) {
  LeafStatistics leaf = float32(1.0, 0.01, 0);
  leaf.dtype = "bfloat16";
  EXPECT_DOUBLE_EQ(tolerance_for(leaf).absolute, 0.04);
}

TEST(ToleranceTest, IntegersAndBooleansAreExact) {
  LeafStatistics leaf;
  for (const char* dtype : {"int64", "int32", "int8", "uint8", "bool"}) {
    leaf.dtype = dtype;
    leaf.count = 10;
    const Tolerance bounds = tolerance_for(leaf);
    EXPECT_EQ(bounds.absolute, 0) << dtype;
    EXPECT_EQ(bounds.relative, 0) << dtype;
  }
}

TEST(ToleranceTest, ScaleOfTheTaskDoesNotChangeTheShareThatIsAllowed) {
  const double small = tolerance_for(float32(1e-3, 1e-10, 1e-6)).absolute;
  const double large = tolerance_for(float32(1e3, 1e-4, 1.0)).absolute;
  EXPECT_NEAR(large / small, 1e6, 1e-3);
}

TEST(CliffTest, MoreThanOneElementInAHundredIsACliff) {
  LeafStatistics leaf = float32(1, 0, 0);
  leaf.count = 100;
  leaf.jumps = 1;
  EXPECT_FALSE(stands_at_cliff(leaf));
  leaf.jumps = 2;
  EXPECT_TRUE(stands_at_cliff(leaf));
  leaf.count = 0;
  leaf.jumps = 0;
  EXPECT_FALSE(stands_at_cliff(leaf));
}

TEST(MatchesTest, AnySingleFaultIsNoMatch) {
  Comparison right;
  right.leaves.push_back({.path = "output", .problem = {}, .count = 4});
  right.leaves.push_back({.path = "output[1]", .problem = {}, .count = 4});
  EXPECT_TRUE(matches(right));
  for (int fault = 0; fault < 5; ++fault) {
    Comparison wrong = right;
    if (fault == 0) wrong.structure = "output is None, expected a tensor";
    if (fault == 1) wrong.inputs = "input 0 was changed";
    if (fault == 2) wrong.leaves[1].problem = "dtype";
    if (fault == 3) wrong.leaves[1].bad = 1;
    if (fault == 4) wrong.leaves[1].nonfinite = 1;
    EXPECT_FALSE(matches(wrong)) << fault;
  }
}

}  // namespace
}  // namespace autotriton::verify
