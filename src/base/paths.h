#pragma once

#include <filesystem>
#include <optional>
#include <string>

/// Where the parts that are no C++ lie: the folder `worker/` and the Python environment.
namespace autotriton {

/// What the answers depend on.
struct Surroundings {
  std::filesystem::path executable;     ///< This program's file, symbolic links resolved.
  std::filesystem::path source_worker;  ///< `worker/` of the checkout this program was built from.
  std::optional<std::string> python{};  ///< AUTOTRITON_PYTHON
  std::optional<std::string> cache{};   ///< AUTOTRITON_CACHE
  std::optional<std::string> home{};    ///< HOME

  /// Reads them from this process; an empty variable counts as absent.
  static Surroundings of_this_process();
};

/// The folder that `make setup` fills: AUTOTRITON_CACHE, else `~/.cache/autotriton`.
std::filesystem::path cache_folder(const Surroundings& around);

/// `worker/`: beside the program where that is installed, else in the checkout that it was built from.
std::filesystem::path worker_folder(const Surroundings& around);

/// The Python that has torch and triton: AUTOTRITON_PYTHON, else the environment that `make setup` made for the lock
/// file `requirements.lock` of `worker`. Throws UserError naming `make setup` if there is none.
std::filesystem::path python_interpreter(const Surroundings& around, const std::filesystem::path& worker);

}  // namespace autotriton
