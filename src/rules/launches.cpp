#include "rules/context.h"

/// Family 2: a kernel that the entry point never launches is a decoy.
namespace autotriton::rules {

void check_launches(Context& context) {
  const auto jit_functions = context.resolver.jit_functions();
  if (jit_functions.empty() || !context.launched.empty()) return;
  const syntax::NodeId first = jit_functions.front();
  const std::string name(context.module.name_of(context.module.child(first, syntax::Field::kName)));
  const std::string entry =
      context.entry.kind == EntryKind::kModule ? context.entry.name + ".forward" : context.entry.name;
  if (!context.entry_found) {
    context.report("kernel-not-launched", Level::kReject, context.entry_node,
                   entry +
                       " is not defined in this file as a function, so that it launches nothing; define it and launch "
                       "a kernel there");
    return;
  }
  context.report("kernel-not-launched", Level::kReject, first,
                 "nothing that " + entry + " runs launches " + name + " or another kernel; call " + name +
                     "[grid](…) on the path and return what it stored");
}

}  // namespace autotriton::rules
