#include <cmath>
#include <cstdio>
#include <sstream>

#include "verify/verdict.h"

namespace autotriton::verify {
namespace {

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", value);
  return text;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text.empty() ? "scalar" : text;
}

std::string trial_line(const Trial& trial, std::size_t number) {
  std::string line = "trial " + std::to_string(number) + "  ";
  std::string inputs;
  for (const TrialInput& input : trial.inputs)
    inputs += (inputs.empty() ? "" : ", ") + shape_text(input.shape) + " " + input.dtype;
  line += inputs.empty() ? "no tensors" : inputs;
  if (!trial.inputs.empty()) line += ", " + trial.inputs.front().distribution;
  if (trial.scaled) line += ", scaled";
  if (!trial.autotune_config.empty()) line += " [" + trial.autotune_config.substr(0, 60) + "]";
  line += trial.pass ? "  ok, error " + short_number(trial.max_abs_error) + " of " + short_number(trial.tolerance) +
                           " + " + short_number(trial.relative_tolerance) + "·|value|"
                     : "  FAILED: " + trial.failure;
  return line;
}

std::string colour_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::kAccept:
      return "\x1b[1;32m";
    case Outcome::kReject:
      return "\x1b[1;31m";
    case Outcome::kInconclusive:
      return "\x1b[1;33m";
    case Outcome::kError:
      break;
  }
  return "\x1b[1;35m";
}

/// Control characters but for line ends become `?`: an answer's words could be commands to the terminal.
std::string harmless(std::string text) {
  for (std::size_t index = 0; index < text.size(); ++index) {
    const auto byte = static_cast<unsigned char>(text[index]);
    const bool second_half =
        index > 0 && static_cast<unsigned char>(text[index - 1]) == 0xC2 && byte >= 0x80 && byte <= 0x9F;
    if (second_half) text[index - 1] = '?';
    if (second_half || (byte < 0x20 && byte != '\n') || byte == 0x7F) text[index] = '?';
  }
  return text;
}

}  // namespace

std::string to_text(const Verdict& verdict, bool colour) {
  std::string head(outcome_name(verdict.outcome));
  if (colour) head = colour_of(verdict.outcome) + head + "\x1b[0m";
  std::ostringstream out;
  const std::string name = verdict.id.empty() ? verdict.task_id : verdict.id;
  out << "  " << verdict.reason_id << (name.empty() ? "" : "  (" + name + ")") << "\n";
  out << "  " << verdict.message << "\n";
  for (const Finding& finding : verdict.findings) {
    out << "  " << finding.level << "  line " << finding.line << "  " << finding.rule << ": " << finding.message
        << "\n";
  }
  for (std::size_t index = 0; index < verdict.trials.size(); ++index)
    out << "  " << trial_line(verdict.trials[index], index + 1) << "\n";
  for (const Launch& launch : verdict.launches) {
    out << "  kernel " << launch.kernel << " x" << launch.count << "  grid " << shape_text(launch.grid);
    if (launch.compiled) {
      out << "  " << launch.compiled->target << ": " << launch.compiled->registers << " registers, "
          << launch.compiled->shared_bytes << " bytes shared";
      if (launch.compiled->spills > 0) out << ", " << launch.compiled->spills << " bytes spilled";
    }
    out << "\n";
  }
  const Authorship& proofs = verdict.authorship;
  if (!proofs.kernel_knockout.empty()) out << "  kernel knock-out: " << proofs.kernel_knockout << "\n";
  if (!proofs.torch_knockout.empty()) out << "  torch knock-out: " << proofs.torch_knockout << "\n";
  if (!proofs.storage_ledger.empty()) out << "  storage ledger: " << proofs.storage_ledger << "\n";
  if (proofs.torch_share) out << "  PyTorch computed " << short_number(100 * *proofs.torch_share) << " % of the work\n";
  if (!verdict.reward_terms.empty()) {
    out << "  reward " << (verdict.reward ? short_number(*verdict.reward) : "null (masked)") << ":";
    std::string_view sign = " ";
    for (const auto& [term, value] : verdict.reward_terms) {
      out << sign << term << " " << short_number(value);
      sign = ", ";
    }
    out << "\n";
  }
  if (!verdict.sandbox.missing.empty()) {
    out << "  sandbox without:";
    for (const std::string& part : verdict.sandbox.missing) out << " " << part << ";";
    out << "\n";
  }
  for (const std::string& note : verdict.notes) out << "  note: " << note << "\n";
  if (!verdict.cost.empty()) {
    double total = 0;  // Stages overlap, so this is less than their sum.
    std::string parts;
    for (const auto& [stage, seconds] : verdict.cost) {
      if (stage == "total") {
        total = seconds;
        continue;
      }
      char text[64];
      std::snprintf(text, sizeof text, "%s%s %.2f", parts.empty() ? "" : ", ", stage.c_str(), seconds);
      parts += text;
    }
    char text[32];
    std::snprintf(text, sizeof text, "%.2f", total);
    out << "  " << text << " s (" << parts << ")";
    const auto seed = verdict.environment.find("seed");
    if (seed != verdict.environment.end()) out << "  seed " << seed->second;
    out << "\n";
  }
  return head + harmless(out.str());
}

