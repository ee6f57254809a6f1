#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

/// The glue list, worker/glue.toml: which calls around the kernels compute nothing. One file for these rules and the
/// worker.
namespace autotriton::rules {

class Glue {
 public:
  /// The list this program was built with.
  static const Glue& embedded();
  /// Reads a list. Throws UserError naming the line or the missing table.
  static Glue parse(std::string_view toml, std::string_view where);

  /// The group of a torch function ("allocate", "view", …), named without `torch.`; empty if it is not glue.
  std::string_view function_group(std::string_view name) const;
  /// The group of a tensor's method; "compute" and "compute_if_tensor" are groups too; empty if unknown.
  std::string_view method_group(std::string_view name) const;
  bool is_partial_reduction(std::string_view function_or_method) const {
    return partial_reductions_.contains(function_or_method);
  }
  bool is_scalar_numpy(std::string_view name) const { return scalar_numpy_.contains(name); }

  enum class Import { kAllowed, kNoted, kRefused };
  /// How a module path such as torch.utils.cpp_extension may be imported: the longest listed prefix decides.
  Import import_of(std::string_view module_path) const;

  bool is_jit_builtin(std::string_view name) const { return jit_builtins_.contains(name); }
  /// Whether no object of a jit body has an attribute of this name: torch's computing methods, and those in place.
  bool is_jit_attribute_refused(std::string_view name) const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  template <typename Value>
  using Map = std::unordered_map<std::string, Value, Hash, std::equal_to<>>;
  using Set = std::unordered_set<std::string, Hash, std::equal_to<>>;

  Map<std::string> functions_;
  Map<std::string> methods_;
  Map<Import> imports_;
  Set partial_reductions_, scalar_numpy_, jit_builtins_, jit_members_, jit_refused_attributes_;
};

}  // namespace autotriton::rules
