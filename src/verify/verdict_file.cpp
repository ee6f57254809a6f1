#include "verify/verdict_file.h"

#include <fstream>
#include <iostream>
#include <string_view>

#include "base/error.h"
#include "verify/reason.h"
#include "verify/record_json.h"

namespace autotriton::verify {
namespace {

std::set<std::string, std::less<>> finished_ids(const std::filesystem::path& path) {
  std::set<std::string, std::less<>> ids;
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    const Json record = Json::parse(line, nullptr, false);
    if (!record.is_object() || !record.contains("id") || !record["id"].is_string()) continue;
    const std::string id = record["id"];
    // Our fault may pass, and a line or a problem that could not be used may be mended: both are judged again.
    const auto reason = reason_from_id(record.value("reason", ""));
    if (reason && (info(*reason).fault == Fault::kOurs || info(*reason).fault == Fault::kInput)) {
      ids.erase(id);
    } else {
      ids.insert(id);
    }
  }
  return ids;
}

/// Verdicts are added to verdicts, never to a file of something else (whose unfinished last line would be cut off).
void check_holds_verdicts(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return;
  constexpr std::string_view kBegin = R"({"schema":)";  // Of a first line that was not finished.
  std::ifstream file(path, std::ios::binary);
  std::string line;
  if (!std::getline(file, line) || line.empty()) return;
  if (file.eof() && (kBegin.starts_with(line) || line.starts_with(kBegin))) return;
  const Json record = Json::parse(line, nullptr, false);
  if (record.is_object() && record.value("schema", Json()).is_string() &&
      record["schema"].get_ref<const std::string&>().starts_with("autotriton.verdict/")) {
    return;
  }
  throw UserError({.where = path.string(),
                   .what = "holds something else than verdicts, and would be added to",
                   .fix = "name another file with --out, or remove this one"});
}

}  // namespace

VerdictFile::VerdictFile(const std::filesystem::path& path) {
  if (path == "-") return;
  check_holds_verdicts(path);
  finished_ = finished_ids(path);
  file_.emplace(LineAppender::open(path));
}

void VerdictFile::write(const std::string& line) {
  if (file_) {
    file_->append(line);
    return;
  }
  std::cout << line << '\n' << std::flush;
  if (!std::cout)
    throw UserError({.where = "standard output", .what = "cannot be written", .fix = "give --out a file"});
}

}  // namespace autotriton::verify
