#pragma once

#include <memory>
#include <string>

#include "execution/fork_server.h"
#include "verify/verdict_cache.h"

namespace CLI {
class App;
}

namespace autotriton::cli {

/// Where verdicts are remembered: `--cache FILE`; a server does so in memory unless `--no-cache` is given.
struct CacheOptions {
  std::string file;
  bool off = false;

  void add_to(CLI::App& app, const std::string& group);
  void add_to_server(CLI::App& app, const std::string& group);

  /// Null where nothing is to be remembered. Throws UserError where the file cannot be used.
  std::shared_ptr<verify::VerdictCache> open(const execution::ForkServer::Options& server) const;
};

}  // namespace autotriton::cli
