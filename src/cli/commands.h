#pragma once

#include <span>
#include <string_view>

/// The command line: one table of command words, one file a command.
namespace autotriton::cli {

struct Command {
  std::string_view name;
  std::string_view help;              ///< One line.
  int (*run)(int argc, char** argv);  ///< `argv[0]` is the command's word. Returns the exit code.
};

std::span<const Command> all_commands();

/// Runs the command that `argv[1]` names, or prints help. Throws UserError for an unknown word.
int run_command(int argc, char** argv);

int verify_command(int argc, char** argv);
int reward_command(int argc, char** argv);
int script_command(int argc, char** argv);
int doctor_command(int argc, char** argv);
int rules_command(int argc, char** argv);
int profiles_command(int argc, char** argv);
int verdict_reference_command(int argc, char** argv);

}  // namespace autotriton::cli
