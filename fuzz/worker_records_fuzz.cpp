#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "execution/channel.h"
#include "execution/job.h"
#include "fuzz/require.h"
#include "verify/candidate_client.h"
#include "verify/oracle_client.h"

/// What a worker's process says, read by the clients that verify it. The input is the bodies of records, one a line;
/// each request of a client takes the next ones. Whatever they hold, a client answers with a result or a reason.
namespace {

using namespace autotriton;

constexpr int kMaxRecords = 32;  // A socket without a reader takes only so many pieces,

/// A job whose process has said all of `records` and ended.
execution::Job spoken(std::string_view records) {
  std::array<int, 2> channel{};
  std::array<int, 2> status{};
  FUZZ_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel.data()) == 0);
  FUZZ_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, status.data()) == 0);
  execution::Job::Parts parts;
  parts.channel = execution::UniqueFd(channel[0]);
  parts.status = execution::UniqueFd(status[0]);
  const execution::UniqueFd said(channel[1]);
  const execution::UniqueFd server(status[1]);
  for (int count = 0; count < kMaxRecords && !records.empty(); ++count) {
    const std::size_t end = records.find('\n');
    const std::string frame = execution::encode_frame(records.substr(0, end));
    FUZZ_REQUIRE(::write(said.get(), frame.data(), frame.size()) == static_cast<ssize_t>(frame.size()));
    records.remove_prefix(end == std::string_view::npos ? records.size() : end + 1);
  }
  ::shutdown(said.get(), SHUT_WR);
  const std::string ended = execution::encode_frame(R"({"type":"ended","code":0,"signal":0})");
  FUZZ_REQUIRE(::write(server.get(), ended.data(), ended.size()) == static_cast<ssize_t>(ended.size()));
  return execution::Job(std::move(parts));
}

template <typename Result>
void require_reason(const Result& result) {
  if (const auto* failure = std::get_if<verify::CandidateFailure>(&result)) {
    FUZZ_REQUIRE(verify::info(failure->reason).reason == failure->reason);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 65'536) return 0;  // and so many bytes.
  const std::string_view records(reinterpret_cast<const char*>(data), size);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  const verify::CandidateSpec spec{.source = "", .entry = "ModelNew"};
  const verify::Payload nothing{.json = "[]", .memory = execution::make_memory_file("inputs", 0)};
  {
    verify::CandidateClient client(spoken(records), spec);
    require_reason(client.load(deadline));
  }
  {
    verify::CandidateClient client(spoken(records), spec);
    const auto result = client.run(nothing, {}, 1, deadline);
    require_reason(result);
    if (const auto* ran = std::get_if<verify::RunResult>(&result)) FUZZ_REQUIRE(!ran->outputs.empty());
  }
  {
    verify::CandidateClient client(spoken(records), spec);
    require_reason(client.compile("[]", false, deadline));
    require_reason(client.construct_shapes({.known = true, .arguments = "[]", .inputs = "plain"}, true, deadline));
  }
  {
    verify::OracleClient client(spoken(records), 5);
    client.open({.task_id = "t", .kind = tasks::TaskKind::kModule, .reference = "", .entry_point = "Model"}, 1000,
                verify::Shapes::kBoth);
    verify::ModelSetup setup;
    client.init("original", 1, 2, setup);
    verify::TrialSetup trial;
    client.trial("original", 0, "plain", {.inputs = 1, .run = 2}, trial);
    verify::Comparison comparison;
    client.compare_stand_in(0, {}, "zeros", comparison);
    verify::ShapesOnly shapes;
    client.shapes("original", shapes);
  }
  return 0;
}
