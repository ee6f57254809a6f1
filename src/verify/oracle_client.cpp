#include "verify/oracle_client.h"

#include <signal.h>

#include "base/error.h"
#include "verify/record_json.h"

namespace autotriton::verify {
namespace {

using execution::JobEvent;
using Clock = std::chrono::steady_clock;

constexpr double kSlackSeconds =
    20;  // Beyond the reference's own limits: plans try several sizes, trials run it five times.
constexpr int kRunsInARequest = 8;
constexpr int kWorkerFault = 86;  // worker/fork_server.py: our own code in the job failed.

execution::JobLimits oracle_limits() {
  execution::JobLimits limits;
  limits.address_space_bytes = std::uint64_t{8} << 30;
  limits.file_bytes = std::uint64_t{2} << 30;
  limits.cpu_seconds = 36'000;
  return limits;
}

std::string_view shapes_name(Shapes shapes) {
  return shapes == Shapes::kOriginal ? "original" : shapes == Shapes::kScaled ? "scaled" : "both";
}

LeafStatistics read_leaf(const Json& record) {
  LeafStatistics leaf;
  leaf.path = text(record, "path");
  leaf.tensor = text(record, "kind") == "tensor";
  if (!leaf.tensor) return leaf;
  leaf.dtype = text(record, "dtype");
  leaf.floating = boolean(record, "floating");
  leaf.count = static_cast<std::uint64_t>(integer(record, "count"));
  leaf.jumps = static_cast<std::uint64_t>(integer(record, "jumps"));
  if (leaf.floating) {
    leaf.rms = number(record, "rms");
    leaf.max_abs = number(record, "max_abs");
    leaf.noise = number(record, "noise");
    leaf.half_error = number(record, "half_error");
  }
  return leaf;
}

LeafComparison read_comparison(const Json& record) {
  LeafComparison leaf;
  leaf.path = text(record, "path");
  leaf.problem = text(record, "problem");
  leaf.count = static_cast<std::uint64_t>(integer(record, "count"));
  leaf.bad = static_cast<std::uint64_t>(integer(record, "bad"));
  leaf.nonfinite = static_cast<std::uint64_t>(integer(record, "nonfinite"));
  leaf.max_abs = number(record, "max_abs");
  leaf.max_rel = number(record, "max_rel");
  if (record.contains("index")) {
    for (const Json& part : list(record, "index")) leaf.index.push_back(part.get<std::int64_t>());
  }
  if (record.contains("expected")) leaf.expected = text(record, "expected");
  if (record.contains("actual")) leaf.actual = text(record, "actual");
  return leaf;
}

Json tolerances_json(const std::vector<Tolerance>& tolerances) {
  Json array = Json::array();
  for (const Tolerance& bounds : tolerances) array.push_back({bounds.absolute, bounds.relative});
  return array;
}

OracleProblem lost(const std::string& what, const execution::Job& job) {
  return {Reason::kWorkerLost, "the oracle " + what + "; its last words: " + job.output_tail(1500)};
}

}  // namespace

OracleClient::OracleClient(execution::ForkServer& server, int capability, double seconds)
    : job_(server.spawn(execution::JobMode::kOracle, oracle_limits(), capability)), seconds_(seconds) {}

std::optional<OracleProblem> OracleClient::ask(const std::string& request, const std::vector<int>& descriptors,
                                               const char* expected, std::string& reply) {
  const std::lock_guard lock(mutex_);
  if (!job_.send(request, descriptors)) return lost("closed its channel", job_);
  const auto limit = std::chrono::duration<double>(seconds_ * kRunsInARequest + kSlackSeconds);
  JobEvent event = job_.next(Clock::now() + std::chrono::duration_cast<Clock::duration>(limit));
  switch (event.kind) {
    case JobEvent::Kind::kRecord:
      break;
    case JobEvent::Kind::kTimeout:
      job_.kill();
      return OracleProblem{Reason::kTaskTooLarge, "the reference did not finish in time"};
    case JobEvent::Kind::kEnded:
      if (event.end.signal == SIGKILL || event.end.signal == SIGSEGV || event.end.signal == SIGBUS ||
          event.end.signal == SIGFPE) {
        return OracleProblem{Reason::kReferenceFailed, "the problem's reference crashed its process (signal " +
                                                           std::to_string(event.end.signal) + ")"};
      }
      if (event.end.code != kWorkerFault && event.end.signal == 0) {
        return OracleProblem{Reason::kReferenceFailed, "the problem's reference ended its process (exit code " +
                                                           std::to_string(event.end.code) + ")"};
      }
      return lost(
          "ended (code " + std::to_string(event.end.code) + ", signal " + std::to_string(event.end.signal) + ")", job_);
    case JobEvent::Kind::kInterrupted:
      return OracleProblem{Reason::kInternal, "interrupted", true};
    case JobEvent::Kind::kMalformed:
    case JobEvent::Kind::kLost:
      return lost("was lost", job_);
  }
  reply = std::move(event.frame.body);
  try {
    const Json record = Json::parse(reply, nullptr, false);
    const std::string type = text(record, "type");
    if (type == "unusable") {
      const std::string id = text(record, "reason");
      const std::optional<Reason> reason = reason_from_id(id);
      check(reason.has_value(), "the oracle's reason stands in the table: " + id);
      std::string message = text(record, "message");
      if (const std::string detail = text(record, "detail"); !detail.empty()) message += "\n" + detail;
      return OracleProblem{*reason, message};
    }
    if (type == "malformed") return OracleProblem{Reason::kProtocolViolation, text(record, "message")};
    if (type != expected) return lost("answered `" + type + "` instead of `" + expected + "`", job_);
  } catch (const MalformedRecord& malformed) {
    return lost("sent a record without `" + malformed.field + "`", job_);
  }
  return std::nullopt;
}

template <typename Read>
std::optional<OracleProblem> OracleClient::read(const std::string& reply, Read take) const {
  try {
    take(Json::parse(reply));
  } catch (const MalformedRecord& malformed) {
    return lost("sent a record without `" + malformed.field + "`", job_);
  } catch (const Json::exception& malformed) {
    return lost(std::string("sent a record of another form: ") + malformed.what(), job_);
  }
  return std::nullopt;
}

std::optional<OracleProblem> OracleClient::open(const tasks::Task& task, std::int64_t max_elements, Shapes shapes) {
  const Json request = {{"type", "open"},
                        {"source", task.reference},
                        {"kind", tasks::kind_name(task.kind)},
                        {"entry", task.entry_point},
                        {"run_seconds", seconds_},
                        {"max_elements", max_elements},
                        {"shapes", shapes_name(shapes)}};
  std::string reply;
  if (auto problem = ask(request.dump(), {}, "opened", reply)) return problem;
  return read(reply, [&](const Json& record) {
    variants_.clear();
    for (const Json& item : list(record, "variants")) {
      Variant variant{.name = text(item, "name"), .elements = integer(item, "elements"), .sizes = {}};
      for (const Json& size : list(item, "sizes"))
        variant.sizes.emplace_back(size.at(0).get<std::int64_t>(), size.at(1).get<std::int64_t>());
      variants_.push_back(std::move(variant));
    }
  });
}

const Variant* OracleClient::variant(std::string_view name) const {
  for (const Variant& variant : variants_) {
    if (variant.name == name) return &variant;
  }
  return nullptr;
}

std::optional<OracleProblem> OracleClient::init(const std::string& variant, std::uint64_t seed,
                                                std::uint64_t weight_seed, ModelSetup& setup) {
  setup.memory = execution::make_memory_file("weights", 0);
  const Json request = {{"type", "init"},
                        {"variant", variant},
                        {"seed", std::to_string(seed)},
                        {"weight_seed", std::to_string(weight_seed)}};
  std::string reply;
  if (auto problem = ask(request.dump(), {setup.memory.get()}, "init", reply)) return problem;
  execution::seal_memory_file(setup.memory);
  return read(reply, [&](const Json& record) {
    setup.arguments = list(record, "arguments").dump();
    setup.weights = list(record, "weights").dump();
    setup.evaluation = boolean(record, "evaluation");
    setup.seed = seed;
  });
}

std::optional<OracleProblem> OracleClient::trial(const std::string& variant, int index, const std::string& inputs,
                                                 TrialSeeds seeds, TrialSetup& setup) {
  setup = {};
  setup.arguments.memory = execution::make_memory_file("inputs", 0);
  const Json request = {{"type", "trial"},
                        {"variant", variant},
                        {"index", index},
                        {"inputs", inputs},
                        {"seed", std::to_string(seeds.inputs)},
                        {"run_seed", std::to_string(seeds.run)}};
  std::string reply;
  if (auto problem = ask(request.dump(), {setup.arguments.memory.get()}, "trial", reply)) return problem;
  execution::seal_memory_file(setup.arguments.memory);
  return read(reply, [&](const Json& record) {
    setup.arguments.json = list(record, "arguments").dump();
    setup.inputs = text(record, "inputs");
    setup.exact = boolean(record, "exact");
    setup.aliases = list(record, "aliases").get<std::vector<int>>();
    for (const Json& leaf : list(record, "leaves")) setup.leaves.push_back(read_leaf(leaf));
    for (const Json& shape : list(record, "shapes")) {
      setup.shapes.push_back({.shape = shape.at(0).get<std::vector<std::int64_t>>(),
                              .dtype = shape.at(1).get<std::string>(),
                              .distribution = setup.inputs});
    }
  });
}

std::optional<OracleProblem> OracleClient::shapes(const std::string& variant, ShapesOnly& shapes) {
  std::string reply;
  if (auto problem = ask(Json{{"type", "shapes"}, {"variant", variant}}.dump(), {}, "shapes", reply)) return problem;
  return read(reply, [&](const Json& record) {
    shapes.known = boolean(record, "known");
    shapes.arguments = list(record, "arguments").dump();
    shapes.inputs = list(record, "inputs").dump();
  });
}

namespace {

void read_comparisons(const Json& record, Comparison& comparison) {
  comparison.applies = boolean(record, "applies");
  comparison.structure = text(record, "structure");
  comparison.inputs = text(record, "inputs");
  comparison.leaves.clear();
  for (const Json& leaf : list(record, "leaves")) comparison.leaves.push_back(read_comparison(leaf));
}

}  // namespace

std::optional<OracleProblem> OracleClient::compare(int index, const std::vector<Tolerance>& tolerances,
                                                   const std::string& outputs, const std::string& inputs_after,
                                                   const execution::UniqueFd& memory, Comparison& comparison) {
  const Json request = {{"type", "compare"},
                        {"index", index},
                        {"subject", "candidate"},
                        {"tolerances", tolerances_json(tolerances)},
                        {"outputs", Json::parse(outputs)},
                        {"inputs_after", inputs_after.empty() ? Json(nullptr) : Json::parse(inputs_after)}};
  std::string reply;
  if (auto problem = ask(request.dump(), {memory.get()}, "compared", reply)) return problem;
  return read(reply, [&](const Json& record) { read_comparisons(record, comparison); });
}

std::optional<OracleProblem> OracleClient::compare_stand_in(int index, const std::vector<Tolerance>& tolerances,
                                                            const std::string& subject, Comparison& comparison) {
  const Json request = {
      {"type", "compare"}, {"index", index}, {"subject", subject}, {"tolerances", tolerances_json(tolerances)}};
  std::string reply;
  if (auto problem = ask(request.dump(), {}, "compared", reply)) return problem;
  return read(reply, [&](const Json& record) { read_comparisons(record, comparison); });
}

}  // namespace autotriton::verify
