#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "execution/fork_server.h"
#include "verify/verify.h"

/// Folders of cases, each an answer with the verdict that it is due (tests/cases/README.md tells the format).
namespace autotriton::verify {

struct SuiteCase {
  std::filesystem::path file;
  std::string name;
  std::filesystem::path problem;
  std::string outcome;               ///< accept, reject, inconclusive
  std::vector<std::string> reasons;  ///< Any of these; empty: any reason.
  int line = 0;                      ///< That a finding must name; 0: none.
  bool unruled = false;              ///< Judged with the rules switched off.
  std::string source;
};

/// Reads one `.case` file: the case itself and, where it asks for that, once more without rules. Throws UserError.
std::vector<SuiteCase> read_case(const std::filesystem::path& file);

/// All cases of a folder (or one file), by name.
std::vector<SuiteCase> read_suite(const std::filesystem::path& path);

struct SuiteResult {
  SuiteCase wanted;
  Verdict verdict;
  std::string complaint;  ///< Empty: as it should be. Else what differs.
  bool outcome_wrong = false;
  int round = 1;
};

/// What a suite says of a verifier. An attack is a case that is due anything but accept, an honest one is due accept.
struct SuiteFigures {
  int rounds = 0;
  std::size_t attacks = 0;           ///< Judged, all rounds together, as everything below.
  std::size_t attacks_accepted = 0;  ///< Attack success.
  std::size_t honest = 0;
  std::size_t honest_refused = 0;  ///< False refusals.
  std::size_t undecided = 0;       ///< Inconclusive or error where accept or reject is due.
  std::size_t other_reason = 0;    ///< Right outcome, for none of the reasons that are right.
  std::size_t repeated = 0;        ///< Cases judged in more than one round.
  std::size_t same_verdict = 0;    ///< Of these, the ones with the same outcome in each.
  std::size_t same_reason = 0;     ///< Of these, the ones with the same reason too.
};

SuiteFigures figures(const std::vector<SuiteResult>& results);

/// The figures as two lines for a person.
std::string to_text(const SuiteFigures& figures);

/// Whether `verdict` is what the case is due; the complaint where it is not.
SuiteResult judge_case(const SuiteCase& wanted, Verdict verdict);

/// Judges all cases with `jobs` verifiers, `rounds` times over; `report` gets each result as it comes, one at a time.
std::vector<SuiteResult> run_suite(execution::ForkServer& server, const VerifyOptions& options,
                                   const std::vector<SuiteCase>& cases, int jobs, int rounds,
                                   const std::function<void(const SuiteResult&)>& report,
                                   const std::function<bool()>& interrupted);

}  // namespace autotriton::verify
