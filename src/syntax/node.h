#pragma once

#include <cstdint>

/// The shape of a parsed Python file: plain nodes in one array, in source order, with parents before children.
namespace autotriton::syntax {

using NodeId = std::uint32_t;
using NameId = std::uint32_t;
inline constexpr NodeId kNoNode = 0xffffffff;
inline constexpr NameId kNoName = 0xffffffff;

/// What a node is. The names are those of the grammar; kOther is anything that no caller asks about.
enum class Kind : std::uint8_t {
  kOther,
  kModule,
  kBlock,
  // Statements.
  kImport,
  kImportFrom,
  kFutureImport,
  kWildcardImport,
  kAliasedImport,
  kRelativeImport,
  kExpressionStatement,
  kReturn,
  kDelete,
  kRaise,
  kPass,
  kBreak,
  kContinue,
  kIf,
  kElif,
  kElse,
  kMatch,
  kCase,
  kFor,
  kWhile,
  kTry,
  kExcept,
  kFinally,
  kWith,
  kWithClause,
  kWithItem,
  kFunction,
  kClass,
  kDecorated,
  kDecorator,
  kGlobal,
  kNonlocal,
  kExec,
  kPrint,
  kAssert,
  kTypeAlias,
  // Parameters and targets.
  kParameters,
  kLambdaParameters,
  kDefaultParameter,
  kTypedParameter,
  kTypedDefaultParameter,
  kListSplatPattern,
  kDictionarySplatPattern,
  kPatternList,
  kTuplePattern,
  kListPattern,
  kAsPattern,
  kAsPatternTarget,
  kCasePattern,
  kType,
  // Expressions.
  kIdentifier,
  kDottedName,
  kInteger,
  kFloat,
  kString,
  kConcatenatedString,
  kStringContent,
  kInterpolation,
  kTrue,
  kFalse,
  kNone,
  kEllipsis,
  kTuple,
  kList,
  kSet,
  kDictionary,
  kPair,
  kListSplat,
  kDictionarySplat,
  kExpressionList,
  kParenthesized,
  kBinary,
  kUnary,
  kNot,
  kBoolean,
  kComparison,
  kConditional,
  kLambda,
  kNamed,
  kAssignment,
  kAugmented,
  kAttribute,
  kSubscript,
  kSlice,
  kCall,
  kArguments,
  kKeywordArgument,
  kListComprehension,
  kSetComprehension,
  kDictionaryComprehension,
  kGenerator,
  kForIn,
  kIfClause,
  kYield,
  kAwait,
  kComment,
};

/// The role a node plays in its parent.
enum class Field : std::uint8_t {
  kNone,
  kName,
  kModuleName,
  kAlias,
  kArguments,
  kFunction,
  kObject,
  kAttribute,
  kValue,
  kSubscript,
  kLeft,
  kRight,
  kBody,
  kParameters,
  kReturnType,
  kSuperclasses,
  kDefinition,
  kCondition,
  kConsequence,
  kAlternative,
  kType,
  kKey,
  kArgument,
  kOther,
};

/// The operator of a binary, unary, comparison, boolean or augmented node.
enum class Op : std::uint8_t {
  kNone,
  kArithmetic,  ///< + - * / // % ** << >> & | ^ ~
  kMatmul,      ///< @
  kCompare,     ///< == != < <= > >=
  kIdentity,    ///< is, is not
  kMembership,  ///< in, not in
  kLogic,       ///< and, or
};

/// One node. 32 bytes; `line` counts from 1.
struct Node {
  Kind kind = Kind::kOther;
  Field field = Field::kNone;
  Op op = Op::kNone;
  std::uint32_t begin = 0;  ///< First byte in the source.
  std::uint32_t end = 0;    ///< One past the last byte.
  std::uint32_t line = 1;
  NodeId parent = kNoNode;
  NodeId first_child = kNoNode;
  NodeId next = kNoNode;  ///< Next sibling.
  NameId name = kNoName;  ///< Of identifiers: the interned, folded name.
};

}  // namespace autotriton::syntax
