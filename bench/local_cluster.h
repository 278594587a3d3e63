// A real cluster on this machine for one benchmark: a head with its node and a second node, in a home of
// their own, made by the `rayo` beside this program and gone with the object.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <stdlib.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "bench/harness.h"

namespace rayo::bench {

class LocalCluster {
 public:
  LocalCluster() {
    char name[] = "/tmp/rayo-bench-XXXXXX";
    if (::mkdtemp(name) == nullptr) std::abort();
    dir_ = name;
    ::setenv("RAYO_HOME", (dir_ / "home").c_str(), 1);
    ::setenv("RAYO_RUNTIME_DIR", (dir_ / "run").c_str(), 1);
    ::unsetenv("RAYO_ADDRESS");
    start_cleaner();
    const auto begin = std::chrono::steady_clock::now();
    run("start --head --local --num-cpus 8 --labels bench=first --port 0 --http-port 0 --node-port 0");
    start_seconds_ = seconds_since(begin);
  }
  ~LocalCluster() {
    ::close(alive_);
    ::waitpid(cleaner_, nullptr, 0);
  }
  LocalCluster(const LocalCluster&) = delete;

  double start_seconds() const { return start_seconds_; }
  void add_node() { run("start --address " + address() + " --num-cpus 8 --labels bench=second --node-port 0"); }

  // Processor time, in seconds, that head and raylets have used so far.
  double daemon_cpu_seconds() const {
    double sum = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_ / "run")) {
      const std::string file = entry.path().filename();
      if (file == "head.pid" || file == "raylet.pid") sum += cpu_seconds(first_word(entry.path()));
    }
    return sum;
  }

 private:
  // However this program ends, a child sees the pipe close, stops the cluster and removes its files.
  void start_cleaner() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
    cleaner_ = ::fork();
    if (cleaner_ != 0) {
      ::close(ends[0]);
      alive_ = ends[1];
      return;
    }
    ::setsid();
    ::close(ends[1]);
    char byte;
    while (::read(ends[0], &byte, 1) > 0) {
    }
    (void)std::system((rayo() + " stop --all >" + (dir_ / "stop.log").string() + " 2>&1").c_str());
    std::error_code ignored;
    std::filesystem::remove_all(dir_, ignored);
    ::_exit(0);
  }
  static std::string rayo() {
    return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "rayo").string();
  }
  void run(const std::string& arguments) const {
    const std::string log = (dir_ / "cli.log").string();
    if (std::system((rayo() + " " + arguments + " >" + log + " 2>&1").c_str()) == 0) return;
    throw std::runtime_error("rayo " + arguments + " failed: " + text_of(log));
  }
  std::string address() const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_ / "run")) {
      if (entry.path().filename() != "session.json") continue;
      const std::string text = text_of(entry.path());
      const size_t key = text.find("\"address\"");
      const size_t begin = text.find('"', text.find(':', key)) + 1;
      return text.substr(begin, text.find('"', begin) - begin);
    }
    std::abort();
  }
  static std::string text_of(const std::filesystem::path& file) {
    std::ifstream in(file);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }
  static std::string first_word(const std::filesystem::path& file) {
    std::string word;
    std::ifstream(file) >> word;
    return word;
  }
  // By the scheduler's own count: the ticks of /proc/PID/stat are longer than what an idle daemon uses.
  static double cpu_seconds(const std::string& pid) {
    double nanoseconds = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/" + pid + "/task"))
      nanoseconds += std::atof(first_word(task.path() / "schedstat").c_str());
    return nanoseconds / 1e9;
  }

  std::filesystem::path dir_;
  double start_seconds_ = 0;
  pid_t cleaner_ = -1;
  int alive_ = -1;
};

}  // namespace rayo::bench
