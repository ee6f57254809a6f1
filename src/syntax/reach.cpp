#include "syntax/reach.h"

#include <algorithm>

namespace autotriton::syntax {
namespace {

/// Whether an identifier is a use of a name, and not a target, a keyword, a parameter or the name after a dot.
bool is_use(const Module& module, NodeId identifier) {
  const NodeId parent = module[identifier].parent;
  const Field field = module[identifier].field;
  switch (module.kind(parent)) {
    case Kind::kAttribute:
      return field == Field::kObject;
    case Kind::kKeywordArgument:
      return field == Field::kValue;
    case Kind::kFunction:
    case Kind::kClass:
      return false;
    case Kind::kParameters:
    case Kind::kLambdaParameters:
    case Kind::kTypedParameter:
    case Kind::kGlobal:
    case Kind::kNonlocal:
    case Kind::kDottedName:
    case Kind::kPatternList:
    case Kind::kTuplePattern:
    case Kind::kAsPatternTarget:
      return false;
    case Kind::kDefaultParameter:
    case Kind::kTypedDefaultParameter:
      return field == Field::kValue;
    case Kind::kAssignment:
    case Kind::kFor:
    case Kind::kForIn:
      return field != Field::kLeft;
    default:
      return true;
  }
}

}  // namespace

bool is_main_guard(const Module& module, NodeId condition) {
  condition = module.unwrap(condition);
  if (module.kind(condition) != Kind::kComparison) return false;
  bool names_it = false;
  bool is_main = false;
  for (const NodeId side : module.children(condition)) {
    std::string value;
    names_it = names_it || module.name_of(side) == "__name__";
    is_main = is_main || (module.string_value(side, value) && value == "__main__");
  }
  return names_it && is_main && module.text(condition).find("==") != std::string_view::npos;
}

int literal_truth(const Module& module, NodeId condition) {
  condition = module.unwrap(condition);
  switch (module.kind(condition)) {
    case Kind::kTrue:
      return 1;
    case Kind::kFalse:
    case Kind::kNone:
      return -1;
    case Kind::kInteger:
      return module.text(condition).find_first_not_of("0_") == std::string_view::npos ? -1 : 1;
    case Kind::kNot:
      return -literal_truth(module, module[condition].first_child);
    case Kind::kIdentifier:
      return module.name_of(condition) == "TYPE_CHECKING" ? -1 : 0;
    case Kind::kAttribute:
      return module.name_of(module.child(condition, Field::kAttribute)) == "TYPE_CHECKING" ? -1 : 0;
    case Kind::kBoolean: {
      const int left = literal_truth(module, module.nth_child(condition, 0));
      const int right = literal_truth(module, module.nth_child(condition, 1));
      const NodeId first = module.nth_child(condition, 0);
      const NodeId second = module.nth_child(condition, 1);
      const std::string_view between =
          module.source().substr(module[first].end, module[second].begin - module[first].end);
      const bool is_and = between.find("and") != std::string_view::npos;
      return is_and ? std::min(left, right) : std::max(left, right);
    }
    default:
      return 0;
  }
}

bool ends_block(const Module& module, NodeId statement) {
  switch (module.kind(statement)) {
    case Kind::kReturn:
    case Kind::kRaise:
    case Kind::kBreak:
    case Kind::kContinue:
      return true;
    case Kind::kBlock:
      for (const NodeId inner : module.children(statement)) {
        if (ends_block(module, inner)) return true;
      }
      return false;
    case Kind::kIf: {
      const int truth = literal_truth(module, module.child(statement, Field::kCondition));
      if (truth > 0) return ends_block(module, module.child(statement, Field::kConsequence));
      bool has_else = false;
      bool all_end = truth < 0 || ends_block(module, module.child(statement, Field::kConsequence));
      for (const NodeId part : module.children(statement)) {
        if (module.kind(part) == Kind::kElif)
          all_end = all_end && ends_block(module, module.child(part, Field::kConsequence));
        if (module.kind(part) != Kind::kElse) continue;
        has_else = true;
        all_end = all_end && ends_block(module, module.child(part, Field::kBody));
      }
      return has_else && all_end;
    }
    default:
      return false;
  }
}

void Reach::add(NodeId body) {
  queue(body);
  while (!pending_.empty()) {
    const NodeId next = pending_.back();
    pending_.pop_back();
    walk_body(next);
  }
}

void Reach::queue(NodeId body) {
  if (body != kNoNode && bodies_.insert(body).second) {
    pending_.push_back(body);
    order_.push_back(body);
  }
}

void Reach::walk_body(NodeId body) {
  switch (module_.kind(body)) {
    case Kind::kModule:
      walk_block(body);
      return;
    case Kind::kFunction:
      // What a wrapping decorator runs, runs with the function.
      for (const NodeId decorator : resolver_.decorators(body)) walk(decorator);
      walk(module_.child(body, Field::kBody));
      return;
    default:
      walk(module_.child(body, Field::kBody));
  }
}

void Reach::walk_block(NodeId block) {
  nodes_.push_back(block);
  for (const NodeId statement : module_.children(block)) {
    walk(statement);
    if (ends_block(module_, statement)) return;
  }
}

void Reach::walk_if(NodeId statement) {
  nodes_.push_back(statement);
  const NodeId condition = module_.child(statement, Field::kCondition);
  const int truth = is_main_guard(module_, condition) ? -1 : literal_truth(module_, condition);
  walk(condition);
  if (truth >= 0) walk(module_.child(statement, Field::kConsequence));
  if (truth > 0) return;
  for (const NodeId part : module_.children(statement)) {
    if (module_.kind(part) == Kind::kElse) {
      walk(part);
    } else if (module_.kind(part) == Kind::kElif) {
      nodes_.push_back(part);
      const int part_truth = literal_truth(module_, module_.child(part, Field::kCondition));
      walk(module_.child(part, Field::kCondition));
      if (part_truth >= 0) walk(module_.child(part, Field::kConsequence));
      if (part_truth > 0) return;
    }
  }
}

void Reach::walk_definition(NodeId definition) {
  nodes_.push_back(definition);
  for (const NodeId child : module_.children(definition)) {
    const Field field = module_[child].field;
    if (module_.kind(definition) == Kind::kClass) {
      walk(child);  // The body of a class runs at once; its methods do not.
    } else if (field == Field::kParameters) {
      for (const NodeId parameter : module_.children(child)) {
        if (const NodeId value = module_.child(parameter, Field::kValue); value != kNoNode) walk(value);
        if (const NodeId type = module_.child(parameter, Field::kType); type != kNoNode) walk(type);
      }
    } else if (field == Field::kReturnType) {
      walk(child);
    }
  }
}

void Reach::walk(NodeId node) {
  if (node == kNoNode) return;
  switch (module_.kind(node)) {
    case Kind::kModule:
    case Kind::kBlock:
      walk_block(node);
      return;
    case Kind::kIf:
      walk_if(node);
      return;
    case Kind::kWhile:
      if (literal_truth(module_, module_.child(node, Field::kCondition)) < 0) return;
      break;
    case Kind::kFunction:
    case Kind::kClass:
      walk_definition(node);
      return;
    case Kind::kType: {
      // An annotation is evaluated where it stands in the module or a class, and nowhere else.
      const ScopeKind scope = resolver_.scopes()[resolver_.scopes().scope_of(node)].kind;
      if (scope != ScopeKind::kModule && scope != ScopeKind::kClass) return;
      break;
    }
    case Kind::kIdentifier:
      nodes_.push_back(node);
      if (is_use(module_, node)) reference(node);
      return;
    case Kind::kAttribute:
      reference(node);
      break;
    case Kind::kCall: {
      // Callees are resolved after the parts, so that a nested call is seen first.
      nodes_.push_back(node);
      for (const NodeId child : module_.children(node)) walk(child);
      const NodeId function = module_.child(node, Field::kFunction);
      const ValueSet callees = resolver_.values(function);
      bool known = false;
      for (const Value& callee : callees) {
        known = true;
        follow(callee, /*is_called=*/true, node);
      }
      const NodeId callee = module_.unwrap(function);
      if (!known && module_.kind(callee) == Kind::kSubscript &&
          resolver_.values(module_.child(callee, Field::kValue)).empty()) {
        launches_.push_back({.call = node, .jit_function = kNoNode});
      }
      return;
    }
    default:
      break;
  }
  nodes_.push_back(node);
  for (const NodeId child : module_.children(node)) walk(child);
}

void Reach::reference(NodeId expression) {
  const ValueSet found = resolver_.values(expression);
  for (const Value& value : found) follow(value, /*is_called=*/false, expression);
}

void Reach::follow(const Value& value, bool is_called, NodeId at) {
  switch (value.kind) {
    case ValueKind::kFunction:
      queue(value.node);
      break;
    case ValueKind::kLaunch:
      if (is_called) launches_.push_back({.call = at, .jit_function = value.node});
      follow_jit_decorators(value.node);
      break;
    case ValueKind::kClass:
      if (is_called) {
        // Operators, with-blocks and attribute look-ups call the others unseen.
        for (const NodeId function : resolver_.special_methods(value.node)) queue(function);
      }
      break;
    case ValueKind::kInstance:
      if (is_called) {
        for (const std::string_view name : {"__call__", "forward"}) queue(resolver_.method(value.node, name));
      }
      break;
    case ValueKind::kResult:
      if (is_called) {  // nn.Sequential(Own(), …)(x) runs what it holds.
        for (const Value& element : resolver_.elements(value)) {
          if (element.kind == ValueKind::kInstance) follow(element, true, at);
        }
      }
      break;
    default:
      break;
  }
}

void Reach::follow_jit_decorators(NodeId jit_function) {
  if (!decorators_followed_.insert(jit_function).second) return;
  // Heuristics, pruning functions and hooks run at every launch.
  for (const NodeId decorator : resolver_.decorators(jit_function)) walk(decorator);
}

}  // namespace autotriton::syntax
