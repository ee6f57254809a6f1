#include "rules/context.h"

/// Family 9: what the entry point returns must come from memory that a launched kernel stores to.
namespace autotriton::rules {

using syntax::Kind;
using syntax::kNoNode;
using syntax::NodeId;

void check_outputs(Context& context) {
  if (context.launched.empty()) return;
  for (const NodeId function : context.entry_functions()) {
    NodeId first = kNoNode;
    bool any_from_kernel = false;
    for (const NodeId returned : context.resolver.scopes().returns_of(function)) {
      const bool counts = context.module.kind(function) == Kind::kLambda || context.is_live(returned);
      if (!counts || context.flow().is_no_result(returned)) continue;
      if (context.flow().may_come_from_kernel(returned)) {
        any_from_kernel = true;
        break;
      }
      if (first == kNoNode) first = returned;
    }
    if (any_from_kernel || first == kNoNode) continue;
    context.report_line("output-not-from-kernel", Level::kReject, first,
                        "nothing that is returned here comes from memory that a launched kernel stores to; return the "
                        "buffer that the kernel fills");
  }
}

}  // namespace autotriton::rules
