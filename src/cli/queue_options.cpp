#include "cli/queue_options.h"

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "base/error.h"

namespace autotriton::cli {

void QueueOptions::add_to(CLI::App& app, const std::string& group, bool worker) {
  app.add_option("--queue", url,
                 worker ? "redis://HOST:PORT/DB or redis+unix:///PATH: judge what others put there; docs/fleet.md"
                        : "redis://HOST:PORT/DB or redis+unix:///PATH: let the workers there judge; docs/fleet.md")
      ->group(group);
  app.add_option("--queue-name", name, "name of the queue, where several share a Redis")
      ->capture_default_str()
      ->group(group);
  if (!worker) return;
  app.add_option("--queue-tries", tries, "workers that may fail on an answer before it is a dead letter")
      ->check(CLI::Range(1, 100))
      ->capture_default_str()
      ->group(group);
  app.add_option("--queue-lease", lease, "seconds of silence after which a worker counts as lost")
      ->check(CLI::Range(0.3, 3600.0))
      ->capture_default_str()
      ->group(group);
}

queue::Options QueueOptions::resolve() const {
  if (name.empty() || name.size() > 200 || name.find_first_of("{}: \t\n") != std::string::npos) {
    throw UserError({.where = "--queue-name",
                     .what = "it is empty, too long, or holds a brace, a colon or a space",
                     .fix = "write a plain word"});
  }
  const char* password = std::getenv("AUTOTRITON_REDIS_PASSWORD");
  queue::Options options;
  options.address = queue::Address::parse(url, password == nullptr ? "" : password);
  options.name = name;
  options.max_tries = tries;
  options.lease = std::chrono::milliseconds(static_cast<long>(lease * 1000));
  return options;
}

}  // namespace autotriton::cli
