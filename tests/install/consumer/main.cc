// A program outside of Rayo's tree: LTO, --gc-sections, functions in an archive of its own, a plugin by
// dlopen.
//
//   consumer [--in-process] [PLUGIN]
#include <cstdio>
#include <cstring>
#include <dlfcn.h>

#include "work.h"

struct Adder {
  int total = 0;
  int add(int n) { return total += n; }
  void refuse() { throw std::runtime_error("no"); }
};

int main(int argc, char** argv) {
  const bool in_process = argc > 1 && std::strcmp(argv[1], "--in-process") == 0;
  const char* path = argc > 1 + in_process ? argv[1 + in_process] : nullptr;
  void* plugin = path == nullptr ? nullptr : dlopen(path, RTLD_NOW);  // before init: workers open it too
  if (path != nullptr && plugin == nullptr) return std::fprintf(stderr, "%s\n", dlerror()), 1;
  rayo::init(argc, argv, {.in_process = in_process});

  auto adder = rayo::spawn<Adder>();
  const int sum = adder.call<&Adder::add>(rayo::remote<triple>(4)).get();
  const size_t words = repeat_remotely("word", 3).get().size();
  const auto refused = adder.call<&Adder::refuse>().try_get();
  int from_plugin = -5;
  if (plugin != nullptr) from_plugin = reinterpret_cast<int (*)(int)>(dlsym(plugin, "run_plugin"))(5);
  std::printf("%d %zu %s %d\n", sum, words, refused ? "nothing" : refused.error().remote_type.c_str(), from_plugin);
  return 0;
}
