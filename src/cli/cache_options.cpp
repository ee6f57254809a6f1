#include "cli/cache_options.h"

#include <CLI/CLI.hpp>

#include "base/paths.h"

namespace autotriton::cli {

void CacheOptions::add_to(CLI::App& app, const std::string& group) {
  off = true;
  app.add_option_function<std::string>(
         "--cache",
         [this](const std::string& name) {
           file = name;
           off = false;
         },
         "file in which verdicts are remembered: the same answer to the same task, judged the same way, is judged once")
      ->group(group);
}

void CacheOptions::add_to_server(CLI::App& app, const std::string& group) {
  CLI::Option* const named =
      app.add_option("--cache", file, "file in which verdicts are remembered (default: in memory, until the end)")
          ->group(group);
  app.add_flag("--no-cache", off, "judge the same answer again each time")->excludes(named)->group(group);
}

std::shared_ptr<verify::VerdictCache> CacheOptions::open(const execution::ForkServer::Options& server) const {
  if (off) return nullptr;
  const Surroundings around = Surroundings::of_this_process();
  return std::make_shared<verify::VerdictCache>(file.empty() ? ":memory:" : std::filesystem::path(file),
                                                verify::VerdictCache::identity(around.executable, server));
}

}  // namespace autotriton::cli
