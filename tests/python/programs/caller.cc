// Calls an actor that is written in Python by its name, and says what comes back.
//
//   python_caller NAME NAMESPACE
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include <rayo/rayo.h>

namespace {

struct Point {
  double x = 0;
  double y = 0;
};

struct Greeter {
  std::string greet(std::string name, int64_t times);
};
std::string Greeter::greet(std::string name, int64_t) { return name; }

template <class Code>
void say_error(const char* what, Code&& code) {
  try {
    code();
    std::printf("%s: no error\n", what);
  } catch (const rayo::TaskError& error) {
    std::printf("%s: TaskError of %s: %s\n%s\n", what, error.remote_type().c_str(), error.text().c_str(),
                error.stack().c_str());
  } catch (const rayo::Error& error) {
    std::printf("%s: %s\n", what, error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  rayo::init(argc, argv, {.name_space = argv[2]});
  rayo::ActorHandle<void> greeter = rayo::actor(argv[1]);
  std::printf("%s\n", greeter.call<std::string>("greet", "Ada", 2).get().c_str());
  const auto mirrored = greeter.call<Point>("mirror", Point{1, 2}).get();
  std::printf("%g %g\n", mirrored.x, mirrored.y);
  const auto counts = greeter.call<std::map<std::string, int64_t>>("count", std::vector<std::string>{"a", "b", "a"});
  std::printf("a is there %lld times\n", static_cast<long long>(counts.get().at("a")));
  rayo::ObjectRef<int64_t> two = rayo::put(int64_t{2});
  std::printf("%lld\n", static_cast<long long>(greeter.call<int64_t>("add", two, 40).get()));
  std::printf("%zu\n", greeter.call<std::vector<double>>("numbers", 1000).get().size());
  greeter.call<void>("remember", greeter).get();
  std::printf("%s\n", greeter.call<std::string>("greet_through", "Bo").get().c_str());
  say_error("raise", [&] { greeter.call<void>("fail", "too early").get(); });
  say_error("no method", [&] { greeter.call<void>("gret").get(); });
  say_error("arguments", [&] { greeter.call<std::string>("greet").get(); });
  say_error("result", [&] { greeter.call<int64_t>("greet", "Ada", 1).get(); });
  say_error("object", [&] { greeter.call<int64_t>("today").get(); });
  say_error("typed", [&] { rayo::actor<Greeter>(argv[1]).call<&Greeter::greet>("Ada", 1).get(); });
  say_error("nobody", [&] { rayo::actor("nobody"); });
  rayo::kill(greeter);
  say_error("killed", [&] { greeter.call<std::string>("greet", "Ada", 1).get(); });
}
