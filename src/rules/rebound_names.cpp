#include <algorithm>
#include <array>

#include "rules/context.h"

/// Family 6: triton, tl, jit and torch must mean what they say everywhere in the file.
namespace autotriton::rules {

using syntax::Binding;
using syntax::BindingKind;
using syntax::Kind;
using syntax::kNoNode;
using syntax::NodeId;
using syntax::Value;
using syntax::ValueKind;

namespace {

constexpr std::string_view kRule = "name-rebound";

/// What a guarded name may stand for, or empty if the name is free to use.
std::string_view guarded_meaning(std::string_view path) {
  if (path == "torch") return "torch";
  if (path == "triton") return "triton";
  if (path == "triton.language" || path == "triton.language.core") return "triton.language";
  if (path == "triton.jit" || path == "triton.runtime.jit" || path == "triton.runtime.jit.jit") return "triton.jit";
  return {};
}

struct Guarded {
  syntax::NameId name;
  std::string_view meaning;
};

std::vector<Guarded> guarded_names(Context& context) {
  std::vector<Guarded> names;
  const auto add = [&](syntax::NameId name, std::string_view meaning) {
    const bool is_known = std::ranges::any_of(names, [&](const Guarded& known) { return known.name == name; });
    if (name != syntax::kNoName && !meaning.empty() && !is_known) names.push_back({name, meaning});
  };
  add(context.module.find_name("torch"), "torch");
  add(context.module.find_name("triton"), "triton");
  add(context.module.find_name("tl"), "triton.language");
  for (const Binding& binding : context.resolver.scopes().all_bindings()) {
    if (binding.kind == BindingKind::kImport)
      add(binding.name, guarded_meaning(context.resolver.scopes().import_path(binding)));
  }
  // A decorator called jit is taken for Triton's by every reader.
  add(context.module.find_name("jit"), "triton.jit");
  return names;
}

/// `triton = None` where the import failed: the answer cannot run without it anyway.
bool is_failed_import(const syntax::Module& module, const Binding& binding) {
  return module.kind(module.unwrap(binding.value)) == Kind::kNone &&
         module.enclosing(binding.target, Kind::kExcept) != kNoNode;
}

bool keeps_meaning(Context& context, const Binding& binding, std::string_view meaning) {
  if (binding.kind == BindingKind::kImport) {
    return guarded_meaning(context.resolver.scopes().import_path(binding)) == meaning;
  }
  if (binding.kind == BindingKind::kAnnotation) return true;
  if (binding.kind != BindingKind::kAssign && binding.kind != BindingKind::kWalrus) return false;
  if (is_failed_import(context.module, binding)) return true;
  if (binding.item != syntax::kWhole) return false;
  const auto values = context.resolver.values(binding.value);
  return !values.empty() && std::ranges::all_of(values, [&](const Value& value) {
    return value.kind == ValueKind::kExternal && guarded_meaning(context.resolver.text(value)) == meaning;
  });
}

}  // namespace

void check_rebound_names(Context& context) {
  const auto names = guarded_names(context);
  for (const Binding& binding : context.resolver.scopes().all_bindings()) {
    const auto guarded = std::ranges::find(names, binding.name, &Guarded::name);
    if (guarded == names.end()) continue;
    // A method or class attribute of that name is reached through a dot only.
    if (context.resolver.scopes()[binding.scope].kind == syntax::ScopeKind::kClass) continue;
    if (keeps_meaning(context, binding, guarded->meaning)) continue;
    const std::string name(context.module.name(binding.name));
    context.report_line(kRule, Level::kReject, binding.target,
                        "`" + name + "` is bound here to something other than " + std::string(guarded->meaning) +
                            "; choose another name and keep " + name + " for the import");
  }
}

}  // namespace autotriton::rules
