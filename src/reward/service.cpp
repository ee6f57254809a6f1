#include "reward/service.h"

#include "reward/kernelgym_routes.h"

namespace autotriton::reward {

struct Service::Impl {
  Impl(Judge& judge, TaskSource& tasks, server::Metrics& metrics, ServiceOptions given)
      : options(std::move(given)), exchange{judge, tasks, metrics, options}, kernelgym(exchange) {}

  // KernelGYM's clients and balancers read the same answer: its fields, and ours.
  server::Response health() const {
    const Backend& backend = exchange.judge.backend();
    const bool draining = exchange.judge.draining();
    const std::string fault = backend.fault();
    Json answer = {{"status", !fault.empty() ? "broken"
                              : draining     ? "draining"
                                             : "healthy"},
                   {"timestamp", timestamp(std::chrono::system_clock::now())},
                   {"gpu_status", Json::object()},
                   {"queue_status",
                    {{"pending", backend.waiting()},
                     {"processing", backend.judging()},
                     {"completed", exchange.judge.judged_total()}}},
                   {"memory_usage", Json::object()},
                   {"active_tasks", backend.waiting() + backend.judging()},
                   {"total_processed", exchange.judge.judged_total()},
                   {"uptime", std::chrono::duration<double>(Clock::now() - started).count()},
                   {"version", options.version},
                   {"profile", exchange.judge.profile().name()},
                   {"jobs", backend.jobs()}};
    if (!fault.empty()) answer["fault"] = fault;
    server::Response response{.status = fault.empty() && !draining ? 200 : 503, .body = dump(answer)};
    if (response.status == 503) server::set_retry_after(response, 5);
    return response;
  }

  const ServiceOptions options;
  Exchange exchange;
  KernelGym kernelgym;
  const Clock::time_point started = Clock::now();
};

Service::Service(Judge& judge, TaskSource& tasks, server::Metrics& metrics, ServiceOptions options)
    : impl_(std::make_unique<Impl>(judge, tasks, metrics, std::move(options))) {}
Service::~Service() = default;

void Service::add_routes(server::HttpServer& server) {
  add_openrlhf_routes(server, impl_->exchange);
  add_slime_routes(server, impl_->exchange);
  add_verify_routes(server, impl_->exchange);
  impl_->kernelgym.add_routes(server);
  server.route("GET", "/health", [impl = impl_.get()](const server::Request&, const server::Reply& reply) {
    reply.send(impl->health());
  });
  server.route("GET", "/metrics", [impl = impl_.get()](const server::Request&, const server::Reply& reply) {
    reply.send({.body = impl->exchange.metrics.text(), .content_type = server::Metrics::kContentType});
  });
}

}  // namespace autotriton::reward
