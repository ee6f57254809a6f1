#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "base/error.h"
#include "base/file.h"
#include "base/text_encoding.h"
#include "cli/commands.h"
#include "rules/glue.h"
#include "rules/rules.h"
#include "syntax/syntax.h"

namespace autotriton::cli {
namespace {

void list_rules() {
  for (const rules::RuleInfo& rule : rules::all_rules()) {
    const std::string_view level = rules::level_name(rule.level);
    std::printf("%-22.*s %-10.*s %.*s\n", static_cast<int>(rule.id.size()), rule.id.data(),
                static_cast<int>(level.size()), level.data(), static_cast<int>(rule.sentence.size()),
                rule.sentence.data());
  }
}

void explain(const std::string& id) {
  const rules::RuleInfo* rule = rules::find_rule(id);
  if (rule == nullptr)
    throw UserError(
        {.where = "", .what = "there is no rule `" + id + "`", .fix = "`autotriton rules list` lists them"});
  std::cout << rule->id << " (" << rules::level_name(rule->level) << ")\n\n"
            << rule->sentence << "\n\nWhy: " << rule->reason << "\n\nWhat to change: " << rule->remedy << "\n";
}

/// Which entry the file has: `ModelNew` where that class stands in it, else the function given.
int check_file(const std::string& path, const std::string& entry) {
  const std::string source = decode_text(read_file(path == "-" ? "/dev/stdin" : path), path);
  auto parsed = syntax::parse(source);
  if (const auto* failure = std::get_if<syntax::ParseFailure>(&parsed)) {
    std::printf("%s:%d:%d: reject syntax-error: %s\n", path.c_str(), failure->line, failure->column,
                failure->message.c_str());
    return 1;
  }
  const auto kind = entry.empty() || entry == "ModelNew" ? rules::EntryKind::kModule : rules::EntryKind::kFunction;
  const rules::Report report = rules::check(std::get<syntax::Module>(parsed),
                                            {kind, entry.empty() ? "ModelNew" : entry}, rules::Glue::embedded());
  for (const rules::Finding& finding : report.findings) {
    std::printf("%s:%d:%d: %s %s: %s\n", path.c_str(), finding.line, finding.column,
                std::string(rules::level_name(finding.level)).c_str(), finding.rule.c_str(), finding.message.c_str());
  }
  if (!report.entry_found) {
    std::fprintf(stderr, "autotriton: %s defines no `%s`; name the function with --entry\n", path.c_str(),
                 entry.empty() ? "ModelNew" : entry.c_str());
    return 1;
  }
  if (report.is_triton())
    std::fprintf(stderr, "%s: no rule refuses it (%zu jit functions, %zu launched)\n", path.c_str(),
                 report.jit_functions.size(), report.launched.size());
  return report.is_triton() ? 0 : 1;
}

}  // namespace

int rules_command(int argc, char** argv) {
  CLI::App app("The static rules: what is certainly not Triton in an answer's source.", "autotriton rules");
  app.require_subcommand(1);
  app.add_subcommand("list", "every rule, with its level and what it refuses");
  std::string id;
  CLI::App* explaining = app.add_subcommand("explain", "why a rule exists and how to mend an answer");
  explaining->add_option("RULE", id, "the rule's id")->required();
  std::string path;
  std::string entry;
  CLI::App* checking = app.add_subcommand("check", "check a source file; exit 0 if no rule refuses it, 1 if one does");
  checking->add_option("FILE", path, "Python source; - for standard input")->required();
  checking->add_option("--entry", entry, "the class or function that the task calls")->default_str("ModelNew");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (*checking) return check_file(path, entry);
  if (*explaining) {
    explain(id);
  } else {
    list_rules();
  }
  return 0;
}

}  // namespace autotriton::cli
