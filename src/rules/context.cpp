#include "rules/context.h"

#include <algorithm>
#include <array>
#include <set>

namespace autotriton::rules {

using syntax::Kind;
using syntax::kNoNode;
using syntax::NodeId;
using syntax::Value;
using syntax::ValueKind;

namespace {

constexpr int kMaxFindings = 50;

/// Methods that Python, or whoever looks at an object, calls without a call in the source.
constexpr auto kUnseenMethods = std::to_array<std::string_view>(
    {"__bool__",     "__contains__", "__copy__",   "__deepcopy__", "__del__",     "__delattr__",      "__dir__",
     "__eq__",       "__float__",    "__format__", "__get__",      "__getattr__", "__getattribute__", "__getitem__",
     "__getstate__", "__hash__",     "__index__",  "__int__",      "__iter__",    "__len__",          "__next__",
     "__repr__",     "__reversed__", "__set__",    "__setattr__",  "__setitem__", "__setstate__",     "__str__"});

bool is_container(std::string_view base) {
  return base.starts_with("collections.") || base == "builtins.dict" || base == "builtins.list" ||
         base == "builtins.set" || base == "builtins.tuple" || base == "builtins.frozenset";
}

}  // namespace

Context::Context(const syntax::Module& parsed, const EntryPoint& entry_point, const Glue& glue_list,
                 const Options& given_options)
    : module(parsed),
      entry(entry_point),
      glue(glue_list),
      options(given_options),
      resolver(parsed),
      tensors(resolver, glue_list),
      import_time(resolver),
      construction(resolver),
      forward(resolver) {
  import_time.add(module.root());
  find_entry();
  // A generator made before runs on when forward asks it for the next value.
  for (const syntax::Reach* region : {&import_time, &construction}) {
    for (const NodeId node : region->nodes()) {
      if (module.kind(node) == Kind::kYield) {
        if (const NodeId function = resolver.scopes().function_of(node); function != kNoNode) forward.add(function);
      }
    }
  }
  find_unseen_methods();
  for (const syntax::Reach* region : {&import_time, &construction, &forward}) {
    live.insert(live.end(), region->nodes().begin(), region->nodes().end());
  }
  std::ranges::sort(live);
  live.erase(std::unique(live.begin(), live.end()), live.end());
  find_launched();
}

void Context::find_entry() {
  for (const Value& value : resolver.global(entry.name)) {
    if (value.kind == ValueKind::kFunction || value.kind == ValueKind::kJit) {
      if (entry.kind == EntryKind::kModule) continue;
      entry_node = value.node;
      if (value.kind == ValueKind::kFunction) {
        forward.add(value.node);
        find_returned_objects(value.node);
      }
    } else if (value.kind == ValueKind::kExternal && entry.kind == EntryKind::kFunction) {
      entry_values.push_back(value);
    } else if (value.kind == ValueKind::kClass || value.kind == ValueKind::kInstance) {
      entry_node = value.node;
      for (const NodeId function : resolver.special_methods(value.node)) {
        const std::string_view name = module.name_of(module.child(function, syntax::Field::kName));
        const bool constructs = name == "__new__" || name == "__init__" || name == "__post_init__";
        (constructs ? construction : forward).add(function);
      }
      // On the class, by assignment to the class, and on the instance.
      syntax::ValueSet candidates = resolver.attribute({.kind = ValueKind::kClass, .node = value.node}, "forward");
      const auto on_instance = resolver.attribute({.kind = ValueKind::kInstance, .node = value.node}, "forward");
      candidates.insert(candidates.end(), on_instance.begin(), on_instance.end());
      if (const NodeId call = resolver.method(value.node, "__call__"); call != kNoNode) {
        candidates.push_back({.kind = ValueKind::kFunction, .node = call});
      }
      for (const Value& candidate : candidates) {
        entry_values.push_back(candidate);
        if (candidate.kind != ValueKind::kFunction) continue;
        entry_found = true;
        forward.add(candidate.node);
      }
    }
    entry_found = entry_found || (entry.kind == EntryKind::kFunction && entry_node != kNoNode);
  }
}

/// A function that returns an object of the file hands its methods over, as one that makes an optimizer does.
void Context::find_returned_objects(NodeId function) {
  for (const NodeId returned : resolver.scopes().returns_of(function)) {
    for (const Value& value : syntax::ValueSet(resolver.values(returned))) {
      if (value.kind != ValueKind::kInstance) continue;
      for (const NodeId method : resolver.scopes().methods_of(value.node)) forward.add(method);
    }
  }
}

void Context::find_unseen_methods() {
  std::set<NodeId> classes;
  for (const syntax::Reach* region : {&import_time, &construction}) {
    for (const NodeId node : region->nodes()) {
      if (module.kind(node) != Kind::kCall) continue;
      for (const Value& callee : resolver.values(module.child(node, syntax::Field::kFunction))) {
        if (callee.kind == ValueKind::kClass) classes.insert(callee.node);
      }
    }
  }
  for (const NodeId definition : classes) {
    // A list or dictionary of the answer's own is read by anyone who meets it.
    if (std::ranges::any_of(resolver.external_bases(definition), is_container)) {
      for (const NodeId function : resolver.scopes().methods_of(definition)) {
        if (module.name_of(module.child(function, syntax::Field::kName)) != "__init__") forward.add(function);
      }
    }
    for (const NodeId function : resolver.special_methods(definition)) {
      const std::string_view name = module.name_of(module.child(function, syntax::Field::kName));
      if (std::ranges::find(kUnseenMethods, name) != kUnseenMethods.end()) forward.add(function);
    }
  }
}

void Context::find_launched() {
  const auto all = resolver.jit_functions();
  std::vector<NodeId> pending;
  for (const syntax::Launch& launch : forward.launches()) {
    if (launch.jit_function == kNoNode) {  // An unnamed kernel: any of them.
      pending.insert(pending.end(), all.begin(), all.end());
    } else {
      pending.push_back(launch.jit_function);
    }
  }
  std::set<NodeId> met;
  while (!pending.empty()) {
    const NodeId function = pending.back();
    pending.pop_back();
    if (!met.insert(function).second) continue;
    launched.push_back(function);
    for (const NodeId call : resolver.scopes().calls_in(function)) {
      for (const NodeId part :
           {module.child(call, syntax::Field::kFunction), module.child(call, syntax::Field::kArguments)}) {
        // A jit function called, or handed over as a combine function.
        const auto note = [&](NodeId expression) {
          for (const Value& value : resolver.values(expression)) {
            if (value.kind == ValueKind::kJit) pending.push_back(value.node);
          }
        };
        if (module.kind(part) != Kind::kArguments) {
          note(part);
          continue;
        }
        for (const NodeId argument : module.children(part)) {
          note(module.kind(argument) == Kind::kKeywordArgument ? module.child(argument, syntax::Field::kValue)
                                                               : argument);
        }
      }
    }
  }
  std::ranges::sort(launched);
}

KernelFlow& Context::flow() {
  if (!flow_) flow_ = std::make_unique<KernelFlow>(*this);
  return *flow_;
}

std::vector<NodeId> Context::entry_functions() const {
  std::vector<NodeId> functions;
  if (entry_node != kNoNode && module.kind(entry_node) != Kind::kClass && forward.contains_body(entry_node))
    functions.push_back(entry_node);
  for (const Value& value : entry_values) {
    if (value.kind == ValueKind::kFunction) functions.push_back(value.node);
  }
  std::ranges::sort(functions);
  functions.erase(std::unique(functions.begin(), functions.end()), functions.end());
  return functions;
}

void Context::report_at(std::string_view rule, Level level, std::size_t offset, std::string message) {
  const std::string_view before = module.source().substr(0, offset);
  const auto line = static_cast<int>(std::ranges::count(before, '\n')) + 1;
  if (!reported_lines_.emplace(rule, level, line).second || ++num_reported_[{rule, level}] > kMaxFindings) return;
  const std::size_t start = before.rfind('\n');  // Of the line before; npos + 1 is 0.
  findings.push_back({.rule = std::string(rule),
                      .level = level,
                      .line = line,
                      .column = static_cast<int>(offset - (start + 1)) + 1,
                      .message = std::move(message)});
}

void Context::report(std::string_view rule, Level level, NodeId node, std::string message) {
  if (++num_reported_[{rule, level}] > kMaxFindings) return;
  findings.push_back({.rule = std::string(rule),
                      .level = level,
                      .line = node == kNoNode ? 1 : module.line(node),
                      .column = node == kNoNode ? 1 : module.column(node),
                      .message = std::move(message)});
}

void Context::report_line(std::string_view rule, Level level, NodeId node, std::string message) {
  const int line = node == kNoNode ? 1 : module.line(node);
  if (reported_lines_.emplace(rule, level, line).second) report(rule, level, node, std::move(message));
}

}  // namespace autotriton::rules
