#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <iostream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <variant>

#include "base/error.h"
#include "base/file.h"
#include "base/text_encoding.h"
#include "cli/commands.h"
#include "cli/server_options.h"
#include "verify/candidate_client.h"

namespace autotriton::cli {
namespace {

struct ScriptResult {
  std::string file;
  std::string outcome;  ///< "ran", or why it did not: a reason's id.
  std::string message;
  double seconds = 0;
};

ScriptResult run_script(execution::ForkServer& server, const std::string& file, int capability, double seconds) {
  using Clock = std::chrono::steady_clock;
  const verify::CandidateSpec spec{.source = decode_text(read_file(file), file),
                                   .entry = {},
                                   .module = false,
                                   .script = true,
                                   .capability = capability};
  verify::CandidateClient candidate(server, execution::JobMode::kInterpret, spec);
  const auto start = Clock::now();
  const auto limit = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  const auto loaded = candidate.load(start + limit);
  ScriptResult result{.file = file, .outcome = "ran", .message = {}, .seconds = 0};
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (const auto* failure = std::get_if<verify::CandidateFailure>(&loaded)) {
    if (failure->interrupted) throw Interrupted("a script was still running");
    result.outcome = verify::info(failure->reason).id;
    result.message = (failure->line > 0 ? "line " + std::to_string(failure->line) + ": " : "") + failure->message;
  }
  if (const auto* ran = std::get_if<verify::Loaded>(&loaded)) {
    for (const auto& [what, count] : ran->strayed)
      result.message += (result.message.empty() ? "outside of every tensor: " : ", ") + std::to_string(count) +
                        " elements of " + what + "s";
  }
  return result;
}

void print(const ScriptResult& result, bool json) {
  if (json) {
    const nlohmann::json line = {
        {"file", result.file}, {"outcome", result.outcome}, {"message", result.message}, {"seconds", result.seconds}};
    std::cout << line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
  } else {
    std::printf("%-22s %6.1f s  %s\n", result.outcome.c_str(), result.seconds, result.file.c_str());
    if (!result.message.empty()) std::printf("    %s\n", result.message.c_str());
    std::fflush(stdout);
  }
}

}  // namespace

int script_command(int argc, char** argv) {
  std::vector<std::string> files;
  double seconds = 60;
  int jobs = 1;
  int capability = 90;
  bool json = false;
  CLI::App app(
      "Run Python files that hold Triton kernels and the code that calls them, each whole, in a confined process of\n"
      "its own: kernels in Triton's interpreter, CUDA devices mapped to the CPU. Nothing is judged: a file runs, or a\n"
      "reason says why not. Accesses outside of every tensor, which a GPU may not notice, are left out and counted.\n\n"
      "Exit: 0 all ran, 1 some did not, 2 bad input, 130 interrupted.\n",
      "autotriton script");
  app.add_option("files", files, "Python files; - for standard input")->required();
  app.add_option("--seconds", seconds, "time that a file may take")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--jobs", jobs, "files run at once")->check(CLI::Range(1, 1024))->capture_default_str();
  app.add_option("--capability", capability, "of the GPU that `torch.cuda` tells of: 80, 90 …")
      ->check(CLI::Range(75, 130))
      ->capture_default_str();
  app.add_flag("--json", json, "one JSON object a file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const InterruptGuard interrupt;
  execution::ForkServer server(server_options(interrupt));
  std::mutex mutex;
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> failed{0};
  std::exception_ptr problem;
  const auto work = [&] {
    try {
      while (!interrupt.requested()) {
        const std::size_t index = next++;
        if (index >= files.size()) return;
        const ScriptResult result =
            run_script(server, files[index] == "-" ? "/dev/stdin" : files[index], capability, seconds);
        failed += result.outcome == "ran" ? 0 : 1;
        const std::lock_guard lock(mutex);
        print(result, json);
      }
    } catch (const Interrupted&) {
      return;  // Seen below.
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!problem) problem = std::current_exception();
      next = files.size();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int job = 1; job < jobs; ++job) threads.emplace_back(work);
    work();
  }
  if (interrupt.requested()) return 130;
  if (problem) std::rethrow_exception(problem);
  return failed == 0 ? 0 : 1;
}

}  // namespace autotriton::cli
