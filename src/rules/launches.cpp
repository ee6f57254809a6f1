#include "rules/context.h"

/// Family 2: a kernel that the entry point never launches is a decoy.
namespace autotriton::rules {

namespace {

/// triton.run(kernel, …) and its like, which answers make up.
syntax::NodeId made_up_launch(Context& context) {
  for (const syntax::NodeId node : context.forward.nodes()) {
    if (context.module.kind(node) != syntax::Kind::kCall) continue;
    const auto name = context.resolver.external(context.module.child(node, syntax::Field::kFunction));
    if (name == "triton.run" || name == "triton.launch" || name == "triton.call" || name == "triton.launch_kernel")
      return node;
  }
  return syntax::kNoNode;
}

/// Whether the file ends inside the entry's class, as the text of an answer does that was cut off.
bool ends_in_entry(const Context& context) {
  const syntax::NodeId node = context.entry_node;
  return node == syntax::kNoNode || context.module.after(node) == context.module.num_nodes();
}

}  // namespace

void check_launches(Context& context) {
  const auto jit_functions = context.resolver.jit_functions();
  if (jit_functions.empty() || !context.launched.empty()) return;
  const syntax::NodeId first = jit_functions.front();
  const std::string name(context.module.name_of(context.module.child(first, syntax::Field::kName)));
  const std::string entry =
      context.entry.kind == EntryKind::kModule ? context.entry.name + ".forward" : context.entry.name;
  if (!context.entry_found) {
    context.report(
        "kernel-not-launched", Level::kReject, context.entry_node,
        entry +
            " is not defined in this file as a function, so that it launches nothing; define it and launch "
            "a kernel there" +
            (ends_in_entry(context) ? "; the text ends before it, as an answer's does that was cut off" : ""));
    return;
  }
  if (const syntax::NodeId call = made_up_launch(context); call != syntax::kNoNode) {
    context.report("kernel-not-launched", Level::kReject, call,
                   std::string(*context.resolver.external(context.module.child(call, syntax::Field::kFunction))) +
                       " does not exist and launches nothing; call " + name + "[grid](…)");
    return;
  }
  context.report("kernel-not-launched", Level::kReject, first,
                 "nothing that " + entry + " runs launches " + name + " or another kernel; call " + name +
                     "[grid](…) on the path and return what it stored");
}

}  // namespace autotriton::rules
