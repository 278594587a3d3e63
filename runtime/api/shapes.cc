// The aggregates of this program: grows before main and at dlopen like the registry of functions
// (runtime/base/registry.cc).
#include <mutex>

#include <rayo/internal/shape.h>

namespace rayo {
inline namespace v0 {
namespace internal {

namespace {
constinit Shape* g_shapes = nullptr;
constinit std::mutex g_lock;
}  // namespace

void register_shape(Shape& shape) {
  std::lock_guard lock(g_lock);
  shape.next = g_shapes;
  g_shapes = &shape;
}

const char* find_shape(uint64_t hash) {  // for the text of an error: a walk will do
  std::lock_guard lock(g_lock);
  for (const Shape* shape = g_shapes; shape != nullptr; shape = shape->next) {
    if (shape->hash == hash) return shape->name;
  }
  return nullptr;
}

}  // namespace internal
}  // namespace v0
}  // namespace rayo
