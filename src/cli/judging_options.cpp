#include "cli/judging_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <thread>

#include "base/error.h"

namespace autotriton::cli {
namespace {

int read_target(const std::string& text) {
  int capability = 0;
  const bool prefixed = text.starts_with("sm_");
  const auto [end, error] = std::from_chars(text.data() + (prefixed ? 3 : 0), text.data() + text.size(), capability);
  if (!prefixed || error != std::errc() || end != text.data() + text.size() || capability < 75 || capability > 130) {
    throw UserError({.where = "--target " + text,
                     .what = "not a GPU that can be compiled for",
                     .fix = "write it as sm_80, sm_89, sm_90 …"});
  }
  return capability;
}

void read_budgets(const std::vector<std::string>& given, verify::Budgets& budgets) {
  for (const std::string& item : given) {
    const auto equals = item.find('=');
    char* end = nullptr;
    const double seconds = equals == std::string::npos ? 0 : std::strtod(item.c_str() + equals + 1, &end);
    const bool number = end != nullptr && *end == '\0' && seconds > 0 && seconds < 1e6;
    if (!number || !budgets.set(item.substr(0, equals), seconds)) {
      throw UserError({.where = "--budget " + item,
                       .what = "not STAGE=SECONDS",
                       .fix = "the stages are " + verify::Budgets::names()});
    }
  }
}

}  // namespace

void JudgingOptions::add_to(CLI::App& app, const std::string& how, const std::string& many) {
  app.add_option("--tasks", tasks, "JSONL file of tasks that answers name by task_id")->group(many);
  app.add_option("--jobs", jobs, "answers judged at once (default: one a core)")
      ->check(CLI::Range(0, 1024))
      ->group(many);
  app.add_option("--profile", profile,
                 "what a verdict is worth and how strictly it is judged: a name (`autotriton profiles list`) or a file")
      ->capture_default_str()
      ->group(how);
  app.add_option("--trials", trials, "runs on secret inputs of seven kinds")
      ->check(CLI::Range(1, 64))
      ->capture_default_str()
      ->group(how);
  app.add_option("--shapes", shapes, "sizes to judge at")
      ->check(CLI::IsMember({"original", "scaled", "both"}))
      ->capture_default_str()
      ->group(how);
  app.add_option("--target", target, "GPU that launches are compiled for")->capture_default_str()->group(how);
  app.add_option("--budget", budgets, "STAGE=SECONDS, repeatable; stages: " + verify::Budgets::names())->group(how);
  app.add_flag("--require-sandbox", require_sandbox, "an error where a confinement is missing")->group(how);
}

verify::VerifyOptions JudgingOptions::resolve(const reward::Profile& chosen, const CLI::App& app) const {
  verify::VerifyOptions options;
  chosen.apply(options);
  if (app.count("--trials") != 0) options.trials = trials;
  if (app.count("--shapes") != 0) {
    options.shapes = shapes == "original" ? verify::Shapes::kOriginal
                     : shapes == "scaled" ? verify::Shapes::kScaled
                                          : verify::Shapes::kBoth;
  }
  if (app.count("--target") != 0) options.capability = read_target(target);
  read_budgets(budgets, options.budgets);
  if (require_sandbox) options.require_sandbox = true;
  return options;
}

int JudgingOptions::number_of_jobs() const {
  return jobs > 0 ? jobs : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

}  // namespace autotriton::cli
