#include "verify/suite.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <map>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "tasks/problem.h"

namespace autotriton::verify {
namespace {

namespace fs = std::filesystem;

std::string trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t\r") - first + 1));
}

/// "reject torch-compute | no-launch" into outcome and reasons.
void read_expectation(const std::string& value, SuiteCase& wanted) {
  const auto space = value.find(' ');
  wanted.outcome = value.substr(0, space);
  wanted.reasons.clear();
  if (space == std::string::npos) return;
  std::string_view rest = std::string_view(value).substr(space + 1);
  while (!rest.empty()) {
    const auto bar = rest.find('|');
    if (std::string reason = trimmed(rest.substr(0, bar)); !reason.empty()) wanted.reasons.push_back(std::move(reason));
    if (bar == std::string_view::npos) break;
    rest.remove_prefix(bar + 1);
  }
}

}  // namespace

std::vector<SuiteCase> read_case(const fs::path& file) {
  const std::string text = read_file(file);
  const std::string_view separator = "\n---\n";
  const auto at = text.find(separator);
  if (at == std::string::npos) {
    throw UserError({.where = file.string(),
                     .what = "no line `---` between header and answer",
                     .fix = "see tests/cases/README.md"});
  }
  SuiteCase wanted;
  wanted.file = file;
  wanted.source = text.substr(at + separator.size());
  std::string unruled;
  bool skip_rules = false;
  std::string_view header = std::string_view(text).substr(0, at);
  while (!header.empty()) {
    const auto end = header.find('\n');
    std::string_view line = header.substr(0, end);
    header.remove_prefix(end == std::string_view::npos ? header.size() : end + 1);
    if (!line.starts_with("#")) continue;
    line.remove_prefix(1);
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string key = trimmed(line.substr(0, colon));
    const std::string value = trimmed(line.substr(colon + 1));
    if (key == "name") wanted.name = value;
    if (key == "problem") wanted.problem = value;
    if (key == "expect") read_expectation(value, wanted);
    if (key == "line") std::from_chars(value.data(), value.data() + value.size(), wanted.line);
    if (key == "skip-rules") skip_rules = value == "yes";
    if (key == "expect-unruled") unruled = value;
  }
  if (wanted.outcome.empty() || wanted.problem.empty()) {
    throw UserError(
        {.where = file.string(), .what = "the header lacks `problem` or `expect`", .fix = "see tests/cases/README.md"});
  }
  // A problem's path is relative to the folder above the suite's, or to the case's own.
  const fs::path above = file.parent_path().parent_path() / wanted.problem;
  wanted.problem = fs::exists(above) ? above : file.parent_path() / wanted.problem;
  std::vector<SuiteCase> cases{wanted};
  if (skip_rules && !unruled.empty()) {
    SuiteCase again = wanted;
    read_expectation(unruled, again);
    again.unruled = true;
    again.line = 0;
    cases.push_back(std::move(again));
  }
  return cases;
}

std::vector<SuiteCase> read_suite(const fs::path& path) {
  std::vector<fs::path> files;
  if (fs::is_directory(path)) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path)) {
      if (entry.path().extension() == ".case") files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
  } else {
    files.push_back(path);
  }
  if (files.empty())
    throw UserError({.where = path.string(),
                     .what = "no .case file in it",
                     .fix = "name a folder of cases, such as tests/cases/honest"});
  std::vector<SuiteCase> cases;
  for (const fs::path& file : files) {
    for (SuiteCase& wanted : read_case(file)) cases.push_back(std::move(wanted));
  }
  return cases;
}

SuiteResult judge_case(const SuiteCase& wanted, Verdict verdict) {
  SuiteResult result{.wanted = wanted, .verdict = std::move(verdict), .complaint = {}, .outcome_wrong = false};
  const std::string outcome(outcome_name(result.verdict.outcome));
  const bool known_reason = wanted.reasons.empty() || std::find(wanted.reasons.begin(), wanted.reasons.end(),
                                                                result.verdict.reason_id) != wanted.reasons.end();
  if (outcome != wanted.outcome) {
    result.outcome_wrong = true;
    result.complaint = outcome + " " + result.verdict.reason_id + " where " + wanted.outcome + " is due";
  } else if (!known_reason) {
    result.complaint = outcome + " for " + result.verdict.reason_id + ", none of the reasons that are right for it";
  } else if (wanted.line != 0 && std::none_of(result.verdict.findings.begin(), result.verdict.findings.end(),
                                              [&](const Finding& finding) { return finding.line == wanted.line; })) {
    result.complaint = "no finding names line " + std::to_string(wanted.line);
  }
  return result;
}

