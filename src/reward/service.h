#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "reward/judge.h"
#include "reward/task_source.h"
#include "server/http_server.h"

namespace autotriton::reward {

struct ServiceOptions {
  double deadline_seconds = 170;          ///< Of a request that names none: below the 180 s that OpenRLHF waits.
  std::size_t max_items = 4096;           ///< Answers in one request.
  std::size_t max_results_kept = 20'000;  ///< Results of KernelGYM's tasks that can still be asked for.
  std::string version{};
};

/// The reward API of each trainer, over one Judge. docs/reward.md tells the contracts.
///
/// | route                                      | for                                                    |
/// |--------------------------------------------|--------------------------------------------------------|
/// | POST /get_reward                           | OpenRLHF                                               |
/// | POST /reward                               | slime                                                  |
/// | POST /evaluate, /evaluate/batch            | KernelGYM, with GET /status/{task_id}, /results/{…}    |
/// | POST /v1/verify, /v1/verify/batch          | everyone: a whole verdict                              |
/// | GET /health, /metrics                      | balancers, Prometheus                                  |
class Service {
 public:
  /// What is passed must live longer, and so must this while the server runs.
  Service(Judge& judge, TaskSource& tasks, server::Metrics& metrics, ServiceOptions options);
  ~Service();

  void add_routes(server::HttpServer& server);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace autotriton::reward
