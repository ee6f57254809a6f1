#pragma once

#include <span>
#include <unordered_set>
#include <vector>

#include "syntax/values.h"

/// The call graph from an entry point, as the list of nodes that may run when it is called.
namespace autotriton::syntax {

/// A call that launches a jit function of the file.
struct Launch {
  NodeId call = kNoNode;
  NodeId jit_function = kNoNode;  ///< kNoNode: a launch by its shape, of a kernel that could not be named.
};

/// Collects live code: everything from the roots but statements behind a return, branches on a literal false, the
/// `if __name__ == "__main__"` block and functions that nothing reached mentions. Jit bodies are not entered.
///
///     Reach forward(resolver);
///     forward.add(method_node);
///     for (NodeId node : forward.nodes()) …
class Reach {
 public:
  explicit Reach(Resolver& resolver) : resolver_(resolver), module_(resolver.module()) {}

  /// Adds a function, lambda or the module's root, and all it leads to.
  void add(NodeId body);
  /// Live nodes in the order they were met.
  std::span<const NodeId> nodes() const { return nodes_; }
  bool contains_body(NodeId body) const { return bodies_.contains(body); }
  std::span<const Launch> launches() const { return launches_; }
  /// Bodies in the order they were reached; the module's root may be one.
  std::span<const NodeId> bodies() const { return order_; }

 private:
  void queue(NodeId body);
  void walk_body(NodeId body);
  void walk(NodeId node);
  void walk_block(NodeId block);
  void walk_if(NodeId statement);
  void walk_definition(NodeId definition);
  void reference(NodeId expression);
  void follow(const Value& value, bool is_called, NodeId at);
  void follow_jit_decorators(NodeId jit_function);

  Resolver& resolver_;
  const Module& module_;
  std::vector<NodeId> nodes_;
  std::vector<NodeId> pending_;
  std::vector<NodeId> order_;
  std::unordered_set<NodeId> bodies_;
  std::unordered_set<NodeId> decorators_followed_;
  std::vector<Launch> launches_;
};

/// Whether nothing after `statement` in its block can run because of it.
bool ends_block(const Module& module, NodeId statement);
/// Whether `condition` is `__name__ == "__main__"`.
bool is_main_guard(const Module& module, NodeId condition);
/// -1 for an expression that is literally false (`False`, `0`, `not True`, `TYPE_CHECKING`), 1 for literally true, else
/// 0.
int literal_truth(const Module& module, NodeId condition);

}  // namespace autotriton::syntax
