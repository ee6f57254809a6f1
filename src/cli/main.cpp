#include <clocale>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>

#include "base/error.h"
#include "cli/commands.h"

int main(int argc, char** argv) try {
  std::signal(SIGPIPE, SIG_IGN);  // A reader that goes away is an error that we report, not our death.
  const int code = autotriton::cli::run_command(argc, argv);
  std::cout.flush();
  if (std::cout && std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  std::fprintf(stderr, "autotriton: standard output: cannot be written; free space, or mend the pipe\n");
  return code == 0 ? 2 : code;
} catch (const autotriton::Interrupted&) {
  return 130;
} catch (const autotriton::SetupError& error) {
  std::fprintf(stderr, "autotriton: %s\n", error.what());
  return 4;
} catch (const autotriton::UserError& error) {
  std::fprintf(stderr, "autotriton: %s\n", error.what());
  return 2;
} catch (const std::filesystem::filesystem_error& error) {
  std::fprintf(stderr, "autotriton: %s: %s; name another place\n", error.path1().c_str(),
               error.code().message().c_str());
  return 2;
} catch (const std::exception& error) {
  std::fprintf(stderr, "autotriton: internal error, please report: %s\n", error.what());
  return 4;
}
