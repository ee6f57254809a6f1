#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "base/error.h"
#include "fuzz/require.h"
#include "tasks/pairs.h"
#include "tasks/problem.h"
#include "tasks/task_json.h"

/// A problem's source, a task as JSON, and a file of pairs. Bad input is a UserError and nothing else.
namespace {

using namespace autotriton;

void read_as_problem(const std::string& bytes) {
  try {
    const tasks::Task task = tasks::problem_from_source(bytes, "id", "input");
    FUZZ_REQUIRE(!task.entry_point.empty() || task.kind == tasks::TaskKind::kScript);
  } catch (const UserError& error) {
    FUZZ_REQUIRE(*error.what() != '\0');
  }
}

void read_as_task(const std::string& bytes) {
  try {
    const tasks::Task task = tasks::parse_task(bytes, "input", "id");
    const std::string written = tasks::task_json(task);
    FUZZ_REQUIRE(written.find('\n') == std::string::npos);
    FUZZ_REQUIRE(tasks::task_json(tasks::parse_task(written, "input", "other id")) == written);
  } catch (const UserError& error) {
    FUZZ_REQUIRE(*error.what() != '\0');
  }
}

void read_as_pairs(const std::string& bytes) {
  const int file = ::memfd_create("pairs", MFD_CLOEXEC);
  FUZZ_REQUIRE(file >= 0 && ::write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  try {
    tasks::PairReader reader(path, {.tasks = nullptr, .max_line_bytes = 1U << 16U});
    std::uint64_t count = 0;
    while (const auto line = reader.next()) {
      ++count;
      if (const auto* pair = std::get_if<tasks::Pair>(&*line)) {
        FUZZ_REQUIRE(pair->task != nullptr && !pair->id.empty());
      } else {
        FUZZ_REQUIRE(!std::get<tasks::LineError>(*line).message.empty());
      }
    }
    FUZZ_REQUIRE(count == tasks::count_pairs(path));
  } catch (const UserError& error) {
    FUZZ_REQUIRE(*error.what() != '\0');
  }
  ::close(file);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  read_as_problem(bytes);
  read_as_task(bytes);
  read_as_pairs(bytes);
  return 0;
}
