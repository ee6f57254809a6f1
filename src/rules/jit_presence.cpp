#include "rules/context.h"

/// Family 1: an answer without a jit function is not Triton at all.
namespace autotriton::rules {

void check_jit_presence(Context& context) {
  if (!context.resolver.jit_functions().empty()) return;
  context.report("no-jit-kernel", Level::kReject, context.entry_node,
                 "no function of this answer is decorated with triton.jit; write the computation as a @triton.jit kernel and "
                 "launch it from " +
                     context.entry.name);
}

}  // namespace autotriton::rules
