#include "verify/verdict_cache.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/sha256.h"

namespace autotriton::verify {
namespace {

namespace fs = std::filesystem;

constexpr int kApplicationId = 0x41545256;  ///< "ATRV": marks the file as ours.
constexpr int kLayout = 1;
constexpr std::uint64_t kPruneEvery = 1000;
constexpr int kBusyMilliseconds = 5000;

struct CloseDatabase {
  void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
};
struct FinishStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;
using Statement = std::unique_ptr<sqlite3_stmt, FinishStatement>;

Statement prepare(sqlite3* database, const char* sql) {
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v3(database, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  return Statement(statement);
}

int run(sqlite3* database, const std::string& sql) {
  return sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr);
}

/// One number that a query answers; empty if it fails.
std::optional<std::int64_t> number_of(sqlite3* database, const char* sql) {
  const Statement statement = prepare(database, sql);
  if (!statement || sqlite3_step(statement.get()) != SQLITE_ROW) return std::nullopt;
  return sqlite3_column_int64(statement.get(), 0);
}

void set_text(const Statement& statement, int place, const std::string& value) {
  sqlite3_bind_text64(statement.get(), place, value.data(), value.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
}

/// Everything about a request and its options that a verdict may follow from. A new option belongs in here.
std::string key_of(const std::string& who, const VerifyRequest& request, const VerifyOptions& options) {
  const tasks::Task& task = *request.task;
  const nlohmann::json everything = {who,
                                     tasks::kind_name(task.kind),
                                     sha256_hex(task.reference),
                                     task.entry_point,
                                     sha256_hex(task.tests),
                                     sha256_hex(request.text),
                                     request.raw_answer,
                                     options.trials,
                                     static_cast<int>(options.shapes),
                                     options.capability,
                                     {options.budgets.load, options.budgets.run, options.budgets.compile,
                                      options.budgets.authorship, options.budgets.oracle},
                                     options.require_sandbox,
                                     static_cast<int>(options.torch_compute),
                                     options.skip_rules,
                                     options.max_elements};
  return sha256_hex(everything.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

/// Whether a second judgement would say the same.
bool is_lasting(const Verdict& verdict) {
  if (verdict.outcome == Outcome::kError || verdict.grade == Grade::kStatic) return false;
  for (const Reason timed : {Reason::kLoadTimeout, Reason::kRunTimeout, Reason::kInterpreterTimeout,
                             Reason::kCompileUndecided, Reason::kTaskTooLarge, Reason::kMemoryExceeded}) {
    if (verdict.reason == timed) return false;
  }
  return true;
}

/// Digest of a file of any size, mapped rather than read. Throws UserError if it cannot be opened.
std::string digest_of(const fs::path& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  std::error_code error;
  const auto bytes = static_cast<std::size_t>(fs::file_size(file, error));
  void* memory = fd >= 0 && !error && bytes > 0 ? ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
  if (fd >= 0) ::close(fd);
  if (memory == MAP_FAILED)
    throw UserError({.where = file.string(), .what = "cannot be read", .fix = "keep the program's folder together"});
  std::string digest = sha256_hex({static_cast<const char*>(memory), bytes});
  ::munmap(memory, bytes);
  return digest;
}

/// Time of the last change of a file or folder; 0 where it is not there.
std::int64_t changed_at(const fs::path& path) {
  std::error_code error;
  const auto time = fs::last_write_time(path, error);
  return error ? 0 : static_cast<std::int64_t>(time.time_since_epoch().count());
}

}  // namespace

struct VerdictCache::Impl {
  std::string who;
  std::uint64_t max_entries = 0;
  mutable std::mutex mutex;
  Database database;
  Statement select;
  Statement insert;
  std::uint64_t inserted = 0;
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::string fault;

  void prune() {
    run(database.get(),
        "DELETE FROM verdicts WHERE rowid <= (SELECT max(rowid) FROM verdicts) - " + std::to_string(max_entries));
  }
};

VerdictCache::VerdictCache(const fs::path& file, std::string who, std::uint64_t max_entries)
    : impl_(std::make_unique<Impl>()) {
  const auto refuse = [&](const std::string& what, const std::string& fix) -> UserError {
    return UserError({.where = file.string(), .what = what, .fix = fix});
  };
  std::error_code error;
  if (fs::is_directory(file, error)) throw refuse("is a folder", "name a file in it");
  sqlite3* opened = nullptr;
  const int result = sqlite3_open_v2(file.c_str(), &opened,
                                     SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX, nullptr);
  impl_->database.reset(opened);
  if (result != SQLITE_OK) {
    throw refuse(std::string("cannot be opened: ") + sqlite3_errmsg(opened),
                 "name a file in a folder that is there and can be written to, or go without a cache");
  }
  sqlite3_busy_timeout(opened, kBusyMilliseconds);
  const std::string other_file = "name another file with --cache; if this was a verdict cache, remove it";
  const auto application = number_of(opened, "PRAGMA application_id");
  const auto tables = number_of(opened, "SELECT count(*) FROM sqlite_master");
  if (sqlite3_errcode(opened) == SQLITE_READONLY || sqlite3_db_readonly(opened, "main") == 1)
    throw refuse("cannot be written by this user", "name another file with --cache, or go without a cache");
  if (!application || !tables)
    throw refuse(std::string("is damaged or no SQLite file: ") + sqlite3_errmsg(opened), other_file);
  if (*tables != 0 && *application != kApplicationId) throw refuse("is a database of something else", other_file);
  if (*tables != 0 && number_of(opened, "PRAGMA user_version") != kLayout)
    throw refuse("was written by another version of this program", other_file);
  const std::string layout =
      "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
      "PRAGMA application_id = " +
      std::to_string(kApplicationId) + "; PRAGMA user_version = " + std::to_string(kLayout) +
      "; CREATE TABLE IF NOT EXISTS verdicts (rowid INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, "
      "verdict TEXT NOT NULL)";
  if (run(opened, layout) != SQLITE_OK)
    throw refuse(std::string("cannot be written: ") + sqlite3_errmsg(opened),
                 "free space, name another file with --cache, or go without a cache");
  impl_->who = std::move(who);
  impl_->max_entries = max_entries;
  impl_->select = prepare(opened, "SELECT verdict FROM verdicts WHERE key = ?1");
  impl_->insert = prepare(opened, "INSERT OR REPLACE INTO verdicts (key, verdict) VALUES (?1, ?2)");
  if (!impl_->select || !impl_->insert)
    throw refuse(std::string("cannot be used: ") + sqlite3_errmsg(opened), other_file);
  impl_->prune();
}

VerdictCache::~VerdictCache() = default;

std::string VerdictCache::identity(const fs::path& program, const execution::ForkServer::Options& server) {
  std::string everything = digest_of(program);
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(server.worker)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) everything += file.filename().string() + digest_of(file);
  everything += digest_of(server.confine_library);
  // The packages of an environment: installing one changes the folder that holds it.
  std::error_code error;
  everything += server.python.string() + std::to_string(changed_at(fs::canonical(server.python, error)));
  const fs::path library = server.python.parent_path().parent_path() / "lib";
  for (const fs::directory_entry& entry : fs::directory_iterator(library, error)) {
    const fs::path packages = entry.path() / "site-packages";
    everything += packages.string() + std::to_string(changed_at(packages));
  }
  return sha256_hex(everything);
}

std::optional<Verdict> VerdictCache::find(const VerifyRequest& request, const VerifyOptions& options) {
  const std::string key = key_of(impl_->who, request, options);
  const std::lock_guard lock(impl_->mutex);
  sqlite3_stmt* statement = impl_->select.get();
  set_text(impl_->select, 1, key);
  std::optional<Verdict> verdict;
  if (sqlite3_step(statement) == SQLITE_ROW) {
    const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
    verdict = verdict_from_json({text, static_cast<std::size_t>(sqlite3_column_bytes(statement, 0))});
  }
  sqlite3_reset(statement);
  ++(verdict ? impl_->hits : impl_->misses);
  if (verdict) {
    verdict->id = request.id;
    verdict->task_id = request.task->task_id;
    verdict->environment["cached"] = "yes";
  }
  return verdict;
}

void VerdictCache::keep(const VerifyRequest& request, const VerifyOptions& options, const Verdict& verdict) {
  if (!is_lasting(verdict)) return;
  const std::string key = key_of(impl_->who, request, options);
  const std::string text = to_json(verdict);
  const std::lock_guard lock(impl_->mutex);
  if (!impl_->fault.empty()) return;
  set_text(impl_->insert, 1, key);
  set_text(impl_->insert, 2, text);
  const int result = sqlite3_step(impl_->insert.get());
  if (result != SQLITE_DONE && result != SQLITE_BUSY) impl_->fault = sqlite3_errmsg(impl_->database.get());
  sqlite3_reset(impl_->insert.get());
  if (++impl_->inserted % kPruneEvery == 0) impl_->prune();
}

std::uint64_t VerdictCache::hits() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->hits;
}

std::uint64_t VerdictCache::misses() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->misses;
}

std::string VerdictCache::fault() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->fault;
}

}  // namespace autotriton::verify
