#pragma once

#include <deque>
#include <mutex>
#include <string>
#include <unordered_map>

#include "reward/exchange.h"

/// KernelGYM's contract (hkust-nlp/KernelGYM, kernelgym/server/api): tasks with ids, of which results can be asked for
/// later. Private to this room.
namespace autotriton::reward {

class KernelGym {
 public:
  explicit KernelGym(Exchange& exchange) : exchange_(exchange) {}
  void add_routes(server::HttpServer& server);
  std::size_t active() const;

 private:
  struct Task {
    std::string task_id;
    std::string content;  // Digest of what is to be judged: an id that is used again for something else starts anew.
    std::string submitted_at;
    bool force_refresh = false;
    Item item;
    double seconds = 0;
    int priority = 0;
  };
  struct Record {
    std::string content;
    std::string status;
    Json evaluation;  // Null while it is under way.
  };

  Task read_task(const Json& object, const std::string& where);
  void evaluate(const server::Request& request, const server::Reply& reply);
  void evaluate_batch(const server::Request& request, const server::Reply& reply);
  void status(const server::Request& request, const server::Reply& reply);
  void results(const server::Request& request, const server::Reply& reply);

  void begin(const Task& task);
  void forget(const Task& task);
  Json finish(const Task& task, const Judged& judged);
  std::optional<Json> known(const Task& task) const;

  Exchange& exchange_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Record> records_;
  std::deque<std::string> order_;  // Ids, the oldest first.
};

/// What KernelGYM says of a verdict. What is not known is left out, never made up: no time on a CPU, and neither
/// `compiled` nor `correctness` where the sample must be masked.
Json kernelgym_evaluation(const std::string& task_id, const Judged& judged);

}  // namespace autotriton::reward
