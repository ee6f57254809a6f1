#include <tree_sitter/api.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>

#include "syntax/fold_name.h"
#include "syntax/syntax.h"
#include "syntax/text_check.h"

extern "C" const TSLanguage* tree_sitter_python(void);

namespace autotriton::syntax {
namespace {

struct KindName {
  std::string_view name;
  Kind kind;
};

constexpr KindName kKindNames[] = {
    {"module", Kind::kModule},
    {"block", Kind::kBlock},
    {"import_statement", Kind::kImport},
    {"import_from_statement", Kind::kImportFrom},
    {"future_import_statement", Kind::kFutureImport},
    {"wildcard_import", Kind::kWildcardImport},
    {"aliased_import", Kind::kAliasedImport},
    {"relative_import", Kind::kRelativeImport},
    {"expression_statement", Kind::kExpressionStatement},
    {"return_statement", Kind::kReturn},
    {"delete_statement", Kind::kDelete},
    {"raise_statement", Kind::kRaise},
    {"pass_statement", Kind::kPass},
    {"break_statement", Kind::kBreak},
    {"continue_statement", Kind::kContinue},
    {"if_statement", Kind::kIf},
    {"elif_clause", Kind::kElif},
    {"else_clause", Kind::kElse},
    {"match_statement", Kind::kMatch},
    {"case_clause", Kind::kCase},
    {"for_statement", Kind::kFor},
    {"while_statement", Kind::kWhile},
    {"try_statement", Kind::kTry},
    {"except_clause", Kind::kExcept},
    {"except_group_clause", Kind::kExcept},
    {"finally_clause", Kind::kFinally},
    {"with_statement", Kind::kWith},
    {"with_clause", Kind::kWithClause},
    {"with_item", Kind::kWithItem},
    {"function_definition", Kind::kFunction},
    {"class_definition", Kind::kClass},
    {"decorated_definition", Kind::kDecorated},
    {"decorator", Kind::kDecorator},
    {"global_statement", Kind::kGlobal},
    {"nonlocal_statement", Kind::kNonlocal},
    {"exec_statement", Kind::kExec},
    {"print_statement", Kind::kPrint},
    {"assert_statement", Kind::kAssert},
    {"type_alias_statement", Kind::kTypeAlias},
    {"parameters", Kind::kParameters},
    {"lambda_parameters", Kind::kLambdaParameters},
    {"default_parameter", Kind::kDefaultParameter},
    {"typed_parameter", Kind::kTypedParameter},
    {"typed_default_parameter", Kind::kTypedDefaultParameter},
    {"list_splat_pattern", Kind::kListSplatPattern},
    {"dictionary_splat_pattern", Kind::kDictionarySplatPattern},
    {"pattern_list", Kind::kPatternList},
    {"tuple_pattern", Kind::kTuplePattern},
    {"list_pattern", Kind::kListPattern},
    {"as_pattern", Kind::kAsPattern},
    {"as_pattern_target", Kind::kAsPatternTarget},
    {"case_pattern", Kind::kCasePattern},
    {"type", Kind::kType},
    {"identifier", Kind::kIdentifier},
    {"dotted_name", Kind::kDottedName},
    {"integer", Kind::kInteger},
    {"float", Kind::kFloat},
    {"string", Kind::kString},
    {"concatenated_string", Kind::kConcatenatedString},
    {"string_content", Kind::kStringContent},
    {"interpolation", Kind::kInterpolation},
    {"true", Kind::kTrue},
    {"false", Kind::kFalse},
    {"none", Kind::kNone},
    {"ellipsis", Kind::kEllipsis},
    {"tuple", Kind::kTuple},
    {"list", Kind::kList},
    {"set", Kind::kSet},
    {"dictionary", Kind::kDictionary},
    {"pair", Kind::kPair},
    {"list_splat", Kind::kListSplat},
    {"parenthesized_list_splat", Kind::kListSplat},
    {"dictionary_splat", Kind::kDictionarySplat},
    {"expression_list", Kind::kExpressionList},
    {"parenthesized_expression", Kind::kParenthesized},
    {"binary_operator", Kind::kBinary},
    {"unary_operator", Kind::kUnary},
    {"not_operator", Kind::kNot},
    {"boolean_operator", Kind::kBoolean},
    {"comparison_operator", Kind::kComparison},
    {"conditional_expression", Kind::kConditional},
    {"lambda", Kind::kLambda},
    {"named_expression", Kind::kNamed},
    {"assignment", Kind::kAssignment},
    {"augmented_assignment", Kind::kAugmented},
    {"attribute", Kind::kAttribute},
    {"subscript", Kind::kSubscript},
    {"slice", Kind::kSlice},
    {"call", Kind::kCall},
    {"argument_list", Kind::kArguments},
    {"keyword_argument", Kind::kKeywordArgument},
    {"list_comprehension", Kind::kListComprehension},
    {"set_comprehension", Kind::kSetComprehension},
    {"dictionary_comprehension", Kind::kDictionaryComprehension},
    {"generator_expression", Kind::kGenerator},
    {"for_in_clause", Kind::kForIn},
    {"if_clause", Kind::kIfClause},
    {"yield", Kind::kYield},
    {"await", Kind::kAwait},
    {"comment", Kind::kComment},
    {"line_continuation", Kind::kComment},
    {"string_start", Kind::kComment},  // Quotes carry no meaning of their own; they are left out like comments.
    {"string_end", Kind::kComment},
};

constexpr std::pair<std::string_view, Field> kFieldNames[] = {
    {"name", Field::kName},
    {"module_name", Field::kModuleName},
    {"alias", Field::kAlias},
    {"arguments", Field::kArguments},
    {"function", Field::kFunction},
    {"object", Field::kObject},
    {"attribute", Field::kAttribute},
    {"value", Field::kValue},
    {"subscript", Field::kSubscript},
    {"left", Field::kLeft},
    {"right", Field::kRight},
    {"body", Field::kBody},
    {"parameters", Field::kParameters},
    {"return_type", Field::kReturnType},
    {"superclasses", Field::kSuperclasses},
    {"definition", Field::kDefinition},
    {"condition", Field::kCondition},
    {"consequence", Field::kConsequence},
    {"alternative", Field::kAlternative},
    {"type", Field::kType},
    {"key", Field::kKey},
    {"argument", Field::kArgument},
};

/// The grammar's numbers for the names above, looked up once.
struct Tables {
  std::vector<Kind> kinds;
  std::vector<Field> fields;
  TSFieldId operator_field = 0;
  TSFieldId operators_field = 0;

