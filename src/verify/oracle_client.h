#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "execution/fork_server.h"
#include "tasks/task.h"
#include "verify/reason.h"
#include "verify/thresholds.h"
#include "verify/verdict.h"

/// The trusted side of a verification: asks the oracle process for inputs, tolerances' ingredients and comparisons.
namespace autotriton::verify {

enum class Shapes : std::uint8_t { kOriginal, kScaled, kBoth };

/// The task at one set of sizes.
struct Variant {
  std::string name;  ///< original, scaled, stretched-1 …
  std::int64_t elements = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> sizes;  ///< What became of each size that was scaled.
};

/// Values described in JSON, with their bytes in a memory file; opaque to everyone but the workers.
struct Payload {
  std::string json;
  execution::UniqueFd memory;
};

struct ModelSetup {
  std::string arguments;  ///< JSON
  std::string weights;    ///< JSON
  execution::UniqueFd memory;
  std::uint64_t seed = 0;
  bool evaluation = false;
};

/// `run` is for random numbers that reference and answer draw alike, so the answer is told it; `inputs` stays secret.
struct TrialSeeds {
  std::uint64_t inputs = 0;
  std::uint64_t run = 0;
};

struct TrialSetup {
  Payload arguments;
  std::string inputs;  ///< The distribution that was used in the end.
  std::vector<TrialInput> shapes;
  std::vector<LeafStatistics> leaves;
  bool exact = false;        ///< The float64 run of the reference worked.
  std::vector<int> aliases;  ///< Inputs whose memory an output of the reference shares.
};

struct ShapesOnly {
  bool known = false;
  std::string arguments;
  std::string inputs;
};

/// The task cannot be judged, or the oracle failed.
struct OracleProblem {
  Reason reason = Reason::kWorkerLost;
  std::string message;
  bool interrupted = false;
};

/// Requests of several threads are taken one after the other. After any OracleProblem with kWorkerLost the client is
/// dead: make a new one.
class OracleClient {
 public:
  /// `seconds` bounds each single run of the reference.
  OracleClient(execution::ForkServer& server, int capability, double seconds);
  /// On a job that runs already, for tests.
  OracleClient(execution::Job job, double seconds) : job_(std::move(job)), seconds_(seconds) {}

  std::optional<OracleProblem> open(const tasks::Task& task, std::int64_t max_elements, Shapes shapes);
  const std::vector<Variant>& variants() const { return variants_; }
  const Variant* variant(std::string_view name) const;

  std::optional<OracleProblem> init(const std::string& variant, std::uint64_t seed, std::uint64_t weight_seed,
                                    ModelSetup& setup);
  std::optional<OracleProblem> trial(const std::string& variant, int index, const std::string& inputs, TrialSeeds seeds,
                                     TrialSetup& setup);
  std::optional<OracleProblem> shapes(const std::string& variant, ShapesOnly& shapes);

  /// Compares outputs (their JSON description and memory file) with trial `index`.
  std::optional<OracleProblem> compare(int index, const std::vector<Tolerance>& tolerances, const std::string& outputs,
                                       const std::string& inputs_after, const execution::UniqueFd& memory,
                                       Comparison& comparison);
  /// Compares what a lazy answer would return: zeros, mean, input, other-inputs, other-weights.
  std::optional<OracleProblem> compare_stand_in(int index, const std::vector<Tolerance>& tolerances,
                                                const std::string& subject, Comparison& comparison);

  const execution::SandboxReport& sandbox() const { return job_.sandbox(); }

 private:
  std::optional<OracleProblem> ask(const std::string& request, const std::vector<int>& descriptors,
                                   const char* expected, std::string& reply);
  /// Hands the parsed reply to `take`; what it misses there is a fault of the oracle.
  template <typename Read>
  std::optional<OracleProblem> read(const std::string& reply, Read take) const;

  std::mutex mutex_;  ///< One request at a time.
  execution::Job job_;
  double seconds_;
  std::vector<Variant> variants_;
};

}  // namespace autotriton::verify
