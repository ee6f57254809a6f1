#include "rules/glue.h"

#include <toml++/toml.h>

#include "base/error.h"
#include "rules/embedded_glue.h"

namespace autotriton::rules {
namespace {

const toml::table& table_of(const toml::table& file, std::string_view name, std::string_view where) {
  const toml::table* table = file[name].as_table();
  if (table == nullptr) {
    throw UserError({.where = std::string(where),
                     .what = "the table [" + std::string(name) + "] is missing",
                     .fix = "restore worker/glue.toml"});
  }
  return *table;
}

template <typename Add>
void each_name(const toml::node_view<const toml::node>& list, Add add) {
  if (const toml::array* names = list.as_array()) {
    for (const toml::node& name : *names) {
      if (const auto text = name.value<std::string>()) add(*text);
    }
  }
}

}  // namespace

Glue Glue::parse(std::string_view toml, std::string_view where) {
  Glue glue;
  toml::table file;
  try {
    file = toml::parse(toml, where);
  } catch (const toml::parse_error& error) {
    throw UserError({.where = std::string(where) + ":" + std::to_string(error.source().begin.line),
                     .what = std::string(error.description()),
                     .fix = "correct the TOML"});
  }
  const auto read_groups = [&](std::string_view table, Map<std::string>& into) {
    for (const auto& [group, names] : table_of(file, table, where)) {
      each_name(toml::node_view<const toml::node>(names),
                [&](const std::string& name) { into.emplace(name, std::string(group.str())); });
    }
  };
  read_groups("functions", glue.functions_);
  read_groups("methods", glue.methods_);
  const toml::table& partial = table_of(file, "partial_reduction", where);
  each_name(partial["functions"], [&](const std::string& name) { glue.partial_reductions_.insert(name); });
  each_name(partial["methods"], [&](const std::string& name) { glue.partial_reductions_.insert(name); });
  each_name(table_of(file, "numpy", where)["scalar"],
            [&](const std::string& name) { glue.scalar_numpy_.insert(name); });
  const toml::table& imports = table_of(file, "imports", where);
  each_name(imports["allowed"], [&](const std::string& name) { glue.imports_.emplace(name, Import::kAllowed); });
  each_name(imports["noted"], [&](const std::string& name) { glue.imports_.emplace(name, Import::kNoted); });
  each_name(imports["refused"], [&](const std::string& name) { glue.imports_.emplace(name, Import::kRefused); });
  const toml::table& jit = table_of(file, "jit", where);
  each_name(jit["builtins"], [&](const std::string& name) { glue.jit_builtins_.insert(name); });
  each_name(jit["members"], [&](const std::string& name) { glue.jit_members_.insert(name); });
  each_name(jit["refused_attributes"], [&](const std::string& name) { glue.jit_refused_attributes_.insert(name); });
  table_of(file, "aten", where);
  return glue;
}

const Glue& Glue::embedded() {
  static const Glue kGlue = parse(kEmbeddedGlue, "worker/glue.toml");
  return kGlue;
}

std::string_view Glue::function_group(std::string_view name) const {
  const auto found = functions_.find(name);
  return found == functions_.end() ? std::string_view{} : found->second;
}

std::string_view Glue::method_group(std::string_view name) const {
  const auto found = methods_.find(name);
  return found == methods_.end() ? std::string_view{} : found->second;
}

bool Glue::is_jit_attribute_refused(std::string_view name) const {
  if (jit_refused_attributes_.contains(name) || name.ends_with('_')) return true;
  const std::string_view group = method_group(name);
  return (group == "compute" || group == "compute_if_tensor" || group == "storage") && !jit_members_.contains(name);
}

Glue::Import Glue::import_of(std::string_view module_path) const {
  for (std::string_view prefix = module_path;;) {
    if (const auto found = imports_.find(prefix); found != imports_.end()) return found->second;
    const std::size_t dot = prefix.rfind('.');
    if (dot == std::string_view::npos) return Import::kRefused;
    prefix = prefix.substr(0, dot);
  }
}

}  // namespace autotriton::rules
