#include "cli/server_options.h"

#include "base/error.h"
#include "base/paths.h"

namespace autotriton::cli {

execution::ForkServer::Options server_options(const InterruptGuard& interrupt) {
  const Surroundings around = Surroundings::of_this_process();
  const std::filesystem::path worker = worker_folder(around);
  std::filesystem::path library = around.executable.parent_path() / "libautotriton_confine.so";
  if (!std::filesystem::exists(library))
    library = around.executable.parent_path().parent_path() / "lib" / "libautotriton_confine.so";
  if (!std::filesystem::exists(library)) {
    throw UserError({.where = library.string(),
                     .what = "this part of the program is missing",
                     .fix = "run `make build`, or keep the folder of a release together"});
  }
  return {.python = python_interpreter(around, worker),
          .worker = worker,
          .confine_library = library,
          .interrupt = interrupt.descriptor()};
}

}  // namespace autotriton::cli
