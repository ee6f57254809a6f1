#pragma once

#include <span>
#include <string>
#include <vector>

#include "verify/verdict.h"

/// Findings as SARIF 2.1.0, the format that code hosts and editors read.
///
///     std::cout << to_sarif({{.path = "answer.py", .source = text, .findings = verdict.findings}});
namespace autotriton::verify {

/// A file and what was found in it.
struct SarifFile {
  std::string path;    ///< As it was given; relative paths stay so, and `-` is standard input.
  std::string source;  ///< Tells where columns lie in lines that hold more than ASCII; empty for no columns at all.
  std::vector<Finding> findings;
};

/// One log of one run over all files: every rule with its help, and a result for each finding. Results name rules by
/// the ids of `autotriton rules list`, or by a reason of docs/verdict.md.
std::string to_sarif(std::span<const SarifFile> files);

/// What a verdict says about an answer, as findings: those of the rules, and its own reason where no rule gave it.
std::vector<Finding> findings_of(const Verdict& verdict);

}  // namespace autotriton::verify
