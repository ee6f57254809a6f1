#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "execution/fork_server.h"
#include "verify/candidate_client.h"
#include "verify/oracle_client.h"
#include "verify/verify.h"

/// One answer on its way to a verdict. Private to this room; `Verifier` is the door.
///
/// judgement.cpp decides which sizes are run and what a failure means; trials.cpp, compile_stage.cpp and knock_out.cpp
/// are the stages.
namespace autotriton::verify {

using Clock = std::chrono::steady_clock;

inline Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// How an answer's judgement ended.
struct Conclusion {
  Reason reason;
  std::string message;
};

/// Up to four names, for a message.
std::string joined(const std::vector<std::string>& names);

/// Seeds drawn from a secret or given start by hashing, so that one that an answer sees tells nothing of the others.
class Seeds {
 public:
  explicit Seeds(std::uint64_t start) : start_(start) {}
  std::uint64_t start() const { return start_; }
  /// 60 bits, so that every reader takes it as a signed number.
  std::uint64_t next();

 private:
  std::uint64_t start_;
  std::uint64_t drawn_ = 0;
};

/// Adds the time of a scope to a stage's cost. For one thread.
class StageClock {
 public:
  StageClock(Verdict& verdict, const char* stage) : verdict_(verdict), stage_(stage), start_(Clock::now()) {}
  StageClock(const StageClock&) = delete;
  StageClock& operator=(const StageClock&) = delete;
  ~StageClock() { verdict_.cost[stage_] += seconds_since(start_); }

 private:
  Verdict& verdict_;
  const char* stage_;
  Clock::time_point start_;
};

/// The oracle of the task judged last, kept while the task stays the same.
class OracleSession {
 public:
  /// A problem leaves no oracle behind.
  std::optional<OracleProblem> open(execution::ForkServer& server, const VerifyOptions& options,
                                    const tasks::Task& task);
  void reset() { client_.reset(); }
  OracleClient& client() { return *client_; }

  /// By variant, judged once a task: why every lazy answer passes there, or nothing.
  std::map<std::string, std::optional<Conclusion>> degenerate;

 private:
  std::optional<OracleClient> client_;
  std::string key_;
};

/// A trial as the oracle made it ready.
struct ReadyTrial {
  std::optional<OracleProblem> problem;
  std::optional<Conclusion> cliff;  ///< The reference itself jumps here: this trial says nothing.
  TrialSetup setup;
  TrialSeeds seeds;
  std::vector<Tolerance> bounds;
  double seconds = 0;
};

/// Makes the trials of one variant ready, one ahead of the one that runs: the oracle works while the answer does.
class TrialFeed {
 public:
  /// With `judge_stand_ins` each trial is also given to the lazy answers (zeros, a constant, …).
  TrialFeed(OracleClient& oracle, std::string variant, bool judge_stand_ins);

  void prepare(int index, TrialSeeds seeds);  ///< Starts in the background.
  bool pending() const { return pending_.valid(); }
  ReadyTrial take();  ///< Waits for what `prepare` started.

  /// Which lazy answer passed all trials so far, as a conclusion.
  std::optional<Conclusion> degenerate() const;

 private:
  static constexpr std::array<const char*, 5> kStandIns{"zeros", "mean", "input", "other-inputs", "other-weights"};
  ReadyTrial make(int index, TrialSeeds seeds);

  OracleClient& oracle_;
  std::string variant_;
  bool judge_stand_ins_;
  std::array<bool, kStandIns.size()> applies_{};
  std::array<int, kStandIns.size()> passes_{};
  int judged_ = 0;
  std::vector<LeafStatistics> plain_;
  std::future<ReadyTrial> pending_;  // Last: its thread uses the others.
};

/// Tolerances of a trial's leaves, or the cliff that makes them meaningless.
std::variant<std::vector<Tolerance>, Conclusion> tolerances(const TrialSetup& setup);

class Judgement {
 public:
  Judgement(execution::ForkServer& server, const VerifyOptions& options, OracleSession& session,
            const VerifyRequest& request, StaticResult source, std::uint64_t seed, Verdict& verdict);

  Conclusion judge();

