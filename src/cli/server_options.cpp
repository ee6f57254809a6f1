#include "cli/server_options.h"

#include "base/error.h"
#include "base/paths.h"
#include "execution/confine.h"

namespace autotriton::cli {

namespace {

std::uint32_t read_without(const std::vector<std::string>& words) {
  std::uint32_t without = 0;
  for (const std::string& word : words) {
    std::uint32_t bit = 0;
    if (word == "namespaces") bit = kWithoutNamespaces;
    if (word == "landlock") bit = kWithoutLandlock;
    if (word == "cgroup") bit = kWithoutCgroup;
    if (bit == 0) {
      throw UserError({.where = "--without " + word,
                       .what = "not a confinement that can be left out",
                       .fix = "the words are namespaces, landlock and cgroup"});
    }
    without |= bit;
  }
  return without;
}

}  // namespace

execution::ForkServer::Options server_options(const InterruptGuard& interrupt,
                                              const std::vector<std::string>& without) {
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
          .interrupt = interrupt.descriptor(),
          .without = read_without(without)};
}

}  // namespace autotriton::cli
