#include "reward/service.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "reward/held_backend.h"

namespace autotriton::reward {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;
using testing::HasSubstr;
using verify::Reason;

const std::string kSource =
    "import torch\nimport torch.nn as nn\n\nclass Model(nn.Module):\n    def forward(self, x):\n        return "
    "torch.relu(x)\n\n"
    "def get_inputs():\n    return [torch.randn(4, 4)]\n\ndef get_init_inputs():\n    return []\n";

struct Answer {
  int status = 0;
  std::string head;
  std::string body;
  Json json() const { return Json::parse(body); }
};

/// The protocols over a real socket, with a backend that does as a test says.
class ServiceTest : public testing::Test {
 protected:
  ServiceTest() {
    service_.add_routes(server_);
    server_.start();
  }

  Answer ask(const std::string& method, const std::string& target, const std::string& body = {}) {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(server_.port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    const std::string request =
        method + " " + target +
        " HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
        body;
    EXPECT_EQ(::send(socket, request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
    std::string all;
    char bytes[65536];
    for (ssize_t got = 0; (got = ::recv(socket, bytes, sizeof(bytes), 0)) > 0;)
      all.append(bytes, static_cast<std::size_t>(got));
    ::close(socket);
    const auto end = all.find("\r\n\r\n");
    if (end == std::string::npos) return {};
    return {.status = std::stoi(all.substr(9, 3)), .head = all.substr(0, end), .body = all.substr(end + 4)};
  }
  Answer post(const std::string& target, const Json& body) { return ask("POST", target, body.dump()); }

  // Posts, and ends what the backend gets with these, in turn.
  Answer post(const std::string& target, const Json& body, std::vector<Reason> reasons) {
    auto answer = std::async(std::launch::async, [&] { return post(target, body); });
    for (const Reason reason : reasons) {
      for (int i = 0; i < 1000 && !end_first(reason); ++i) std::this_thread::sleep_for(5ms);
    }
    return answer.get();
  }
  bool end_first(Reason reason) {
    auto held = backend_.take();
    if (!held) return false;
    texts_.push_back(held->request.text);
    held->done(HeldBackend::verdict(reason));
    return true;
  }

  HeldBackend backend_;
  server::Metrics metrics_;
  TaskSource tasks_{nullptr};
  Judge judge_{backend_, Profile::paper(), {.max_waiting = 3}, metrics_};
  Service service_{judge_, tasks_, metrics_, {.version = "test"}};
  server::HttpServer server_{{.port = 0}, metrics_};
  std::vector<std::string> texts_;
};

TEST_F(ServiceTest, OpenRlhfGetsListsOfNumbersAndNulls) {
  const Answer answer = post("/get_reward",
                             {{"query", {"ask: one<|im_end|>", "ask: two", "ask: three"}},
                              {"prompts", {"ask:", "ask:", "ask:"}},
                              {"labels", {kSource, kSource, kSource}}},
                             {Reason::kAllEvidence, Reason::kWrongValues, Reason::kInterpreterGap});
  ASSERT_EQ(answer.status, 200) << answer.body;
  const Json body = answer.json();
  EXPECT_EQ(body["rewards"], Json({1.0, 0.0, nullptr}));
  EXPECT_EQ(body["scores"], body["rewards"]);
  EXPECT_EQ(body["reasons"], Json({"all-evidence", "wrong-values", "interpreter-gap"}));
  for (const auto& [name, values] : body["extra_logs"].items()) {
    ASSERT_EQ(values.size(), 3U) << name;
    for (const Json& value : values) EXPECT_TRUE(value.is_number()) << name << " becomes a tensor";
  }
  EXPECT_EQ(body["extra_logs"]["masked"], Json({0.0, 0.0, 1.0}));
  EXPECT_EQ(texts_[0], " one");
}

TEST_F(ServiceTest, NullIsSpelledNanForWhoAsksForIt) {
  const Json body = {{"query", {"one"}}, {"prompts", {""}}, {"labels", {kSource}}};
  EXPECT_THAT(post("/get_reward?null=nan", body, {Reason::kInterpreterGap}).body,
              HasSubstr("\"rewards\":[NaN],\"scores\":[NaN]"));
  EXPECT_EQ(post("/get_reward?null=zero", body).status, 400);
}

TEST_F(ServiceTest, AQueryWithoutItsPromptIsNotJudged) {
  const Answer answer =
      post("/get_reward",
           {{"query", {"something else", "ask: two"}}, {"prompts", {"ask:", "ask:"}}, {"labels", {kSource, kSource}}},
           {Reason::kAllEvidence});
  EXPECT_EQ(answer.json()["rewards"], Json({nullptr, 1.0}));
  EXPECT_EQ(answer.json()["reasons"][0], "prompt-mismatch");
}

TEST_F(ServiceTest, ARequestThatCannotBeUsedSaysWhatIsWrong) {
  for (const auto& [body, word] : std::vector<std::pair<Json, std::string>>{
           {Json::array(), "no JSON object"},
           {{{"query", {"a"}}, {"prompts", {""}}}, "`labels` is missing"},
           {{{"query", "a"}, {"prompts", {""}}, {"labels", {"x"}}}, "`query` is no list"},
           {{{"query", {"a"}}, {"prompts", {""}}, {"labels", {"x", "y"}}}, "differ in length: 1, 1, 2"},
           {{{"query", {7}}, {"prompts", {""}}, {"labels", {"x"}}}, "`query[0]` is no string"},
           {{{"query", {"a"}}, {"prompts", {""}}, {"labels", {"t1"}}}, "--tasks"},
           {{{"query", {"a"}}, {"prompts", {""}}, {"labels", {kSource}}, {"deadline_seconds", -1}}, "deadline"}}) {
    const Answer answer = post("/get_reward", body);
    EXPECT_EQ(answer.status, 400) << body.dump();
    EXPECT_THAT(answer.json()["error"]["message"].get<std::string>(), HasSubstr(word));
  }
  EXPECT_EQ(ask("POST", "/get_reward", "{\"query\": [\"\xff\"]}").status, 400);
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  EXPECT_EQ(ask("POST", "/get_reward", deep).status, 400);
  const std::string within =
      R"({"query": ["a"], "prompts": [""], "labels": [{"reference": "x", "meta": )" + deep + "}]}";
  EXPECT_EQ(ask("POST", "/get_reward", within).status, 400);
  const std::string task = Json(R"({"reference": "x", "meta": )" + deep + "}").dump();
  EXPECT_EQ(ask("POST", "/get_reward", R"({"query": ["a"], "prompts": [""], "labels": [)" + task + "]}").status, 400);
}

TEST_F(ServiceTest, SlimeGetsANumberOrAnObject) {
  const Json body = {{"prompt", "ask"}, {"response", "code<|im_end|>"}, {"label", kSource}};
  EXPECT_EQ(post("/reward", body, {Reason::kAllEvidence}).body, "1.0");
  EXPECT_EQ(post("/reward", body, {Reason::kInterpreterGap}).body, "null");
  const Json object = post("/reward?as=object", body, {Reason::kWrongValues}).json();
  EXPECT_EQ(object["score"], 0.0);
  EXPECT_EQ(object["reason"], "wrong-values");
  EXPECT_EQ(texts_[0], "code");
}

TEST_F(ServiceTest, KernelGymEvaluatesAndRemembersByIdAndContent) {
  Json task = {
      {"task_id", "k 1"}, {"reference_code", kSource}, {"kernel_code", "import triton  # code"}, {"timeout", 30}};
  EXPECT_EQ(ask("GET", "/status/k%201").status, 404);
  const Json first = post("/evaluate", task, {Reason::kAllEvidence}).json();
  EXPECT_EQ(first["status"], "completed");
  EXPECT_EQ(first["compiled"], true);
  EXPECT_EQ(first["correctness"], true);
  EXPECT_EQ(first["decoy_kernel"], false);
  EXPECT_FALSE(first.contains("speedup")) << "nothing was timed";
  EXPECT_EQ(ask("GET", "/status/k%201").json()["status"], "completed");
  EXPECT_EQ(ask("GET", "/results/k%201").json(), first);
  EXPECT_EQ(post("/evaluate", task).json(), first) << "known, and not judged again";
  task["kernel_code"] = "import triton  # other";
  const Json other = post("/evaluate", task, {Reason::kKernelKnockout}).json();
  EXPECT_EQ(other["correctness"], false);
  EXPECT_EQ(other["decoy_kernel"], true);
}

TEST_F(ServiceTest, KernelGymHasNoWordForAMaskedSampleSoNothingIsClaimedOfIt) {
  const Json task = {{"task_id", "k1"}, {"reference_code", kSource}, {"kernel_code", "import triton  # code"}};
  const Json masked = post("/evaluate", task, {Reason::kInterpreterGap}).json();
  EXPECT_EQ(masked["status"], "failed");
  EXPECT_FALSE(masked.contains("correctness"));
  EXPECT_FALSE(masked.contains("compiled"));
  EXPECT_EQ(masked["metadata"]["masked"], true);
  EXPECT_EQ(masked["metadata"]["reward"], nullptr);
  EXPECT_EQ(post("/evaluate", task, {Reason::kAllEvidence}).json()["correctness"], true)
      << "a masked one may be tried again";
}

TEST_F(ServiceTest, AKernelGymBatchHasOneResultATask) {
  const auto task = [](const char* id, const char* code) {
    return Json{{"task_id", id}, {"reference_code", kSource}, {"kernel_code", code}};
  };
  const Json answer =
      post("/evaluate/batch",
           {{"batch_id", "b"}, {"tasks", {task("1", "import triton  # a"), task("2", "import triton  # b")}}},
           {Reason::kAllEvidence, Reason::kTaskUnsupported})
          .json();
  EXPECT_EQ(answer["total_tasks"], 2);
  EXPECT_EQ(answer["completed_tasks"], 1);
  EXPECT_EQ(answer["failed_tasks"], 1);
  EXPECT_EQ(answer["results"][0]["task_id"], "1");
  Json many = Json::array();
  for (int i = 0; i < 101; ++i) many.push_back(task("x", "import triton  # a"));
  EXPECT_EQ(post("/evaluate/batch", {{"batch_id", "b"}, {"tasks", many}}).status, 400);
}

TEST_F(ServiceTest, VerifyGivesTheVerdictWithTheCallersId) {
  const Json verdict =
      post("/v1/verify", {{"id", 7}, {"problem", kSource}, {"candidate", "code"}}, {Reason::kWrongValues}).json();
  EXPECT_EQ(verdict["schema"], "autotriton.verdict/1");
  EXPECT_EQ(verdict["id"], 7);
  EXPECT_EQ(verdict["verdict"], "reject");
  EXPECT_EQ(verdict["reward"], 0.0);
  const Json late =
      post("/v1/verify", {{"problem", kSource}, {"candidate", "code"}, {"deadline_seconds", 0.05}}).json();
  EXPECT_EQ(late["verdict"], "error");
  EXPECT_EQ(late["reason"], "deadline");
  EXPECT_EQ(late["reward"], nullptr);
}

TEST_F(ServiceTest, VerifyWantsOneAnswerToOneProblem) {
  for (const Json& body : std::vector<Json>{{{"problem", kSource}},
                                            {{"answer", "a"}},
                                            {{"problem", kSource}, {"answer", "a"}, {"candidate", "a"}},
                                            {{"problem", kSource}, {"label", kSource}, {"answer", "a"}},
                                            {{"problem", "/etc/passwd"}, {"answer", "a"}},
                                            {{"task", 7}, {"answer", "a"}}})
    EXPECT_EQ(post("/v1/verify", body).status, 400) << body.dump();
  EXPECT_EQ(backend_.submitted(), 0U);
}

TEST_F(ServiceTest, AFullQueueSaysWhenToComeBackAndADrainingServerSaysSo) {
  const auto batch = [](std::initializer_list<const char*> texts) {
    Json items = Json::array();
    for (const char* text : texts) items.push_back({{"problem", kSource}, {"answer", text}});
    return Json{{"items", items}};
  };
  auto first = std::async(std::launch::async, [&] { return post("/v1/verify/batch", batch({"a", "b"})); });
  for (int i = 0; i < 1000 && backend_.waiting() < 2; ++i) std::this_thread::sleep_for(5ms);
  const Answer full = post("/v1/verify/batch", batch({"c", "d"}));
  EXPECT_EQ(full.status, 429);
  EXPECT_THAT(full.head, HasSubstr("Retry-After: 13"));
  EXPECT_EQ(post("/v1/verify/batch", batch({"1", "2", "3", "4"})).status, 413);
  EXPECT_EQ(ask("GET", "/health").status, 200);
  judge_.begin_drain();
  EXPECT_EQ(post("/v1/verify/batch", batch({"c"})).status, 503);
  const Answer health = ask("GET", "/health");
  EXPECT_EQ(health.status, 503);
  EXPECT_EQ(health.json()["status"], "draining");
  end_first(Reason::kAllEvidence);
  end_first(Reason::kAllEvidence);
  EXPECT_EQ(first.get().json()["results"][1]["reward"], 1.0);
}

}  // namespace
}  // namespace autotriton::reward
