// Warm accepts a second, all stages, beside a plain script that starts Python, imports torch and Triton and compares
// (tools/plain_check.py), both with two at once, in alternating rounds.  usage: verify_bench [ROUNDS [ACCEPTS_A_ROUND]]
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "base/child_process.h"
#include "base/file.h"
#include "base/paths.h"
#include "execution/fork_server.h"
#include "tasks/problem.h"
#include "verify/verify.h"

namespace {

using namespace autotriton;
using Clock = std::chrono::steady_clock;

constexpr int kAtOnce = 2;
const std::string kSource = AUTOTRITON_SOURCE_DIR;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Runs `work` on `kAtOnce` threads; returns the seconds until all have ended.
template <typename Work>
double timed(Work work) {
  const auto start = Clock::now();
  {
    std::vector<std::jthread> threads;
    for (int index = 0; index < kAtOnce; ++index) threads.emplace_back(work, index);
  }
  return seconds_since(start);
}

std::string spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  char text[96];
  std::snprintf(text, sizeof text, "%.2f (%.2f to %.2f)", values[values.size() / 2], values.front(), values.back());
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 5;
  const int accepts = argc > 2 ? std::atoi(argv[2]) : 20;
  const std::string problem = kSource + "/tests/cases/problems/add.py";
  std::string text = read_file(kSource + "/tests/cases/honest/add_plain.case");
  text.erase(0, text.find("\n---\n") + 5);
  const std::string candidate = "/tmp/autotriton-bench-candidate.py";
  write_file_atomically(candidate, text);

  Surroundings around = Surroundings::of_this_process();
  const auto worker = worker_folder(around);
  const auto python = python_interpreter(around, worker);
  execution::ForkServer server(
      {.python = python,
       .worker = worker,
       .confine_library = around.executable.parent_path().parent_path() / "src/cli/libautotriton_confine.so"});
  const auto start = Clock::now();
  server.start();
  std::printf("servers ready after %.2f s\n", seconds_since(start));
  const auto task = std::make_shared<const tasks::Task>(tasks::read_problem(problem));
  std::vector<std::unique_ptr<verify::Verifier>> verifiers;
  for (int index = 0; index < kAtOnce; ++index)
    verifiers.push_back(std::make_unique<verify::Verifier>(server, verify::VerifyOptions{}));
  std::map<std::string, double> cost;
  const verify::Verdict first = verifiers[0]->verify({.id = "", .task = task, .text = text, .raw_answer = false});
  if (first.outcome != verify::Outcome::kAccept) {
    std::fprintf(stderr, "not accepted: %s\n", first.message.c_str());
    return 1;
  }

  std::vector<double> ours;
  std::vector<double> plain;
  std::vector<double> ratios;
  for (int round = 0; round < rounds; ++round) {
    std::vector<verify::Verdict> verdicts(static_cast<std::size_t>(kAtOnce * accepts));
    const double own = timed([&](int index) {
      for (int turn = 0; turn < accepts; ++turn) {
        verdicts[static_cast<std::size_t>(index * accepts + turn)] = verifiers[static_cast<std::size_t>(index)]->verify(
            {.id = "", .task = task, .text = text, .raw_answer = false});
      }
    });
    for (const verify::Verdict& verdict : verdicts) {
      if (verdict.outcome != verify::Outcome::kAccept) {
        std::fprintf(stderr, "not accepted: %s\n", verdict.message.c_str());
        return 1;
      }
      for (const auto& [stage, seconds] : verdict.cost) cost[stage] += seconds;
    }
    constexpr int kScripts = 3;
    std::array<std::string, kAtOnce> complaints;
    const double theirs = timed([&](int index) {
      for (int turn = 0; turn < kScripts; ++turn) {
        const Finished run =
            run_to_end({.arguments = {python.string(), kSource + "/tools/plain_check.py", problem, candidate}});
        if (!run.status || !run.status->success()) complaints[static_cast<std::size_t>(index)] = run.error;
      }
    });
    for (const std::string& complaint : complaints) {
      if (complaint.empty()) continue;
      std::fprintf(stderr, "the plain script failed: %s\n", complaint.c_str());
      return 1;
    }
    ours.push_back(kAtOnce * accepts / own);
    plain.push_back(kAtOnce * kScripts / theirs);
    ratios.push_back(ours.back() / plain.back());
  }
  std::printf("accepts a second, two at once:   %s\n", spread(ours).c_str());
  std::printf("plain scripts a second, the same: %s\n", spread(plain).c_str());
  std::printf("ratio, round by round:            %s\n", spread(ratios).c_str());
  const double verdicts = static_cast<double>(rounds) * kAtOnce * accepts;
  for (const auto& [stage, seconds] : cost)
    std::printf("  %-10s %6.1f ms a verdict\n", stage.c_str(), 1000 * seconds / verdicts);
  return 0;
}
