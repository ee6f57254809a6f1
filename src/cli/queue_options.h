#pragma once

#include <string>

#include "queue/queue.h"

namespace CLI {
class App;
}

namespace autotriton::cli {

/// Which queue: what every command offers that uses one.
struct QueueOptions {
  std::string url;  ///< Empty: none.
  std::string name = "autotriton";
  int tries = 3;
  double lease = 30;  ///< Seconds.

  /// Adds --queue and --queue-name; for a worker --queue-tries and --queue-lease too.
  void add_to(CLI::App& app, const std::string& group, bool worker);

  /// After parsing. A password that the URL lacks comes from AUTOTRITON_REDIS_PASSWORD. Throws UserError.
  queue::Options resolve() const;
};

}  // namespace autotriton::cli