std::string reference_page() {
  std::ostringstream out;
  out << "# Verdicts\n\n"
         "<!-- Written by `autotriton verdict-reference`; a test compares it with the code. Change "
         "src/verify/reason.cpp instead. -->\n\n"
         "`autotriton verify --json` prints one object of the schema `autotriton.verdict/1`; with `--jsonl` one a "
         "line.\n\n"
         "| field | holds |\n|---|---|\n"
         "| `id`, `task_id`, `candidate_sha256` | which answer to which task; the digest is of the code after "
         "extraction |\n"
         "| `verdict` | `accept`, `reject`, `inconclusive` (this mode cannot tell) or `error` (the input's or our "
         "fault) |\n"
         "| `reason`, `stage` | an id of the table below, or the id of the rule that refused; where it was decided |\n"
         "| `message` | what happened, where, and what to change; for people, never parse it |\n"
         "| `grade` | how far the evidence goes: `static` (source), `cpu` (interpreter and compile), `gpu` |\n"
         "| `reward` | 1 for accept, 0 for reject, null for inconclusive and error: mask the sample, never train it as "
         "0 |\n"
         "| `reward_terms` | the terms that add up to the reward under a profile of several; else empty |\n"
         "| `is_triton`, `tests_pass` | the two halves of the paper's reward |\n"
         "| `findings[]` | `rule`, `level` (`reject`, `suspicious`, `note`), `line`, `column`, `message` |\n"
         "| `trials[]` | `inputs[]` (`shape`, `dtype`, `distribution`), `scaled`, `autotune_config`, `max_abs_error`, "
         "`max_rel_error`, `tolerance`, `pass`, `failure`, `seed` |\n"
         "| `launches[]` | `kernel`, `count`, `grid`, `compiled` (`target`, `shared_bytes`, `registers`, `spills` in "
         "bytes a thread) |\n"
         "| `authorship` | what each proof found: `kernel_knockout`, `torch_knockout`, `storage_ledger`, and the "
         "`torch_ops` that were refused or, where PyTorch may compute, reported; `torch_share` of the computing that "
         "PyTorch did, else null |\n"
         "| `form` | of a raw reply: `reasoning` (`none`, `closed`, `open`), `fenced_blocks` outside it, "
         "`fences_closed`; null for plain source |\n"
         "| `sandbox` | confinements `obtained` and `missing` |\n"
         "| `timing` | `candidate_ms`, `eager_ms`, `compile_ms`, `speedup` over eager, its `interval`; null where "
         "nothing was "
         "timed, as always without a GPU |\n"
         "| `cost`, `environment`, `notes` | seconds a stage, and in `total` on the clock (stages overlap); versions "
         "and the "
         "seed; remarks |\n\n"
         "A number that is not finite is written as the string `nan`, `inf` or `-inf`.\n\n"
         "## Exit codes of `verify`\n\n"
         "| code | one answer | `--jsonl` |\n|---|---|---|\n"
         "| 0 | accept | every line was judged |\n"
         "| 1 | reject | – |\n"
         "| 2 | bad usage, or bad input: the problem cannot be read or its reference fails | a line could not be read "
         "or its problem was bad; the rest were judged |\n"
         "| 3 | inconclusive | – |\n"
         "| 4 | error on our side | an error on our side is left among the verdicts |\n"
         "| 130 | interrupted | interrupted; finished verdicts are kept |\n\n"
         "## Reasons\n\n"
         "A refusal by a rule carries the rule's id instead: see `autotriton rules list`.\n\n"
         "| reason | verdict | stage | what happened | what to do |\n|---|---|---|---|---|\n";
  for (const ReasonInfo& entry : all_reasons()) {
    if (entry.reason == Reason::kRule) continue;
    out << "| `" << entry.id << "` | " << outcome_name(entry.outcome) << " | " << stage_name(entry.stage) << " | "
        << entry.explanation << " | " << (entry.remedy.empty() ? "–" : entry.remedy) << " |\n";
  }
  return out.str();
}

}  // namespace autotriton::verify
