#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tasks/answer.h"
#include "verify/reason.h"

namespace autotriton::verify {

/// How strong the evidence is: the source alone, the interpreter and a compile, or a GPU.
enum class Grade : std::uint8_t { kStatic, kCpu, kGpu };
std::string_view grade_name(Grade grade);

struct Finding {
  std::string rule;
  std::string level;  ///< reject, suspicious, note
  int line = 0;
  int column = 0;
  std::string message;
};

struct TrialInput {
  std::vector<std::int64_t> shape;
  std::string dtype;
  std::string distribution;  ///< plain, shifted, scaled, heavy-tailed, half-zero, far, tiny
};

/// One run on secret inputs and what came of it.
struct Trial {
  std::vector<TrialInput> inputs;
  bool scaled = false;
  std::string autotune_config;  ///< Empty: not autotuned.
  double max_abs_error = 0;
  double max_rel_error = 0;  ///< Where the expected value is above the absolute tolerance.
  double tolerance = 0;      ///< Absolute part, of the leaf with the largest error.
  double relative_tolerance = 0;
  bool pass = false;
  std::string failure;  ///< A sentence; empty if it passed.
  std::uint64_t seed = 0;
};

struct CompiledKernel {
  std::string target;  ///< sm_90
  int shared_bytes = 0;
  int registers = 0;
  int spills = 0;  ///< Bytes of local memory a thread.
};

struct Launch {
  std::string kernel;
  int count = 0;
  std::vector<std::int64_t> grid;
  std::optional<CompiledKernel> compiled;
};

/// What the three proofs found; empty: not reached.
struct Authorship {
  std::string kernel_knockout;  ///< "outputs became wrong", "survived" …
  std::string torch_knockout;
  std::string storage_ledger;
  std::vector<std::string> torch_ops;
  /// Share of the computing that PyTorch did, from 0 to 1, where the options ask for a report of it; else empty.
  std::optional<double> torch_share;
};

/// What was measured on a GPU, in milliseconds a call.
struct Timing {
  double candidate_ms = 0;
  double eager_ms = 0;               ///< The reference as it is.
  std::optional<double> compile_ms;  ///< The reference under torch.compile; empty: not timed.
  /// Bounds of the speed-up over eager, at 95 % confidence.
  std::optional<std::pair<double, double>> interval;

  double speedup() const { return eager_ms / candidate_ms; }
};

struct Sandbox {
  std::vector<std::string> obtained;
  std::vector<std::string> missing;
};

/// The judgement of one answer; schema `autotriton.verdict/1`, described in docs/verdict.md.
struct Verdict {
  std::string id;
  std::string task_id;
  std::string candidate_sha256;
  Outcome outcome = Outcome::kError;  ///< Never accept by default.
  Reason reason = Reason::kInternal;
  std::string reason_id = "internal";  ///< The table's id, or the rule's for Reason::kRule.
  Stage stage = Stage::kRun;
  std::string message;  ///< What, where, what to do; for a person, no code parses it.
  Grade grade = Grade::kStatic;
  std::optional<double> reward;  ///< 1, 0, or empty where the sample must be masked.
  /// What the reward is the sum of, where a profile other than the paper's made it.
  std::map<std::string, double> reward_terms;
  bool is_triton = false;
  bool tests_pass = false;
  std::vector<Finding> findings;
  std::vector<Trial> trials;
  std::vector<Launch> launches;
  Authorship authorship;
  std::optional<tasks::ReplyForm> form;  ///< Of a raw reply; empty for plain source.
  Sandbox sandbox;
  std::optional<Timing> timing;        ///< Empty: not timed.
  std::map<std::string, double> cost;  ///< Seconds a stage.
  std::map<std::string, std::string> environment;
  std::vector<std::string> notes;

  /// Sets outcome, reason and stage from the table, and the reward that follows.
  void conclude(Reason why, std::string text);
  /// The same for a rule's refusal.
  void conclude_by_rule(std::string rule, std::string text);
};

/// One JSON object on one line.
std::string to_json(const Verdict& verdict);

/// Reads what `to_json` wrote; empty where `line` is anything else.
std::optional<Verdict> verdict_from_json(std::string_view line);

/// Several lines for a terminal.
std::string to_text(const Verdict& verdict, bool colour);

/// The exit code of a single verdict: 0, 1, 2 (input at fault), 3, 4.
int exit_code(const Verdict& verdict);

/// docs/verdict.md: the schema, the exit codes and the table of reasons.
std::string reference_page();

}  // namespace autotriton::verify