  explicit Tables(const TSLanguage* language) {
    const std::uint32_t num_symbols = ts_language_symbol_count(language);
    kinds.assign(num_symbols, Kind::kOther);
    for (std::uint32_t symbol = 0; symbol < num_symbols; ++symbol) {
      const auto id = static_cast<TSSymbol>(symbol);
      if (ts_language_symbol_type(language, id) != TSSymbolTypeRegular) continue;
      const std::string_view name = ts_language_symbol_name(language, id);
      for (const auto& entry : kKindNames) {
        if (entry.name == name) kinds[symbol] = entry.kind;
      }
    }
    const std::uint32_t num_fields = ts_language_field_count(language);
    fields.assign(num_fields + 1, Field::kOther);
    fields[0] = Field::kNone;
    for (std::uint32_t field = 1; field <= num_fields; ++field) {
      const std::string_view name = ts_language_field_name_for_id(language, static_cast<TSFieldId>(field));
      for (const auto& [spelled, value] : kFieldNames) {
        if (spelled == name) fields[field] = value;
      }
      if (name == "operator") operator_field = static_cast<TSFieldId>(field);
      if (name == "operators") operators_field = static_cast<TSFieldId>(field);
    }
  }
};

const Tables& tables() {
  static const Tables kTables(tree_sitter_python());
  return kTables;
}

Op op_of(std::string_view token) {
  if (token == "@" || token == "@=") return Op::kMatmul;
  if (token == "and" || token == "or") return Op::kLogic;
  if (token.starts_with("is")) return Op::kIdentity;
  if (token == "in" || token == "not in") return Op::kMembership;
  if (token == "<" || token == ">" || token == "==" || token == "!=" || token == "<=" || token == ">=" ||
      token == "<>") {
    return Op::kCompare;
  }
  return Op::kArithmetic;
}

constexpr int kMaxRepairs = 4;  // Each costs a parse.

struct ParserDeleter {
  void operator()(TSParser* parser) const { ts_parser_delete(parser); }
};
struct TreeDeleter {
  void operator()(TSTree* tree) const { ts_tree_delete(tree); }
};

ParseFailure failure(ParseFailure::Kind kind, int line, int column, std::string message) {
  return {.kind = kind, .line = line, .column = column, .message = std::move(message)};
}

std::string quoted_piece(std::string_view source, std::uint32_t begin) {
  std::string_view rest = source.substr(std::min<std::size_t>(begin, source.size()));
  rest = rest.substr(0, rest.find('\n'));
  if (rest.size() > 40) {  // Never cut a character in two.
    std::size_t end = 40;
    while (end > 0 && (static_cast<unsigned char>(rest[end]) & 0xc0) == 0x80) --end;
    rest = rest.substr(0, end);
  }
  return std::string(rest);
}

}  // namespace

/// Copies tree-sitter's tree into a Module, in one pass and without recursion.
class TreeReader {
 public:
  TreeReader(std::string source, const ParseLimits& limits) : limits_(limits) {
    module_.source_ = std::make_unique<std::string>(std::move(source));
  }

