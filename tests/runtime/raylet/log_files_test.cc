// If this fails: a worker that prints without end fills the disk, or what it printed is lost to `rayo logs`, to its
// driver or to its death record.
#include "runtime/raylet/log_files.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <map>
#include <unistd.h>

#include "runtime/base/ids.h"
#include "runtime/base/loop/loop.h"

namespace rayo::raylet {
namespace {

using namespace std::chrono_literals;

constexpr LogLimits kLimits{.file_bytes = 64 << 10, .total_bytes = 200 << 10, .kept_at_cut = 4 << 10};

class LogFilesTest : public testing::Test {
 protected:
  void run(const std::function<void(LogFiles&)>& body) {
    base::run_in_loop([&] {
      char name[] = "/tmp/rayo-log-files-XXXXXX";
      ASSERT_TRUE(mkdtemp(name));
      folder_ = name;
      {
        LogFiles logs(
            *base::current_loop(), folder_ / "workers",
            [this](PrintedLines printed) {
              auto& lines = lines_[printed.process];
              lines.insert(lines.end(), printed.lines.begin(), printed.lines.end());
            },
            kLimits);
        ASSERT_TRUE(logs.start().ok());
        body(logs);
      }
      std::filesystem::remove_all(folder_);
    });
  }

  // A worker that prints `lines` of 64 bytes each, numbered.
  static void print(const base::Fd& fd, int lines, int from = 0) {
    std::string text;
    for (int i = from; i < from + lines; ++i) {
      char line[65];
      std::snprintf(line, sizeof line, "%63d\n", i);
      text += line;
    }
    ASSERT_EQ(::write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

  bool wait_for(const std::function<bool()>& condition) {
    for (base::TimePoint end = base::current_loop()->deadline(10s); base::current_loop()->now() < end;)
      if (condition() || !base::sleep_for(1ms)) return true;
    return condition();
  }

  uintmax_t total() const {
    uintmax_t sum = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "workers")) sum += entry.file_size();
    return sum;
  }

  base::Path folder_;
  std::map<ProcessId, std::vector<std::string>> lines_;
};

TEST_F(LogFilesTest, EveryLineReachesTheLoopAndTheLastOnesTheRecord) {
  run([&](LogFiles& logs) {
    auto process = base::random_id<ProcessId>();
    auto files = logs.open(process);
    ASSERT_TRUE(files.ok());
    print(files->out, 100);
    EXPECT_TRUE(wait_for([&] { return lines_[process].size() == 100; }));
    EXPECT_EQ(logs.tail(process, 2), (std::vector<std::string>{lines_[process][98], lines_[process][99]}));
  });
}

TEST_F(LogFilesTest, WhoCatchesUpHasEverythingThatWasPrintedBefore) {
  run([&](LogFiles& logs) {
    auto process = base::random_id<ProcessId>();
    auto files = logs.open(process);
    ASSERT_TRUE(files.ok());
    for (size_t lines = 1; lines <= 200; ++lines) {
      print(files->out, 1);
      logs.catch_up(base::current_loop()->deadline(10s));
      ASSERT_EQ(lines_[process].size(), lines);
    }
  });
}

TEST_F(LogFilesTest, AFileIsCutToItsEndAndSaysSo) {
  run([&](LogFiles& logs) {
    auto process = base::random_id<ProcessId>();
    auto files = logs.open(process);
    ASSERT_TRUE(files.ok());
    base::Path path = logs.path(process, false);
    print(files->out, 1000);
    EXPECT_TRUE(wait_for([&] { return lines_[process].size() == 1000; }));
    print(files->out, 40, 1000);  // beyond 64 KiB
    EXPECT_TRUE(wait_for([&] { return std::filesystem::file_size(path) < 8u << 10; }));
    EXPECT_EQ(read_tail(path, 1u << 20).rfind("[rayo: the first ", 0), 0u);
    print(files->out, 1, 5000);
    EXPECT_TRUE(wait_for([&] { return logs.tail(process, 1).at(0).ends_with(" 5000"); }));
    EXPECT_TRUE(wait_for([&] { return lines_[process].size() == 1041; })) << lines_[process].size();
  });
}

TEST_F(LogFilesTest, FilesOfThoseWhoEndedGoBeforeTheBudgetIsSpent) {
  run([&](LogFiles& logs) {
    std::vector<ProcessId> processes;
    std::vector<LogFiles::Pair> kept;
    for (int i = 0; i < 6; ++i) {
      processes.push_back(base::random_id<ProcessId>());
      auto files = logs.open(processes.back());
      ASSERT_TRUE(files.ok());
      print(files->out, 900);  // 56 KiB
      kept.push_back(std::move(*files));
      if (i < 5) logs.ended(processes.back());
      auto all_read = [&] { return lines_[processes.back()].size() == 900; };
      EXPECT_TRUE(wait_for(all_read));
    }
    EXPECT_TRUE(wait_for([&] { return total() <= static_cast<uintmax_t>(kLimits.total_bytes); })) << total();
    EXPECT_FALSE(std::filesystem::exists(logs.path(processes[0], false)));
    EXPECT_TRUE(std::filesystem::exists(logs.path(processes[4], false)));
    EXPECT_TRUE(std::filesystem::exists(logs.path(processes[5], false)));
  });
}

}  // namespace
}  // namespace rayo::raylet
