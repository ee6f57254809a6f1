#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "verify/verdict.h"
#include "verify/verify.h"

/// From a verdict to a number, by a TOML file.
///
///     const Profile profile = Profile::find("paper");              // or "./mine.toml"
///     profile.apply(options);                                      // its [verify] table
///     const RewardValue reward = profile.reward(verdict);          // {1, "…", {{"correct", 1}}}
///
/// The reward is a weighted sum of terms, kept within `min` and `max`. Each term is a number of the verdict:
///
/// | kind          | is                                                                                              |
/// |---------------|-------------------------------------------------------------------------------------------------|
/// | `correct`     | 1 if the answer is Triton and passes its tests (AutoTriton, arXiv 2507.05687, eq. 3), else 0     |
/// | `wrong`       | 1 if it was rejected, else 0: with a negative weight, a penalty (CUDA Agent, 2602.24286)         |
/// | `triton`      | 1 if no static rule refuses it, else 0 (the paper's first half)                                 |
/// | `reached`     | 1 if it came as far as `stage`, else 0 (TritonForge's partial credit); 0 for what only pretends  |
/// | `coverage`    | correct · clip((share − from) / (full − from), 0, 1), share = work done by kernels (Dr. Kernel,  |
/// |               | 2602.05885)                                                                                     |
/// | `speedup`     | correct · clip(s − subtract, 0, cap), s = reference's time / answer's (Dr. Kernel, TritonForge)  |
/// | `speed_tiers` | correct · value of the highest tier whose `above` lies below s (CUDA Agent)                      |
/// | `log_speedup` | correct · clip(sign(x)·max(|x| − d, 0), −bound, bound), x = log2 s, d the dead zone              |
/// | `format`      | share of the demands that a raw reply meets (Seed-Coder's format reward)                         |
namespace autotriton::reward {

struct RewardValue {
  std::optional<double> value;          ///< Empty: mask the sample.
  std::string why;                      ///< One sentence; for a person.
  std::map<std::string, double> terms;  ///< Name to weight · term; they add up to `value` before `min` and `max`.
};

/// What a timed term is worth where nothing was timed.
enum class WithoutTiming : std::uint8_t {
  kMask,         ///< The reward of an accepted answer is empty. A rejected one has its own: no speed enters it.
  kCorrectness,  ///< Timed terms are left out.
};

/// Immutable and cheap to copy; safe from several threads.
class Profile {
 public:
  /// A profile that is part of the program.
  struct BuiltIn {
    std::string_view name;
    std::string_view toml;
  };
  static std::span<const BuiltIn> built_in();

  /// R = (the answer is Triton) and (its tests pass): 1 or 0.
  static Profile paper();
  /// A built-in name ("paper"), else a file: what holds a `/` or ends in `.toml` is always one. Throws UserError.
  static Profile find(std::string_view name_or_path);
  /// Throws UserError with file and line for what cannot be read, an unknown key, a wrong type or a value out of range.
  static Profile load(const std::filesystem::path& path);
  static Profile parse(std::string_view toml, std::string_view where, std::string name);

  const std::string& name() const;         ///< The built-in's, or the file's without `.toml`.
  const std::string& description() const;  ///< One sentence.
  const std::string& source() const;       ///< Where its formula comes from.
  const std::string& toml() const;         ///< The file as it was read.
  /// The name, with a digest of the file where it is not a built-in: tells two files of one name apart.
  std::string label() const;

  bool is_paper() const;      ///< One term, `correct`, of weight 1.
  bool needs_timing() const;  ///< A term looks at times, which only a GPU gives.
  WithoutTiming without_timing() const;
  /// What to tell at the start where nothing will be timed; empty if nothing is needed.
  std::optional<std::string> warning_without_timing() const;

  /// Lays the [verify] table over `options`: what the table does not name stays.
  void apply(verify::VerifyOptions& options) const;

  /// Empty for `inconclusive` and `error`, never 0.
  RewardValue reward(const verify::Verdict& verdict) const;

  /// Puts the reward, its terms and the profile's name into the verdict; a note says why there is none.
  RewardValue set_reward(verify::Verdict& verdict) const;

 private:
  struct Impl;
  explicit Profile(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace autotriton::reward
