// What a program is told when something is wrong: one trouble a run, the answer on stdout.
// tests/cluster/troubles_test.py runs it; a second build of the same source (RAYO_TEST_BUILD 2) stands for the program
// after somebody has changed it.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <limits>
#include <string>
#include <unistd.h>

#include <rayo/rayo.h>

namespace {

struct Counter {
  int64_t value = 0;
  int64_t add(int64_t n) { return value += n; }
  int64_t build() { return RAYO_TEST_BUILD; }
};

int64_t half(int64_t n) { return n / 2; }

template <class Code>
void tell(const char* what, Code code) {
  const auto begin = std::chrono::steady_clock::now();
  auto line = [&](const char* kind, const std::string& text) {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::printf("%s: %s after %.1f s: %s\n", what, kind, took.count(), text.c_str());
  };
  try {
    line("ok", std::to_string(code()));
  } catch (const rayo::Unschedulable& error) {
    line("Unschedulable", error.what());
  } catch (const rayo::Unavailable& error) {
    line("Unavailable", error.what());
  } catch (const rayo::Invalid& error) {
    line("Invalid", error.what());
  } catch (const rayo::TypeMismatch& error) {
    line("TypeMismatch", error.what());
  } catch (const rayo::ActorDied& error) {
    std::string text = error.what();
    if (error.death()) text += std::string("\nkind: ") + rayo::name_of(error.death()->kind);
    for (int i = 0; error.death() && i < static_cast<int>(error.death()->last_log_lines.size()); ++i)
      text += "\nlog: " + error.death()->last_log_lines[static_cast<size_t>(i)];
    line("ActorDied", text);
  } catch (const std::exception& error) {
    line("another error", error.what());
  }
}

// Until the test has done its part.
void wait_for_line() {
  std::puts("ready");
  std::string line;
  std::getline(std::cin, line);
}

void infeasible() {
  const rayo::Resources wanted{.gpus = 64, .custom = {{"tpu", 1}}};
  using std::chrono::seconds;
  auto actor = rayo::spawn<Counter>({.resources = wanted, .schedule_timeout = seconds(3)});
  std::puts("ready");
  tell("actor", [&] { return actor.call<&Counter::add>(1).get(); });
  tell("task", [&] { return rayo::remote<half>({.resources = wanted, .schedule_timeout = seconds(2)}, 4).get(); });
}

void unknown_node() {
  const rayo::NodeId nowhere{1, 2};
  tell("task", [&] { return rayo::remote<half>({.node = nowhere}, 4).get(); });
  tell("actor", [&] { return rayo::spawn<Counter>({.node = nowhere}).call<&Counter::add>(1).get(); });
  tell("named", [&] { return rayo::spawn<Counter>({.name = "n", .node = nowhere}).call<&Counter::add>(1).get(); });
  tell("soft", [&] { return rayo::remote<half>({.node = nowhere, .node_soft = true}, 4).get(); });
}

void no_amount() {
  const rayo::Resources nan{.cpus = std::numeric_limits<double>::quiet_NaN()};
  tell("task", [&] { return rayo::remote<half>({.resources = nan}, 4).get(); });
  tell("actor", [] { return rayo::spawn<Counter>({.resources = {.cpus = 1e308}}).call<&Counter::add>(1).get(); });
}

void without_head() {
  auto actor = rayo::spawn<Counter>();
  actor.call<&Counter::add>(1).get();
  wait_for_line();
  tell("call", [&] { return actor.call<&Counter::add>(1).get(); });
  tell("task", [&] { return rayo::remote<half>(int64_t{4}).get(); });
  tell("spawn", [&] { return rayo::spawn<Counter>().call<&Counter::add>(1).get(); });
  tell("again", [&] { return rayo::actor<Counter>("somebody").call<&Counter::add>(1).get(); });
  tell("elsewhere", [&] { return rayo::remote<half>({.resources = {.custom = {{"tpu", 1}}}}, 4).get(); });
}

void rebuilt() {
  for (int i = 0; i < 2; ++i) {
    tell("build", [] { return rayo::spawn<Counter>().call<&Counter::build>().get(); });
    if (i == 0) wait_for_line();
  }
}

// A type of one name whose shape is another in the second build.
#if RAYO_TEST_BUILD == 1
struct Place {
  double x = 0;
  double y = 0;
};
#else
struct Place {
  std::string street = "Unter den Linden";
  double number = 1;
};
#endif

struct Map {
  int64_t pins = 0;
  int64_t pin(const Place&) { return ++pins; }
};

void serve_map() {
  auto map = rayo::spawn<Map>({.name = "map"});
  map.call<&Map::pin>(Place()).get();
  wait_for_line();
}

void use_map() {
  tell("pin", [] { return rayo::actor<Map>("map").call<&Map::pin>(Place()).get(); });
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::string trouble = argc > 1 ? argv[1] : "";
  if (trouble == "stuck" && rayo::is_worker()) {
    std::fputs("the licence server does not answer\n", stderr);
    while (true) ::pause();
  }
  rayo::init(argc, argv, {.name_space = "troubles"});
  if (trouble == "infeasible") infeasible();
  if (trouble == "unknown_node") unknown_node();
  if (trouble == "no_amount") no_amount();
  if (trouble == "stuck") tell("actor", [] { return rayo::spawn<Counter>().call<&Counter::add>(1).get(); });
  if (trouble == "without_head") without_head();
  if (trouble == "rebuilt") rebuilt();
  if (trouble == "serve_map") serve_map();
  if (trouble == "use_map") use_map();
  return 0;
}