  std::variant<Module, ParseFailure> read() {
    const std::string& source = *module_.source_;
    const std::unique_ptr<TSParser, ParserDeleter> parser(ts_parser_new());
    ts_parser_set_language(parser.get(), tree_sitter_python());
    ts_parser_set_timeout_micros(parser.get(),
                                 static_cast<std::uint64_t>(std::chrono::microseconds(limits_.max_time).count()));
    const std::unique_ptr<TSTree, TreeDeleter> tree(
        ts_parser_parse_string(parser.get(), nullptr, source.data(), static_cast<std::uint32_t>(source.size())));
    if (!tree) {
      return failure(ParseFailure::Kind::kTooSlow, 1, 1,
                     "parsing took longer than " + std::to_string(limits_.max_time.count()) +
                         " ms; write plainer code with fewer nested brackets");
    }
    const TSNode root = ts_tree_root_node(tree.get());
    const bool broken = ts_node_has_error(root);
    module_.nodes_.reserve(source.size() / 4 + 16);
    TSTreeCursor cursor = ts_tree_cursor_new(root);
    auto result = copy(cursor, broken);
    ts_tree_cursor_delete(&cursor);
    if (result) return *std::move(result);
    return std::move(module_);
  }

 private:
  std::optional<ParseFailure> copy(TSTreeCursor& cursor, bool broken) {
    const Tables& table = tables();
    const std::string& source = *module_.source_;
    std::vector<NodeId> path;     // The ancestors that were copied.
    std::vector<NodeId> last;     // For each of them, the child copied last.
    std::vector<bool> was_added;  // Whether each tree-sitter ancestor was copied.
    for (;;) {
      const TSNode node = ts_tree_cursor_current_node(&cursor);
      const TSSymbol symbol = ts_node_symbol(node);
      if (broken && (symbol == static_cast<TSSymbol>(-1) || ts_node_is_missing(node))) return syntax_failure(node);
      const Kind kind = symbol < table.kinds.size() ? table.kinds[symbol] : Kind::kOther;
      bool added = false;
      if (ts_node_is_named(node) && kind != Kind::kComment) {
        if (module_.nodes_.size() >= limits_.max_nodes) {
          return failure(
              ParseFailure::Kind::kTooLarge, line_of(node), 1,
              "the file has more than " + std::to_string(limits_.max_nodes) + " syntax nodes; remove generated tables");
        }
        add(node, kind, table.fields[ts_tree_cursor_current_field_id(&cursor)], path, last);
        added = true;
      } else if (!path.empty()) {
        const TSFieldId field = ts_tree_cursor_current_field_id(&cursor);
        if (field != 0 && (field == table.operator_field || field == table.operators_field)) {
          note_operator(path.back(), std::string_view(source).substr(
                                         ts_node_start_byte(node), ts_node_end_byte(node) - ts_node_start_byte(node)));
        }
      }
      if (ts_tree_cursor_goto_first_child(&cursor)) {
        was_added.push_back(added);
        if (added) {
          path.push_back(static_cast<NodeId>(module_.nodes_.size() - 1));
          last.push_back(kNoNode);
        }
        if (was_added.size() > limits_.max_depth) {
          return failure(ParseFailure::Kind::kTooDeep, line_of(node), 1,
                         "the code nests deeper than " + std::to_string(limits_.max_depth) +
                             " levels; split the expression into steps");
        }
        continue;
      }
      while (!ts_tree_cursor_goto_next_sibling(&cursor)) {
        if (!ts_tree_cursor_goto_parent(&cursor)) return std::nullopt;
        if (was_added.back()) {
          path.pop_back();
          last.pop_back();
        }
        was_added.pop_back();
      }
    }
  }