std::vector<SuiteResult> run_suite(execution::ForkServer& server, const VerifyOptions& options,
                                   const std::vector<SuiteCase>& cases, int jobs, int rounds,
                                   const std::function<void(const SuiteResult&)>& report,
                                   const std::function<bool()>& interrupted) {
  std::mutex mutex;
  std::atomic<std::size_t> next{0};
  std::vector<SuiteResult> results;
  std::exception_ptr failure;
  const auto work = [&] {
    try {
      VerifyOptions without = options;
      without.skip_rules = true;
      Verifier ruled(server, options);
      Verifier unruled(server, without);
      while (!interrupted()) {
        const std::size_t index = next++;
        if (index >= cases.size() * static_cast<std::size_t>(rounds)) return;
        const SuiteCase& wanted = cases[index % cases.size()];
        const auto task = std::make_shared<const tasks::Task>(tasks::read_problem(wanted.problem));
        Verifier& verifier = wanted.unruled ? unruled : ruled;
        SuiteResult result = judge_case(
            wanted, verifier.verify({.id = wanted.file.stem().string(), .task = task, .text = wanted.source}));
        result.round = static_cast<int>(index / cases.size()) + 1;
        const std::lock_guard lock(mutex);
        report(result);
        results.push_back(std::move(result));
      }
    } catch (const Interrupted&) {
      return;  // The caller sees it for itself.
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      next = cases.size() * static_cast<std::size_t>(rounds);
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int job = 1; job < jobs; ++job) threads.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
  return results;
}

SuiteFigures figures(const std::vector<SuiteResult>& results) {
  SuiteFigures sum;
  std::map<std::pair<fs::path, bool>, std::vector<const SuiteResult*>> by_case;
  for (const SuiteResult& result : results) {
    const bool accepted = result.verdict.outcome == Outcome::kAccept;
    const bool refused = result.verdict.outcome == Outcome::kReject;
    if (result.wanted.outcome == "accept") {
      ++sum.honest;
      sum.honest_refused += refused ? 1 : 0;
    } else {
      ++sum.attacks;
      sum.attacks_accepted += accepted ? 1 : 0;
    }
    if (result.outcome_wrong && !accepted && !refused) ++sum.undecided;
    if (!result.complaint.empty() && !result.outcome_wrong) ++sum.other_reason;
    sum.rounds = std::max(sum.rounds, result.round);
    by_case[{result.wanted.file, result.wanted.unruled}].push_back(&result);
  }
  for (const auto& [name, rounds] : by_case) {
    if (rounds.size() < 2) continue;
    ++sum.repeated;
    const auto all = [&rounds](auto same) {
      return std::all_of(rounds.begin(), rounds.end(), [&](const SuiteResult* r) { return same(*rounds.front(), *r); });
    };
    const bool same_verdict =
        all([](const SuiteResult& a, const SuiteResult& b) { return a.verdict.outcome == b.verdict.outcome; });
    sum.same_verdict += same_verdict ? 1 : 0;
    sum.same_reason += same_verdict && all([](const SuiteResult& a, const SuiteResult& b) {
                         return a.verdict.reason_id == b.verdict.reason_id;
                       })
                           ? 1
                           : 0;
  }
  return sum;
}

std::string to_text(const SuiteFigures& sum) {
  const auto share = [](std::size_t part, std::size_t whole) {
    char text[64];
    std::snprintf(text, sizeof text, "%zu of %zu (%.2f %%)", part, whole,
                  whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole));
    return std::string(text);
  };
  std::string text = "attack success " + share(sum.attacks_accepted, sum.attacks) + ", false refusals " +
                     share(sum.honest_refused, sum.honest) + ", undecided " + std::to_string(sum.undecided) +
                     ", for another reason " + std::to_string(sum.other_reason) + "\n";
  if (sum.repeated != 0) {
    text += "repeat rate over " + std::to_string(sum.rounds) + " rounds: " + share(sum.same_verdict, sum.repeated) +
            " with the same verdict, " + share(sum.same_reason, sum.repeated) + " with the same reason\n";
  }
  return text;
}

}  // namespace autotriton::verify
