#include "tests/fuzz/seeds.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const char* dir = std::getenv("RAYO_FUZZ_SEEDS");
  if (!dir) return 0;
  int number = 0;
  for (const std::string& seed : rayo::fuzz::seeds())
    std::ofstream(std::string(dir) + "/seed" + std::to_string(++number), std::ios::binary) << seed;
  std::printf("%d seeds\n", number);
  std::exit(number > 0 ? 0 : 1);
}
