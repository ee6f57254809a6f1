#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace autotriton::verify {

enum class Outcome : std::uint8_t { kAccept, kReject, kInconclusive, kError };
enum class Stage : std::uint8_t { kExtract, kRules, kLoad, kRun, kCompare, kCompile, kAuthorship, kTiming };

/// Why a verdict is what it is, in the order in which the stages can give it. A refusal by a rule is kRule: its id is
/// the rule's (`autotriton rules list`). Logs, JSON, docs/verdict.md and tests all read the table in reason.cpp.
enum class Reason : std::uint8_t {
  kAllEvidence,
  // extract
  kEmptyAnswer,
  kNoCode,
  kNotText,
  kTooLarge,
  kSyntaxError,
  kEntryMissing,
  // rules
  kRule,
  // load
  kImportRaised,
  kConstructRaised,
  kLoadTimeout,
  kExitedEarly,
  // run
  kRunRaised,
  kRunTimeout,
  kOutOfBounds,
  kCrashed,
  kMemoryExceeded,
  kProtocolViolation,
  // compare
  kWrongStructure,
  kWrongShape,
  kWrongDtype,
  kWrongValues,
  kWrongNonfinite,
  kWrongDevice,
  kInputMutated,
  kInputAliased,
  kOrderDependent,
  kRacyStore,
  kAutotuneTrials,
  kFalseHint,
  // compile
  kCompileFailed,
  kTargetLimits,
  // authorship
  kNoLaunch,
  kKernelKnockout,
  kTorchKnockout,
  kStorageOrigin,
  kStorageChanged,
  // inconclusive
  kShapeSpecialised,
  kWeightsUnmatched,
  kTaskDegenerate,
  kTaskTooLarge,
  kTaskUnsupported,
  kInterpreterGap,
  kInterpreterTimeout,
  kCompileUndecided,
  // error: the input's
  kProblemUnreadable,
  kProblemInvalid,
  kReferenceFailed,
  kLineUnreadable,
  // error: ours
  kWorkerLost,
  kSandboxMissing,
  kDiskFull,
  kInternal,
};

/// Whose fault an outcome is; decides the exit code of an error and who is to mend it.
enum class Fault : std::uint8_t { kNobody, kCandidate, kMode, kInput, kOurs };

struct ReasonInfo {
  Reason reason;
  std::string_view id;
  Stage stage;
  Outcome outcome;
  Fault fault;
  std::string_view explanation;  ///< What happened, for anyone.
  std::string_view remedy;       ///< What to change.
};

std::span<const ReasonInfo> all_reasons();
const ReasonInfo& info(Reason reason);
std::optional<Reason> reason_from_id(std::string_view id);

std::string_view outcome_name(Outcome outcome);
std::string_view stage_name(Stage stage);

}  // namespace autotriton::verify
