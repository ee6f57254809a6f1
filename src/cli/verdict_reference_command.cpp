#include <iostream>

#include "cli/commands.h"
#include "verify/verdict.h"

namespace autotriton::cli {

int verdict_reference_command(int /*argc*/, char** /*argv*/) {
  std::cout << verify::reference_page() << std::flush;
  return std::cout ? 0 : 2;
}

}  // namespace autotriton::cli
