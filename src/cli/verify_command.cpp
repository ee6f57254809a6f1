#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <iostream>

#include "base/error.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "cli/cache_options.h"
#include "cli/commands.h"
#include "cli/judging_options.h"
#include "cli/queue_options.h"
#include "cli/server_options.h"
#include "reward/fleet.h"
#include "reward/profile.h"
#include "tasks/answer.h"
#include "tasks/problem.h"
#include "verify/batch.h"
#include "verify/sarif.h"
#include "verify/suite.h"
#include "verify/verify.h"

namespace autotriton::cli {
namespace {

struct Flags {
  JudgingOptions judging;
  std::string problem;
  std::string candidate;
  std::string answer;
  std::string entry;
  std::string pairs;
  std::string out = "-";
  std::string suite;
  std::string device = "auto";
  std::string seed;
  std::string keep;
  std::string sarif;
  QueueOptions queue;
  CacheOptions cache;
  int repeat = 1;
  bool json = false;
  bool quiet = false;
  std::vector<std::string> without;  ///< Confinements, for tests.
};

UserError bad_option(const std::string& option, const std::string& what, const std::string& fix) {
  return UserError({.where = option, .what = what, .fix = fix});
}

/// The profile's options, and over them those that were given.
verify::VerifyOptions read_options(const Flags& flags, const reward::Profile& profile, const CLI::App& app) {
  verify::VerifyOptions options = flags.judging.resolve(profile, app);
  if (!flags.seed.empty()) {
    std::uint64_t seed = 0;
    const auto [end, error] = std::from_chars(flags.seed.data(), flags.seed.data() + flags.seed.size(), seed);
    if (error != std::errc() || end != flags.seed.data() + flags.seed.size())
      throw bad_option("--seed " + flags.seed, "not a whole number", "a verdict shows its seed");
    options.seed = seed;
  }
  options.keep = flags.keep;
  return options;
}

std::string read_text(const std::string& path) { return read_file(path == "-" ? "/dev/stdin" : path); }

/// What the verdict says, at the lines of the file that was given: those of the reply where the code was taken from
/// one.
void write_sarif(const Flags& flags, const verify::VerifyRequest& request, const verify::Verdict& verdict) {
  verify::SarifFile file{.path = request.raw_answer ? flags.answer : flags.candidate,
                         .source = request.raw_answer ? std::string() : request.text,
                         .findings = verify::findings_of(verdict)};
  if (request.raw_answer) {
    const auto found = tasks::extract_code(request.text, tasks::answer_entry_point(*request.task));
    if (const auto* code = std::get_if<tasks::ExtractedCode>(&found)) {
      for (verify::Finding& finding : file.findings) {
        const auto index = static_cast<std::size_t>(finding.line) - 1;
        if (finding.line > 0 && index < code->answer_lines.size())
          finding.line = static_cast<int>(code->answer_lines[index]);
      }
    }
  }
  write_file_atomically(flags.sarif, verify::to_sarif({&file, 1}) + "\n");
}

int verify_one(const Flags& flags, const verify::VerifyOptions& options, const reward::Profile& profile,
               const InterruptGuard& interrupt) {
  if (flags.candidate.empty() == flags.answer.empty()) {
    throw bad_option("--candidate, --answer", "one of the two must be given",
                     "--candidate takes source, --answer a model's raw reply; - reads standard input");
  }
  if (flags.problem == "-" && (flags.candidate == "-" || flags.answer == "-")) {
    throw bad_option("-", "standard input can be read only once", "give one of the two as a file");
  }
  const std::optional<std::string> entry = flags.entry.empty() ? std::nullopt : std::optional(flags.entry);
  std::shared_ptr<const tasks::Task> task;
  try {
    task = std::make_shared<const tasks::Task>(
        flags.problem == "-" ? tasks::problem_from_source(read_text("-"), "stdin", "standard input", entry)
                             : tasks::read_problem(flags.problem, entry));
  } catch (const tasks::ProblemError& error) {
    if (!flags.json) throw;
    verify::Verdict verdict;
    verdict.conclude(error.kind() == tasks::ProblemError::Kind::kInvalid ? verify::Reason::kProblemInvalid
                                                                         : verify::Reason::kProblemUnreadable,
                     error.what());
    std::cout << verify::to_json(verdict) << std::endl;
    return verify::exit_code(verdict);
  }
  const bool raw = !flags.answer.empty();
  const verify::VerifyRequest request{
      .id = {}, .task = task, .text = read_text(raw ? flags.answer : flags.candidate), .raw_answer = raw};
  const execution::ForkServer::Options where = server_options(interrupt, flags.without);
  verify::VerifyOptions how = options;
  how.cache = flags.cache.open(where);
  execution::ForkServer server(where);
  verify::Verifier verifier(server, how);
  verify::Verdict verdict = verifier.verify(request);
  profile.set_reward(verdict);
  if (interrupt.requested()) return 130;
  if (!flags.sarif.empty()) write_sarif(flags, request, verdict);
  if (flags.out != "-") write_file_atomically(flags.out, verify::to_json(verdict) + "\n");
  if (flags.json) {
    std::cout << verify::to_json(verdict) << std::endl;
  } else {
    std::cout << verify::to_text(verdict, ::isatty(STDOUT_FILENO) != 0) << std::flush;
  }
  if (!raw && verdict.reason == verify::Reason::kSyntaxError && request.text.find("```") != std::string::npos)
    std::fprintf(stderr, "autotriton: this looks like a model's raw reply: give it with --answer\n");
  if (!std::cout)
    throw UserError({.where = "standard output", .what = "cannot be written", .fix = "free space, or mend the pipe"});
  return verify::exit_code(verdict);
}

int verify_pairs(const Flags& flags, const verify::VerifyOptions& options, const reward::Profile& profile, int jobs,
                 const InterruptGuard& interrupt) {
  verify::BatchOptions batch{.pairs = flags.pairs,
                             .out = flags.out,
                             .tasks = {},
                             .jobs = jobs,
                             .progress = !flags.quiet,
                             .complete = [&](verify::Verdict& verdict) { profile.set_reward(verdict); }};
  if (!flags.judging.tasks.empty()) batch.tasks = flags.judging.tasks;
  const auto interrupted = [&] { return interrupt.requested(); };
  verify::BatchSummary summary;
  if (flags.queue.url.empty()) {
    const execution::ForkServer::Options where = server_options(interrupt, flags.without);
    verify::VerifyOptions how = options;
    how.cache = flags.cache.open(where);
    execution::ForkServer server(where);
    summary = verify::run_batch(server, how, batch, interrupted);
    if (how.cache != nullptr && how.cache->hits() != 0)
      std::fprintf(stderr, "%llu of the verdicts stood in the cache\n",
                   static_cast<unsigned long long>(how.cache->hits()));
    if (how.cache != nullptr && !how.cache->fault().empty())
      std::fprintf(stderr, "autotriton: the verdict cache is not written any more: %s\n", how.cache->fault().c_str());
  } else {
    summary = reward::run_fleet_batch(flags.queue.resolve(), batch, interrupted, [](const std::string& news) {
      std::fprintf(stderr, "autotriton: %s\n", news.c_str());
    });
  }
  std::fprintf(stderr, "%llu judged: %llu accept, %llu reject, %llu inconclusive, %llu bad input, %llu errors of ours",
               static_cast<unsigned long long>(summary.judged()), static_cast<unsigned long long>(summary.accepted),
               static_cast<unsigned long long>(summary.rejected), static_cast<unsigned long long>(summary.inconclusive),
               static_cast<unsigned long long>(summary.bad_input), static_cast<unsigned long long>(summary.our_errors));
  if (summary.done_before != 0)
    std::fprintf(stderr, "; %llu had a verdict already", static_cast<unsigned long long>(summary.done_before));
  std::fprintf(stderr, "%s\n", summary.interrupted ? "; interrupted, call again to go on" : "");
  if (summary.judged() + summary.done_before == 0 && !summary.interrupted)
    std::fprintf(stderr, "autotriton: %s holds no pairs\n", flags.pairs.c_str());
  return verify::exit_code(summary);
}

/// Options of one way to judge that were given to another would be passed over in silence.
void check_way(const Flags& flags, const CLI::App& app) {
  const auto refuse = [&](std::initializer_list<const char*> options, const std::string& way) {
    for (const char* option : options) {
      if (app.count(option) != 0)
        throw bad_option(option, "does nothing with " + way, "leave it out; see `autotriton verify --help`");
    }
  };
  if (!flags.pairs.empty()) refuse({"--candidate", "--answer", "--entry", "--json", "--repeat"}, "--jsonl");
  if (!flags.suite.empty()) refuse({"--candidate", "--answer", "--entry", "--tasks", "--out", "--cache"}, "--suite");
  if (!flags.problem.empty()) refuse({"--tasks", "--repeat"}, "--problem");
  for (const std::string* input :
       {&flags.problem, &flags.candidate, &flags.answer, &flags.pairs, &flags.judging.tasks}) {
    std::error_code missing;
    for (const std::string* output : {&flags.out, &flags.sarif, &flags.cache.file}) {
      if (!input->empty() && !output->empty() && std::filesystem::equivalent(*input, *output, missing) && !missing)
        throw bad_option(*output, "is to be read and written", "name another file for what is written");
    }
  }
}

/// With a queue, how answers are judged is the workers' to say.
void check_queue(const Flags& flags, const CLI::App& app) {
  if (flags.queue.url.empty()) return;
  if (flags.pairs.empty())
    throw bad_option("--queue", "only --jsonl goes through a queue", "give --jsonl pairs.jsonl, or leave --queue out");
  for (const char* option : {"--profile", "--trials", "--shapes", "--target", "--budget", "--seed", "--keep", "--jobs",
                             "--cache", "--require-sandbox"}) {
    if (app.count(option) == 0) continue;
    throw bad_option(option, "with --queue the workers judge, by their own options",
                     "give it to `autotriton reward --queue` there, and leave it out here");
  }
}

int verify_suite(const Flags& flags, const verify::VerifyOptions& options, int jobs, const InterruptGuard& interrupt) {
  const std::vector<verify::SuiteCase> cases = verify::read_suite(flags.suite);
  execution::ForkServer server(server_options(interrupt, flags.without));
  std::size_t wrong = 0;
  const auto results = verify::run_suite(
      server, options, cases, jobs, flags.repeat,
      [&](const verify::SuiteResult& result) {
        const verify::Verdict& verdict = result.verdict;
        const std::string name = result.wanted.file.stem().string() + (result.wanted.unruled ? " (without rules)" : "");
        if (flags.json) {
          std::cout << verify::to_json(verdict) << '\n';
        } else {
          std::printf("%-5s %-52s %s %s\n", result.complaint.empty() ? "ok" : "WRONG", name.c_str(),
                      std::string(verify::outcome_name(verdict.outcome)).c_str(), verdict.reason_id.c_str());
          if (!result.complaint.empty())
            std::printf("      %s\n      %s\n", result.complaint.c_str(), verdict.message.c_str());
          std::fflush(stdout);
        }
        wrong += result.complaint.empty() ? 0 : 1;
      },
      [&] { return interrupt.requested(); });
  std::fprintf(stderr, "%zu cases, %zu as they should be; %s", results.size(), results.size() - wrong,
               verify::to_text(verify::figures(results)).c_str());
  if (interrupt.requested()) return 130;
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int verify_command(int argc, char** argv) {
  Flags flags;
  CLI::App app(
      "Judge answers: accept, reject, inconclusive or error, with the evidence.\n\n"
      "  autotriton verify --problem softmax.py --candidate answer.py\n"
      "  autotriton verify --problem softmax.py --answer reply.md --json\n"
      "  autotriton verify --jsonl pairs.jsonl --out verdicts.jsonl --jobs 2\n\n"
      "Exit: 0 accept, 1 reject, 2 bad input, 3 inconclusive, 4 error of ours, 130 interrupted; --jsonl: 0 all "
      "judged,\n"
      "2 some lines could not be read, 4 errors of ours are left. docs/verdict.md tells the JSON and every reason.\n",
      "autotriton verify");
  app.add_option("--problem", flags.problem,
                 "problem: a file with Model (or one function) and get_inputs; - for standard input")
      ->group("One answer");
  app.add_option("--candidate", flags.candidate, "answer as Python source; - for standard input")->group("One answer");
  app.add_option("--answer", flags.answer,
                 "answer as a model's raw reply: reasoning, fences and prose are handled; - for standard input")
      ->group("One answer");
  app.add_option("--entry", flags.entry, "function of the problem, where several could be meant")->group("One answer");
  app.add_flag("--json", flags.json, "print the verdict as JSON")->group("One answer");
  app.add_option("--sarif", flags.sarif, "file for the findings as SARIF 2.1.0, beside the verdict")
      ->group("One answer");
  app.add_option("--jsonl", flags.pairs, "file of pairs, one JSON object a line")->group("Many answers");
  app.add_option("--out", flags.out,
                 "file for verdicts as JSON, one a line; with --jsonl it is continued where an earlier run ended")
      ->group("Many answers")
      ->capture_default_str();
  flags.cache.add_to(app, "Many answers");
  app.add_option("--suite", flags.suite, "folder of .case files: judge each and compare with what it is due")
      ->group("Many answers");
  app.add_option("--repeat", flags.repeat,
                 "judge a suite this often, and say how many verdicts were the same each time")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str()
      ->group("Many answers");
  flags.judging.add_to(app, "How", "Many answers");
  flags.queue.add_to(app, "Many answers", false);
  app.add_flag("--quiet", flags.quiet, "no progress")->group("Many answers");
  app.add_option("--device", flags.device, "auto, cpu or cuda")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str()
      ->group("How");
  app.add_option("--seed", flags.seed,
                 "replay the inputs of a verdict; never for rewards, where inputs must stay secret")
      ->group("How");
  app.add_option("--without", flags.without)->delimiter(',')->group("");  // For tests: not shown.
  app.add_option("--keep", flags.keep, "folder for what is needed to replay each answer that was not accepted")
      ->group("How");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (flags.device == "cuda") {
    throw bad_option("--device cuda",
                     "not in this build: it judges on a CPU, by Triton's interpreter and a compile for --target",
                     "use --device cpu");
  }
  const int modes = (flags.problem.empty() ? 0 : 1) + (flags.pairs.empty() ? 0 : 1) + (flags.suite.empty() ? 0 : 1);
  if (modes != 1)
    throw bad_option("--problem, --jsonl, --suite", "exactly one of them says what to judge",
                     "see `autotriton verify --help`");
  if (!flags.sarif.empty() && flags.problem.empty())
    throw bad_option("--sarif", "it takes one answer", "give --problem, or `autotriton rules check --sarif` the files");
  check_way(flags, app);
  check_queue(flags, app);
  const reward::Profile profile = reward::Profile::find(flags.judging.profile);
  if (const auto warning = profile.warning_without_timing()) std::fprintf(stderr, "autotriton: %s\n", warning->c_str());
  const verify::VerifyOptions options = read_options(flags, profile, app);
  const int jobs = flags.judging.number_of_jobs();
  const InterruptGuard interrupt;
  if (!flags.pairs.empty()) return verify_pairs(flags, options, profile, jobs, interrupt);
  if (!flags.suite.empty()) return verify_suite(flags, options, jobs, interrupt);
  return verify_one(flags, options, profile, interrupt);
}

}  // namespace autotriton::cli
