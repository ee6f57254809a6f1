#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/text_encoding.h"
#include "cli/commands.h"
#include "rules/glue.h"
#include "rules/rules.h"
#include "syntax/syntax.h"
#include "verify/sarif.h"

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

struct CheckFlags {
  std::vector<std::string> paths;
  std::string entry;
  std::string torch_compute = "refuse";
  std::string out;
  bool sarif = false;
};

/// A file's findings; a file that cannot be parsed, or lacks the entry point, has one that says so.
verify::SarifFile check_file(const std::string& path, const CheckFlags& flags) {
  verify::SarifFile file{
      .path = path, .source = decode_text(read_file(path == "-" ? "/dev/stdin" : path), path), .findings = {}};
  auto parsed = syntax::parse(file.source);
  if (const auto* failure = std::get_if<syntax::ParseFailure>(&parsed)) {
    file.findings.push_back({"syntax-error", "reject", failure->line, failure->column, failure->message});
    return file;
  }
  // `ModelNew` is a class with a forward; any other name is a function's, or a class's that says so itself.
  const std::string entry = flags.entry.empty() ? "ModelNew" : flags.entry;
  const auto kind = entry == "ModelNew" ? rules::EntryKind::kModule : rules::EntryKind::kFunction;
  const rules::Report report = rules::check(std::get<syntax::Module>(parsed), {kind, entry}, rules::Glue::embedded(),
                                            {.report_torch_compute = flags.torch_compute == "report"});
  for (const rules::Finding& finding : report.findings) {
    file.findings.push_back(
        {finding.rule, std::string(rules::level_name(finding.level)), finding.line, finding.column, finding.message});
  }
  if (!report.entry_found) {
    file.findings.push_back({"entry-missing", "reject", 0, 0,
                             path + " defines no `" + entry + "`; name the class or function with --entry"});
  } else if (report.is_triton() && !flags.sarif) {
    std::fprintf(stderr, "%s: no rule refuses it (%zu jit functions, %zu launched)\n", path.c_str(),
                 report.jit_functions.size(), report.launched.size());
  }
  return file;
}

void print_findings(const verify::SarifFile& file) {
  for (const verify::Finding& finding : file.findings) {
    if (finding.line == 0) {
      std::fprintf(stderr, "autotriton: %s\n", finding.message.c_str());
      continue;
    }
    std::printf("%s:%d:%d: %s %s: %s\n", file.path.c_str(), finding.line, finding.column, finding.level.c_str(),
                finding.rule.c_str(), finding.message.c_str());
  }
}

int check_files(const CheckFlags& flags) {
  std::vector<verify::SarifFile> files;
  bool refused = false;
  for (const std::string& path : flags.paths) {
    files.push_back(check_file(path, flags));
    for (const verify::Finding& finding : files.back().findings) refused = refused || finding.level == "reject";
    if (!flags.sarif) print_findings(files.back());
  }
  if (flags.sarif && flags.out.empty()) {
    std::cout << verify::to_sarif(files) << std::endl;
  } else if (flags.sarif) {
    write_file_atomically(flags.out, verify::to_sarif(files) + "\n");
  }
  return refused ? 1 : 0;
}

}  // namespace

int rules_command(int argc, char** argv) {
  CLI::App app("The static rules: what is certainly not Triton in an answer's source.", "autotriton rules");
  app.require_subcommand(1);
  app.add_subcommand("list", "every rule, with its level and what it refuses");
  std::string id;
  CLI::App* explaining = app.add_subcommand("explain", "why a rule exists and how to mend an answer");
  explaining->add_option("RULE", id, "the rule's id")->required();
  CheckFlags flags;
  CLI::App* checking = app.add_subcommand("check", "check source files; exit 0 if no rule refuses one, 1 if one does");
  checking->add_option("FILE", flags.paths, "Python source; - for standard input")->required();
  checking->add_option("--entry", flags.entry, "the class or function that the task calls")->default_str("ModelNew");
  checking
      ->add_option("--torch-compute", flags.torch_compute,
                   "what PyTorch computes on the path: refuse it, or report it as a note (hybrid answers)")
      ->check(CLI::IsMember({"refuse", "report"}))
      ->capture_default_str();
  CLI::Option* sarif = checking->add_flag("--sarif", flags.sarif, "write the findings as SARIF 2.1.0");
  checking->add_option("--out", flags.out, "where the SARIF goes; standard output if left out")->needs(sarif);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (*checking) return check_files(flags);
  if (*explaining) {
    explain(id);
  } else {
    list_rules();
  }
  return 0;
}

}  // namespace autotriton::cli
