#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "cli/commands.h"
#include "reward/profile.h"

namespace autotriton::cli {
namespace {

void list_profiles() {
  for (const reward::Profile::BuiltIn& entry : reward::Profile::built_in()) {
    const reward::Profile profile = reward::Profile::find(entry.name);
    std::printf("%-12s %-7s %s\n", profile.name().c_str(), profile.needs_timing() ? "timing" : "",
                profile.description().c_str());
  }
}

void show(const std::string& name) {
  const reward::Profile profile = reward::Profile::find(name);
  std::cout << profile.toml();
  if (const auto warning = profile.warning_without_timing()) std::cerr << "autotriton: " << *warning << "\n";
}

}  // namespace

int profiles_command(int argc, char** argv) {
  CLI::App app(
      "Reward profiles: TOML files that say what a verdict is worth. `verify` and `reward` take one with --profile.",
      "autotriton profiles");
  app.require_subcommand(1);
  app.add_subcommand("list", "those that are part of the program; `timing`: needs a GPU");
  std::string name;
  CLI::App* showing = app.add_subcommand("show", "print one as TOML, to read or to start from; a file is checked");
  showing->add_option("NAME", name, "a name of the list, or a file: ./mine.toml")->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (*showing) {
    show(name);
  } else {
    list_profiles();
  }
  return 0;
}

}  // namespace autotriton::cli
