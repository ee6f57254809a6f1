#include <poll.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "cli/cache_options.h"
#include "cli/commands.h"
#include "cli/judging_options.h"
#include "cli/queue_options.h"
#include "cli/server_options.h"
#include "reward/fleet.h"
#include "reward/judge.h"
#include "reward/service.h"
#include "reward/task_source.h"
#include "server/http_server.h"
#include "verify/pool.h"

namespace autotriton::cli {
namespace {

struct Flags {
  JudgingOptions judging;
  CacheOptions cache;
  QueueOptions queue;
  int port = 9000;
  std::string host = "127.0.0.1";
  std::string unix_socket;
  std::string log_level = "info";
  int queue_limit = 1024;
  int max_connections = 1024;
  int max_body_mb = 64;
  double deadline = 170;
  double drain = 60;
};

bool is_loopback(const std::string& host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

server::ServerOptions http_options(const Flags& flags, const CLI::App& app) {
  server::ServerOptions options;
  // A socket alone, unless a port is asked for too.
  if (flags.unix_socket.empty() || app.count("--port") != 0 || app.count("--host") != 0) options.port = flags.port;
  options.host = flags.host;
  options.unix_socket = flags.unix_socket;
  if (const char* key = std::getenv("AUTOTRITON_API_KEY")) options.api_key = key;
  options.max_connections = static_cast<std::size_t>(flags.max_connections);
  options.max_body_bytes = static_cast<std::size_t>(flags.max_body_mb) << 20U;
  return options;
}

void log_access(const Logger& log, const server::Access& access) {
  char line[512];
  std::snprintf(line, sizeof(line), "%s %s %.200s %d %zu B in, %zu B out, %.3f s%s%.200s%s", access.id.c_str(),
                access.method.c_str(), access.path.c_str(), access.status, access.received_bytes, access.sent_bytes,
                access.seconds, access.note.empty() ? "" : "; ", access.note.c_str(),
                access.vanished ? "; the client was gone" : "");
  log.info(line);
}

// Waits for a signal, half a second at most; true if one came.
bool wait_for(const InterruptGuard& interrupt) {
  pollfd signal{interrupt.descriptor(), POLLIN, 0};
  ::poll(&signal, 1, 500);
  return interrupt.requested();
}

std::string places(const server::ServerOptions& options, int port) {
  std::string text;
  if (options.port) {
    const bool six = options.host.find(':') != std::string::npos;
    text = "http://" + (six ? "[" + options.host + "]" : options.host) + ":" + std::to_string(port);
  }
  if (!options.unix_socket.empty()) text += (text.empty() ? "unix:" : " and unix:") + options.unix_socket.string();
  return text;
}

/// A worker of a queue listens only where that is asked for.
bool listens(const Flags& flags, const CLI::App& app) {
  return flags.queue.url.empty() || app.count("--port") + app.count("--host") + app.count("--unix") != 0;
}

int serve(const Flags& flags, const CLI::App& app) {
  const Logger log = Logger::to_standard_error(parse_log_level(flags.log_level, "--log-level"));
  const reward::Profile profile = reward::Profile::find(flags.judging.profile);
  if (const auto warning = profile.warning_without_timing()) log.warning(*warning);
  verify::VerifyOptions options = flags.judging.resolve(profile, app);
  std::shared_ptr<const tasks::TaskLibrary> library;
  if (!flags.judging.tasks.empty()) {
    library = std::make_shared<const tasks::TaskLibrary>(tasks::TaskLibrary::from_file(flags.judging.tasks));
    log.info(std::to_string(library->size()) + " tasks in " + flags.judging.tasks);
  }
  const server::ServerOptions http = http_options(flags, app);
  if (http.port && !is_loopback(http.host) && http.api_key.empty()) {
    log.warning("anyone who reaches " + http.host + " may have answers judged here: set AUTOTRITON_API_KEY");
  }

  const InterruptGuard interrupt;
  // A signal begins a drain, which lets what is being judged end: it does not interrupt the fork servers.
  auto fork_options = server_options(interrupt);
  fork_options.interrupt = -1;
  options.cache = flags.cache.open(fork_options);
  execution::ForkServer workers(std::move(fork_options));
  workers.start();
  if (interrupt.requested()) return 130;

  server::Metrics metrics;
  reward::TaskSource tasks(library);
  const int jobs = flags.judging.number_of_jobs();
  const auto limit = static_cast<std::size_t>(flags.queue_limit);
  // The judge keeps the limit; the pool has room for what is begun again.
  verify::Pool pool(workers, options, {.jobs = jobs, .max_waiting = 2 * limit + 64});
  reward::LocalBackend backend(pool);
  reward::Judge judge(backend, profile, {.max_waiting = limit}, metrics);
  reward::Service service(judge, tasks, metrics, {.deadline_seconds = flags.deadline, .version = AUTOTRITON_VERSION});
  server::HttpServer server(http, metrics);
  service.add_routes(server);
  server.on_access([&log](const server::Access& access) { log_access(log, access); });
  std::optional<reward::FleetWorker> fleet;
  if (!flags.queue.url.empty()) {
    const queue::Options queue = flags.queue.resolve();
    fleet.emplace(queue, pool, profile, reward::settings_text(profile, options), log);
    std::printf("working for queue %s at %s\n", queue.name.c_str(), queue.address.shown().c_str());
  }
  if (listens(flags, app)) {
    server.start();
    std::printf("listening on %s\n", places(http, server.port()).c_str());
  }
  std::fflush(stdout);
  log.info("profile " + profile.name() + ", " + std::to_string(jobs) + " at once, " +
           (http.api_key.empty() ? "no API key" : "with an API key"));

  std::string fault;
  while (fault.empty() && !wait_for(interrupt)) {
    fault = backend.fault();
    if (fault.empty() && fleet) fault = fleet->fault();
  }
  if (!fault.empty()) log.error("nothing can be judged any more: " + fault);
  log.info("ending: " + std::to_string(backend.waiting()) + " wait and " + std::to_string(backend.judging()) +
           " are being judged; a second signal ends at once");
  if (fleet) fleet->stop_taking();
  judge.begin_drain();
  const auto deadline = reward::Clock::now() + std::chrono::milliseconds(static_cast<long>(flags.drain * 1000));
  const bool all = judge.drain(deadline);
  const bool clean = server.stop(reward::Clock::now() + std::chrono::seconds(5));
  log.info(all && clean ? "ended, everything was answered" : "ended; what was left had no reward");
  return fault.empty() ? 0 : 4;
}

}  // namespace

int reward_command(int argc, char** argv) {
  Flags flags;
  CLI::App app(
      "Serve rewards over HTTP to any trainer: OpenRLHF, slime, KernelGYM's clients, verl and TRL (integrations/).\n\n"
      "  autotriton reward --port 9000\n"
      "  autotriton reward --queue redis://queue-host     (a worker of a fleet; docs/fleet.md)\n"
      "  curl -s localhost:9000/v1/verify -d '{\"problem\": \"import torch…\", \"answer\": \"```python…\"}'\n\n"
      "The first signal (Ctrl-C, SIGTERM) ends gracefully, a second one at once. With AUTOTRITON_API_KEY set, clients\n"
      "send `Authorization: Bearer KEY`. docs/reward.md tells the contracts, and how a missing reward is masked.\n"
      "Exit: 0 ended by a signal, 2 bad input, 4 nothing can be judged any more.\n",
      "autotriton reward");
  app.add_option("--port", flags.port, "TCP port; 0 takes a free one, which is printed")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str()
      ->group("Where");
  app.add_option("--host", flags.host, "address to listen at; 0.0.0.0 for every one")
      ->capture_default_str()
      ->group("Where");
  app.add_option("--unix", flags.unix_socket, "Unix-domain socket to listen at, instead of a port unless that is given")
      ->group("Where");
  app.add_option("--queue-limit", flags.queue_limit, "answers that may wait; what does not fit is told 429")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str()
      ->group("Limits");
  app.add_option("--deadline", flags.deadline, "seconds within which a request is answered that names no time itself")
      ->check(CLI::Range(0.001, 86400.0))
      ->capture_default_str()
      ->group("Limits");
  app.add_option("--drain", flags.drain, "seconds that what was taken has to be judged after a signal")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str()
      ->group("Limits");
  app.add_option("--max-connections", flags.max_connections, "connections at once")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str()
      ->group("Limits");
  app.add_option("--max-body", flags.max_body_mb, "size of a request in MB")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str()
      ->group("Limits");
  app.add_option("--log-level", flags.log_level, "debug, info (a line a request), warning or error")
      ->capture_default_str()
      ->group("Limits");
  flags.queue.add_to(app, "Fleet", true);
  flags.judging.add_to(app, "How", "Limits");
  flags.cache.add_to_server(app, "How");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return serve(flags, app);
}

}  // namespace autotriton::cli
