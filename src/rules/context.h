#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "rules/kernel_flow.h"
#include "rules/rules.h"
#include "rules/tensor_types.h"
#include "syntax/reach.h"
#include "syntax/values.h"

/// What every family gets: the file, what its names mean, and which of its code runs when.
namespace autotriton::rules {

struct Context {
  Context(const syntax::Module& parsed, const EntryPoint& entry_point, const Glue& glue_list,
          const Options& given_options);

  /// Where values may come from; made when first asked for.
  KernelFlow& flow();
  /// The functions of this file that the entry point is.
  std::vector<syntax::NodeId> entry_functions() const;
  bool is_live(syntax::NodeId node) const { return std::ranges::binary_search(live, node); }

  const syntax::Module& module;
  const EntryPoint& entry;
  const Glue& glue;
  const Options& options;
  syntax::Resolver resolver;
  TensorTypes tensors;
  syntax::Reach import_time;                    ///< Statements of the module and what they call.
  syntax::Reach construction;                   ///< __init__ of the entry's class and what it calls.
  syntax::Reach forward;                        ///< The entry point and what it calls.
  std::vector<syntax::NodeId> live;             ///< Nodes of all three, once each, in source order.
  syntax::NodeId entry_node = syntax::kNoNode;  ///< The definition called first, for messages.
  std::vector<syntax::Value> entry_values;      ///< What forward, or the function asked for, may be.
  bool entry_found = false;
  std::vector<syntax::NodeId>
      launched;  ///< Jit functions that the path may launch, and those they call; in source order.

  std::vector<Finding> findings;  ///< At most kMaxFindings a rule and level: a person stops reading before.
  void report(std::string_view rule, Level level, syntax::NodeId node, std::string message);
  /// Reports once for each line and rule.
  void report_line(std::string_view rule, Level level, syntax::NodeId node, std::string message);
  /// Reports a place in the text that is no node, such as a comment.
  void report_at(std::string_view rule, Level level, std::size_t offset, std::string message);

 private:
  std::unique_ptr<KernelFlow> flow_;
  std::set<std::tuple<std::string_view, Level, int>> reported_lines_;
  std::map<std::pair<std::string_view, Level>, int> num_reported_;
  void find_entry();
  void find_returned_objects(syntax::NodeId function);
  void find_unseen_methods();
  void find_launched();
};

// One function a family; the registry lists them.
void check_jit_presence(Context& context);   // no-jit-kernel
void check_launches(Context& context);       // kernel-not-launched
void check_torch_compute(Context& context);  // torch-compute, partial-reduction
void check_dynamic_code(Context& context);   // dynamic-code
void check_imports(Context& context);        // import-not-allowed
void check_rebound_names(Context& context);  // name-rebound
void check_jit_bodies(Context& context);     // jit-body-not-triton, jit-body-no-load, jit-body-no-store
void check_surroundings(Context& context);   // tampering, sniffing, side-effects, device-read
void check_signs(Context& context);          // sniffing, called with the surroundings
void check_outputs(Context& context);        // output-not-from-kernel
void check_fallbacks(Context& context);      // fallback
void check_result_caches(Context& context);  // result-cache
void check_precision(Context& context);      // lowered-precision
void check_deferral(Context& context);       // deferred-work
void check_text(Context& context);           // misleading-text

/// The rules of each family, beside its function.
struct Family {
  std::string_view name;
  std::span<const RuleInfo> rules;
  void (*check)(Context&);
};
std::span<const Family> all_families();

}  // namespace autotriton::rules
