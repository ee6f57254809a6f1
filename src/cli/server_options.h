#pragma once

#include "base/interrupt.h"
#include "execution/fork_server.h"

namespace autotriton::cli {

/// Where the workers of this program are. Throws UserError if a part is missing.
execution::ForkServer::Options server_options(const InterruptGuard& interrupt);

}  // namespace autotriton::cli
