// What a user loses if these fail: `rayo stop` ends somebody else's process, or `rayo status` does not find
// the cluster that the same user has just started.
#include "runtime/base/session.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/text.h"

namespace rayo::base {
namespace {

namespace fs = std::filesystem;

class Sessions : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/rayo-session-XXXXXX";
    root_ = mkdtemp(pattern);
    enter("one");
  }
  void TearDown() override {
    unsetenv("RAYO_HOME");
    unsetenv("RAYO_RUNTIME_DIR");
    fs::remove_all(root_);
  }
  // From here on the process is in that home, as another user of the library would be.
  void enter(const std::string& home) {
    setenv("RAYO_HOME", (root_ / home).c_str(), 1);
    setenv("RAYO_RUNTIME_DIR", (root_ / "run").c_str(), 1);
  }
  // A session whose head is this very process.
  Session started(const std::string& name, const std::string& address) {
    auto session = create_session(name);
    EXPECT_TRUE(session.ok()) << session.status();
    session->address = address;
    session->has_head = true;
    EXPECT_TRUE(make_private_dir(session->head().dir).ok());
    EXPECT_TRUE(write_pid_file(session->head().head_pid(), getpid()).ok());
    fs::remove(session->starter_pid());
    EXPECT_TRUE(save_session(*session).ok());
    return *session;
  }
  static void overwrite(const Path& file, const std::string& text) { std::ofstream(file) << text; }

  Path root_;
};

TEST_F(Sessions, TheOnlyOneIsFoundWithoutAFlag) {
  started("alpha", "10.9.8.7:6379");
  auto found = find_session("");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->name, "alpha");
  EXPECT_EQ(found->address, "10.9.8.7:6379");
}

