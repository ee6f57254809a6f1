#include "server/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace autotriton::server {
namespace {

using testing::HasSubstr;

TEST(MetricsTest, TheTextHoldsWhatWasCounted) {
  Metrics metrics;
  metrics.counter("requests_total", "Requests.");
  metrics.histogram("seconds", "Time.", {0.1, 1});
  metrics.gauge("waiting", "Depth.");
  metrics.add("requests_total", {{"route", "/a\"b"}});
  metrics.add("requests_total", {{"route", "/a\"b"}}, 2);
  metrics.observe("seconds", {}, 0.5);
  int asked = 0;
  metrics.before_text([&] { metrics.set("waiting", {}, ++asked); });
  const std::string text = metrics.text();
  EXPECT_THAT(text, HasSubstr("# HELP requests_total Requests.\n# TYPE requests_total counter\n"));
  EXPECT_THAT(text, HasSubstr("requests_total{route=\"/a\\\"b\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("seconds_bucket{le=\"0.1\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("seconds_bucket{le=\"1\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("seconds_bucket{le=\"+Inf\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("waiting 1\n"));
  EXPECT_THAT(metrics.text(), HasSubstr("waiting 2\n"));
}

TEST(MetricsTest, AMetricThatWasNotDeclaredIsAFaultOfOurs) {
  Metrics metrics;
  metrics.counter("a_total", "A.");
  EXPECT_THROW(metrics.add("b_total", {}), InvariantError);
  EXPECT_THROW(metrics.set("a_total", {}, 1), InvariantError);
}

}  // namespace
}  // namespace autotriton::server
