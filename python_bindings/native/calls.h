// The calls of an actor that runs several at a time. The thread of Rayo that receives one does not touch Python: it puts
// the call into a queue (its concurrency group's), and a thread or event loop of Python takes it, runs it and ends it.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <pybind11/pybind11.h>
#include <string>
#include <string_view>

#include <rayo/internal/registry.h>

#include "python_bindings/native/streams.h"
#include "runtime/base/fd.h"

namespace rayo::python {

class CallQueue;

// One call, from its arrival to its end: exactly one of answer, fail and end is called.
class ActorCall : public std::enable_shared_from_this<ActorCall> {
 public:
  ActorCall(internal::Invocation& call, std::string name, bool makes_items)
      : call_(call), name_(std::move(name)), makes_items_(makes_items) {}
  ~ActorCall();

  const std::string& name() const { return name_; }
  bool makes_items() const { return makes_items_; }
  // These three also when it has ended: a task of asyncio that it made has it for as long as that lives.
  std::string id() const { return id_.hex(); }
  bool cancelled() const { return !over_ && call_.open->cancelled(); }
  bool cancels_children() const { return !over_ && call_.open->cancels_children(); }
  py::tuple arguments();  // (args, kwargs)
  std::shared_ptr<ItemWriter> open_stream() { return answer_with_stream(call_); }
  void answer(py::handle result);
  // `what` raised `error`.
  void fail(const std::string& what, py::handle error);
  void end();  // after open_stream

  void defer() {
    id_ = call_.open->id();
    call_.open->defer(this);
  }
  void into(CallQueue& queue) { queue_ = &queue; }
  CallQueue* queue() const { return queue_; }

 private:
  void finish(const ErrorRecord* error);

  internal::Invocation& call_;  // until it is finished
  ObjectId id_;
  const std::string name_;
  const bool makes_items_;
  bool over_ = false;  // about to be finished: read and written with the GIL held
  bool ended_ = false;
  CallQueue* queue_ = nullptr;  // as long as the process
};

class CallQueue {
 public:
  CallQueue();
  int fd() const { return event_.get(); }
  void push(std::shared_ptr<ActorCall> call, bool cancel);
  // Threads: the next call; gives up the GIL while there is none.
  std::shared_ptr<ActorCall> take();
  // Event loops: what there is, [(call, whether its caller cancels it) ...].
  py::list take_all();
  // Whether cancels are to be told.
  void tell_cancels() { tells_cancels_ = true; }
  bool tells_cancels() const { return tells_cancels_; }

 private:
  base::Fd event_;
  bool tells_cancels_ = false;
  std::mutex mutex_;
  std::condition_variable some_;
  std::deque<std::pair<std::shared_ptr<ActorCall>, bool>> calls_;
};

// By method, and by "\ngroup" for calls that name their group; "" for all others.
using CallQueues = std::map<std::string, std::shared_ptr<CallQueue>, std::less<>>;
CallQueue& queue_for(const CallQueues& queues, std::string_view name);

// Its caller has cancelled a call that runs: interrupts the main thread, or tells the call's queue.
void on_cancelled(internal::OpenCall& call);
// The thread that runs calls which are not deferred.
void interrupt_this_thread();

}  // namespace rayo::python
