#include "base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>

#include "base/error.h"

namespace autotriton {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "autotriton-file-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  void put(const fs::path& path, std::string_view bytes) { std::ofstream(path, std::ios::binary) << bytes; }
  std::ptrdiff_t num_files() { return std::distance(fs::directory_iterator(folder_), fs::directory_iterator()); }

  fs::path folder_;
};

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no UserError";
}

// Lets no file of this process grow beyond `bytes` while it lives: a small disk that needs no rights.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    old_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit before_{};
  void (*old_handler_)(int);
};

TEST_F(FileTest, ReadsBytesAsTheyAre) {
  const std::string bytes("a\0\r\n\xFF", 5);
  put(folder_ / "a", bytes);
  EXPECT_EQ(read_file(folder_ / "a"), bytes);
}

TEST_F(FileTest, SaysWhyAFileCannotBeRead) {
  put(folder_ / "big", std::string(11, 'x'));
  EXPECT_THAT(error_of([&] { read_file(folder_ / "none"); }), AllOf(HasSubstr("none"), HasSubstr("No such file")));
  EXPECT_THAT(error_of([&] { read_file(folder_); }), HasSubstr("is a folder"));
  EXPECT_THAT(error_of([&] { read_file(folder_ / "big", 10); }),
              AllOf(HasSubstr("big"), HasSubstr("more than the 10 bytes")));
  EXPECT_EQ(read_file(folder_ / "big", 11).size(), 11u);
  EXPECT_THAT(error_of([&] { read_file("/dev/zero", 1000); }),
              HasSubstr("more than the 1000 bytes"));  // Endless, not slow.
}

TEST_F(FileTest, ReplacesAFileWhole) {
  put(folder_ / "a", "old and longer");
  write_file_atomically(folder_ / "a", "new");
  EXPECT_EQ(read_file(folder_ / "a"), "new");
  EXPECT_EQ(num_files(), 1);
}

TEST_F(FileTest, AFailedReplacementKeepsTheOldContentAndLeavesNothingBeside) {
  put(folder_ / "a", "old");
  {
    const FileSizeLimit limit(1000);
    EXPECT_THAT(error_of([&] { write_file_atomically(folder_ / "a", std::string(5000, 'x')); }),
                HasSubstr("cannot be written"));
  }
  EXPECT_EQ(read_file(folder_ / "a"), "old");
  EXPECT_EQ(num_files(), 1);
}

TEST_F(FileTest, AFullDiskSaysWhatToDo) {
  const auto full = [](auto write) { return error_of(write); };
  EXPECT_THAT(full([] { write_file_atomically("/dev/full", "x"); }),
              AllOf(HasSubstr("No space left"), HasSubstr("free some space")));
  EXPECT_THAT(full([] { LineAppender::open("/dev/full").append("x"); }),
              AllOf(HasSubstr("/dev/full"), HasSubstr("free some space")));
}

TEST_F(FileTest, AMissingFolderIsNamed) {
  EXPECT_THAT(error_of([&] { write_file_atomically(folder_ / "no" / "a", "x"); }), HasSubstr("No such file"));
  EXPECT_THAT(error_of([&] { LineAppender::open(folder_ / "no" / "a"); }), HasSubstr("cannot be opened for writing"));
}

TEST_F(FileTest, LinesAreAddedAndGoOnInALaterRun) {
  LineAppender::open(folder_ / "out").append("one");
  LineAppender again = LineAppender::open(folder_ / "out");
  again.append("two");
  EXPECT_EQ(again.dropped_bytes(), 0u);
  EXPECT_EQ(read_file(folder_ / "out"), "one\ntwo\n");
}

TEST_F(FileTest, AHalfLineOfAKilledRunIsDropped) {
  put(folder_ / "out", "{\"id\":1}\n{\"id\":");
  LineAppender appender = LineAppender::open(folder_ / "out");
  EXPECT_EQ(appender.dropped_bytes(), 6u);
  appender.append("{\"id\":2}");
  EXPECT_EQ(read_file(folder_ / "out"), "{\"id\":1}\n{\"id\":2}\n");
}

TEST_F(FileTest, AHalfLineLongerThanOneBufferIsDropped) {
  put(folder_ / "out", "whole\n" + std::string(200'000, 'x'));
  EXPECT_EQ(LineAppender::open(folder_ / "out").dropped_bytes(), 200'000u);
  EXPECT_EQ(read_file(folder_ / "out"), "whole\n");
  put(folder_ / "only", std::string(70'000, 'x'));
  LineAppender::open(folder_ / "only");
  EXPECT_EQ(read_file(folder_ / "only"), "");
}

TEST_F(FileTest, ALineThatDoesNotFitLeavesNoPartOfItself) {
  LineAppender appender = LineAppender::open(folder_ / "out");
  appender.append("first");
  {
    const FileSizeLimit limit(1000);
    EXPECT_THAT(error_of([&] { appender.append(std::string(5000, 'x')); }), HasSubstr("cannot be written"));
  }
  EXPECT_EQ(read_file(folder_ / "out"), "first\n");
  appender.append("second");
  EXPECT_EQ(read_file(folder_ / "out"), "first\nsecond\n");
}

TEST_F(FileTest, ALineWithALineEndInsideIsOurBug) {
  LineAppender appender = LineAppender::open(folder_ / "out");
  EXPECT_THROW(appender.append("a\nb"), InvariantError);
}

}  // namespace
}  // namespace autotriton
