#include "verify/sarif.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "rules/rules.h"

namespace autotriton::verify {
namespace {

using Json = nlohmann::ordered_json;

std::string_view sarif_level(std::string_view level) {
  if (level == "reject") return "error";
  return level == "suspicious" ? "warning" : "note";
}

/// A path as the path of a URI: bytes other than letters, digits and a few signs are written as %XX.
std::string as_uri(const std::string& path) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/!$&'()*+,;=@";
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string uri;
  for (const char c : path) {
    if (kPlain.find(c) != std::string_view::npos) {
      uri += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      uri += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return uri;
}

/// Relative to the folder that the run was started in; a file elsewhere has its full address.
Json location_of(const std::string& path) {
  if (path == "-" || path.empty()) return {{"uri", "stdin"}};
  const std::filesystem::path plain = std::filesystem::path(path).lexically_normal();
  std::filesystem::path relative = plain;
  if (plain.is_absolute()) {
    std::error_code error;
    relative = plain.lexically_relative(std::filesystem::current_path(error));
  }
  if (relative.empty() || *relative.begin() == "..") {
    std::error_code error;
    const auto absolute = std::filesystem::absolute(plain, error).lexically_normal();
    return {{"uri", "file://" + as_uri(absolute.string())}};
  }
  return {{"uri", as_uri(relative.string())}, {"uriBaseId", "%SRCROOT%"}};
}

/// The column in UTF-16 units, from 1, of a byte column; 0 if the source does not reach there.
int utf16_column(std::string_view source, int line, int byte_column) {
  std::size_t start = 0;
  for (int at = 1; at < line; ++at) {
    start = source.find('\n', start);
    if (start == std::string_view::npos) return 0;
    ++start;
  }
  const auto length = static_cast<std::size_t>(byte_column - 1);
  if (byte_column < 1 || start + length > source.size()) return 0;
  int units = 1;
  for (const char c : source.substr(start, length)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 || byte >= 0xc0) units += byte >= 0xf0 ? 2 : 1;
  }
  return units;
}

Json text(std::string_view value) { return {{"text", value}}; }

Json descriptor(std::string_view id, std::string_view sentence, std::string_view why, std::string_view remedy,
                std::string_view level) {
  return {{"id", id},
          {"shortDescription", text(sentence)},
          {"fullDescription", text(why)},
          {"help", text(remedy)},
          {"defaultConfiguration", {{"level", level}}}};
}

/// The rules of a run, in order, with the index of each.
struct Descriptors {
  Json list = Json::array();
  std::map<std::string, std::size_t, std::less<>> index;

  Descriptors() {
    for (const rules::RuleInfo& rule : rules::all_rules()) {
      index.emplace(rule.id, list.size());
      list.push_back(
          descriptor(rule.id, rule.sentence, rule.reason, rule.remedy, sarif_level(rules::level_name(rule.level))));
    }
  }

  /// The index of a rule or of a reason of the verdict; none for another word.
  std::optional<std::size_t> find(std::string_view id) {
    if (const auto found = index.find(id); found != index.end()) return found->second;
    const auto reason = reason_from_id(id);
    if (!reason) return std::nullopt;
    const ReasonInfo& known = info(*reason);
    list.push_back(descriptor(known.id, known.explanation, known.explanation, known.remedy,
                              known.outcome == Outcome::kInconclusive ? "warning" : "error"));
    return index.emplace(id, list.size() - 1).first->second;
  }
};

}  // namespace

std::string to_sarif(std::span<const SarifFile> files) {
  Descriptors descriptors;
  Json results = Json::array();
  Json artifacts = Json::array();
  for (const SarifFile& file : files) {
    Json location = location_of(file.path);
    artifacts.push_back({{"location", location}});
    location["index"] = artifacts.size() - 1;
    for (const Finding& finding : file.findings) {
      Json result = {{"ruleId", finding.rule}};
      if (const auto index = descriptors.find(finding.rule)) result["ruleIndex"] = *index;
      result["level"] = sarif_level(finding.level);
      result["message"] = text(finding.message);
      Json physical = {{"artifactLocation", location}};
      if (finding.line > 0) {
        physical["region"] = {{"startLine", finding.line}};
        if (const int column = utf16_column(file.source, finding.line, finding.column); column > 0)
          physical["region"]["startColumn"] = column;
      }
      result["locations"] = Json::array({Json{{"physicalLocation", std::move(physical)}}});
      results.push_back(std::move(result));
    }
  }
  Json run = {{"tool",
               {{"driver",
                 {{"name", "autotriton"},
                  {"version", AUTOTRITON_VERSION},
                  {"semanticVersion", AUTOTRITON_VERSION},
                  {"rules", std::move(descriptors.list)}}}}},
              {"columnKind", "utf16CodeUnits"},
              {"artifacts", std::move(artifacts)},
              {"results", std::move(results)}};
  const Json log = {{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
                    {"version", "2.1.0"},
                    {"runs", Json::array({std::move(run)})}};
  // Names and messages quote the source, which may be anything.
  return log.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

std::vector<Finding> findings_of(const Verdict& verdict) {
  std::vector<Finding> findings = verdict.findings;
  const bool is_told = std::ranges::any_of(
      findings, [&](const Finding& finding) { return finding.rule == verdict.reason_id && finding.level == "reject"; });
  if (verdict.outcome == Outcome::kAccept || is_told || verdict.reason_id.empty()) return findings;
  findings.push_back({.rule = verdict.reason_id,
                      .level = verdict.outcome == Outcome::kInconclusive ? "suspicious" : "reject",
                      .line = 0,
                      .column = 0,
                      .message = verdict.message});
  return findings;
}

}  // namespace autotriton::verify
