#include <algorithm>

#include "verify/judgement.h"

namespace autotriton::verify {

/// Starts the compiles at the task's own sizes and at those that run; most answers that pass one trial pass them all.
std::optional<Conclusion> Judgement::begin_compiling() {
  if (compiling_begun_) return std::nullopt;
  compiling_begun_ = true;
  std::vector<std::string> variants{"original"};
  // What is interpreted must compile too: at other sizes the answer may take other kernels, or other constants.
  if (main_variant_ != "original") variants.push_back(main_variant_);
  for (const std::string& variant : variants) {
    ShapesOnly shapes;
    if (auto problem = oracle().shapes(variant, shapes)) return from(*problem);
    if (!shapes.known) break;
    compiling_.push_back(
        std::async(std::launch::async, [this, shapes = std::move(shapes)] { return compile_once(shapes, nullptr); }));
  }
  return std::nullopt;
}

std::optional<Conclusion> Judgement::finish_compiling() {
  if (auto ended = begin_compiling()) return ended;
  std::vector<std::future<CompileAnswer>> running = std::move(compiling_);
  for (std::future<CompileAnswer>& answer : running) {
    if (auto ended = take_over(answer.get())) return ended;
  }
  // A kernel that only other sizes call for compiles at those.
  for (const Variant& variant : oracle().variants()) {
    if (kernel_not_compiled().empty()) return std::nullopt;
    if (variant.name == "original" || variant.name == main_variant_) continue;
    ShapesOnly shapes;
    if (auto problem = oracle().shapes(variant.name, shapes)) return from(*problem);
    if (!shapes.known) break;
    if (auto ended = take_over(compile_once(shapes, nullptr))) return ended;
  }
  if (kernel_not_compiled().empty()) return std::nullopt;
  // Some kernel was not reached without memory: once more at the sizes that ran, with real tensors.
  ModelSetup setup;
  if (auto ended = init(main_variant_, setup)) return ended;
  TrialSetup trial;
  if (auto problem = oracle().trial(main_variant_, 0, "plain", draw(), trial)) return from(*problem);
  const ShapesOnly real{.known = true, .arguments = setup.arguments, .inputs = trial.arguments.json};
  if (auto ended = take_over(compile_once(real, &setup))) return ended;
  const std::string missing = kernel_not_compiled();
  if (missing.empty()) return std::nullopt;
  if (host_code_broken_) {
    return Conclusion{Reason::kCompileFailed, "outside of the interpreter the answer fails before `" + missing +
                                                  "` is launched: " + compile_stopped_};
  }
  return Conclusion{Reason::kCompileUndecided,
                    "`" + missing + "` was not reached" + (compile_stopped_.empty() ? "" : ": " + compile_stopped_)};
}

/// Runs in a thread of its own: touches nothing that changes. Without `setup` tensors have shapes and no memory.
Judgement::CompileAnswer Judgement::compile_once(const ShapesOnly& shapes, const ModelSetup* setup) const {
  const auto start = Clock::now();
  const auto deadline = after(options_.budgets.compile);
  const auto work = [&]() -> CandidateClient::Result<CompileResult> {
    CandidateClient compiler(server_, execution::JobMode::kCompile, spec_);
    auto loaded = compiler.load(deadline);
    if (auto* failure = std::get_if<CandidateFailure>(&loaded)) return std::move(*failure);
    auto constructed =
        setup != nullptr ? compiler.construct(*setup, deadline) : compiler.construct_shapes(shapes, false, deadline);
    if (auto* failure = std::get_if<CandidateFailure>(&constructed)) return std::move(*failure);
    return compiler.compile(shapes.inputs, setup == nullptr, deadline);
  };
  CompileAnswer answer{.result = work()};
  answer.seconds = seconds_since(start);
  return answer;
}

/// Takes over what compiled; a kernel that does not compile concludes.
std::optional<Conclusion> Judgement::take_over(const CompileAnswer& answer) {
  verdict_.cost["compile"] += answer.seconds;
  if (const auto* failure = std::get_if<CandidateFailure>(&answer.result)) {
    killed_ = killed_ || failure->killed;
    if (info(failure->reason).fault == Fault::kOurs || failure->interrupted) return from(*failure);
    compile_stopped_ = at_line(*failure);
    if (failure->reason == Reason::kImportRaised || failure->reason == Reason::kConstructRaised)
      host_code_broken_ = true;
    return std::nullopt;
  }
  const auto& result = std::get<CompileResult>(answer.result);
  for (const CompiledSpecialisation& kernel : result.kernels) {
    if (kernel.message.find("`ptxas` failed with error code -9") != std::string::npos) {  // SIGKILL
      killed_ = true;
      return Conclusion{Reason::kCompileUndecided, "the compiler of `" + kernel.kernel + "` was killed"};
    }
    if (!kernel.problem.empty()) {
      const Reason reason = kernel.problem == "target-limits" ? Reason::kTargetLimits : Reason::kCompileFailed;
      return Conclusion{reason,
                        "the launch of `" + kernel.kernel + "` (" + kernel.resources.target + "): " + kernel.message};
    }
    compiled_.push_back(kernel.kernel);
    for (Launch& launch : verdict_.launches) {
      if (launch.kernel == kernel.kernel &&
          (!launch.compiled || launch.compiled->shared_bytes < kernel.resources.shared_bytes)) {
        launch.compiled = kernel.resources;
      }
    }
  }
  if (!result.error.empty()) {
    compile_stopped_ = place(result.line) + result.error;
    host_code_broken_ = result.exception == "NameError" || result.exception == "ImportError" ||
                        result.exception == "ModuleNotFoundError";
  }
  return std::nullopt;
}

/// The first kernel that was launched in a trial and has not been compiled; empty if there is none.
std::string Judgement::kernel_not_compiled() const {
  for (const Launch& launch : verdict_.launches) {
    if (std::find(compiled_.begin(), compiled_.end(), launch.kernel) == compiled_.end()) return launch.kernel;
  }
  return {};
}

}  // namespace autotriton::verify