  /// Ctrl-C came while the answer was judged: whatever is said of it means nothing.
  bool interrupted() const { return interrupted_; }
  /// Someone killed a process of the answer, or its compiler: what is said of it may be the machine's fault.
  bool killed() const { return killed_; }

 private:
  struct CompileAnswer {
    CandidateClient::Result<CompileResult> result;
    double seconds = 0;
  };

  OracleClient& oracle() { return session_.client(); }
  TrialSeeds draw();
  Conclusion from(const OracleProblem& problem);
  Conclusion from(const CandidateFailure& failure);
  std::string at_line(const CandidateFailure& failure) const { return place(failure.line) + failure.message; }
  std::string place(int line) const;
  void note_sandbox(const execution::SandboxReport& report);

  // judgement.cpp: which sizes, and what a failure means.
  std::optional<Conclusion> choose_main_variant();
  bool original_fits() const;
  std::optional<Conclusion> judge_other_sizes();
  Conclusion judge_failure();
  Conclusion judge_failure_at(const std::string& variant, int count, const std::string& before);
  Conclusion unknown_at_original(const Conclusion& failure) const;

  // trials.cpp
  std::optional<Conclusion> init(const std::string& variant, ModelSetup& setup);
  std::variant<CandidateClient, Conclusion> prepare(const ModelSetup& setup);
  /// Runs `count` trials of one variant in one process. A failing trial is in `failure_`; a Conclusion ends
  /// everything.
  std::optional<Conclusion> run_trials(const std::string& variant, int count, bool judge_task);
  std::optional<Conclusion> run_trial(CandidateClient& candidate, const std::string& variant, int index,
                                      const ReadyTrial& ready, Clock::time_point deadline, int& count);
  void compare(const RunResult& result, const ReadyTrial& ready, const Comparison& comparison, Trial& trial);
  void note_authorship(const RunResult& result);

  // run_how.cpp: the same inputs run in another way.
  RunHow how_to_run(const std::string& variant, int index, int count) const;
  /// After a failure: whether the same inputs are right when run in the usual way, and what then makes the difference.
  std::optional<Conclusion> blame_how(CandidateClient& candidate, const ReadyTrial& ready, int index, const RunHow& how,
                                      const std::vector<Launch>& launches, Clock::time_point deadline);
  bool right(CandidateClient& candidate, const ReadyTrial& ready, int index, const RunHow& how,
             Clock::time_point deadline, std::vector<Launch>* launches);
  void note_once(const std::string& note);

  // compile_stage.cpp
  std::optional<Conclusion> begin_compiling();
  std::optional<Conclusion> finish_compiling();
  CompileAnswer compile_once(const ShapesOnly& shapes, const ModelSetup* setup) const;
  std::optional<Conclusion> take_over(const CompileAnswer& answer);
  std::string kernel_not_compiled() const;

  // knock_out.cpp
  std::optional<Conclusion> knock_out();
  std::optional<Conclusion> survives(const std::string& source, Clock::time_point deadline, bool& survived);

  execution::ForkServer& server_;
  const VerifyOptions& options_;
  OracleSession& session_;
  const VerifyRequest& request_;
  Verdict& verdict_;
  const CandidateSpec spec_;
  const std::vector<std::size_t> answer_lines_;
  Seeds seeds_;
  bool interrupted_ = false;
  bool killed_ = false;

  const Variant* original_ = nullptr;
  const Variant* scaled_ = nullptr;
  std::string main_variant_;
  std::optional<Conclusion> failure_;             ///< Of the trials.
  std::optional<Conclusion> authorship_failure_;  ///< Seen in a trial.
  std::optional<std::string> only_copied_;        ///< What each run so far said of `copied`; "" once one computed.
  std::vector<std::string> unmatched_;            ///< Parameters of the reference without a counterpart.

  std::vector<std::string> compiled_;  ///< Kernels.
  std::string compile_stopped_;        ///< What ended the entry point before it was through.
  bool host_code_broken_ = false;      ///< It is wrong outside of the interpreter.
  bool compiling_begun_ = false;
  std::vector<std::future<CompileAnswer>> compiling_;  ///< Beside the trials. Last: their threads use the others.
};

}  // namespace autotriton::verify
