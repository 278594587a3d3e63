#include "runtime/worker/call_fibers.h"

#include <algorithm>
#include <boost/context/fiber.hpp>
#include <utility>
#include <vector>

#include "runtime/base/exception_state.h"
#include "runtime/base/stack_pool.h"
#include "runtime/worker/stack_overflow.h"

namespace rayo::worker {

struct CallFibers::Stacks {
  explicit Stacks(size_t bytes) : pool(bytes) {}
  base::StackPool pool;
};

namespace {

// What Boost.Context asks for a stack.
struct PooledStack {
  base::StackPool* pool;
  base::Stack* taken;
  boost::context::stack_context allocate() const {
    const base::Stack stack = *taken = pool->take();
    boost::context::stack_context context;
    context.sp = stack.top;
    context.size = stack.size;
    return context;
  }
  void deallocate(boost::context::stack_context& context) const { pool->give_back({context.sp, context.size}); }
};

}  // namespace

struct CallFibers::Fiber {
  base::Stack stack;
  boost::context::fiber context;  // where it goes on; while it runs, where the main loop does
  base::ExceptionState own;       // while it does not run
  base::ExceptionState main;      // while it runs
  const std::function<bool()>* ready = nullptr;
  base::TimePoint deadline = base::kForever;

  bool due(base::TimePoint now) const { return ready && (now >= deadline || (*ready)()); }
};

CallFibers::CallFibers(size_t stack_bytes, const base::Clock& clock)
    : clock_(clock), stacks_(std::make_unique<Stacks>(stack_bytes)) {}
CallFibers::~CallFibers() = default;

void CallFibers::start(std::function<void()> body) {
  Fiber& fiber = *fibers_.emplace_back(std::make_unique<Fiber>());
  fiber.context = boost::context::fiber(std::allocator_arg, PooledStack{&stacks_->pool, &fiber.stack},
                                        [&fiber, body = std::move(body)](boost::context::fiber main) mutable {
                                          fiber.context = std::move(main);
                                          body();
                                          body = nullptr;  // what it holds goes while the baton is held
                                          return std::move(fiber.context);
                                        });
  resume(fiber);
}

void CallFibers::resume(Fiber& fiber) {
  running_ = &fiber;
  fiber.ready = nullptr;
  fiber.main.save();
  fiber.own.restore();
  runs_on(fiber.stack);
  fiber.context = std::move(fiber.context).resume();
  runs_on({});
  fiber.own.save();
  fiber.main.restore();
  running_ = nullptr;
  if (!fiber.context)  // it has ended
    std::erase_if(fibers_, [&fiber](const auto& each) { return each.get() == &fiber; });
}

bool CallFibers::wait(const std::function<bool()>& ready, base::TimePoint deadline) {
  Fiber& fiber = *running_;
  fiber.ready = &ready;
  fiber.deadline = deadline;
  fiber.context = std::move(fiber.context).resume();
  return ready();
}

bool CallFibers::any_due(base::TimePoint now) const {
  return std::any_of(fibers_.begin(), fibers_.end(), [now](const auto& fiber) { return fiber->due(now); });
}

bool CallFibers::resume_due() {
  const base::TimePoint now = clock_.now();
  std::vector<Fiber*> due;
  for (const auto& fiber : fibers_)
    if (fiber->due(now)) due.push_back(fiber.get());
  for (Fiber* fiber : due)
    if (fiber->due(now)) resume(*fiber);  // another one may have taken what it waited for; none of them ends another
  return !due.empty();
}

void CallFibers::resume_one() {
  const base::TimePoint now = clock_.now();
  auto found = std::find_if(fibers_.begin(), fibers_.end(), [now](const auto& fiber) { return fiber->due(now); });
  if (found != fibers_.end()) resume(**found);
}

base::TimePoint CallFibers::next_deadline() const {
  base::TimePoint next = base::kForever;
  for (const auto& fiber : fibers_)
    if (fiber->ready) next = std::min(next, fiber->deadline);
  return next;
}

}  // namespace rayo::worker
