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
};

/// Whether `verdict` is what the case is due; the complaint where it is not.
SuiteResult judge_case(const SuiteCase& wanted, Verdict verdict);

/// Judges all cases with `jobs` verifiers; `report` gets each result as it comes, one at a time.
std::vector<SuiteResult> run_suite(execution::ForkServer& server, const VerifyOptions& options,
                                   const std::vector<SuiteCase>& cases, int jobs,
                                   const std::function<void(const SuiteResult&)>& report,
                                   const std::function<bool()>& interrupted);

}  // namespace autotriton::verify
