#include "verify/batch.h"

#include <atomic>
#include <fstream>
#include <iostream>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/progress.h"
#include "tasks/pairs.h"
#include "tasks/task_json.h"
#include "verify/record_json.h"

namespace autotriton::verify {
namespace {

/// Where verdicts go: a file that a later run can continue, or standard output.
class VerdictSink {
 public:
  explicit VerdictSink(const std::filesystem::path& path) {
    if (path != "-") file_.emplace(LineAppender::open(path));
  }
  void write(const std::string& line) {
    if (file_) {
      file_->append(line);
      return;
    }
    std::cout << line << '\n' << std::flush;
    if (!std::cout)
      throw UserError({.where = "standard output", .what = "cannot be written", .fix = "give --out a file"});
  }

 private:
  std::optional<LineAppender> file_;
};

/// Ids that have a verdict already. An error of ours is not one: it is judged again, and the later line counts.
std::set<std::string> finished_ids(const std::filesystem::path& path) {
  std::set<std::string> ids;
  if (path == "-") return ids;
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

Verdict verdict_of(const tasks::LineError& error) {
  Verdict verdict;
  verdict.id = error.id;
  const Reason reason = error.kind == tasks::LineError::Kind::kLineUnreadable      ? Reason::kLineUnreadable
                        : error.kind == tasks::LineError::Kind::kProblemUnreadable ? Reason::kProblemUnreadable
                                                                                   : Reason::kProblemInvalid;
  verdict.conclude(reason, "line " + std::to_string(error.line) + " of the pairs: " + error.message);
  return verdict;
}

void count(BatchSummary& summary, const Verdict& verdict) {
  switch (verdict.outcome) {
    case Outcome::kAccept:
      ++summary.accepted;
      return;
    case Outcome::kReject:
      ++summary.rejected;
      return;
    case Outcome::kInconclusive:
      ++summary.inconclusive;
      return;
    case Outcome::kError:
      break;
  }
  ++(info(verdict.reason).fault == Fault::kInput ? summary.bad_input : summary.our_errors);
}

std::string counts_text(const BatchSummary& summary) {
  std::string text = "accept " + std::to_string(summary.accepted) + ", reject " + std::to_string(summary.rejected) +
                     ", inconclusive " + std::to_string(summary.inconclusive);
  if (summary.bad_input != 0) text += ", bad input " + std::to_string(summary.bad_input);
  if (summary.our_errors != 0) text += ", error " + std::to_string(summary.our_errors);
  return text;
}

/// What the worker threads share.
struct Shared {
  std::mutex reading;
  std::mutex writing;
  tasks::PairReader reader;
  VerdictSink sink;
  std::set<std::string> finished;
  BatchSummary summary;
  Progress* progress = nullptr;
  std::exception_ptr failure;
  std::atomic<bool> stop{false};
};

}  // namespace

BatchSummary run_batch(execution::ForkServer& server, const VerifyOptions& verify, const BatchOptions& batch,
                       const std::function<bool()>& interrupted) {
  std::optional<tasks::TaskLibrary> library;
  if (batch.tasks) library.emplace(tasks::TaskLibrary::from_file(*batch.tasks));
  tasks::PairReader::Options reading;
  reading.tasks = library ? &*library : nullptr;
  Shared shared{.reading = {},
                .writing = {},
                .reader = tasks::PairReader(batch.pairs, reading),
                .sink = VerdictSink(batch.out),
                .finished = finished_ids(batch.out),
                .summary = {},
                .progress = nullptr,
                .failure = {},
                .stop = false};
  std::unique_ptr<Progress> progress;
  if (batch.progress) {
    progress =
        std::make_unique<Progress>(Progress::Options{.label = "verdicts", .total = tasks::count_pairs(batch.pairs)});
    shared.progress = progress.get();
  }
  const auto record = [&shared, &batch](Verdict verdict) {
    if (batch.complete) batch.complete(verdict);
    const std::lock_guard lock(shared.writing);
    shared.sink.write(to_json(verdict));
    count(shared.summary, verdict);
    if (shared.progress != nullptr) {
      shared.progress->update(shared.summary.done_before + shared.summary.judged(), counts_text(shared.summary));
    }
  };
  const auto work = [&] {
    try {
      Verifier verifier(server, verify);
      while (!shared.stop && !interrupted()) {
        std::optional<std::variant<tasks::Pair, tasks::LineError>> next;
        {
          const std::lock_guard lock(shared.reading);
          next = shared.reader.next();
        }
        if (!next) return;
        const std::string id = std::visit([](const auto& item) { return item.id; }, *next);
        if (shared.finished.contains(id)) {
          const std::lock_guard lock(shared.writing);
          ++shared.summary.done_before;
          continue;
        }
        if (const auto* error = std::get_if<tasks::LineError>(&*next)) {
          record(verdict_of(*error));
          continue;
        }
        const auto& pair = std::get<tasks::Pair>(*next);
        Verdict verdict =
            verifier.verify({.id = pair.id, .task = pair.task, .text = pair.text, .raw_answer = pair.raw_answer});
        if (interrupted() && info(verdict.reason).fault == Fault::kOurs) return;  // Cut off, not judged.
        record(std::move(verdict));
      }
    } catch (const Interrupted&) {
      return;  // The caller sees it for itself.
    } catch (...) {
      const std::lock_guard lock(shared.writing);
      if (!shared.failure) shared.failure = std::current_exception();
      shared.stop = true;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int job = 1; job < batch.jobs; ++job) threads.emplace_back(work);
    work();
  }
  if (progress) progress->finish();
  if (shared.failure) std::rethrow_exception(shared.failure);
  shared.summary.interrupted = interrupted();
  return shared.summary;
}

int exit_code(const BatchSummary& summary) {
  if (summary.interrupted) return 130;
  if (summary.our_errors != 0) return 4;
  return summary.bad_input != 0 ? 2 : 0;
}

}  // namespace autotriton::verify
