// Joining a cluster and leaving it, and looking around in it.
//
//   int main(int argc, char** argv) {
//     rayo::init(argc, argv);   // in a worker, never returns: put nothing before it that workers should not do
//     ...
//   }                           // the end of main leaves the cluster; rayo::shutdown() does so earlier
//
// init takes, in this order: the address of its options (which may say "auto" or "local") or RAYO_ADDRESS (one that does not
// answer is Unavailable); the one live session of this home (several are an error that lists them); else it starts a
// cluster on this machine that belongs to this program, is found by nobody else and ends with it. The program
// is its own worker: nodes run the same executable.
//
// init and shutdown: one thread at a time, not from tasks or actors; the rest: any thread. A child made by
// fork() cannot use Rayo: everything throws Unavailable there.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <rayo/internal/backend.h>
#include <rayo/options.h>

#pragma GCC visibility push(default)  // a library opened at run time uses the program's
namespace rayo {
inline namespace v0 {

// Throws Unavailable (nobody answers, or refused), Invalid (several sessions, initialised already, two
// functions of one name).
void init(int argc, char** argv, const InitOptions& options = {});
void init(const InitOptions& options = {});

// Leaves the cluster: the actors of this program end. A second init works. Without effect where init was not
// called.
void shutdown();

bool is_initialized();

// True in a process that a node started to run tasks or an actor; answers before init.
bool is_worker();

// In a task or method: whoever called it has cancelled it (rayo::cancel). Long code looks now and then, and ends early
// however it likes; its result goes nowhere. From the thread that runs it. False elsewhere.
bool is_cancelled();

// Where this code runs: cluster, node, process, job, and in an actor its id.
ContextRecord context();

// Every node of the cluster, dead ones included.
std::vector<NodeRecord> nodes();

// What is free on all living nodes together: "cpu", "gpu", "memory" (bytes) and custom names.
std::map<std::string, double> available_resources();

namespace internal {
void run_blocking(void (*run)(void* context), void* context);
template <class F>
void run_blocking(const F& code) {
  run_blocking([](void* context) { (*static_cast<const F*>(context))(); }, const_cast<F*>(&code));
}
}  // namespace internal

// Runs code that blocks outside of Rayo (a slow file, a foreign server). In a task its CPU is lent meanwhile; in an
// actor with max_concurrency > 1 the code runs on another thread, and other calls of the actor go on. Answers (or
// throws) what `code` does.
template <class F>
std::invoke_result_t<F> blocking(F&& code) {
  using R = std::invoke_result_t<F>;
  if constexpr (std::is_void_v<R>) {
    const auto run = [&code] { std::forward<F>(code)(); };
    internal::run_blocking(run);
  } else if constexpr (std::is_reference_v<R>) {
    std::remove_reference_t<R>* result = nullptr;
    const auto run = [&] {
      R&& made = std::forward<F>(code)();
      result = &made;
    };
    internal::run_blocking(run);
    return static_cast<R>(*result);
  } else {
    std::optional<R> result;
    const auto run = [&] { result.emplace(std::forward<F>(code)()); };
    internal::run_blocking(run);
    return *std::move(result);
  }
}

}  // namespace v0
}  // namespace rayo
#pragma GCC visibility pop
