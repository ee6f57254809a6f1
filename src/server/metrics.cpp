#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <mutex>

#include "base/error.h"

namespace autotriton::server {

struct Metrics::Impl {
  struct HistogramFamily {
    prometheus::Family<prometheus::Histogram>* family;
    std::vector<double> bounds;
  };

  prometheus::Registry registry{prometheus::Registry::InsertBehavior::Throw};
  // Filled before the first request, then only read.
  std::map<std::string, prometheus::Family<prometheus::Counter>*> counters;
  std::map<std::string, prometheus::Family<prometheus::Gauge>*> gauges;
  std::map<std::string, HistogramFamily> histograms;
  std::vector<std::function<void()>> before_text;
};

namespace {

template <typename Map>
auto& declared(Map& families, const std::string& name) {
  const auto found = families.find(name);
  check(found != families.end(), "the metric " + name + " is not declared as what it is used for");
  return found->second;
}

}  // namespace

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

void Metrics::counter(const std::string& name, const std::string& help) {
  impl_->counters[name] = &prometheus::BuildCounter().Name(name).Help(help).Register(impl_->registry);
}

void Metrics::gauge(const std::string& name, const std::string& help) {
  impl_->gauges[name] = &prometheus::BuildGauge().Name(name).Help(help).Register(impl_->registry);
}

void Metrics::histogram(const std::string& name, const std::string& help, std::vector<double> bounds) {
  impl_->histograms[name] = {&prometheus::BuildHistogram().Name(name).Help(help).Register(impl_->registry),
                             std::move(bounds)};
}

void Metrics::add(const std::string& name, const Labels& labels, double amount) {
  declared(impl_->counters, name)->Add({labels.begin(), labels.end()}).Increment(amount);
}

void Metrics::set(const std::string& name, const Labels& labels, double value) {
  declared(impl_->gauges, name)->Add({labels.begin(), labels.end()}).Set(value);
}

void Metrics::observe(const std::string& name, const Labels& labels, double value) {
  auto& histogram = declared(impl_->histograms, name);
  histogram.family->Add({labels.begin(), labels.end()}, histogram.bounds).Observe(value);
}

void Metrics::before_text(std::function<void()> call) { impl_->before_text.push_back(std::move(call)); }

std::string Metrics::text() const {
  for (const auto& call : impl_->before_text) call();
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

}  // namespace autotriton::server
