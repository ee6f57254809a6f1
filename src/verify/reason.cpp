#include "verify/reason.h"

#include <array>

#include "base/error.h"

namespace autotriton::verify {
namespace {

using enum Reason;
using enum Stage;
using O = Outcome;
using F = Fault;

constexpr std::array kReasons{
    ReasonInfo{
        kAllEvidence, "all-evidence", kAuthorship, O::kAccept, F::kNobody,
        "Every output of every trial matched, every launch compiles for the target, and the kernels made the outputs.",
        ""},

    ReasonInfo{kEmptyAnswer, "empty-answer", kExtract, O::kReject, F::kCandidate, "The answer is empty.",
               "Write the code of the answer."},
    ReasonInfo{kNoCode, "no-code", kExtract, O::kReject, F::kCandidate, "The answer holds no code.",
               "Put the code in one ```python block after the reasoning."},
    ReasonInfo{kNotText, "not-text", kExtract, O::kReject, F::kCandidate, "The answer is not UTF-8 text.",
               "Write it as UTF-8."},
    ReasonInfo{kTooLarge, "too-large", kExtract, O::kReject, F::kCandidate,
               "The answer is larger than any kernel needs to be.", "Leave out what is not code."},
    ReasonInfo{kSyntaxError, "syntax-error", kExtract, O::kReject, F::kCandidate, "The code is not Python.",
               "Mend the line that is named; nothing is repaired here."},
    ReasonInfo{kEntryMissing, "entry-missing", kExtract, O::kReject, F::kCandidate,
               "The code does not define what the task asks for.",
               "Define the class or function of that name at the top level."},

    ReasonInfo{kRule, "rule", kRules, O::kReject, F::kCandidate,
               "A rule refused the code; the reason's id is the rule's.",
               "See `autotriton rules explain` for the rule."},

    ReasonInfo{kImportRaised, "import-raised", kLoad, O::kReject, F::kCandidate,
               "Importing the answer raised an exception.",
               "Mend the line that is named; importing must only define things."},
    ReasonInfo{kConstructRaised, "construct-raised", kLoad, O::kReject, F::kCandidate,
               "Constructing the answer's module raised an exception.",
               "Take the same constructor arguments as the reference."},
    ReasonInfo{kLoadTimeout, "load-timeout", kLoad, O::kReject, F::kCandidate,
               "Importing or constructing the answer took too long.",
               "Do no work at import; construct only parameters."},
    ReasonInfo{kExitedEarly, "exited-early", kLoad, O::kReject, F::kCandidate,
               "The answer's process ended by itself before there was any evidence.",
               "Do not exit; return the outputs."},

    ReasonInfo{kRunRaised, "run-raised", kRun, O::kReject, F::kCandidate, "Running the answer raised an exception.",
               "Mend the line that is named."},
    ReasonInfo{kRunTimeout, "run-timeout", kRun, O::kReject, F::kCandidate,
               "The answer ran past its time outside of any kernel's progress.",
               "Look for an endless loop, in the host code or in one program of a kernel."},
    ReasonInfo{kOutOfBounds, "out-of-bounds", kRun, O::kReject, F::kCandidate,
               "A kernel reached memory outside of every tensor.",
               "Mask every load and store; check the strides and the grid."},
    ReasonInfo{kCrashed, "crashed", kRun, O::kReject, F::kCandidate,
               "The answer's process was killed by a signal; an access outside of a buffer is the usual cause.",
               "Mask every load and store; check the strides and the grid."},
    ReasonInfo{kMemoryExceeded, "memory-exceeded", kRun, O::kReject, F::kCandidate,
               "The answer used more memory than a job may.", "Allocate only what the task needs."},
    ReasonInfo{kProtocolViolation, "protocol-violation", kRun, O::kReject, F::kCandidate,
               "The answer's process sent something that its worker never sends.",
               "Leave the process's descriptors alone."},

    ReasonInfo{kWrongStructure, "wrong-structure", kCompare, O::kReject, F::kCandidate,
               "The output is built otherwise than the reference's (tensor, tuple, dict, None, number).",
               "Return the same structure."},
    ReasonInfo{kWrongShape, "wrong-shape", kCompare, O::kReject, F::kCandidate,
               "An output has another shape than the reference's.", "Allocate the output in the reference's shape."},
    ReasonInfo{kWrongDtype, "wrong-dtype", kCompare, O::kReject, F::kCandidate,
               "An output has another dtype than the reference's.", "Return the dtype that the reference returns."},
    ReasonInfo{kWrongValues, "wrong-values", kCompare, O::kReject, F::kCandidate,
               "Values lie outside the task's tolerance.",
               "See the trial that failed: its inputs, the worst index, what was expected there."},
    ReasonInfo{kWrongNonfinite, "wrong-nonfinite", kCompare, O::kReject, F::kCandidate,
               "NaN or Inf stands where the reference has none, or is missing.",
               "Give masked loads an `other`; subtract the maximum before exp; mind empty rows."},
    ReasonInfo{kWrongDevice, "wrong-device", kCompare, O::kReject, F::kCandidate,
               "A tensor that would be on the CPU reaches a launch or is returned.",
               "Allocate with device=x.device, and leave results on the GPU."},
    ReasonInfo{kInputMutated, "input-mutated", kCompare, O::kReject, F::kCandidate,
               "The answer changed an input that the reference leaves alone.", "Write into a buffer of your own."},
    ReasonInfo{kInputAliased, "input-aliased", kCompare, O::kReject, F::kCandidate,
               "An output shares memory with an input, unlike the reference's.", "Return a buffer of your own."},
    ReasonInfo{kOrderDependent, "order-dependent", kCompare, O::kReject, F::kCandidate,
               "The outputs are right only when a launch's programs run one after the other in their order, which a "
               "GPU does not promise.",
               "Let programs write to places of their own, or combine results with atomics or in a second kernel."},
    ReasonInfo{kRacyStore, "racy-store", kCompare, O::kReject, F::kCandidate,
               "Two writers of one launch meet: lanes of one store write different values to one place, or a program "
               "reads what another one stores, without an atomic.",
               "Give each lane and program a place of its own, or use an atomic."},
    ReasonInfo{kAutotuneTrials, "autotune-trials", kCompare, O::kReject, F::kCandidate,
               "The autotuner's trial runs leave something behind, so the first result is wrong.",
               "Name what the kernel adds to in reset_to_zero=, and what it changes in restore_value=."},
    ReasonInfo{kFalseHint, "false-hint", kCompare, O::kReject, F::kCandidate,
               "`tl.multiple_of` promises the compiler a factor that a value does not have.",
               "Promise only what holds for each size."},

    ReasonInfo{kCompileFailed, "compile-failed", kCompile, O::kReject, F::kCandidate,
               "A launch does not compile for the target GPU.",
               "Mend the kernel line that is named; the interpreter is more lenient than the compiler."},
    ReasonInfo{kTargetLimits, "target-limits", kCompile, O::kReject, F::kCandidate,
               "A launch needs more than the target GPU has.",
               "Use smaller blocks or fewer stages, or a grid within the limits."},

    ReasonInfo{kNoLaunch, "no-launch", kAuthorship, O::kReject, F::kCandidate,
               "No kernel was launched while the answer ran.",
               "Launch a @triton.jit kernel that computes the outputs."},
    ReasonInfo{kKernelKnockout, "kernel-knockout", kAuthorship, O::kReject, F::kCandidate,
               "The outputs stayed right when every kernel stored garbage, so no kernel made them.",
               "Return what the kernels compute; remove decoys and fallbacks."},
    ReasonInfo{kTorchKnockout, "torch-knockout", kAuthorship, O::kReject, F::kCandidate,
               "PyTorch computed inside the entry point.",
               "Move the operator that is named into a kernel; only glue (allocation, views, copies) may stay."},
    ReasonInfo{kStorageOrigin, "storage-origin", kAuthorship, O::kReject, F::kCandidate,
               "A buffer appeared that no input, weight, glue operation or launch made.",
               "Allocate with torch and fill in kernels."},
    ReasonInfo{kStorageChanged, "storage-changed", kAuthorship, O::kReject, F::kCandidate,
               "Host code changed a buffer's contents behind torch's back.",
               "Change buffers only in kernels or by glue operations."},

    ReasonInfo{kShapeSpecialised, "shape-specialised", kCompare, O::kInconclusive, F::kMode,
               "The answer fails at scaled sizes and is right, or could be, at the task's own.",
               "Judge it on a GPU at the task's sizes, or make it general."},
    ReasonInfo{kWeightsUnmatched, "weights-unmatched", kLoad, O::kInconclusive, F::kMode,
               "The answer's parameters could not be matched with the reference's, and the outputs differ.",
               "Name parameters as the reference does, or create them in the same order and shapes."},
    ReasonInfo{kTaskDegenerate, "task-degenerate", kCompare, O::kInconclusive, F::kInput,
               "The task cannot tell right from wrong: a constant, its input or other inputs' output passes, or it "
               "stands at a cliff.",
               "Change or drop the task."},
    ReasonInfo{kTaskTooLarge, "task-too-large", kLoad, O::kInconclusive, F::kMode,
               "The task is too large for the interpreter and cannot be scaled down.", "Judge it on a GPU."},
    ReasonInfo{kTaskUnsupported, "task-unsupported", kLoad, O::kInconclusive, F::kMode,
               "The task uses something that this mode cannot judge.",
               "Judge it on a GPU, or with the benchmark's own harness."},
    ReasonInfo{kInterpreterGap, "interpreter-gap", kRun, O::kInconclusive, F::kMode,
               "A kernel uses something that Triton's interpreter cannot run.", "Judge it on a GPU."},
    ReasonInfo{kInterpreterTimeout, "interpreter-timeout", kRun, O::kInconclusive, F::kMode,
               "The kernels were making progress but not fast enough for the interpreter.",
               "Raise --budget run=SECONDS, or judge it on a GPU."},
    ReasonInfo{kCompileUndecided, "compile-undecided", kCompile, O::kInconclusive, F::kMode,
               "A launch could not be reached without running the kernels before it, so it was not compiled.",
               "Judge it on a GPU."},

    ReasonInfo{kProblemUnreadable, "problem-unreadable", kExtract, O::kError, F::kInput, "The problem cannot be read.",
               "Check the path and the encoding."},
    ReasonInfo{kProblemInvalid, "problem-invalid", kExtract, O::kError, F::kInput, "The problem is no problem.",
               "Define `Model` (or one function), `get_inputs` and `get_init_inputs`."},
    ReasonInfo{kReferenceFailed, "reference-failed", kLoad, O::kError, F::kInput, "The problem's own reference fails.",
               "Mend the reference; its traceback's end is in the message."},
    ReasonInfo{kLineUnreadable, "line-unreadable", kExtract, O::kError, F::kInput,
               "A line of the pairs file cannot be read.", "Mend the line that is named."},

    ReasonInfo{kWorkerLost, "worker-lost", kRun, O::kError, F::kOurs,
               "Our worker died twice under this answer: no score.", "Run it again; report it if it stays."},
    ReasonInfo{kSandboxMissing, "sandbox-missing", kLoad, O::kError, F::kOurs,
               "--require-sandbox was given and a confinement is missing.",
               "See `sandbox.missing`; run where namespaces and seccomp are allowed, or without the flag."},
    ReasonInfo{kDiskFull, "disk-full", kRun, O::kError, F::kOurs, "There was no room to write.",
               "Free space and run again."},
    ReasonInfo{kInternal, "internal", kRun, O::kError, F::kOurs, "The verifier failed.", "Report it with the message."},
};

}  // namespace

std::span<const ReasonInfo> all_reasons() { return kReasons; }

const ReasonInfo& info(Reason reason) {
  const auto index = static_cast<std::size_t>(reason);
  check(index < kReasons.size() && kReasons[index].reason == reason,
        "the table of reasons is in the order of the enum");
  return kReasons[index];
}

std::optional<Reason> reason_from_id(std::string_view id) {
  for (const ReasonInfo& entry : kReasons) {
    if (entry.id == id) return entry.reason;
  }
  return std::nullopt;
}

std::string_view outcome_name(Outcome outcome) {
  constexpr std::array<std::string_view, 4> kNames{"accept", "reject", "inconclusive", "error"};
  return kNames[static_cast<std::size_t>(outcome)];
}

std::string_view stage_name(Stage stage) {
  constexpr std::array<std::string_view, 8> kNames{"extract", "rules",   "load",       "run",
                                                   "compare", "compile", "authorship", "timing"};
  return kNames[static_cast<std::size_t>(stage)];
}

}  // namespace autotriton::verify
