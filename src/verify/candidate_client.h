#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "execution/fork_server.h"
#include "verify/oracle_client.h"

/// The untrusted side: one confined process that runs an answer, and what it claims.
namespace autotriton::verify {

/// A phase that did not end as it should.
struct CandidateFailure {
  Reason reason = Reason::kRunRaised;
  std::string message;
  int line = 0;             ///< Of the answer's code; 0: not known.
  std::string exception{};  ///< Python class, if one was raised.
  bool interrupted = false;
  bool killed = false;  ///< By a SIGKILL that is not ours: the kernel's when memory is short, or somebody's.
};

struct Loaded {
  /// Of a script: elements by kind of access (load, store, atomic) that lay outside of every tensor and were left out.
  std::map<std::string, std::int64_t> strayed;
};

struct Constructed {
  int by_name = 0;
  int by_shape = 0;
  std::vector<std::string> unmatched;           ///< The reference's parameters that found no counterpart.
  std::vector<std::string> unmatched_constant;  ///< Of these, the ones that were constant before they were redrawn.
};

struct Violation {
  std::string reason;
  std::string message;
};

/// How one run differs from another that gets the same inputs. A kernel that is right must not notice.
struct RunHow {
  enum class Order : std::uint8_t { kNatural, kReversed, kShuffled };

  int config = 0;                 ///< Which of the autotuner's configurations, counted round.
  Order order = Order::kNatural;  ///< Of a launch's programs. Where they wait for others the natural one is kept.
  std::string only_kernel{};      ///< The one whose programs are reordered; empty: all.
  bool trial_runs = false;        ///< An autotuned launch runs another configuration first, as a GPU's tuner would.
  bool watch_races = false;       ///< Look for conflicts between lanes and between programs.
  bool check_hints = false;       ///< Hold `tl.multiple_of` to its word: only where the sizes are the task's own.
  bool report_torch = false;      ///< Torch's own computing is measured (`torch_share`), not a violation.

  /// Whether another run of the same inputs could end otherwise for these reasons alone.
  bool unusual() const { return order != Order::kNatural || trial_runs; }
};

struct RunResult {
  std::string outputs;       ///< JSON, checked for form.
  std::string inputs_after;  ///< JSON; empty if the inputs are as they were.
  execution::UniqueFd memory;
  std::vector<int> aliases;  ///< Inputs whose memory an output shares.
  std::vector<Launch> launches;
  std::vector<Violation> violations;
  std::vector<std::string> torch_ops;
  std::string copied;  ///< Says that glue made all that was returned and kernels only copied it; else empty.
  int configs = 1;     ///< Autotune configurations that the answer's kernels have.
  std::string config;
  std::vector<std::string> in_order;  ///< Kernels whose programs wait for others.
  double torch_share = 0;             ///< Of all elements that were computed: what torch made, not the kernels; 0 to 1.
};

struct CompiledSpecialisation {
  std::string kernel;
  std::string problem;  ///< "", compile-failed, target-limits
  std::string message;
  CompiledKernel resources;
};

struct CompileResult {
  std::vector<CompiledSpecialisation> kernels;
  std::vector<std::string> launched;
  std::string error;  ///< What stopped the entry point, if anything.
  std::string exception;
  int line = 0;
};

/// What every answer of a task has in common.
struct CandidateSpec {
  std::string source;
  std::string entry;
  bool module = true;   ///< The entry point is a class, else a function.
  bool script = false;  ///< No entry point: `load` runs the whole file, calls and all.
  int capability = 90;
};

class CandidateClient {
 public:
  CandidateClient(execution::ForkServer& server, execution::JobMode mode, const CandidateSpec& spec);
  /// On a job that runs already, for tests.
  CandidateClient(execution::Job job, const CandidateSpec& spec) : spec_(spec), job_(std::move(job)) {}

  using Deadline = std::chrono::steady_clock::time_point;
  template <typename T>
  using Result = std::variant<T, CandidateFailure>;

  Result<Loaded> load(Deadline deadline);
  Result<Constructed> construct(const ModelSetup& setup, Deadline deadline);
  /// With shapes only: the module is made of tensors without memory.
  Result<Constructed> construct_shapes(const ShapesOnly& shapes, bool evaluation, Deadline deadline);
  Result<RunResult> run(const Payload& arguments, const RunHow& how, std::uint64_t seed, Deadline deadline);
  Result<CompileResult> compile(const std::string& arguments, bool shapes_only, Deadline deadline);

  const execution::SandboxReport& sandbox() const { return job_.sandbox(); }

 private:
  Result<std::string> ask(const std::string& request, const std::vector<int>& descriptors, const char* expected,
                          Reason on_timeout, Deadline deadline);

  CandidateSpec spec_;
  execution::Job job_;
};

}  // namespace autotriton::verify
