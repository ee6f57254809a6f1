#pragma once

#include <functional>
#include <mutex>

#include "server/http.h"

namespace autotriton::server {

/// What the copies of a Reply share with their connection.
class Reply::State {
 public:
  /// `deliver` is called once, from any thread.
  explicit State(std::function<void(Response)> deliver) : deliver_(std::move(deliver)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();

  void send(Response response);
  void on_vanished(std::function<void()> call);
  void vanished();

 private:
  std::mutex mutex_;
  std::function<void(Response)> deliver_;  // Empty: answered.
  std::function<void()> on_vanished_;
  bool vanished_ = false;
};

}  // namespace autotriton::server
