// A program that has a second thread before rayo::init: its workers cannot be forked from a zygote, each is exec'd.
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

#include <rayo/rayo.h>

struct Adder {
  int64_t sum = 0;
  int64_t add(int64_t n) { return sum += n; }
  std::string level() {
    const char* value = std::getenv("RAYO_TEST_LEVEL");
    return value ? value : "none";
  }
};

int64_t twice(int64_t n) { return 2 * n; }

int main(int argc, char** argv) {
  std::jthread other([](const std::stop_token& stop) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any().wait(lock, stop, [] { return false; });
  });
  rayo::init(argc, argv);
  auto adder = rayo::spawn<Adder>();
  auto second = rayo::spawn<Adder>({.environment = {{"RAYO_TEST_LEVEL", "the actor's"}}});
  int64_t sum = adder.call<&Adder::add>(rayo::remote<twice>(20)).get() + second.call<&Adder::add>(2).get();
  std::printf("%lld %s, %s\n", static_cast<long long>(sum), adder.call<&Adder::level>().get().c_str(),
              second.call<&Adder::level>().get().c_str());
  return sum == 42 ? 0 : 1;
}