  void add(TSNode node, Kind kind, Field field, const std::vector<NodeId>& path, std::vector<NodeId>& last) {
    const auto id = static_cast<NodeId>(module_.nodes_.size());
    Node copy;
    copy.kind = kind;
    copy.field = field;
    copy.begin = ts_node_start_byte(node);
    copy.end = ts_node_end_byte(node);
    copy.line = ts_node_start_point(node).row + 1;
    if (!path.empty()) {
      copy.parent = path.back();
      if (last.back() == kNoNode) {
        module_.nodes_[path.back()].first_child = id;
      } else {
        module_.nodes_[last.back()].next = id;
      }
      last.back() = id;
    }
    if (kind == Kind::kIdentifier) {
      copy.name = module_.intern(std::string_view(*module_.source_).substr(copy.begin, copy.end - copy.begin));
    }
    module_.nodes_.push_back(copy);
  }

  void note_operator(NodeId parent, std::string_view token) {
    Node& node = module_.nodes_[parent];
    const Op op = op_of(token);
    // A chain such as `a < b is c` keeps the operator that computes.
    if (node.op == Op::kNone || op == Op::kCompare) node.op = op;
  }

  static int line_of(TSNode node) { return static_cast<int>(ts_node_start_point(node).row) + 1; }

  ParseFailure syntax_failure(TSNode node) const {
    const TSPoint point = ts_node_start_point(node);
    std::string message;
    if (ts_node_is_missing(node)) {
      message = std::string("`") + ts_node_type(node) + "` is missing here; complete the statement";
    } else {
      message = "this is not valid Python near `" + quoted_piece(*module_.source_, ts_node_start_byte(node)) +
                "`; correct the syntax";
    }
    return failure(ParseFailure::Kind::kSyntax, static_cast<int>(point.row) + 1, static_cast<int>(point.column) + 1,
                   std::move(message));
  }

  ParseLimits limits_;
  Module module_;
};

std::variant<Module, ParseFailure> parse(std::string source, const ParseLimits& limits) {
  if (source.size() > limits.max_bytes) {
    return failure(ParseFailure::Kind::kTooLarge, 1, 1,
                   "the file has " + std::to_string(source.size()) + " bytes and " + std::to_string(limits.max_bytes) +
                       " are allowed; remove what the answer does not need");
  }
  if (auto problem = find_text_problem(source)) return *std::move(problem);
  for (std::size_t i = 0; i < source.size(); ++i) {  // As Python reads lines: a lone carriage return ends one.
    if (source[i] == '\r' && (i + 1 == source.size() || source[i + 1] != '\n')) source[i] = '\n';
  }
  for (int repairs = 0;; ++repairs) {
    auto result = TreeReader(source, limits).read();
    const auto* problem = std::get_if<ParseFailure>(&result);
    if (problem == nullptr || problem->kind != ParseFailure::Kind::kSyntax || repairs == kMaxRepairs) return result;
    if (!bracket_starred_return(source, problem->line)) return result;
  }
}

}  // namespace autotriton::syntax
