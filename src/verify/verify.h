#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "execution/fork_server.h"
#include "tasks/task.h"
#include "verify/oracle_client.h"
#include "verify/verdict.h"

/// The verifier: a task and an answer in, a verdict out.
///
///     execution::ForkServer server({...});
///     Verifier verifier(server, {.trials = 7});
///     const Verdict verdict = verifier.verify({.task = task, .text = code});
namespace autotriton::verify {

/// Seconds that a stage may take, whole answer.
struct Budgets {
  double load = 20;
  double run = 60;
  double compile = 90;
  double authorship = 60;
  double oracle = 30;  ///< One run of the reference.

  /// Sets one by its name. False if there is no such stage.
  bool set(std::string_view stage, double seconds);
  static std::string names();  ///< "load, run, …", for messages.
  /// The stages whose budget is not the default.
  std::vector<std::pair<std::string, double>> changed() const;
};

/// What PyTorch's own computation on the path means: a refusal, or a note for answers that may leave part of the work
/// to it.
enum class TorchCompute { kRefuse, kReport };

class VerdictCache;

/// What a new option changes in a verdict must change the cache's key too (verdict_cache.cpp).
struct VerifyOptions {
  std::optional<std::uint64_t> seed{};  ///< For replay; else from the system's random source, anew for each answer.
  int trials = 7;
  Shapes shapes = Shapes::kBoth;
  int capability = 90;  ///< Of the GPU that is compiled for: 80, 90 …
  Budgets budgets{};
  bool require_sandbox = false;
  TorchCompute torch_compute = TorchCompute::kRefuse;
  bool skip_rules = false;                ///< Only for testing the sandbox: hostile code then reaches it.
  std::filesystem::path keep{};           ///< Where what a replay needs is written; empty for nowhere.
  std::shared_ptr<VerdictCache> cache{};  ///< Asked first, unless a seed is given; may be null.
  std::int64_t max_elements = 60'000;     ///< Inputs, outputs and weights that the interpreter is asked to handle.
};

struct VerifyRequest {
  std::string id;
  std::shared_ptr<const tasks::Task> task;
  std::string text;
  bool raw_answer = false;  ///< `text` is a model's reply, from which code is extracted first.
};

/// Verifies one answer after the other; keeps the oracle while the task stays the same. Not thread-safe: one a thread.
class Verifier {
 public:
  Verifier(execution::ForkServer& server, VerifyOptions options);
  Verifier(Verifier&&) noexcept;
  ~Verifier();

  /// Whatever the request holds is a verdict, a fault of ours too. Throws UserError only where the set-up is wrong (no
  /// Python, no way to confine, no memory files left).
  Verdict verify(const VerifyRequest& request);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// What the static half hands on.
struct StaticResult {
  bool passed = false;  ///< False: `verdict` is concluded.
  std::string code;
  std::vector<std::size_t>
      answer_lines;  ///< For each line of `code`, its line in a raw answer; empty for plain source.
};

/// Extraction, parsing and rules; starts no process. Fills `verdict`'s findings, and concludes it where the answer is
/// refused.
StaticResult judge_source(const VerifyRequest& request, const VerifyOptions& options, Verdict& verdict);

/// "line 12", with the answer's own line where code was taken out of a reply: "line 12 (line 40 of the reply)".
std::string line_text(int line, const std::vector<std::size_t>& answer_lines);

}  // namespace autotriton::verify
