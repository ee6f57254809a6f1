// What the static half costs: parsing an answer, and the rules over the parsed tree. The corpus is a folder of answers
// (.py files, or .case files whose header is cut off): AUTOTRITON_BENCH_ANSWERS, else the committed cases.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "rules/glue.h"
#include "rules/rules.h"
#include "syntax/syntax.h"

namespace {

namespace fs = std::filesystem;
using namespace autotriton;

const std::vector<std::string>& corpus() {
  static const std::vector<std::string> answers = [] {
    const char* given = std::getenv("AUTOTRITON_BENCH_ANSWERS");
    std::vector<std::string> texts;
    for (const auto& entry :
         fs::recursive_directory_iterator(given != nullptr ? given : AUTOTRITON_SOURCE_DIR "/tests/cases")) {
      if (entry.path().extension() != ".py" && entry.path().extension() != ".case") continue;
      std::string text = read_file(entry.path());
      if (entry.path().extension() == ".case") {
        const auto end = text.find("\n---\n");
        if (end != std::string::npos) text.erase(0, end + 5);
      }
      texts.push_back(std::move(text));
    }
    return texts;
  }();
  return answers;
}

void report(benchmark::State& state) {
  std::size_t bytes = 0;
  for (const std::string& text : corpus()) bytes += text.size();
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * corpus().size()));
  state.counters["answers"] = static_cast<double>(corpus().size());
  state.counters["mean_bytes"] = static_cast<double>(bytes) / static_cast<double>(corpus().size());
}

void parse_answers(benchmark::State& state) {
  for (auto _ : state) {
    for (const std::string& text : corpus()) benchmark::DoNotOptimize(syntax::parse(text));
  }
  report(state);
}
BENCHMARK(parse_answers)->Unit(benchmark::kMillisecond);

void check_parsed_answers(benchmark::State& state) {
  std::vector<syntax::Module> modules;
  for (const std::string& text : corpus()) {
    auto parsed = syntax::parse(text);
    if (auto* module = std::get_if<syntax::Module>(&parsed)) modules.push_back(std::move(*module));
  }
  const rules::Glue& glue = rules::Glue::embedded();
  for (auto _ : state) {
    for (const syntax::Module& module : modules) benchmark::DoNotOptimize(rules::check(module, {}, glue));
  }
  report(state);
}
BENCHMARK(check_parsed_answers)->Unit(benchmark::kMillisecond);

void parse_and_check(benchmark::State& state) {
  const rules::Glue& glue = rules::Glue::embedded();
  for (auto _ : state) {
    for (const std::string& text : corpus()) {
      auto parsed = syntax::parse(text);
      if (auto* module = std::get_if<syntax::Module>(&parsed))
        benchmark::DoNotOptimize(rules::check(*module, {}, glue));
    }
  }
  report(state);
}
BENCHMARK(parse_and_check)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
