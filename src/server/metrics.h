#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace autotriton::server {

/// Numbers for Prometheus. A metric is declared once, with its help, and then counted by its name; each set of labels
/// is a series of its own, so a label must come from a closed list (a route's pattern, never a path). Thread-safe.
///
///     Metrics metrics;
///     metrics.counter("http_requests_total", "Requests answered.");
///     metrics.add("http_requests_total", {{"route", "/health"}});
class Metrics {
 public:
  using Labels = std::map<std::string, std::string>;

  Metrics();
  ~Metrics();

  void counter(const std::string& name, const std::string& help);
  void gauge(const std::string& name, const std::string& help);
  /// `bounds` are the upper ends of the buckets, ascending; the last bucket has none.
  void histogram(const std::string& name, const std::string& help, std::vector<double> bounds);

  // Each throws InvariantError for a name that was not declared as such.
  void add(const std::string& name, const Labels& labels, double amount = 1);
  void set(const std::string& name, const Labels& labels, double value);
  void observe(const std::string& name, const Labels& labels, double value);

  /// `call` is made before each text(), to set gauges of what is only known on asking.
  void before_text(std::function<void()> call);

  /// Text format 0.0.4.
  std::string text() const;
  static constexpr const char* kContentType = "text/plain; version=0.0.4; charset=utf-8";

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace autotriton::server
