#include "reward/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cmath>

#include "base/error.h"
#include "base/file.h"

namespace autotriton::reward {
namespace {

using testing::HasSubstr;
using verify::Reason;
using verify::Verdict;

Verdict with_reason(Reason reason) {
  Verdict verdict;
  verdict.is_triton = true;
  verdict.conclude(reason, "because");
  return verdict;
}

Verdict accepted() { return with_reason(Reason::kAllEvidence); }

Verdict timed(double candidate_ms, double eager_ms, std::optional<double> compile_ms = std::nullopt) {
  Verdict verdict = accepted();
  verdict.grade = verify::Grade::kGpu;
  verdict.timing = verify::Timing{
      .candidate_ms = candidate_ms, .eager_ms = eager_ms, .compile_ms = compile_ms, .interval = std::nullopt};
  return verdict;
}

Verdict refused_by_rule() {
  Verdict verdict;
  verdict.conclude_by_rule("torch-compute", "line 3: torch.matmul computes");
  return verdict;
}

double value_of(const Profile& profile, const Verdict& verdict) {
  const RewardValue reward = profile.reward(verdict);
  EXPECT_TRUE(reward.value.has_value()) << reward.why;
  return reward.value.value_or(std::nan(""));
}

Profile with_terms(const std::string& text) { return Profile::parse(text, "mine.toml", "mine"); }

std::string error_of(const std::string& text) {
  try {
    with_terms(text);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(PaperProfileTest, IsOneForWhatIsTritonAndPassesAndZeroForTheRest) {
  const Profile paper = Profile::paper();
  EXPECT_TRUE(paper.is_paper());
  EXPECT_FALSE(paper.needs_timing());
  EXPECT_EQ(paper.warning_without_timing(), std::nullopt);
  EXPECT_EQ(value_of(paper, accepted()), 1.0);
  EXPECT_EQ(value_of(paper, with_reason(Reason::kWrongValues)), 0.0);
  EXPECT_EQ(value_of(paper, refused_by_rule()), 0.0);
}

TEST(EveryProfileTest, MasksWhatCouldNotBeJudgedInsteadOfScoringIt) {
  for (const Profile::BuiltIn& entry : Profile::built_in()) {
    const Profile profile = Profile::find(entry.name);
    for (const verify::ReasonInfo& reason : verify::all_reasons()) {
      const RewardValue reward = profile.reward(with_reason(reason.reason));
      const bool undecided =
          reason.outcome == verify::Outcome::kInconclusive || reason.outcome == verify::Outcome::kError;
      if (undecided) {
        EXPECT_EQ(reward.value, std::nullopt) << entry.name << " " << reason.id;
        EXPECT_THAT(reward.why, HasSubstr(reason.id)) << entry.name;
      } else if (reason.outcome == verify::Outcome::kReject) {
        EXPECT_TRUE(reward.value.has_value()) << entry.name << " " << reason.id;
      }
    }
  }
}

TEST(EveryProfileTest, HasADescriptionASourceAndNoRewardForARulesRefusalAboveThatOfARightAnswer) {
  for (const Profile::BuiltIn& entry : Profile::built_in()) {
    const Profile profile = Profile::find(entry.name);
    EXPECT_NE(profile.description(), "") << entry.name;
    EXPECT_NE(profile.source(), "") << entry.name;
    EXPECT_EQ(profile.label(), entry.name);
    Verdict right = timed(1, 0.5, 0.5);  // Right, though slow.
    right.authorship.torch_share = 0;
    EXPECT_GT(value_of(profile, right), value_of(profile, refused_by_rule())) << entry.name;
  }
}

// C + C·share with a quarter of the work in PyTorch: 1 + 0.75.
TEST(HybridProfileTest, AddsTheKernelsShareOfTheWork) {
  const Profile hybrid = Profile::find("hybrid");
  verify::VerifyOptions options;
  hybrid.apply(options);
  EXPECT_EQ(options.torch_compute, verify::TorchCompute::kReport);
  Verdict verdict = accepted();
  EXPECT_EQ(hybrid.reward(verdict).value, std::nullopt);
  EXPECT_THAT(hybrid.reward(verdict).why, HasSubstr("share"));
  verdict.authorship.torch_share = 0.25;
  EXPECT_DOUBLE_EQ(value_of(hybrid, verdict), 1.75);
  EXPECT_EQ(value_of(hybrid, with_reason(Reason::kWrongValues)), 0.0);
}

TEST(CoverageTest, ARampStartsAtFromAndIsFullAtFull) {
  const Profile profile = with_terms(
      "[verify]\ntorch_compute = \"report\"\n[[reward.term]]\nkind = \"coverage\"\nfrom = 0.3\nfull = 0.4\n");
  for (const auto& [torch_share, expected] : {std::pair(0.8, 0.0), std::pair(0.65, 0.5), std::pair(0.2, 1.0)}) {
    Verdict verdict = accepted();
    verdict.authorship.torch_share = torch_share;
    EXPECT_NEAR(value_of(profile, verdict), expected, 1e-12) << torch_share;
  }
}

TEST(CoverageTest, IsFullWherePyTorchMayNotCompute) {
  EXPECT_EQ(value_of(with_terms("[[reward.term]]\nkind = \"coverage\"\n"), accepted()), 1.0);
}

// 1 + min(6/2, 3) + (1 − 0.2) = 4.8; at ten times, 1 + 3 + 0.8.
TEST(DrKernelProfileTest, AddsCorrectnessBoundedSpeedUpAndCoverage) {
  const Profile profile = Profile::find("dr-kernel");
  for (const auto& [candidate_ms, expected] : {std::pair(4.0, 3.3), std::pair(2.0, 4.8), std::pair(0.6, 4.8)}) {
    Verdict verdict = timed(candidate_ms, 6);
    verdict.authorship.torch_share = 0.2;
    EXPECT_NEAR(value_of(profile, verdict), expected, 1e-12) << candidate_ms;
  }
}

TEST(SpeedTiersProfileTest, GivesMinusOneOneTwoAndThree) {
  const Profile profile = Profile::find("speed-tiers");
  EXPECT_EQ(value_of(profile, with_reason(Reason::kWrongValues)), -1.0);
  EXPECT_EQ(value_of(profile, timed(1.00, 1.04, 0.80)), 1.0);  // 4 % faster than eager only.
  EXPECT_EQ(value_of(profile, timed(1.00, 1.06, 1.02)), 2.0);
  EXPECT_EQ(value_of(profile, timed(1.00, 1.50, 1.06)), 3.0);
  EXPECT_EQ(value_of(profile, timed(1.00, 1.05, 1.05)), 1.0);  // A border is not past it.
}

TEST(SpeedTiersProfileTest, IsMaskedWhereTorchCompileWasNotTimed) {
  const RewardValue reward = Profile::find("speed-tiers").reward(timed(1, 2));
  EXPECT_EQ(reward.value, std::nullopt);
  EXPECT_THAT(reward.why, HasSubstr("torch.compile"));
}

// d = log2 1.05 = 0.070389; 2×: 1 + (1 − 0.070389)/4; ½×: 1 − (1 − 0.070389)/4; 3 % faster: 1; 64×: 1 + 2/4.
TEST(LogSpeedProfileTest, IsSymmetricBoundedAndBlindInItsDeadZone) {
  const Profile profile = Profile::find("log-speed");
  EXPECT_NEAR(value_of(profile, timed(1, 2, 2)), 1.232403, 1e-6);
  EXPECT_NEAR(value_of(profile, timed(2, 1, 1)), 0.767597, 1e-6);
  EXPECT_EQ(value_of(profile, timed(1.00, 1.03, 1.03)), 1.0);
  EXPECT_EQ(value_of(profile, timed(1, 64, 64)), 1.5);
  EXPECT_EQ(value_of(profile, timed(64, 1, 1)), 0.5);
  EXPECT_EQ(value_of(profile, timed(1, 64, 1)), 1.0);  // The better of the two baselines counts.
}

// An interval from 1.75 to 2.25 has half a width of log2(2.25/1.75)/2 = 0.181285, three of which are 0.543855.
TEST(LogSpeedProfileTest, AnUncertainMeasurementWidensTheDeadZone) {
  Verdict verdict = timed(1, 2, 2);
  verdict.timing->interval = std::pair(1.75, 2.25);
  EXPECT_NEAR(value_of(Profile::find("log-speed"), verdict), 1 + (1 - 0.543855) / 4, 1e-6);
}

// Runs but wrong 0.1; right 0.3; 1.5× 0.3 + 0.5; 9× 0.3 + 2.
TEST(StepwiseProfileTest, PaysForEachStep) {
  const Profile profile = Profile::find("stepwise");
  EXPECT_DOUBLE_EQ(value_of(profile, with_reason(Reason::kWrongValues)), 0.1);
  EXPECT_DOUBLE_EQ(value_of(profile, with_reason(Reason::kCompileFailed)), 0.1);
  EXPECT_EQ(value_of(profile, with_reason(Reason::kRunRaised)), 0.0);
  EXPECT_DOUBLE_EQ(value_of(profile, timed(2, 3)), 0.8);
  EXPECT_DOUBLE_EQ(value_of(profile, timed(1, 9)), 2.3);
  EXPECT_DOUBLE_EQ(value_of(profile, timed(2, 1)), 0.3);
}

TEST(StepwiseProfileTest, PaysNothingForPretending) {
  const Profile profile = Profile::find("stepwise");
  EXPECT_EQ(value_of(profile, refused_by_rule()), 0.0);
  for (const Reason reason : {Reason::kKernelKnockout, Reason::kTorchKnockout, Reason::kNoLaunch,
                              Reason::kStorageOrigin, Reason::kProtocolViolation})
    EXPECT_EQ(value_of(profile, with_reason(reason)), 0.0) << verify::info(reason).id;
}

// Two of three demands: 0.1 · 2/3 beside a right answer's 1.
TEST(FormatProfileTest, PaysForTheShareOfTheDemandsThatAReplyMeets) {
  const Profile profile = Profile::find("format");
  Verdict verdict = accepted();
  EXPECT_EQ(value_of(profile, verdict), 1.0);  // Plain source has no form.
  using Reasoning = tasks::ReplyForm::Reasoning;
  verdict.form = {.reasoning = Reasoning::kClosed, .fenced_blocks = 1, .fences_closed = true};
  EXPECT_DOUBLE_EQ(value_of(profile, verdict), 1.1);
  verdict.form->fenced_blocks = 2;
  EXPECT_DOUBLE_EQ(value_of(profile, verdict), 1 + 0.1 * 2 / 3);
  verdict.form->reasoning = Reasoning::kOpen;
  verdict.form->fences_closed = false;
  EXPECT_EQ(value_of(profile, verdict), 1.0);
}

TEST(TimedTermsTest, WithoutTimingAnAcceptedAnswerIsMaskedAndARejectedOneIsNot) {
  const Profile profile = Profile::find("log-speed");
  EXPECT_TRUE(profile.needs_timing());
  EXPECT_THAT(profile.warning_without_timing().value_or(""), HasSubstr("nothing is left to learn from"));
  const RewardValue reward = profile.reward(accepted());
  EXPECT_EQ(reward.value, std::nullopt);
  EXPECT_THAT(reward.why, HasSubstr("needs timing"));
  EXPECT_EQ(value_of(profile, with_reason(Reason::kWrongValues)), 0.0);
}

TEST(TimedTermsTest, WithoutTimingCorrectnessCanBeWhatIsLeft) {
  const Profile profile = Profile::find("stepwise");
  EXPECT_THAT(profile.warning_without_timing().value_or(""), HasSubstr("left out here"));
  const RewardValue reward = profile.reward(accepted());
  EXPECT_DOUBLE_EQ(reward.value.value_or(-1), 0.1 + 0.2);
  EXPECT_THAT(reward.why, HasSubstr("without `speedup`"));
  EXPECT_EQ(reward.terms.count("speedup"), 0U);
}

TEST(TimedTermsTest, ATimeThatIsNoTimeCountsAsMissing) {
  for (const double candidate_ms : {0.0, -1.0, std::nan("")})
    EXPECT_EQ(Profile::find("dr-kernel").reward(timed(candidate_ms, 1)).value, std::nullopt) << candidate_ms;
}

TEST(BoundsTest, KeepTheSumWithinThem) {
  const std::string term = "[[reward.term]]\nkind = \"correct\"\nweight = 5\n";
  EXPECT_EQ(value_of(with_terms("[reward]\nmax = 2\n" + term), accepted()), 2.0);
  EXPECT_EQ(value_of(with_terms("[reward]\nmin = 0.5\n" + term), refused_by_rule()), 0.5);
}

TEST(SetRewardTest, PutsRewardTermsAndTheProfilesLabelIntoTheVerdict) {
  Verdict verdict = accepted();
  Profile::paper().set_reward(verdict);
  EXPECT_EQ(verdict.reward, 1.0);
  EXPECT_TRUE(verdict.reward_terms.empty());
  EXPECT_EQ(verdict.environment["profile"], "paper");
  Profile::find("stepwise").set_reward(verdict);
  EXPECT_DOUBLE_EQ(verdict.reward.value_or(-1), 0.3);
  EXPECT_EQ(verdict.reward_terms.size(), 2U);
  Profile::find("log-speed").set_reward(verdict);
  EXPECT_EQ(verdict.reward, std::nullopt);
  EXPECT_THAT(verdict.notes, testing::Contains(HasSubstr("needs timing")));
}

TEST(VerifyTableTest, ChangesWhatItNamesAndNothingElse) {
  verify::VerifyOptions options;
  options.capability = 80;
  const std::string term = "[[reward.term]]\nkind = \"correct\"\n";
  with_terms(term).apply(options);
  EXPECT_EQ(options.capability, 80);
  EXPECT_EQ(options.trials, 7);
  with_terms(
      "[verify]\ntorch_compute = \"report\"\ntrials = 3\ntarget = \"sm_89\"\nshapes = \"scaled\"\n"
      "require_sandbox = true\nmax_elements = 20000\n[verify.budgets]\nrun = 5\n" +
      term)
      .apply(options);
  EXPECT_EQ(options.torch_compute, verify::TorchCompute::kReport);
  EXPECT_EQ(options.trials, 3);
  EXPECT_EQ(options.capability, 89);
  EXPECT_EQ(options.shapes, verify::Shapes::kScaled);
  EXPECT_TRUE(options.require_sandbox);
  EXPECT_EQ(options.max_elements, 20000);
  EXPECT_EQ(options.budgets.run, 5);
  EXPECT_EQ(options.budgets.load, verify::Budgets().load);
}

TEST(ProfileErrorTest, NamesFileLineAndWhatToDo) {
  const std::string term = "[[reward.term]]\nkind = \"correct\"\n";
  EXPECT_THAT(error_of(term + "wieght = 2\n"), HasSubstr("mine.toml:3: there is no key `wieght` in [[reward.term]]; "
                                                         "the keys here are `kind`, `name`, `weight`"));
  EXPECT_THAT(error_of("[verify]\ntrials = 0\n" + term), HasSubstr("mine.toml:2: `trials` of [verify] is 0; write a "
                                                                   "number from 1 to 64"));
  EXPECT_THAT(error_of("[verify]\ntrials = 2.5\n" + term), HasSubstr("mine.toml:2: `trials` of [verify] is not a "
                                                                     "whole number"));
  EXPECT_THAT(error_of("[verify]\ntorch_compute = \"allow\"\n" + term), HasSubstr("cannot be `allow`; choose from "
                                                                                  "`refuse`, `report`"));
  EXPECT_THAT(error_of("[verify]\ntarget = \"H100\"\n" + term), HasSubstr("sm_80"));
  EXPECT_THAT(error_of("[verify]\nrequire_sandbox = 1\n" + term), HasSubstr("neither true nor false"));
  EXPECT_THAT(error_of("[verify.budgets]\nrunn = 1\n" + term), HasSubstr("mine.toml:2: there is no stage `runn`"));
  EXPECT_THAT(error_of("[verify]\nseed = 1\n" + term), HasSubstr("no key `seed` in [verify]"));
  EXPECT_THAT(error_of("[[reward.term]]\nkind = \"corect\"\n"), HasSubstr("mine.toml:2: there is no kind"));
  EXPECT_THAT(error_of("[[reward.term]]\nweight = 1\n"), HasSubstr("mine.toml:1: a term has no `kind`"));
  EXPECT_THAT(error_of("[[reward.term]]\nkind = \"correct\"\nweight = nan\n"), HasSubstr("mine.toml:3"));
  EXPECT_THAT(error_of(term + term), HasSubstr("mine.toml:3: two terms are called `correct`"));
  EXPECT_THAT(error_of("[reward]\nmin = 1\nmax = 0\n" + term), HasSubstr("`min` is not below `max`"));
  EXPECT_THAT(error_of("[reward]\nwithout_timing = 3\n" + term), HasSubstr("is not text; choose from `mask`"));
  EXPECT_THAT(error_of("a = [\n"), HasSubstr("mine.toml:"));
  EXPECT_THAT(error_of("description = \"x\"\n"), HasSubstr("no table [reward]"));
  EXPECT_THAT(error_of("[reward]\nmin = 0\n"), HasSubstr("mine.toml:1: there is no `term` of [reward]"));
  EXPECT_THAT(error_of("reward = 3\n"), HasSubstr("mine.toml:1: `reward` of the profile is not a table"));
  EXPECT_THAT(error_of("[[reward.term]]\nkind = \"coverage\"\nfrom = 0.5\nfull = 0.5\n"), HasSubstr("not below"));
  EXPECT_THAT(error_of("[[reward.term]]\nkind = \"speed_tiers\"\ntiers = [1]\n"), HasSubstr("mine.toml:3"));
  EXPECT_THAT(error_of("[[reward.term]]\nkind = \"format\"\nrequire = [\"short\"]\n"), HasSubstr("cannot be `short`"));
  EXPECT_THAT(error_of("[[reward.term]]\nkind = \"format\"\n"),
              HasSubstr("`require` of [[reward.term]] is not a list"));
  EXPECT_EQ(error_of(term), "no error");
}

TEST(ProfileErrorTest, FindTellsANameFromAFile) {
  EXPECT_THROW(Profile::find("papr"), UserError);
  EXPECT_THROW(Profile::find("./papr"), UserError);
  const auto path = std::filesystem::temp_directory_path() / ("profile_test_" + std::to_string(::getpid()) + ".toml");
  write_file_atomically(path, "[[reward.term]]\nkind = \"wrong\"\nweight = -2\n");
  const Profile profile = Profile::find(path.string());
  std::filesystem::remove(path);
  EXPECT_EQ(value_of(profile, refused_by_rule()), -2.0);
  EXPECT_THAT(profile.label(), HasSubstr("profile_test_"));
  EXPECT_THAT(profile.label(), HasSubstr("@"));
}

}  // namespace
}  // namespace autotriton::reward
