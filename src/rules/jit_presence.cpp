#include "rules/context.h"

/// Family 1: an answer without a jit function is not Triton at all.
namespace autotriton::rules {

void check_jit_presence(Context& context) {
  if (!context.resolver.jit_functions().empty()) return;
  // `@triton.jit` without `import triton` names nothing.
  for (const syntax::NodeId function : context.resolver.scopes().functions()) {
    for (const syntax::NodeId decorator : context.resolver.decorators(function)) {
      const std::string_view text = context.module.text(decorator);
      if (!text.starts_with("triton.jit") && text != "jit") continue;
      context.report(
          "no-jit-kernel", Level::kReject, decorator,
          "`" + std::string(text) + "` is not Triton's here, since the file does not import it; add `import triton`");
      return;
    }
  }
  context.report(
      "no-jit-kernel", Level::kReject, context.entry_node,
      "no function of this answer is decorated with triton.jit; write the computation as a @triton.jit kernel and "
      "launch it from " +
          context.entry.name);
}

}  // namespace autotriton::rules