TEST_F(Sessions, TwoHomesNeverSeeEachOtherEvenInOneRuntimeDirectory) {
  Session first = started("same", "127.0.0.1:6379");
  enter("two");
  EXPECT_EQ(find_session("").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(find_session("127.0.0.1:6379").status().code(), absl::StatusCode::kNotFound);
  Session second = started("same", "127.0.0.1:6400");
  EXPECT_NE(first.dir, second.dir);
  EXPECT_NE(first.state, second.state);
  EXPECT_EQ(find_session("")->address, "127.0.0.1:6400");
  enter("one");
  EXPECT_EQ(find_session("")->address, "127.0.0.1:6379");
}

TEST_F(Sessions, AReusedPidIsNotOurs) {
  Session session = started("alpha", "127.0.0.1:6379");
  auto ticks = start_ticks(getpid());
  ASSERT_TRUE(ticks);
  overwrite(session.head().head_pid(), cat(getpid(), " ", *ticks + 1, " ", boot_id(), "\n"));
  EXPECT_FALSE(live_pid(session.head().head_pid()));
  EXPECT_FALSE(session.live());
  EXPECT_FALSE(find_session("").ok());
}

TEST_F(Sessions, AZombieIsGone) {
  pid_t child = fork();
  if (child == 0) _exit(0);
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(start_ticks(child));
  EXPECT_FALSE(write_pid_file(root_ / "zombie.pid", child).ok());
  waitpid(child, nullptr, 0);
}

TEST_F(Sessions, AfterARebootNothingLivesAndTheErrorSaysSo) {
  Session session = started("alpha", "127.0.0.1:6379");
  overwrite(session.head().head_pid(), cat(getpid(), " ", *start_ticks(getpid()), " 00000000-before-the-boot\n"));
  session.machine = "00000000-before-the-boot";
  ASSERT_TRUE(save_session(session).ok());
  auto found = find_session("");
  EXPECT_EQ(found.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(message(found.status()).find("reboot"), std::string_view::npos) << found.status();
  EXPECT_EQ(next_step(found.status()), "rayo start --head");
}

TEST_F(Sessions, AnyLocalAddressAndANameFindTheClusterOfThisMachine) {
  started("alpha", "10.9.8.7:6379");
  for (const char* address :
       {"127.0.0.1:6379", "localhost:6379", "10.9.8.7:6379", "127.0.0.1:1,127.0.0.1:6379", "[::1]:6379"}) {
    auto found = find_session(address);
    EXPECT_TRUE(found.ok()) << address << ": " << found.status();
  }
  for (const char* address : {"127.0.0.1:6380", "10.9.8.6:6379"}) {
    EXPECT_EQ(find_session(address).status().code(), absl::StatusCode::kNotFound) << address;
  }
  EXPECT_EQ(find_session("nonsense").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(Sessions, SeveralAreListedAndAnAddressChooses) {
  started("alpha", "127.0.0.1:6379");
  started("beta", "127.0.0.1:6400");
  auto found = find_session("");
  EXPECT_EQ(found.status().code(), absl::StatusCode::kFailedPrecondition);
  for (const char* part : {"alpha", "127.0.0.1:6379", "beta", "127.0.0.1:6400"}) {
    EXPECT_NE(message(found.status()).find(part), std::string_view::npos) << found.status();
  }
  EXPECT_NE(next_step(found.status()).find("--address"), std::string::npos);
  EXPECT_EQ(find_session("localhost:6400")->name, "beta");
}

TEST_F(Sessions, AProgramsOwnClusterIsFoundByNobodyElse) {
  Session session = started("private", "127.0.0.1:6379");
  session.owner_pid = getpid();
  ASSERT_TRUE(save_session(session).ok());
  EXPECT_EQ(find_session("").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(Sessions, ALiveNameIsRefusedAndADeadOneIsCleared) {
  Session session = started("alpha", "127.0.0.1:6379");
  EXPECT_EQ(create_session("alpha").status().code(), absl::StatusCode::kAlreadyExists);
  remove_session(session);
  EXPECT_TRUE(fs::exists(session.dir)) << "a live session is left as it is";
  fs::remove(session.head().head_pid());
  auto again = create_session("alpha");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->address.empty());
}

TEST_F(Sessions, OfManyAtOnceOneGetsTheNameAndTheOthersTouchNothing) {
  constexpr size_t kRacers = 8;
  for (int round = 0; round < 20; ++round) {
    const std::string name = cat("race-", round);
    const std::string refusal = cat("cannot start '", name, "': a cluster of that name is being started");
    int go[2], told[2];
    ASSERT_EQ(pipe(go), 0);
    ASSERT_EQ(pipe(told), 0);
    std::vector<pid_t> racers;
    for (size_t i = 0; i < kRacers; ++i) {
      racers.push_back(fork());
      if (racers.back() != 0) continue;
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      char word = 0;
      close(go[1]);
      if (read(go[0], &word, 1) != 0) _exit(1);
      auto mine = create_session(name);
      word = mine.ok() ? 'w' : message(mine.status()) == refusal ? 'l' : '?';
      if (write(told[1], &word, 1) != 1) _exit(1);
      for (;;) pause();  // a winner lives until the losers are through
    }
    close(go[0]);
    close(go[1]);
    close(told[1]);
    std::string words(kRacers, ' ');
    for (char& word : words) ASSERT_EQ(read(told[0], &word, 1), 1);
    close(told[0]);
    std::sort(words.begin(), words.end());
    EXPECT_EQ(words, "lllllllw");
    auto found = sessions_of_home();
    auto own = std::find_if(found.begin(), found.end(), [&](const Session& one) { return one.name == name; });
    EXPECT_TRUE(own != found.end() && live_pid(own->starter_pid()) && own->dir == runtime_dir() / name);
    EXPECT_FALSE(fs::exists(runtime_dir() / (name + ".2"))) << "a loser made a directory";
    for (pid_t racer : racers) kill(racer, SIGKILL);
    for (pid_t racer : racers) waitpid(racer, nullptr, 0);
  }
}

TEST_F(Sessions, ANameThatAnotherHasByNowKeepsItsPointerAndToken) {
  Session early = started("alpha", "127.0.0.1:6379");
  fs::remove(early.head().head_pid());
  enter("one");
  setenv("RAYO_RUNTIME_DIR", (root_ / "other").c_str(), 1);
  Session late = started("alpha", "127.0.0.1:6380");
  ASSERT_TRUE(write_private_file(late.token_file(), "secret").ok());
  remove_session(early);
  EXPECT_TRUE(fs::exists(late.token_file()));
  ASSERT_EQ(sessions_of_home().size(), 1u);
  EXPECT_EQ(sessions_of_home().front().address, "127.0.0.1:6380");
}

TEST_F(Sessions, AHalfStartedClusterIsNotSaidToRunSomewhere) {
  Session session = started("alpha", "");
  Status taken = create_session("alpha").status();
  EXPECT_EQ(message(taken), "cannot start 'alpha': a cluster of that name was left half started");
  EXPECT_EQ(next_step(taken), "choose another --name, or end it: rayo stop --all");
}

TEST_F(Sessions, RemovingLeavesNothing) {
  Session session = started("alpha", "127.0.0.1:6379");
  ASSERT_TRUE(write_private_file(session.token_file(), "secret").ok());
  fs::remove(session.head().head_pid());
  remove_session(session);
  EXPECT_FALSE(fs::exists(session.dir));
  EXPECT_FALSE(fs::exists(session.state));
  EXPECT_FALSE(fs::exists(session.token_file()));
  EXPECT_TRUE(sessions_of_home().empty());
}

TEST_F(Sessions, FilesAndDirectoriesAreForTheirOwnerAlone) {
  Session session = started("alpha", "127.0.0.1:6379");
  ASSERT_TRUE(write_private_file(session.token_file(), "secret").ok());
  struct stat found {};
  ASSERT_EQ(stat(session.token_file().c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
  for (const Path& dir : {session.dir, home_dir(), runtime_dir(), session.state}) {
    ASSERT_EQ(stat(dir.c_str(), &found), 0) << dir;
    EXPECT_EQ(found.st_mode & 0777, 0700u) << dir;
  }
}

TEST_F(Sessions, ADirectoryThatOthersUseIsNotTakenFromThem) {
  const Path shared = root_ / "shared", own = root_ / "own";
  for (auto [dir, mode] : {std::pair(shared, 01777), std::pair(own, 0755)}) {
    ASSERT_EQ(mkdir(dir.c_str(), 0700), 0);
    ASSERT_EQ(chmod(dir.c_str(), static_cast<mode_t>(mode)), 0);
  }
  const Status refused = make_private_dir(shared / "");
  EXPECT_NE(message(refused).find("others use it too"), std::string_view::npos) << refused;
  EXPECT_NE(next_step(refused).find((shared / "rayo").string()), std::string::npos) << refused;
  struct stat found {};
  ASSERT_EQ(stat(shared.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777, 01777u);
  EXPECT_TRUE(make_private_dir(own).ok());
  ASSERT_EQ(stat(own.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777, 0700u);
}

TEST_F(Sessions, WithoutHomeTheUserDatabaseTellsIt) {
  const std::string before = std::getenv("HOME") ? std::getenv("HOME") : "";
  unsetenv("RAYO_HOME");
  unsetenv("HOME");
  EXPECT_EQ(home_dir(), Path(getpwuid(getuid())->pw_dir) / ".rayo");
  setenv("HOME", before.c_str(), 1);
}

TEST_F(Sessions, APathMayHoldAnyBytes) {
  setenv("RAYO_RUNTIME_DIR", (root_ / "caf\xe9 #1").c_str(), 1);
  Session session = started("alpha", "127.0.0.1:6379");
  auto found = find_session("");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->dir, session.dir);
}

TEST_F(Sessions, NodesAreNumberedAndListed) {
  Session session = started("alpha", "127.0.0.1:6379");
  ASSERT_TRUE(add_node(session).ok());
  ASSERT_TRUE(add_node(session).ok());
  auto found = find_session("");
  ASSERT_EQ(found->nodes.size(), 2u);
  EXPECT_EQ(found->nodes[1].number, 2);
  EXPECT_EQ(found->local_raylet(), nullptr);
  ASSERT_TRUE(write_pid_file(found->nodes[1].raylet_pid(), getpid()).ok());
  ASSERT_NE(found->local_raylet(), nullptr);
  EXPECT_EQ(found->local_raylet()->number, 2);
}

TEST_F(Sessions, AFileInTheWayAndALongPathAreNamed) {
  overwrite(root_ / "file", "x");
  setenv("RAYO_HOME", (root_ / "file" / "home").c_str(), 1);
  auto session = create_session("");
  ASSERT_FALSE(session.ok());
  EXPECT_NE(message(session.status()).find("file"), std::string_view::npos) << session.status();
  EXPECT_FALSE(next_step(session.status()).empty());

  enter("one");
  setenv("RAYO_RUNTIME_DIR", (root_ / std::string(90, 'x')).c_str(), 1);
  session = create_session("");
  ASSERT_FALSE(session.ok());
  EXPECT_NE(next_step(session.status()).find("RAYO_RUNTIME_DIR"), std::string::npos) << session.status();
}

TEST_F(Sessions, NamesThatAreNoFileNamesAreRefused) {
  for (const char* name : {"../x", "a b", "-x", "a/b", "0123456789012345678901234567890123456789x"}) {
    EXPECT_EQ(create_session(name).status().code(), absl::StatusCode::kInvalidArgument) << name;
  }
}

}  // namespace
}  // namespace rayo::base
