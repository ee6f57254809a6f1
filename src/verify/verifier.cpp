#include <sys/random.h>

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "verify/judgement.h"
#include "verify/verdict_cache.h"

namespace autotriton::verify {
namespace {

std::uint64_t secret_seed() {
  std::uint64_t seed = 0;
  check(::getrandom(&seed, sizeof seed, 0) == static_cast<ssize_t>(sizeof seed), "the system gives random bytes");
  return seed >> 2;
}

}  // namespace

bool Budgets::set(std::string_view stage, double seconds) {
  if (stage == "load")
    load = seconds;
  else if (stage == "run")
    run = seconds;
  else if (stage == "compile")
    compile = seconds;
  else if (stage == "authorship")
    authorship = seconds;
  else if (stage == "oracle")
    oracle = seconds;
  else
    return false;
  return true;
}

std::vector<std::pair<std::string, double>> Budgets::changed() const {
  const Budgets usual;
  std::vector<std::pair<std::string, double>> stages;
  const auto add = [&](const char* name, double value, double before) {
    if (value != before) stages.emplace_back(name, value);
  };
  add("load", load, usual.load);
  add("run", run, usual.run);
  add("compile", compile, usual.compile);
  add("authorship", authorship, usual.authorship);
  add("oracle", oracle, usual.oracle);
  return stages;
}

std::string Budgets::names() { return "load, run, compile, authorship, oracle"; }

struct Verifier::Impl {
  execution::ForkServer& server;
  VerifyOptions options;
  OracleSession session;
  bool interrupted = false;
  bool killed = false;  ///< In the last judgement; see Judgement::killed.

  Verdict verify_once(const VerifyRequest& request) {
    Verdict verdict;
    verdict.id = request.id;
    verdict.task_id = request.task->task_id;
    verdict.environment["program"] = AUTOTRITON_VERSION;
    if (request.task->kind == tasks::TaskKind::kScript) {
      verdict.candidate_sha256 = sha256_hex(request.text);
      verdict.conclude(Reason::kTaskUnsupported,
                       "script tasks (TritonBench) are judged by their own test code, which this build does not run");
      return verdict;
    }
    StaticResult source = judge_source(request, options, verdict);
    if (!source.passed) return verdict;
    server.start();
    verdict.environment["torch"] = server.torch_version();
    verdict.environment["target"] = "sm_" + std::to_string(options.capability);
    const std::uint64_t seed = options.seed ? *options.seed : secret_seed();
    verdict.environment["seed"] = std::to_string(seed);
    Judgement judgement(server, options, session, request, std::move(source), seed, verdict);
    const Conclusion conclusion = judgement.judge();
    interrupted = judgement.interrupted();
    killed = judgement.killed();
    verdict.conclude(conclusion.reason, conclusion.message);
    if (info(conclusion.reason).stage == Stage::kAuthorship && conclusion.reason != Reason::kAllEvidence)
      verdict.is_triton = false;
    return verdict;
  }

  /// A lost worker of ours gets a second chance, and so does an answer whose process was killed, since that may have
  /// been for want of memory elsewhere; an answer's own failure gets none.
  Verdict verify_twice(const VerifyRequest& request) {
    Verdict verdict;
    for (int attempt = 0; attempt < 2; ++attempt) {
      killed = false;
      try {
        verdict = verify_once(request);
      } catch (const Interrupted&) {
        throw;
      } catch (const UserError&) {
        throw;  // Set-up is wrong (no Python, no sandbox): nothing of this answer.
      } catch (const std::exception& error) {
        verdict = Verdict{};
        verdict.id = request.id;
        verdict.task_id = request.task->task_id;
        verdict.conclude(Reason::kInternal, error.what());
      }
      if (interrupted) break;
      if (verdict.reason == Reason::kWorkerLost || verdict.reason == Reason::kInternal) {
        session.reset();  // It may be what was lost; the next attempt starts afresh.
      } else if (!killed) {
        break;
      }
    }
    return verdict;
  }

  void keep(const VerifyRequest& request, const Verdict& verdict) const {
    if (options.keep.empty() || verdict.outcome == Outcome::kAccept) return;
    std::string name = verdict.id.empty() ? verdict.task_id : verdict.id;
    for (char& c : name) {
      if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '_' && c != '.') c = '_';
    }
    if (name.empty() || name.front() == '.') name = "case" + name;
    // Ids that look alike as names, or are too long for one, stay apart by a digest.
    const std::string& id = verdict.id.empty() ? verdict.task_id : verdict.id;
    constexpr std::size_t kMaxName = 80;
    if (name != id || name.size() > kMaxName) name = name.substr(0, kMaxName) + "-" + sha256_hex(id).substr(0, 8);
    const std::filesystem::path folder = options.keep / name;
    std::filesystem::create_directories(folder);
    write_file_atomically(folder / "problem.py", request.task->reference);
    write_file_atomically(folder / (request.raw_answer ? "answer.md" : "candidate.py"), request.text);
    write_file_atomically(folder / "verdict.json", to_json(verdict) + "\n");
    const auto seed = verdict.environment.find("seed");
    std::string command = "autotriton verify --problem problem.py " +
                          std::string(request.raw_answer ? "--answer answer.md" : "--candidate candidate.py") +
                          " --trials " + std::to_string(options.trials) + " --target sm_" +
                          std::to_string(options.capability);
    if (request.task->kind == tasks::TaskKind::kFunction) command += " --entry " + request.task->entry_point;
    for (const auto& [stage, seconds] : options.budgets.changed()) {
      command += " --budget " + stage + "=" + std::to_string(seconds);
    }
    if (seed != verdict.environment.end()) command += " --seed " + seed->second;
    if (options.shapes != Shapes::kBoth)
      command += options.shapes == Shapes::kScaled ? " --shapes scaled" : " --shapes original";
    write_file_atomically(
        folder / "replay.sh",
        "#!/bin/sh\n# Judges this case again with the same inputs.\ncd \"$(dirname \"$0\")\" && exec " + command +
            "\n");
  }
};

Verifier::Verifier(execution::ForkServer& server, VerifyOptions options)
    : impl_(new Impl{.server = server, .options = std::move(options), .session = {}}) {}
Verifier::Verifier(Verifier&&) noexcept = default;
Verifier::~Verifier() = default;

Verdict Verifier::verify(const VerifyRequest& request) {
  const VerifyOptions& options = impl_->options;
  const bool cached = options.cache != nullptr && !options.seed;
  if (cached) {
    if (std::optional<Verdict> known = options.cache->find(request, options)) {
      impl_->keep(request, *known);
      return *std::move(known);
    }
  }
  const auto start = Clock::now();
  Verdict verdict = impl_->verify_twice(request);
  verdict.cost["total"] = seconds_since(start);
  if (cached && !impl_->interrupted) options.cache->keep(request, options, verdict);
  impl_->keep(request, verdict);
  return verdict;
}

}  // namespace autotriton::verify
