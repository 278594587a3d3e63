// An actor that counts, a task that halves, and a ref that goes from one to the other without passing through
// here.
//
//   counter
#include <cstdint>
#include <cstdio>

#include <rayo/rayo.h>

struct Counter {  // a plain struct: no base class, no macro, testable without a cluster
  int64_t value = 0;
  int64_t add(int64_t n) { return value += n; }
};

double half(double x) { return x / 2; }

int main(int argc, char** argv) {
  rayo::init(argc, argv);  // in a worker, never returns
  auto counter = rayo::spawn<Counter>({.name = "hits", .resources = {.cpus = 0.5}, .max_restarts = 3});
  rayo::ObjectRef<int64_t> hits = counter.call<&Counter::add>(3);
  rayo::ObjectRef<double> h = rayo::remote<half>(hits);  // a ref is an argument: waits for it, moves it, opens it
  std::printf("%f\n", h.get());
}
