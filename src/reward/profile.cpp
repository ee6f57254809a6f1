#include "reward/profile.h"

#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "reward/embedded_profiles.h"

namespace autotriton::reward {
namespace {

using verify::Outcome;
using verify::Stage;
using verify::Verdict;

/// Which of the reference's times an answer is held against.
enum class Baseline : std::uint8_t { kEager, kCompile, kBest };

struct Correct {};
struct Wrong {};
struct Triton {};
struct Reached {
  Stage stage = Stage::kCompare;
};
struct Coverage {
  double from = 0;
  double full = 1;
};
struct Speedup {
  Baseline over = Baseline::kEager;
  double subtract = 0;
  double cap = 3;
};
struct SpeedTier {
  Baseline over = Baseline::kEager;
  double above = 1;
  double value = 0;
};
struct SpeedTiers {
  std::vector<SpeedTier> tiers;
};
struct LogSpeedup {
  Baseline over = Baseline::kEager;
  double dead_zone = 1.05;
  double bound = 4;
};
enum class Demand : std::uint8_t { kOneBlock, kFencesClosed, kReasoningClosed, kReasoningNotOpen };
struct Format {
  std::vector<Demand> demands;
};
using Kind = std::variant<Correct, Wrong, Triton, Reached, Coverage, Speedup, SpeedTiers, LogSpeedup, Format>;

struct Term {
  std::string name;
  double weight = 1;
  Kind kind;
  bool timed() const {
    return std::holds_alternative<Speedup>(kind) || std::holds_alternative<SpeedTiers>(kind) ||
           std::holds_alternative<LogSpeedup>(kind);
  }
};

/// What [verify] names; the rest stays as it is.
struct VerifyTable {
  std::optional<verify::TorchCompute> torch_compute;
  std::optional<int> trials;
  std::optional<verify::Shapes> shapes;
  std::optional<int> capability;
  std::optional<bool> require_sandbox;
  std::optional<std::int64_t> max_elements;
  std::vector<std::pair<std::string, double>> budgets;
};

// Reading -----------------------------------------------------------------------------------------------------------

template <typename Value, std::size_t size>
using Choices = std::array<std::pair<std::string_view, Value>, size>;

constexpr Choices<verify::TorchCompute, 2> kTorchCompute{
    {{"refuse", verify::TorchCompute::kRefuse}, {"report", verify::TorchCompute::kReport}}};
constexpr Choices<verify::Shapes, 3> kShapes{
    {{"original", verify::Shapes::kOriginal}, {"scaled", verify::Shapes::kScaled}, {"both", verify::Shapes::kBoth}}};
constexpr Choices<WithoutTiming, 2> kWithoutTiming{
    {{"mask", WithoutTiming::kMask}, {"correctness", WithoutTiming::kCorrectness}}};
constexpr Choices<Baseline, 3> kBaselines{
    {{"eager", Baseline::kEager}, {"compile", Baseline::kCompile}, {"best", Baseline::kBest}}};
constexpr Choices<Stage, 5> kStages{{{"load", Stage::kLoad},
                                     {"run", Stage::kRun},
                                     {"compare", Stage::kCompare},
                                     {"compile", Stage::kCompile},
                                     {"authorship", Stage::kAuthorship}}};
constexpr Choices<Demand, 4> kDemands{{{"one_block", Demand::kOneBlock},
                                       {"fences_closed", Demand::kFencesClosed},
                                       {"reasoning_closed", Demand::kReasoningClosed},
                                       {"reasoning_not_open", Demand::kReasoningNotOpen}}};

struct Range {
  double least;
  double most;
};
constexpr Range kAnyWeight{-1000, 1000};

std::string number_text(double value) {
  std::array<char, 32> text{};
  const auto [end, error] = std::to_chars(text.begin(), text.end(), value);
  return {text.begin(), end};
}

std::string listed(const auto& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "`" : ", `") + std::string(name) + "`";
  return text;
}

/// One table of the file. Each key that is read is struck off; `finish` refuses those that are left.
class TableReader {
 public:
  TableReader(const toml::table& table, std::string name, std::string_view where)
      : table_(table), name_(std::move(name)), where_(where) {}

  [[noreturn]] void fail(const toml::node& at, const std::string& what, const std::string& fix) const {
    throw UserError({.where = where_ + ":" + std::to_string(at.source().begin.line), .what = what, .fix = fix});
  }
  [[noreturn]] void fail(const std::string& what, const std::string& fix) const { fail(table_, what, fix); }

