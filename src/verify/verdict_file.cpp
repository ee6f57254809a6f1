#include "verify/verdict_file.h"

#include <fstream>
#include <iostream>

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
    const auto reason = reason_from_id(record.value("reason", ""));
    if (reason && info(*reason).fault == Fault::kOurs) {
      ids.erase(id);
    } else {
      ids.insert(id);
    }
  }
  return ids;
}

}  // namespace

VerdictFile::VerdictFile(const std::filesystem::path& path) {
  if (path == "-") return;
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
