#pragma once

#include <string>
#include <vector>

#include "reward/profile.h"
#include "verify/verify.h"

namespace CLI {
class App;
}

namespace autotriton::cli {

/// How answers are judged: what every command that judges offers.
struct JudgingOptions {
  std::string profile = "paper";
  std::string tasks;  ///< Path; empty: none.
  std::string shapes = "both";
  std::string target = "sm_90";
  std::vector<std::string> budgets;
  int trials = 7;
  int jobs = 0;  ///< 0: one a core.
  bool require_sandbox = false;

  /// Adds the flags; `how` and `many` are the groups that `--help` shows them in.
  void add_to(CLI::App& app, const std::string& how, const std::string& many);

  /// After parsing: the profile's options, and over them those that were given. Throws UserError naming the flag.
  verify::VerifyOptions resolve(const reward::Profile& chosen, const CLI::App& app) const;
  int number_of_jobs() const;
};

}  // namespace autotriton::cli