  const toml::node* find(std::string_view key) {
    known_.insert(std::string(key));
    return table_.get(key);
  }

  std::optional<std::string> text(std::string_view key) {
    const toml::node* node = find(key);
    if (node == nullptr) return std::nullopt;
    if (!node->is_string()) fail(*node, said(key) + " is not text", "put it in quotes");
    return node->value<std::string>();
  }
  std::optional<bool> flag(std::string_view key) {
    const toml::node* node = find(key);
    if (node == nullptr) return std::nullopt;
    if (!node->is_boolean()) fail(*node, said(key) + " is neither true nor false", "write true or false");
    return node->value<bool>();
  }
  std::optional<double> number(std::string_view key, Range range) {
    const toml::node* node = find(key);
    if (node == nullptr) return std::nullopt;
    const bool is_number = node->is_integer() || node->is_floating_point();
    const double value = is_number ? node->value<double>().value_or(0) : 0;
    // NaN is in no range.
    if (!is_number || !(value >= range.least && value <= range.most)) {
      fail(*node, said(key) + (is_number ? " is " + number_text(value) : " is not a number"),
           "write a number from " + number_text(range.least) + " to " + number_text(range.most));
    }
    return value;
  }
  std::optional<std::int64_t> whole(std::string_view key, Range range) {
    const toml::node* node = find(key);
    if (node == nullptr) return std::nullopt;
    if (!node->is_integer())
      fail(*node, said(key) + " is not a whole number",
           "write one from " + number_text(range.least) + " to " + number_text(range.most));
    return static_cast<std::int64_t>(*number(key, range));
  }
  template <typename Value, std::size_t size>
  std::optional<Value> choice(std::string_view key, const Choices<Value, size>& choices) {
    const toml::node* node = find(key);
    if (node == nullptr) return std::nullopt;
    return choose(*node, key, choices);
  }
  template <typename Value, std::size_t size>
  std::vector<Value> list(std::string_view key, const Choices<Value, size>& choices) {
    std::vector<Value> values;
    const toml::node* node = find(key);
    const toml::array* items = node == nullptr ? nullptr : node->as_array();
    if (items == nullptr || items->empty()) {
      fail(node == nullptr ? static_cast<const toml::node&>(table_) : *node, said(key) + " is not a list with names",
           "write [\"" + std::string(choices[0].first) + "\", …]");
    }
    for (const toml::node& item : *items) {
      const Value value = choose(item, key, choices);
      if (std::ranges::find(values, value) != values.end()) fail(item, said(key) + " names one twice", "leave one out");
      values.push_back(value);
    }
    return values;
  }
  /// An empty pointer if there is none.
  const toml::table* table(std::string_view key) {
    const toml::node* node = find(key);
    if (node == nullptr) return nullptr;
    if (!node->is_table()) fail(*node, said(key) + " is not a table", "write it as [" + std::string(key) + "]");
    return node->as_table();
  }
  std::vector<const toml::table*> tables(std::string_view key, std::string_view how) {
    const toml::node* node = find(key);
    std::vector<const toml::table*> found;
    if (const toml::array* items = node == nullptr ? nullptr : node->as_array()) {
      for (const toml::node& item : *items) {
        if (item.is_table()) found.push_back(item.as_table());
      }
      if (found.size() != items->size()) found.clear();
    }
    if (found.empty()) {
      fail(node == nullptr ? static_cast<const toml::node&>(table_) : *node,
           node == nullptr ? "there is no " + said(key) : said(key) + " is not a list of tables", std::string(how));
    }
    return found;
  }

  void finish() const {
    for (const auto& [key, node] : table_) {
      const std::string name(key.str());
      if (!known_.contains(name)) {
        // The key has no node of its own in this version of the library: its value stands on the same line.
        fail(node, "there is no key `" + name + "` in " + name_, "the keys here are " + listed(known_));
      }
    }
  }

  std::string said(std::string_view key) const { return "`" + std::string(key) + "` of " + name_; }

