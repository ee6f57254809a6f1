#include "rules/context.h"

/// Family 5: what an answer may import. The list is worker/glue.toml.
namespace autotriton::rules {

using syntax::Field;
using syntax::Kind;
using syntax::NodeId;

namespace {

std::string dotted(const syntax::Module& module, NodeId id) {
  std::string path;
  for (const NodeId part : module.children(id)) {
    if (!path.empty()) path += '.';
    path += module.name_of(part);
  }
  return path;
}

/// torch.utils._mode_utils: what torch keeps for itself, unless the glue list names it.
bool is_private(const Context& context, std::string_view path) {
  if (!path.starts_with("torch.") || !context.glue.function_group(path.substr(6)).empty()) return false;
  for (std::size_t dot = path.find("._"); dot != std::string_view::npos; dot = path.find("._", dot + 1)) {
    if (!path.substr(dot + 1).starts_with("__")) return !path.starts_with("torch.nn.");
  }
  return false;
}

void judge(Context& context, NodeId at, const std::string& path) {
  if (is_private(context, path)) {
    context.report_line("import-not-allowed", Level::kReject, at,
                        path + " is a private part of torch; use what torch documents");
    return;
  }
  switch (context.glue.import_of(path)) {
    case Glue::Import::kAllowed:
      return;
    case Glue::Import::kNoted:
      context.report_line("import-not-allowed", Level::kNote, at,
                          path + " is no part of a kernel's work; leave the import out unless something needs it");
      return;
    case Glue::Import::kRefused:
      context.report_line("import-not-allowed", Level::kReject, at,
                          path + " is not among the modules an answer may import; use torch, triton and plain Python");
      return;
  }
}

}  // namespace

void check_imports(Context& context) {
  const syntax::Module& module = context.module;
  for (const NodeId statement : context.live) {
    const Kind kind = module.kind(statement);
    if (kind != Kind::kImport && kind != Kind::kImportFrom) continue;
    const NodeId from = module.child(statement, Field::kModuleName);
    if (kind == Kind::kImportFrom && module.kind(from) != Kind::kDottedName) {
      context.report("import-not-allowed", Level::kReject, statement,
                     "a relative import needs a package around the answer; put all code into this file");
      continue;
    }
    const std::string base = kind == Kind::kImportFrom ? dotted(module, from) : std::string();
    bool any = false;
    for (const NodeId part : module.children(statement)) {
      if (part == from) continue;
      const NodeId name = module.kind(part) == Kind::kAliasedImport ? module.child(part, Field::kName) : part;
      if (module.kind(name) != Kind::kDottedName) continue;
      any = true;
      judge(context, statement, base.empty() ? dotted(module, name) : base + "." + dotted(module, name));
    }
    if (!any && !base.empty()) judge(context, statement, base);  // from m import *
  }
}

}  // namespace autotriton::rules
