#include "base/paths.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"

namespace autotriton {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLockFile = "requirements.lock";

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

bool is_there(const fs::path& path) {
  std::error_code ignored;  // A folder that may not be searched holds nothing for us.
  return fs::exists(path, ignored);
}

}  // namespace

Surroundings Surroundings::of_this_process() {
  std::error_code unreadable;
  return {.executable = fs::read_symlink("/proc/self/exe", unreadable),
          .source_worker = AUTOTRITON_WORKER_SOURCE_DIR,
          .python = variable("AUTOTRITON_PYTHON"),
          .cache = variable("AUTOTRITON_CACHE"),
          .home = variable("HOME")};
}

fs::path cache_folder(const Surroundings& around) {
  if (around.cache) return *around.cache;
  if (around.home) return fs::path(*around.home) / ".cache" / "autotriton";
  throw UserError(
      {.where = "cache folder", .what = "neither AUTOTRITON_CACHE nor HOME is set", .fix = "set one of them"});
}

fs::path worker_folder(const Surroundings& around) {
  const fs::path beside = around.executable.parent_path();
  for (const fs::path& folder : {beside / "worker", around.source_worker}) {
    if (is_there(folder / kLockFile)) return folder;
  }
  throw UserError({.where = (beside / "worker").string(),
                   .what = "the folder worker/ that belongs to this program is missing (nor is it at " +
                           around.source_worker.string() + ")",
                   .fix = "keep worker/ beside the program, or run `make build` in a checkout"});
}

fs::path python_interpreter(const Surroundings& around, const fs::path& worker) {
  if (around.python) {
    if (::access(around.python->c_str(), X_OK) == 0 && !fs::is_directory(*around.python)) return *around.python;
    throw UserError({.where = "AUTOTRITON_PYTHON=" + *around.python,
                     .what = "no program there that can be run",
                     .fix = "name the full path of a python that has torch and triton"});
  }
  const std::string key = sha256_hex(read_file(worker / kLockFile)).substr(0, 12);
  const fs::path environment = cache_folder(around) / ("python-" + key);
  const fs::path python = environment / "bin" / "python";
  if (is_there(environment / ".complete") && is_there(python)) return python;
  throw UserError(
      {.where = environment.string(),
       .what = is_there(environment) ? "the Python environment is not complete" : "the Python environment is missing",
       .fix = "run `make setup` in the checkout, or set AUTOTRITON_PYTHON to a python that has torch and triton"});
}

}  // namespace autotriton
