// Work that may block (disk, name resolution, a library's own waits) on named threads, awaited by a fiber.
//
//   base::WorkThreads disk("disk", 1);
//   Status done = base::run_on_thread(disk, [&] { return write_private_file(path, text); });
//
// The fiber waits until the work has ended, cancelled or not: what the work refers to stays alive. Exceptions
// come back to the fiber.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "runtime/base/loop/event.h"
#include "runtime/base/loop/loop.h"

namespace rayo::base {

// Threads with a name (at most 15 characters) that block all signals and take work in order.
class WorkThreads {
 public:
  WorkThreads(std::string name, int threads);
  ~WorkThreads();  // finishes what was given and joins
  WorkThreads(const WorkThreads&) = delete;
  WorkThreads& operator=(const WorkThreads&) = delete;
  // Any thread.
  void run(Task work);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

template <class F>
auto run_on_thread(WorkThreads& threads, F work) -> std::invoke_result_t<F&> {
  using Result = std::invoke_result_t<F&>;
  using Held = std::conditional_t<std::is_void_v<Result>, char, Result>;
  std::optional<Held> result;
  std::exception_ptr thrown;
  Event done;
  Loop* loop = current_loop();
  threads.run([&, loop] {
    try {
      if constexpr (std::is_void_v<Result>) {
        work();
        result.emplace();
      } else {
        result.emplace(work());
      }
    } catch (...) {
      thrown = std::current_exception();
    }
    loop->defer([&done] { done.set(); });
  });
  Shield shield;
  done.wait();
  if (thrown) std::rethrow_exception(thrown);
  if constexpr (!std::is_void_v<Result>) return std::move(*result);
}

}  // namespace rayo::base
