#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "base/error.h"
#include "tasks/task.h"

/// The problems of a benchmark's repository, as it is checked out.
namespace autotriton::tasks {

struct Collection {
  std::vector<Task> tasks;         ///< In the order of levels and numbers, or of the benchmark's own list.
  std::vector<ErrorText> refused;  ///< Files that are missing or no problems; the others are still there.
};

/// Reads KernelBench: `folder` is the checkout or its folder that holds `level1` to `level4`. With `level`, that one
/// only. Throws UserError if no level is there.
Collection read_kernelbench(const std::filesystem::path& folder, std::optional<int> level = {});

enum class TritonBenchSuite { kG, kT };

/// Reads TritonBench: `folder` is the checkout or its `data`. Instructions are the benchmark's complete ones.
/// Throws UserError if its list is missing or is no list.
Collection read_tritonbench(const std::filesystem::path& folder, TritonBenchSuite suite);

}  // namespace autotriton::tasks
