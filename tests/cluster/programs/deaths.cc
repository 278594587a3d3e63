// What a driver sees of deaths, for tests/cluster/deaths_test.py: the test kills, this program calls and tells.
//
//   cluster_deaths victims KIND NODE COUNT   kills COUNT workers of that node by -9 while a call (KIND actor or task) of
//                                            theirs is under way, and tells how long until it knew, and the last record
//   cluster_deaths hold NODE...              actors, a running task and a large object on the nodes; then END
//   cluster_deaths call NODE                 an actor there that is called without end, one line a call
//   cluster_deaths late                      the same, of an actor on this node that is made when a line is read
//   cluster_deaths chat NODE NODE            the same through a second actor on the other node
//   cluster_deaths large NODE                an actor there; for each line the size of a large result of its
//   cluster_deaths print LINES               an actor that prints so many lines, and as many as each number on stdin; then END
//   cluster_deaths wait                      a get that nobody answers, again and again where it is interrupted
//
// END is the word on stdin: "return", "throw", "wait" (until it is killed).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <signal.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <rayo/rayo.h>

namespace {

using Clock = std::chrono::steady_clock;

void sleep_without_end() {
  for (;;) ::pause();
}

struct Victim {
  int64_t pid() {
    std::printf("last words of %d\n", static_cast<int>(::getpid()));
    std::fflush(stdout);
    return ::getpid();
  }
  void hang() { sleep_without_end(); }
  std::string make(int64_t size) { return std::string(static_cast<size_t>(size), 'x'); }
  int64_t add(int64_t n) { return n + 1; }
  int64_t through(rayo::ActorHandle<Victim> other, int64_t n) { return other.call<&Victim::add>(n).get(); }
  void print(int64_t lines) {
    for (int64_t i = 0; i < lines; ++i) std::printf("line %lld of many\n", static_cast<long long>(i));
    std::fflush(stdout);
  }
};

// A task tells its pid by a file: its result never comes.
void hang(std::string file) {
  std::printf("last words of %d\n", static_cast<int>(::getpid()));
  std::fflush(stdout);
  std::ofstream(file + ".new") << ::getpid();
  std::rename((file + ".new").c_str(), file.c_str());
  sleep_without_end();
}

rayo::NodeId node_of(const char* hex) { return *rayo::NodeId::from_hex(hex); }

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    out += c;
  }
  return out + '"';
}

void tell(const rayo::Error& error, std::vector<int64_t> took_us) {
  std::sort(took_us.begin(), took_us.end());
  std::string line =
      "{\"error\": " + quoted(error.text()) + ", \"error_kind\": " + std::to_string(static_cast<int>(error.kind()));
  if (!took_us.empty())
    line += ", \"p50_us\": " + std::to_string(took_us[took_us.size() / 2]) +
            ", \"max_us\": " + std::to_string(took_us.back());
  if (const rayo::DeathRecord* death = error.death()) {
    line += std::string(", \"kind\": ") + quoted(rayo::name_of(death->kind)) +
            ", \"signal\": " + std::to_string(death->signal) + ", \"exit_code\": " + std::to_string(death->exit_code) +
            ", \"pid\": " + std::to_string(death->pid) + ", \"node\": " + quoted(death->node.hex()) +
            ", \"incarnation\": " + std::to_string(death->incarnation) + ", \"lines\": [";
    for (size_t i = 0; i < death->last_log_lines.size(); ++i)
      line += (i ? ", " : "") + quoted(death->last_log_lines[i]);
    line += "]";
  }
  say(line + "}");
}

int64_t read_pid(const std::string& file) {
  for (;; std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
    int64_t pid = 0;
    if (std::ifstream(file) >> pid) return pid;
  }
}

int victims(bool actors, rayo::NodeId node, int count) {
  std::vector<int64_t> took_us;
  for (int i = 0; i < count; ++i) {
    rayo::ObjectRef<void> under_way;
    int64_t pid = 0;
    rayo::ActorHandle<Victim> victim;
    if (actors) {
      victim = rayo::spawn<Victim>({.node = node});
      pid = victim.call<&Victim::pid>().get();
      under_way = victim.call<&Victim::hang>();
    } else {
      const std::string file = "/tmp/rayo-victim-" + std::to_string(::getpid()) + "-" + std::to_string(i);
      under_way = rayo::remote<hang>({.node = node, .max_retries = 0}, file);
      pid = read_pid(file);
      std::remove(file.c_str());
    }
    (void)rayo::wait(std::vector{under_way}, 1, std::chrono::milliseconds(20));  // the call is in user code
    const auto begin = Clock::now();
    ::kill(static_cast<pid_t>(pid), SIGKILL);
    try {
      under_way.get();
      return 1;
    } catch (const rayo::Error& error) {
      took_us.push_back(std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin).count());
      if (i + 1 == count) tell(error, took_us);
    }
  }
  return 0;
}

