#include "verify/candidate_client.h"

#include <signal.h>
#include <string.h>
#include <algorithm>

#include "base/error.h"
#include "verify/record_json.h"

namespace autotriton::verify {
namespace {

using execution::JobEvent;
using execution::JobMode;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kOutputBytes = std::uint64_t{512} << 20;
constexpr int kMaxLeaves = 1000;
constexpr int kMaxDimensions = 16;
constexpr std::size_t kMaxMessage = 1500;
constexpr int kWorkerFault = 86;  // Exit code of worker/fork_server.py when our own code in the job failed,
constexpr int kTampered = 87;     // and when the channel stopped working after an answer was loaded.

execution::JobLimits limits_for(JobMode mode) {
  execution::JobLimits limits;
  limits.file_bytes = kOutputBytes;
  if (mode == JobMode::kCompile) {  // ptxas is a program of its own and writes temporary files.
    limits.processes = 16;
    limits.allow_exec = true;
    limits.tmp_bytes = std::uint64_t{256} << 20;
  }
  return limits;
}

std::string cut(std::string text) {
  if (text.size() > kMaxMessage) text.resize(kMaxMessage);
  return text;
}

/// Checks the form of a value's description, which an untrusted process sent, before anyone else reads it.
void check_value(const Json& value, int& leaves, int depth) {
  if (++leaves > kMaxLeaves || depth > 16) throw MalformedRecord{"too many values"};
  const std::string kind = text(value, "k");
  if (kind == "tensor") {
    const Json& shape = list(value, "shape");
    const Json& stride = list(value, "stride");
    if (shape.size() != stride.size() || shape.size() > kMaxDimensions) throw MalformedRecord{"shape"};
    for (const Json* dimensions : {&shape, &stride}) {
      for (const Json& size : *dimensions) {
        if (!size.is_number_integer() || size.get<std::int64_t>() < 0 ||
            size.get<std::int64_t>() > (std::int64_t{1} << 40)) {
          throw MalformedRecord{"shape"};
        }
      }
    }
    text(value, "dtype");
    for (const char* field : {"offset", "bytes"}) {
      const std::int64_t bytes = integer(value, field);
      if (bytes < 0 || static_cast<std::uint64_t>(bytes) > kOutputBytes) throw MalformedRecord{field};
    }
  } else if (kind == "list" || kind == "tuple" || kind == "dict") {
    for (const Json& item : list(value, "v")) check_value(item, leaves, depth + 1);
    if (kind == "dict") {
      if (list(value, "keys").size() != list(value, "v").size()) throw MalformedRecord{"keys"};
      for (const Json& item : list(value, "keys")) check_value(item, leaves, depth + 1);
    }
  } else if (kind == "int" || kind == "float" || kind == "str" || kind == "dtype") {
    if (text(value, "v").size() > 4096) throw MalformedRecord{"v"};
  } else if (kind == "bool") {
    boolean(value, "v");
  } else if (kind == "complex") {
    text(value, "re");
    text(value, "im");
  } else if (kind != "none" && kind != "device") {
    throw MalformedRecord{"k"};
  }
}

Reason reason_for(const std::string& phase, const std::string& kind) {
  if (kind == "gap") return Reason::kInterpreterGap;
  if (kind == "bounds") return Reason::kOutOfBounds;
  if (kind == "exit") return Reason::kExitedEarly;
  if (kind == "memory") return Reason::kMemoryExceeded;
  if (kind == "unsupported") return Reason::kWrongStructure;
  if (phase == "load") return Reason::kImportRaised;
  if (phase == "construct") return Reason::kConstructRaised;
  return Reason::kRunRaised;
}

CandidateFailure read_failure(const Json& record) {
  const std::string phase = text(record, "phase");
  CandidateFailure failure;
  failure.reason = reason_for(phase, text(record, "kind"));
  failure.message = cut(text(record, "message"));
  failure.line = static_cast<int>(integer(record, "line"));
  failure.exception = cut(text(record, "exception"));
  return failure;
}

CandidateFailure violation_of_protocol(const std::string& what) {
  return {.reason = Reason::kProtocolViolation, .message = what, .line = 0, .exception = {}};
}

std::vector<std::string> texts(const Json& array) {
  std::vector<std::string> result;
  for (const Json& item : array) {
    if (!item.is_string() || result.size() >= 64) throw MalformedRecord{"list of texts"};
    result.push_back(cut(item.get<std::string>()));
  }
  return result;
}

}  // namespace

CandidateClient::CandidateClient(execution::ForkServer& server, JobMode mode, const CandidateSpec& spec)
    : spec_(spec), job_(server.spawn(mode, limits_for(mode), spec.capability)) {}

CandidateClient::Result<std::string> CandidateClient::ask(const std::string& request,
                                                          const std::vector<int>& descriptors, const char* expected,
                                                          Reason on_timeout, Deadline deadline) {
  if (!job_.send(request, descriptors)) {
    JobEvent event = job_.next(Clock::now() + std::chrono::seconds(2));
    if (event.kind == JobEvent::Kind::kLost)
      return CandidateFailure{Reason::kWorkerLost, "the worker's server vanished", 0, {}};
  }
  std::int64_t done = 0;
  auto last_progress = Clock::time_point{};
  while (true) {
    JobEvent event = job_.next(deadline);
    switch (event.kind) {
      case JobEvent::Kind::kTimeout: {
        job_.kill();
        const bool moving = on_timeout == Reason::kRunTimeout && Clock::now() - last_progress < std::chrono::seconds(5);
        if (moving)
          return CandidateFailure{
              Reason::kInterpreterTimeout, "the kernels still ran, program " + std::to_string(done), 0, {}};
        return CandidateFailure{on_timeout, "not finished in time", 0, {}};
      }
      case JobEvent::Kind::kEnded:
        if (event.end.code == kWorkerFault) {
          return CandidateFailure{Reason::kWorkerLost, "the worker failed: " + job_.output_tail(1200), 0, {}};
        }
        if (event.end.code == kTampered) return violation_of_protocol("the answer's process broke its channel");
        if (event.end.signal != 0) {
          const std::string name = sigabbrev_np(event.end.signal) != nullptr ? sigabbrev_np(event.end.signal)
                                                                             : std::to_string(event.end.signal);
          const bool by_kernel = event.end.signal == SIGKILL;
          return CandidateFailure{by_kernel ? Reason::kMemoryExceeded : Reason::kCrashed,
                                  "the process was killed by SIG" + name,
                                  0,
                                  {},
                                  false,
                                  by_kernel};
        }
        return CandidateFailure{
            Reason::kExitedEarly, "the process ended with exit code " + std::to_string(event.end.code), 0, {}};
      case JobEvent::Kind::kLost:
        return CandidateFailure{Reason::kWorkerLost, "the worker's server vanished", 0, {}};
      case JobEvent::Kind::kInterrupted:
        return CandidateFailure{Reason::kInternal, "interrupted", 0, {}, true};
      case JobEvent::Kind::kMalformed:
        return violation_of_protocol("bytes that are no record came from the answer's process");
      case JobEvent::Kind::kRecord:
        break;
    }
    const Json record = Json::parse(event.frame.body, nullptr, false);
    try {
      const std::string type = text(record, "type");
      if (type == "progress") {
        const std::int64_t now = integer(record, "done");
        if (now != done) last_progress = Clock::now();
        done = now;
        continue;
      }
      if (type == "failed") return read_failure(record);
      if (type == expected) return std::move(event.frame.body);
      return violation_of_protocol("a record of type `" + cut(type) + "` came where `" + expected + "` was due");
    } catch (const MalformedRecord& malformed) {
      return violation_of_protocol("a record without a proper `" + malformed.field + "`");
    }
  }
}

CandidateClient::Result<Loaded> CandidateClient::load(Deadline deadline) {
  const Json request = {{"type", "load"},
                        {"source", spec_.source},
                        {"entry", spec_.entry},
                        {"kind", spec_.script   ? "script"
                                 : spec_.module ? "module"
                                                : "function"}};
  auto reply = ask(request.dump(), {}, "loaded", Reason::kLoadTimeout, deadline);
  if (auto* failure = std::get_if<CandidateFailure>(&reply)) return std::move(*failure);
  try {
    const Json record = Json::parse(std::get<std::string>(reply));
    Loaded loaded;
    for (const auto& [what, count] : member(record, "strayed").items()) {
      if (loaded.strayed.size() >= 4 || !count.is_number_integer()) throw MalformedRecord{"strayed"};
      loaded.strayed[cut(what)] = count.get<std::int64_t>();
    }
    return loaded;
  } catch (const MalformedRecord& malformed) {
    return violation_of_protocol("a record without a proper `" + malformed.field + "`");
  }
}

CandidateClient::Result<Constructed> CandidateClient::construct(const ModelSetup& setup, Deadline deadline) {
  const Json request = {{"type", "construct"},
                        {"arguments", Json::parse(setup.arguments)},
                        {"weights", Json::parse(setup.weights)},
                        {"seed", std::to_string(setup.seed)},
                        {"evaluation", setup.evaluation}};
  auto reply = ask(request.dump(), {setup.memory.get()}, "constructed", Reason::kLoadTimeout, deadline);
  if (auto* failure = std::get_if<CandidateFailure>(&reply)) return std::move(*failure);
  try {
    const Json record = Json::parse(std::get<std::string>(reply));
    Constructed constructed;
    constructed.by_name = static_cast<int>(integer(record, "by_name"));
    constructed.by_shape = static_cast<int>(integer(record, "by_shape"));
    for (const Json& item : list(record, "unmatched")) {
      (boolean(item, "constant") ? constructed.unmatched_constant : constructed.unmatched)
          .push_back(cut(text(item, "name")));
    }
    return constructed;
  } catch (const MalformedRecord& malformed) {
    return violation_of_protocol("a record without a proper `" + malformed.field + "`");
  }
}

CandidateClient::Result<Constructed> CandidateClient::construct_shapes(const ShapesOnly& shapes, bool evaluation,
                                                                       Deadline deadline) {
  const Json request = {{"type", "construct"},
                        {"meta", true},
                        {"arguments", Json::parse(shapes.arguments)},
                        {"seed", "0"},
                        {"evaluation", evaluation}};
  auto reply = ask(request.dump(), {}, "constructed", Reason::kLoadTimeout, deadline);
  if (auto* failure = std::get_if<CandidateFailure>(&reply)) return std::move(*failure);
  return Constructed{};
}

CandidateClient::Result<RunResult> CandidateClient::run(const Payload& arguments, const RunHow& how, std::uint64_t seed,
                                                        Deadline deadline) {
  RunResult result;
  result.memory = execution::make_memory_file("outputs", kOutputBytes);
  const Json request = {{"type", "run"},
                        {"arguments", Json::parse(arguments.json)},
                        {"config", how.config},
                        {"order",
                         {{"kind", how.order == RunHow::Order::kNatural    ? "natural"
                                   : how.order == RunHow::Order::kReversed ? "reversed"
                                                                           : "shuffled"},
                          {"seed", std::to_string(seed)},
                          {"kernel", how.only_kernel}}},
                        {"tune", how.trial_runs},
                        {"races", how.watch_races},
                        {"hints", how.check_hints},
                        {"torch_compute", how.report_torch ? "report" : "refuse"},
                        {"seed", std::to_string(seed)},
                        {"capacity", kOutputBytes}};
  auto reply = ask(request.dump(), {arguments.memory.get(), result.memory.get()}, "ran", Reason::kRunTimeout, deadline);
  if (auto* failure = std::get_if<CandidateFailure>(&reply)) return std::move(*failure);
  try {
    const Json record = Json::parse(std::get<std::string>(reply));
    int leaves = 0;
    check_value(member(record, "outputs"), leaves, 0);
    result.outputs = member(record, "outputs").dump();
    if (const Json& after = member(record, "inputs_after"); !after.is_null()) {
      check_value(after, leaves, 0);
      result.inputs_after = after.dump();
    }
    for (const Json& alias : list(record, "aliases")) {
      if (!alias.is_number_integer() || result.aliases.size() >= 64) throw MalformedRecord{"aliases"};
      result.aliases.push_back(alias.get<int>());
    }
    for (const Json& item : list(record, "launches")) {
      if (result.launches.size() >= 256) throw MalformedRecord{"launches"};
      Launch launch{.kernel = cut(text(item, "kernel")),
                    .count = static_cast<int>(integer(item, "count")),
                    .grid = {},
                    .compiled = {}};
      for (const Json& size : list(item, "grid")) {
        if (!size.is_number_integer() || launch.grid.size() >= 3) throw MalformedRecord{"grid"};
        launch.grid.push_back(size.get<std::int64_t>());
      }
      result.launches.push_back(std::move(launch));
    }
    for (const Json& item : list(record, "violations")) {
      if (result.violations.size() >= 64) throw MalformedRecord{"violations"};
      result.violations.push_back({.reason = text(item, "reason"), .message = cut(text(item, "message"))});
    }
    result.torch_ops = texts(list(record, "torch_ops"));
    result.copied = cut(text(record, "copied"));
    result.configs = static_cast<int>(integer(record, "configs"));
    result.config = cut(text(record, "config"));
    result.in_order = texts(list(record, "in_order"));
    result.torch_share = std::clamp(number(record, "torch_share"), 0.0, 1.0);
    return result;
  } catch (const MalformedRecord& malformed) {
    return violation_of_protocol("a record without a proper `" + malformed.field + "`");
  }
}

CandidateClient::Result<CompileResult> CandidateClient::compile(const std::string& arguments, bool shapes_only,
                                                                Deadline deadline) {
  const Json request = {{"type", "compile"}, {"meta", shapes_only}, {"arguments", Json::parse(arguments)}};
  auto reply = ask(request.dump(), {}, "compiled", Reason::kCompileUndecided, deadline);
  if (auto* failure = std::get_if<CandidateFailure>(&reply)) return std::move(*failure);
  try {
    const Json record = Json::parse(std::get<std::string>(reply));
    CompileResult result;
    for (const Json& item : list(record, "kernels")) {
      if (result.kernels.size() >= 256) throw MalformedRecord{"kernels"};
      CompiledSpecialisation compiled;
      compiled.kernel = cut(text(item, "kernel"));
      compiled.problem = text(item, "problem");
      compiled.message = cut(text(item, "message"));
      compiled.resources.target = "sm_" + std::to_string(spec_.capability);
      compiled.resources.shared_bytes = static_cast<int>(integer(item, "shared_bytes"));
      compiled.resources.registers = static_cast<int>(integer(item, "registers"));
      compiled.resources.spills = static_cast<int>(integer(item, "local_bytes"));
      result.kernels.push_back(std::move(compiled));
    }
    result.launched = texts(list(record, "launched"));
    result.error = cut(text(record, "error"));
    result.exception = cut(text(record, "exception"));
    result.line = static_cast<int>(integer(record, "line"));
    return result;
  } catch (const MalformedRecord& malformed) {
    return violation_of_protocol("a record without a proper `" + malformed.field + "`");
  }
}

}  // namespace autotriton::verify
