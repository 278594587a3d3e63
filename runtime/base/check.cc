#include "runtime/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace rayo::base {

void check_failed(const char* condition, const char* why, const char* file, int line) {
  std::fprintf(stderr, "rayo: broken invariant at %s:%d: %s (%s)\n", file, line, condition, why);
  std::abort();
}

}  // namespace rayo::base
