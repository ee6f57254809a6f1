#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "syntax/node.h"

/// Python source as a tree that can be asked questions. Nothing here knows what torch or Triton mean.
///
///     auto parsed = syntax::parse(source);
///     if (const auto* failure = std::get_if<syntax::ParseFailure>(&parsed)) return report(failure->line,
///     failure->message); const syntax::Module& module = std::get<syntax::Module>(parsed); syntax::Resolver
///     resolver(module);                    // syntax/values.h: what does this name mean?
namespace autotriton::syntax {

/// What a source may cost before it is refused. Depth is that of the tree, not of the brackets.
struct ParseLimits {
  std::size_t max_bytes = std::size_t{1} << 20;
  std::uint32_t max_depth = 400;
  std::uint32_t max_nodes = 200'000;
  std::chrono::milliseconds max_time{2000};
};

/// Why a source has no tree. Lines and columns count from 1.
struct ParseFailure {
  enum class Kind { kTooLarge, kNotText, kTooDeep, kTooSlow, kSyntax };
  Kind kind = Kind::kSyntax;
  int line = 1;
  int column = 1;
  std::string message;  ///< One sentence, then what to change.
};

/// A parsed file: its text, its nodes and its names. Immutable; copies are not made by accident.
class Module {
 public:
  Module(Module&&) noexcept = default;
  Module& operator=(Module&&) noexcept = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  ~Module() = default;

  /// The text the nodes point into: the source with lone carriage returns turned into line feeds, as Python reads them.
  std::string_view source() const { return *source_; }
  NodeId root() const { return 0; }
  std::size_t num_nodes() const { return nodes_.size(); }
  const Node& operator[](NodeId id) const { return nodes_[id]; }
  Kind kind(NodeId id) const { return id == kNoNode ? Kind::kOther : nodes_[id].kind; }
  std::string_view text(NodeId id) const;
  int line(NodeId id) const { return static_cast<int>(nodes_[id].line); }
  int column(NodeId id) const;  ///< In bytes, from 1.

  /// The child that plays `field`, or kNoNode.
  NodeId child(NodeId id, Field field) const;
  /// The nth child, or kNoNode.
  NodeId nth_child(NodeId id, std::size_t index) const;
  std::size_t num_children(NodeId id) const;
  /// The expression inside any brackets around it; a child of kNoNode is kNoNode.
  NodeId unwrap(NodeId id) const;
  /// The first node after `id` and all below it: a subtree is the ids [id, after(id)).
  NodeId after(NodeId id) const;
  /// The nearest ancestor of `kind`, or kNoNode.
  NodeId enclosing(NodeId id, Kind kind) const;

  /// The interned id of `name`, or kNoName where the source never says it.
  NameId find_name(std::string_view name) const;
  std::string_view name(NameId id) const { return id == kNoName ? std::string_view{} : names_[id]; }
  std::string_view name_of(NodeId id) const { return id == kNoNode ? std::string_view{} : name(nodes_[id].name); }
  std::size_t num_names() const { return names_.size(); }
  /// Value of a plain string literal (no prefix but u and r, no escapes that change it); false for any other
  /// expression.
  bool string_value(NodeId id, std::string& value) const;

  /// Iterates over the children of a node.
  class Children {
   public:
    class Iterator {
     public:
      Iterator(const Module* module, NodeId id) : module_(module), id_(id) {}
      NodeId operator*() const { return id_; }
      Iterator& operator++() {
        id_ = (*module_)[id_].next;
        return *this;
      }
      bool operator!=(const Iterator& other) const { return id_ != other.id_; }

     private:
      const Module* module_;
      NodeId id_;
    };
    Children(const Module* module, NodeId first) : module_(module), first_(first) {}
    Iterator begin() const { return {module_, first_}; }
    Iterator end() const { return {module_, kNoNode}; }

   private:
    const Module* module_;
    NodeId first_;
  };
  Children children(NodeId id) const { return {this, id == kNoNode ? kNoNode : nodes_[id].first_child}; }

 private:
  friend class TreeReader;
  Module() = default;
  NameId intern(std::string_view spelled);

  std::unique_ptr<std::string> source_;  // Stable address: names are views into it.
  std::vector<Node> nodes_;
  std::vector<std::string_view> names_;
  std::unordered_map<std::string_view, NameId> name_ids_;
  std::vector<std::unique_ptr<std::string>> folded_;  // Names whose folded spelling is not in the source.
};

/// Parses `source`, or says why not. Invalid UTF-8, NUL bytes and an encoding declaration other than UTF-8 are
/// failures: Python would read another program than we do.
std::variant<Module, ParseFailure> parse(std::string source, const ParseLimits& limits = {});

}  // namespace autotriton::syntax
