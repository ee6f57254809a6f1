#include <algorithm>

#include "syntax/fold_name.h"
#include "syntax/syntax.h"

namespace autotriton::syntax {

std::string_view Module::text(NodeId id) const {
  if (id == kNoNode) return {};
  const Node& node = nodes_[id];
  return std::string_view(*source_).substr(node.begin, node.end - node.begin);
}

int Module::column(NodeId id) const {
  const std::size_t begin = nodes_[id].begin;
  const std::size_t line_end = begin == 0 ? std::string::npos : source_->rfind('\n', begin - 1);
  return static_cast<int>(line_end == std::string::npos ? begin + 1 : begin - line_end);
}

NodeId Module::child(NodeId id, Field field) const {
  for (const NodeId child : children(id)) {
    if (nodes_[child].field == field) return child;
  }
  return kNoNode;
}

NodeId Module::nth_child(NodeId id, std::size_t index) const {
  for (const NodeId child : children(id)) {
    if (index-- == 0) return child;
  }
  return kNoNode;
}

std::size_t Module::num_children(NodeId id) const {
  std::size_t count = 0;
  for ([[maybe_unused]] const NodeId child : children(id)) ++count;
  return count;
}

NodeId Module::unwrap(NodeId id) const {
  while (id != kNoNode && nodes_[id].kind == Kind::kParenthesized) id = nodes_[id].first_child;
  return id;
}

NodeId Module::after(NodeId id) const {
  for (; id != kNoNode; id = nodes_[id].parent) {
    if (nodes_[id].next != kNoNode) return nodes_[id].next;
  }
  return static_cast<NodeId>(nodes_.size());
}

NodeId Module::enclosing(NodeId id, Kind kind) const {
  while (id != kNoNode) {
    id = nodes_[id].parent;
    if (id != kNoNode && nodes_[id].kind == kind) return id;
  }
  return kNoNode;
}

NameId Module::find_name(std::string_view name) const {
  const auto found = name_ids_.find(name);
  return found == name_ids_.end() ? kNoName : found->second;
}

NameId Module::intern(std::string_view spelled) {
  if (const auto found = name_ids_.find(spelled); found != name_ids_.end()) return found->second;
  std::string_view name = spelled;
  const bool is_ascii = std::ranges::all_of(spelled, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  if (!is_ascii) {
    std::string folded = fold_name(spelled);
    if (const auto found = name_ids_.find(folded); found != name_ids_.end()) return found->second;
    folded_.push_back(std::make_unique<std::string>(std::move(folded)));
    name = *folded_.back();
  }
  const auto id = static_cast<NameId>(names_.size());
  names_.push_back(name);
  name_ids_.emplace(name, id);
  return id;
}

bool Module::string_value(NodeId id, std::string& value) const {
  id = unwrap(id);
  value.clear();
  if (kind(id) == Kind::kConcatenatedString) {
    for (const NodeId part : children(id)) {
      std::string piece;
      if (!string_value(part, piece)) return false;
      value += piece;
    }
    return true;
  }
  if (kind(id) != Kind::kString) return false;
  std::string_view literal = text(id);
  const std::size_t quote = literal.find_first_of("'\"");
  if (quote == std::string_view::npos) return false;
  const std::string_view prefix = literal.substr(0, quote);
  if (prefix.find_first_not_of("uUrR") != std::string_view::npos) return false;
  literal.remove_prefix(quote);
  const std::size_t width = literal.size() >= 6 && literal[1] == literal[0] && literal[2] == literal[0] ? 3 : 1;
  if (literal.size() < 2 * width) return false;
  literal = literal.substr(width, literal.size() - 2 * width);
  if (prefix.find_first_of("rR") == std::string_view::npos && literal.find('\\') != std::string_view::npos)
    return false;
  value = literal;
  return true;
}

}  // namespace autotriton::syntax
