#include "verify/batch.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/progress.h"
#include "tasks/pairs.h"
#include "tasks/task_json.h"
#include "verify/verdict_file.h"

namespace autotriton::verify {
namespace {

/// What the worker threads share.
struct Shared {
  std::mutex reading;
  std::mutex writing;
  tasks::PairReader reader;
  VerdictFile file;
  BatchSummary summary;
  Progress* progress = nullptr;
  std::exception_ptr failure;
  std::atomic<bool> stop{false};
};

}  // namespace

Verdict verdict_of(const tasks::LineError& error) {
  Verdict verdict;
  verdict.id = error.id;
  const Reason reason = error.kind == tasks::LineError::Kind::kLineUnreadable      ? Reason::kLineUnreadable
                        : error.kind == tasks::LineError::Kind::kProblemUnreadable ? Reason::kProblemUnreadable
                                                                                   : Reason::kProblemInvalid;
  verdict.conclude(reason, "line " + std::to_string(error.line) + " of the pairs: " + error.message);
  return verdict;
}

void BatchSummary::count(Outcome outcome, Reason reason) {
  switch (outcome) {
    case Outcome::kAccept:
      ++accepted;
      return;
    case Outcome::kReject:
      ++rejected;
      return;
    case Outcome::kInconclusive:
      ++inconclusive;
      return;
    case Outcome::kError:
      break;
  }
  ++(info(reason).fault == Fault::kInput ? bad_input : our_errors);
}

std::string BatchSummary::text() const {
  std::string text = "accept " + std::to_string(accepted) + ", reject " + std::to_string(rejected) + ", inconclusive " +
                     std::to_string(inconclusive);
  if (bad_input != 0) text += ", bad input " + std::to_string(bad_input);
  if (our_errors != 0) text += ", error " + std::to_string(our_errors);
  return text;
}

BatchSummary run_batch(execution::ForkServer& server, const VerifyOptions& verify, const BatchOptions& batch,
                       const std::function<bool()>& interrupted) {
  std::optional<tasks::TaskLibrary> library;
  if (batch.tasks) library.emplace(tasks::TaskLibrary::from_file(*batch.tasks));
  tasks::PairReader::Options reading;
  reading.tasks = library ? &*library : nullptr;
  Shared shared{.reading = {},
                .writing = {},
                .reader = tasks::PairReader(batch.pairs, reading),
                .file = VerdictFile(batch.out),
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
    shared.file.write(to_json(verdict));
    shared.summary.count(verdict.outcome, verdict.reason);
    if (shared.progress != nullptr) {
      shared.progress->update(shared.summary.done_before + shared.summary.judged(), shared.summary.text());
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
        if (shared.file.has(id)) {
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
