// A driver whose words are no UTF-8, for tests/cluster/odd_bytes_test.py. What it says of such bytes it says as \xHH.
//
//   cluster_odd_bytes crash        an actor that prints such bytes and ends; then handles go from one actor to another; waits for a line
//   cluster_odd_bytes throw        a method, a constructor and names with such bytes
//   cluster_odd_bytes given WORD   the arguments, directory and NAME of this process and of a worker of it; waits for a line
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unistd.h>

#include <rayo/rayo.h>

namespace {

constexpr const char* kOdd = "caf\xe9";

void say(std::string_view what, std::string_view text) {
  std::string line(what);
  for (unsigned char c : text) {
    char hex[8];
    std::snprintf(hex, sizeof hex, "\\x%02x", c);
    c < 0x80 && c != '\n' ? line.push_back(static_cast<char>(c)) : void(line += hex);
  }
  std::puts(line.c_str());
  std::fflush(stdout);
}

struct Crasher {
  void crash() {
    std::fprintf(stderr, "%s\n", kOdd);
    std::fflush(stderr);
    std::_Exit(3);
  }
};

struct Holder {
  int64_t seven() { return 7; }
  int64_t pass(rayo::ActorHandle<Holder> other) { return other.call<&Holder::seven>().get(); }
};

struct Thrower {
  Thrower() = default;
  explicit Thrower(bool) { throw std::runtime_error(kOdd); }
  void fail() { throw std::runtime_error(kOdd); }
  int64_t seven() { return 7; }
};

struct Worker {
  std::string given() {
    char directory[4096] = {};
    if (!::getcwd(directory, sizeof directory)) return "no directory";
    const char* name = std::getenv("NAME");
    return std::string(name ? name : "none") + " in " + directory;
  }
};

void wait_for_line() {
  std::string line;
  std::getline(std::cin, line);
}

template <class Code>
void tell(const char* what, Code code) {
  try {
    code();
    say(what, ": no error");
  } catch (const rayo::Error& error) {
    const std::string kind = std::to_string(static_cast<int>(error.kind()));
    say(what, ": " + kind + " " + error.text());
  }
}

void crash() {
  try {
    rayo::spawn<Crasher>().call<&Crasher::crash>().get();
  } catch (const rayo::ActorDied& error) {
    const rayo::DeathRecord* death = error.death();
    say("last line: ", death && !death->last_log_lines.empty() ? death->last_log_lines.back() : "none");
  }
  auto first = rayo::spawn<Holder>(), second = rayo::spawn<Holder>();
  say("passed: ", std::to_string(first.call<&Holder::pass>(second).get()));
  wait_for_line();
}

void throw_all() {
  auto thrower = rayo::spawn<Thrower>();
  tell("method", [&] { thrower.call<&Thrower::fail>().get(); });
  tell("constructor", [] { rayo::spawn<Thrower>({}, true).call<&Thrower::seven>().get(); });
  tell("spawn", [] { rayo::spawn<Thrower>({.name = kOdd}).call<&Thrower::seven>().get(); });
  tell("find", [] { rayo::actor<Thrower>(kOdd).call<&Thrower::seven>().get(); });
  say("then: ", std::to_string(thrower.call<&Thrower::seven>().get()));
}

}  // namespace

int main(int argc, char** argv) {
  rayo::init(argc, argv);
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "crash") crash();
  if (what == "throw") throw_all();
  if (what == "given") {
    say("argument: ", argv[argc - 1]);
    say("worker: ", rayo::spawn<Worker>().call<&Worker::given>().get());
    wait_for_line();
  }
  return 0;
}