 private:
  template <typename Value, std::size_t size>
  Value choose(const toml::node& node, std::string_view key, const Choices<Value, size>& choices) const {
    const auto given = node.value<std::string>();
    const auto found = std::ranges::find_if(choices, [&](const auto& item) { return given && item.first == *given; });
    if (!node.is_string() || found == choices.end()) {
      std::vector<std::string_view> names;
      for (const auto& [name, value] : choices) names.push_back(name);
      fail(node, said(key) + (node.is_string() ? " cannot be `" + *given + "`" : " is not text"),
           "choose from " + listed(names));
    }
    return found->second;
  }

  const toml::table& table_;
  const std::string name_;
  const std::string where_;
  std::set<std::string> known_;
};

VerifyTable read_verify(const toml::table& table, std::string_view where) {
  VerifyTable result;
  TableReader reader(table, "[verify]", where);
  result.torch_compute = reader.choice("torch_compute", kTorchCompute);
  if (const auto trials = reader.whole("trials", {1, 64})) result.trials = static_cast<int>(*trials);
  result.shapes = reader.choice("shapes", kShapes);
  if (const auto target = reader.text("target")) {
    int capability = 0;
    const char* end = target->data() + target->size();
    const bool prefixed = target->starts_with("sm_");
    const auto read = std::from_chars(target->data() + (prefixed ? 3 : 0), end, capability);
    if (!prefixed || read.ec != std::errc() || read.ptr != end || capability < 75 || capability > 130) {
      reader.fail(*table.get("target"), "`target` of [verify] cannot be `" + *target + "`",
                  "write it as sm_80, sm_89, sm_90 …");
    }
    result.capability = capability;
  }
  result.require_sandbox = reader.flag("require_sandbox");
  result.max_elements = reader.whole("max_elements", {1000, 100'000'000});
  if (const toml::table* budgets = reader.table("budgets")) {
    TableReader seconds(*budgets, "[verify.budgets]", where);
    for (const auto& [key, node] : *budgets) {
      const std::string stage(key.str());
      verify::Budgets known;
      if (!known.set(stage, 1))
        seconds.fail(node, "there is no stage `" + stage + "`", "the stages are " + verify::Budgets::names());
      result.budgets.emplace_back(stage, *seconds.number(stage, {0.1, 86'400}));
    }
    seconds.finish();
  }
  reader.finish();
  return result;
}

Kind read_kind(TableReader& reader, const toml::table& table, std::string_view kind, std::string_view where) {
  constexpr Range kShare{0, 1};
  constexpr Range kRatio{1, 1000};
  if (kind == "correct") return Correct{};
  if (kind == "wrong") return Wrong{};
  if (kind == "triton") return Triton{};
  if (kind == "reached") return Reached{reader.choice("stage", kStages).value_or(Stage::kCompare)};
  if (kind == "coverage") {
    const Coverage coverage{reader.number("from", kShare).value_or(0), reader.number("full", kShare).value_or(1)};
    if (coverage.from >= coverage.full) reader.fail("`from` is not below `full`", "from = 0.3 and full = 0.4, say");
    return coverage;
  }
  if (kind == "speedup") {
    return Speedup{reader.choice("over", kBaselines).value_or(Baseline::kEager),
                   reader.number("subtract", {0, 1000}).value_or(0), reader.number("cap", {0.001, 1000}).value_or(3)};
  }
  if (kind == "speed_tiers") {
    SpeedTiers result;
    for (const toml::table* tier :
         reader.tables("tiers", "write tiers = [{ over = \"eager\", above = 1.05, value = 1.0 }, …]")) {
      TableReader fields(*tier, "a tier", where);
      result.tiers.push_back({.over = fields.choice("over", kBaselines).value_or(Baseline::kEager),
                              .above = fields.number("above", {0.001, 1000}).value_or(1),
                              .value = fields.number("value", kAnyWeight).value_or(1)});
      fields.finish();
    }
    return result;
  }
  if (kind == "log_speedup") {
    const LogSpeedup result{reader.choice("over", kBaselines).value_or(Baseline::kEager),
                            reader.number("dead_zone", kRatio).value_or(1.05),
                            reader.number("bound", kRatio).value_or(4)};
    if (result.bound <= 1) reader.fail("`bound` is 1, so the term is always 0", "write a ratio such as 4");
    return result;
  }
  if (kind == "format") return Format{reader.list("require", kDemands)};
  reader.fail(*table.get("kind"), "there is no kind of term `" + std::string(kind) + "`",
              "choose from `correct`, `wrong`, `triton`, `reached`, `coverage`, `speedup`, `speed_tiers`, "
              "`log_speedup`, `format`");
}

Term read_term(const toml::table& table, std::string_view where) {
  TableReader reader(table, "[[reward.term]]", where);
  const auto kind = reader.text("kind");
  if (!kind) reader.fail("a term has no `kind`", "add kind = \"correct\", say");
  Term term;
  term.weight = reader.number("weight", kAnyWeight).value_or(1);
  term.kind = read_kind(reader, table, *kind, where);
  term.name = reader.text("name").value_or(*kind);
  reader.finish();
  return term;
}

// Judging -----------------------------------------------------------------------------------------------------------

/// The speed-up over a baseline; empty if one of the two times is missing.
std::optional<double> speedup_over(const Verdict& verdict, Baseline over) {
  if (!verdict.timing || !(verdict.timing->candidate_ms > 0)) return std::nullopt;
  const verify::Timing& timing = *verdict.timing;
  std::optional<double> reference;
  if (over == Baseline::kEager) reference = timing.eager_ms;
  if (over == Baseline::kCompile) reference = timing.compile_ms;
  if (over == Baseline::kBest && timing.compile_ms) reference = std::min(timing.eager_ms, *timing.compile_ms);
  if (!reference || !(*reference > 0)) return std::nullopt;
  return *reference / timing.candidate_ms;
}

/// What a term needs and the verdict does not hold.
struct Missing {
  std::string what;
};
using Judged = std::variant<double, Missing>;

const Missing kNoTiming{"it needs timing, and this answer was not timed"};
const Missing kNoCompile{"it needs the time of torch.compile, which was not measured"};

class Judge {
 public:
  Judge(const Verdict& verdict, bool torch_refused) : verdict_(verdict), torch_refused_(torch_refused) {}

  Judged operator()(const Correct& /*term*/) const { return accepted() ? 1.0 : 0.0; }
  Judged operator()(const Wrong& /*term*/) const { return accepted() ? 0.0 : 1.0; }
  Judged operator()(const Triton& /*term*/) const { return verdict_.is_triton ? 1.0 : 0.0; }

  Judged operator()(const Reached& term) const {
    if (accepted()) return 1.0;
    // A pretender must not earn what an honest attempt earns.
    const bool pretends = verdict_.reason == verify::Reason::kRule || verdict_.stage == Stage::kAuthorship ||
                          verdict_.reason == verify::Reason::kProtocolViolation;
    return !pretends && verdict_.stage >= term.stage ? 1.0 : 0.0;
  }

  Judged operator()(const Coverage& term) const {
    if (!accepted()) return 0.0;
    if (!verdict_.authorship.torch_share && !torch_refused_)
      return Missing{"it needs PyTorch's share of the computing, which was not measured"};
    // Where PyTorch may not compute, what was accepted is the kernels' alone.
    const double share = 1 - verdict_.authorship.torch_share.value_or(0);
    return std::clamp((share - term.from) / (term.full - term.from), 0.0, 1.0);
  }

  Judged operator()(const Speedup& term) const {
    return timed(term.over, [&](double speedup) { return std::clamp(speedup - term.subtract, 0.0, term.cap); });
  }

  Judged operator()(const SpeedTiers& term) const {
    double value = 0;
    bool any = false;
    for (const SpeedTier& tier : term.tiers) {
      const Judged above = timed(tier.over, [&](double speedup) { return speedup > tier.above ? 1.0 : 0.0; });
      if (std::holds_alternative<Missing>(above)) return above;
      if (std::get<double>(above) == 0) continue;
      value = any ? std::max(value, tier.value) : tier.value;
      any = true;
    }
    return value;
  }

  Judged operator()(const LogSpeedup& term) const {
    return timed(term.over, [&](double speedup) {
      double dead = std::log2(term.dead_zone);
      if (const auto& interval = verdict_.timing->interval; interval && interval->first > 0)
        dead = std::max(dead, 3 * std::log2(interval->second / interval->first) / 2);
      const double log = std::log2(speedup);
      const double past = std::copysign(std::max(std::abs(log) - dead, 0.0), log);
      return std::clamp(past, -std::log2(term.bound), std::log2(term.bound));
    });
  }

  Judged operator()(const Format& term) const {
    if (!verdict_.form) return 0.0;  // Plain source, or bytes that are no text.
    const auto met = std::ranges::count_if(term.demands, [&](Demand demand) { return meets(demand); });
    return static_cast<double>(met) / static_cast<double>(term.demands.size());
  }

 private:
  bool accepted() const { return verdict_.outcome == Outcome::kAccept; }

  template <typename Formula>
  Judged timed(Baseline over, Formula formula) const {
    if (!accepted()) return 0.0;
    if (const auto speedup = speedup_over(verdict_, over)) return formula(*speedup);
    const bool only_compile_missing = speedup_over(verdict_, Baseline::kEager).has_value();
    return only_compile_missing ? kNoCompile : kNoTiming;
  }

  bool meets(Demand demand) const {
    using Reasoning = tasks::ReplyForm::Reasoning;
    switch (demand) {
      case Demand::kOneBlock:
        return verdict_.form->fenced_blocks == 1;
      case Demand::kFencesClosed:
        return verdict_.form->fences_closed;
      case Demand::kReasoningClosed:
        return verdict_.form->reasoning == Reasoning::kClosed;
      case Demand::kReasoningNotOpen:
        break;
    }
    return verdict_.form->reasoning != Reasoning::kOpen;
  }

  const Verdict& verdict_;
  const bool torch_refused_;
};

}  // namespace

struct Profile::Impl {
  std::string name;
  std::string description;
  std::string source;
  std::string toml;
  VerifyTable verify;
  WithoutTiming without_timing = WithoutTiming::kMask;
  std::optional<double> least;
  std::optional<double> most;
  std::vector<Term> terms;
};

std::span<const Profile::BuiltIn> Profile::built_in() { return kEmbeddedProfiles; }

Profile Profile::paper() { return find("paper"); }

Profile Profile::find(std::string_view name_or_path) {
  const bool path = name_or_path.find('/') != std::string_view::npos || name_or_path.ends_with(".toml");
  if (path) return load(name_or_path);
  std::vector<std::string_view> names;
  for (const BuiltIn& profile : built_in()) {
    if (profile.name == name_or_path)
      return parse(profile.toml, "profiles/" + std::string(profile.name) + ".toml", std::string(profile.name));
    names.push_back(profile.name);
  }
  throw UserError({.where = "--profile",
                   .what = "there is no profile `" + std::string(name_or_path) + "`",
                   .fix = "choose from " + listed(names) + ", or name a file: ./mine.toml"});
}

Profile Profile::load(const std::filesystem::path& path) {
  constexpr std::uint64_t kMaxBytes = 1'000'000;
  return parse(read_file(path, kMaxBytes), path.string(), path.stem().string());
}

Profile Profile::parse(std::string_view text, std::string_view where, std::string name) {
  toml::table file;
  try {
    file = toml::parse(text, where);
  } catch (const toml::parse_error& error) {
    throw UserError({.where = std::string(where) + ":" + std::to_string(error.source().begin.line),
                     .what = "this is no TOML: " + std::string(error.description()),
                     .fix = "mend that line; `autotriton profiles show paper` is an example"});
  }
  auto impl = std::make_shared<Impl>();
  impl->name = std::move(name);
  impl->toml = text;
  TableReader reader(file, "the profile", where);
  impl->description = reader.text("description").value_or("");
  impl->source = reader.text("source").value_or("");
  if (const toml::table* table = reader.table("verify")) impl->verify = read_verify(*table, where);
  const toml::table* reward = reader.table("reward");
  if (reward == nullptr)
    throw UserError({.where = std::string(where),
                     .what = "there is no table [reward]",
                     .fix = "add [[reward.term]] with kind = \"correct\", say"});
  TableReader fields(*reward, "[reward]", where);
  impl->without_timing = fields.choice("without_timing", kWithoutTiming).value_or(WithoutTiming::kMask);
  constexpr Range kBounds{-1e6, 1e6};
  impl->least = fields.number("min", kBounds);
  impl->most = fields.number("max", kBounds);
  if (impl->least && impl->most && *impl->least >= *impl->most) fields.fail("`min` is not below `max`", "swap them");
  for (const toml::table* table : fields.tables("term", "write [[reward.term]] and, below, kind = \"correct\"")) {
    Term term = read_term(*table, where);
    if (std::ranges::any_of(impl->terms, [&](const Term& other) { return other.name == term.name; })) {
      throw UserError({.where = std::string(where) + ":" + std::to_string(table->source().begin.line),
                       .what = "two terms are called `" + term.name + "`",
                       .fix = "give one of them a `name` of its own"});
    }
    impl->terms.push_back(std::move(term));
  }
  fields.finish();
  reader.finish();
  return Profile(std::move(impl));
}

const std::string& Profile::name() const { return impl_->name; }
const std::string& Profile::description() const { return impl_->description; }
const std::string& Profile::source() const { return impl_->source; }
const std::string& Profile::toml() const { return impl_->toml; }
WithoutTiming Profile::without_timing() const { return impl_->without_timing; }

std::string Profile::label() const {
  for (const BuiltIn& profile : built_in()) {
    if (profile.name == impl_->name && profile.toml == impl_->toml) return impl_->name;
  }
  return impl_->name + "@" + sha256_hex(impl_->toml).substr(0, 12);
}

bool Profile::is_paper() const {
  return impl_->terms.size() == 1 && std::holds_alternative<Correct>(impl_->terms[0].kind) &&
         impl_->terms[0].weight == 1 && !impl_->least && !impl_->most;
}

bool Profile::needs_timing() const { return std::ranges::any_of(impl_->terms, &Term::timed); }

std::optional<std::string> Profile::warning_without_timing() const {
  if (!needs_timing()) return std::nullopt;
  std::vector<std::string> names;
  for (const Term& term : impl_->terms) {
    if (term.timed()) names.push_back(term.name);
  }
  const std::string text =
      "profile `" + name() + "`: " + listed(names) + " " + (names.size() == 1 ? "needs" : "need") + " timing, which ";
  return text + (without_timing() == WithoutTiming::kMask
                     ? "only a GPU gives: every accepted answer has the reward null here, so nothing is left to learn "
                       "from; choose another profile, or without_timing = \"correctness\""
                     : "only a GPU gives: left out here, as without_timing = \"correctness\" says");
}

void Profile::apply(verify::VerifyOptions& options) const {
  const VerifyTable& table = impl_->verify;
  if (table.torch_compute) options.torch_compute = *table.torch_compute;
  if (table.trials) options.trials = *table.trials;
  if (table.shapes) options.shapes = *table.shapes;
  if (table.capability) options.capability = *table.capability;
  if (table.require_sandbox) options.require_sandbox = *table.require_sandbox;
  if (table.max_elements) options.max_elements = *table.max_elements;
  for (const auto& [stage, seconds] : table.budgets) options.budgets.set(stage, seconds);
}

RewardValue Profile::reward(const Verdict& verdict) const {
  RewardValue result;
  if (verdict.outcome == Outcome::kInconclusive || verdict.outcome == Outcome::kError) {
    result.why =
        "masked: the verdict is " + std::string(verify::outcome_name(verdict.outcome)) + " (" + verdict.reason_id + ")";
    return result;
  }
  const bool torch_refused =
      impl_->verify.torch_compute.value_or(verify::TorchCompute::kRefuse) == verify::TorchCompute::kRefuse;
  const Judge judge(verdict, torch_refused);
  double sum = 0;
  std::string masked;
  std::string left_out;
  for (const Term& term : impl_->terms) {
    const Judged judged = std::visit(judge, term.kind);
    if (const auto* value = std::get_if<double>(&judged)) {
      result.terms[term.name] = term.weight * *value;
      sum += term.weight * *value;
    } else if (term.timed() && without_timing() == WithoutTiming::kCorrectness) {
      left_out += (left_out.empty() ? "without `" : ", `") + term.name + "`";
    } else if (masked.empty()) {
      masked = "masked: `" + term.name + "` of the profile has no value: " + std::get<Missing>(judged).what;
    }
  }
  if (!masked.empty()) {
    result.why = masked;
    return result;
  }
  if (impl_->least) sum = std::max(sum, *impl_->least);
  if (impl_->most) sum = std::min(sum, *impl_->most);
  result.value = sum;
  result.why = "profile `" + name() + "`" + (left_out.empty() ? "" : ", " + left_out + ", since nothing was timed");
  return result;
}

RewardValue Profile::set_reward(Verdict& verdict) const {
  RewardValue result = reward(verdict);
  verdict.reward = result.value;
  verdict.reward_terms = is_paper() ? std::map<std::string, double>{} : result.terms;
  verdict.environment["profile"] = label();
  if (!result.value && verdict.outcome == Outcome::kAccept) verdict.notes.push_back("Reward " + result.why + ".");
  return result;
}

}  // namespace autotriton::reward
