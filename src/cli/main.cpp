#include <clocale>
#include <csignal>
#include <cstdio>
#include <exception>

#include "base/error.h"
#include "cli/commands.h"

int main(int argc, char** argv) try {
  std::signal(SIGPIPE, SIG_IGN);  // A reader that goes away is an error that we report, not our death.
  return autotriton::cli::run_command(argc, argv);
} catch (const autotriton::SetupError& error) {
  std::fprintf(stderr, "autotriton: %s\n", error.what());
  return 4;
} catch (const autotriton::UserError& error) {
  std::fprintf(stderr, "autotriton: %s\n", error.what());
  return 2;
} catch (const std::exception& error) {
  std::fprintf(stderr, "autotriton: internal error, please report: %s\n", error.what());
  return 4;
}