int end_as_told() {
  std::string word;
  std::getline(std::cin, word);
  if (word == "throw") throw std::runtime_error("thrown by the test");
  if (word == "wait") sleep_without_end();
  return 0;
}

int hold(int count, char** nodes) {
  std::vector<rayo::ActorHandle<Victim>> actors;
  std::vector<rayo::ObjectRef<void>> under_way;
  for (int i = 0; i < count; ++i) {
    const rayo::NodeId node = node_of(nodes[i]);
    actors.push_back(
        rayo::spawn<Victim>({.name = "held" + std::to_string(i), .resources = {.cpus = 0.5}, .node = node}));
    const int64_t pid = actors.back().call<&Victim::pid>().get();
    const std::string file = "/tmp/rayo-held-" + std::to_string(::getpid()) + "-" + std::to_string(i);
    under_way.push_back(rayo::remote<hang>({.resources = {.cpus = 0.5}, .node = node, .max_retries = 0}, file));
    say("pids " + std::to_string(pid) + " " + std::to_string(read_pid(file)));
    std::remove(file.c_str());
  }
  auto large = rayo::put(std::string(1 << 20, 'x'));
  say("ready");
  return end_as_told();
}

// Until it is ended, or a call fails: its error is told, and then END.
template <class Call>
int call_on(Call call) {
  try {
    for (int64_t n = 0;; n = call(n)) {
      say(std::to_string(n));
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  } catch (const rayo::Error& error) {
    tell(error, {});
  }
  return end_as_told();
}

int call(rayo::NodeId node) {
  auto actor = rayo::spawn<Victim>({.node = node});
  return call_on([&](int64_t n) { return actor.call<&Victim::add>(n).get(); });
}

// An actor that is made when a word comes: on this node, of its own accord.
int late() {
  say("ready");
  std::string word;
  std::getline(std::cin, word);
  auto actor = rayo::spawn<Victim>();
  return call_on([&](int64_t n) { return actor.call<&Victim::add>(n).get(); });
}

int chat(rayo::NodeId first, rayo::NodeId second) {
  auto one = rayo::spawn<Victim>({.node = first});
  auto two = rayo::spawn<Victim>({.node = second});
  return call_on([&](int64_t n) { return one.call<&Victim::through>(two, n).get(); });
}

int large(rayo::NodeId node) {
  auto actor = rayo::spawn<Victim>({.node = node});
  actor.call<&Victim::pid>().get();
  say("ready");
  for (std::string word; std::getline(std::cin, word) && word != "return";) {
    try {
      say("size " + std::to_string(actor.call<&Victim::make>(std::int64_t{1} << 20).get().size()));
    } catch (const rayo::Error& error) {
      tell(error, {});
    }
  }
  return 0;
}

int print(int64_t lines) {
  auto printer = rayo::spawn<Victim>();
  const int64_t pid = printer.call<&Victim::pid>().get();
  printer.call<&Victim::print>(lines).get();
  say("ready " + printer.id().hex() + " " + std::to_string(pid));
  for (std::string word; std::getline(std::cin, word) && word != "return";) {
    printer.call<&Victim::print>(std::atoll(word.c_str())).get();
    say("printed " + word);
  }
  return 0;
}

int wait() {
  auto actor = rayo::spawn<Victim>();
  auto never = actor.call<&Victim::hang>();
  for (;;) {
    try {
      say("waiting");
      never.get();
    } catch (const rayo::Cancelled& interrupted) {
      say("cancelled");
    }
  }
}

int run(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "victims" && argc == 5)
    return victims(std::string(argv[2]) == "actor", node_of(argv[3]), std::atoi(argv[4]));
  if (what == "hold") return hold(argc - 2, argv + 2);
  if (what == "call" && argc == 3) return call(node_of(argv[2]));
  if (what == "late") return late();
  if (what == "chat" && argc == 4) return chat(node_of(argv[2]), node_of(argv[3]));
  if (what == "large" && argc == 3) return large(node_of(argv[2]));
  if (what == "print" && argc == 3) return print(std::atoll(argv[2]));
  if (what == "wait") return wait();
  std::fprintf(stderr, "usage: see the first lines of deaths.cc\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  rayo::init(argc, argv);
  return run(argc, argv);
}
