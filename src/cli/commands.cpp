#include "cli/commands.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

#include "base/error.h"

namespace autotriton::cli {
namespace {

constexpr std::array kCommands{
    Command{"verify", "judge answers: is it Triton, and is it right?", verify_command},
    Command{"reward", "serve rewards over HTTP to OpenRLHF, slime, KernelGYM, verl, TRL", reward_command},
    Command{"doctor", "what this machine offers, and whether untrusted answers are confined on it", doctor_command},
    Command{"rules", "list and explain the static rules, or check a file with them", rules_command},
    Command{"script", "run files of Triton kernels and their calls in the confined interpreter", script_command},
    Command{"profiles", "list and show the reward profiles: what a verdict is worth", profiles_command},
    Command{"verdict-reference", "print docs/verdict.md: schema, exit codes, reasons", verdict_reference_command},
};

void print_help() {
  std::printf(
      "autotriton %s: verify Triton kernels that language models write\n\nusage: autotriton COMMAND [OPTIONS]\n\n",
      AUTOTRITON_VERSION);
  for (const Command& command : kCommands) {
    std::printf("  %-18.*s %.*s\n", static_cast<int>(command.name.size()), command.name.data(),
                static_cast<int>(command.help.size()), command.help.data());
  }
  std::printf("\n`autotriton COMMAND --help` tells a command's options; `autotriton --version` the version.\n");
}

}  // namespace

std::span<const Command> all_commands() { return kCommands; }

int run_command(int argc, char** argv) {
  const std::string_view word = argc > 1 ? argv[1] : "--help";
  if (word == "--help" || word == "-h" || word == "help") {
    print_help();
    return argc > 1 ? 0 : 2;
  }
  if (word == "--version") {
    std::printf("autotriton %s\n", AUTOTRITON_VERSION);
    return 0;
  }
  const auto* found =
      std::find_if(kCommands.begin(), kCommands.end(), [&](const Command& command) { return command.name == word; });
  if (found == kCommands.end()) {
    throw UserError({.where = "",
                     .what = "there is no command `" + std::string(word) + "`",
                     .fix = "`autotriton --help` lists them"});
  }
  return found->run(argc - 1, argv + 1);
}

}  // namespace autotriton::cli
