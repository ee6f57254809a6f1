#pragma once

#include <string>
#include <vector>

#include "base/interrupt.h"
#include "execution/fork_server.h"

namespace autotriton::cli {

/// Where the workers of this program are. `without` names confinements to do without (namespaces, landlock, cgroup),
/// for tests. Throws UserError if a part is missing or a word is another.
execution::ForkServer::Options server_options(const InterruptGuard& interrupt,
                                              const std::vector<std::string>& without = {});

}  // namespace autotriton::cli
