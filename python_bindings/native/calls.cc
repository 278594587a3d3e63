#include "python_bindings/native/calls.h"

#include <csignal>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rayo/error.h>
#include <rayo/internal/entry.h>

#include "python_bindings/native/errors.h"
#include "python_bindings/native/functions.h"
#include "python_bindings/native/portable.h"

namespace rayo::python {

namespace {
pthread_t g_main;
}

ActorCall::~ActorCall() {
  if (ended_) return;
  const ErrorRecord lost{.kind = ErrorKind::kInternal, .text = "the call was dropped by the thread that ran it"};
  finish(&lost);
}

py::tuple ActorCall::arguments() {
  CallContents contents = call_.portable ? read_named(call_) : read_arguments(call_);
  return py::make_tuple(contents.args, contents.kwargs);
}

void ActorCall::answer(py::handle result) {
  Encoder out;
  if (call_.portable)
    encode_portable(out, result, "what " + name_ + " answered");
  else
    encode_value(out, result);
  over_ = true;
  py::gil_scoped_release release;
  internal::finish_result(call_, out);
  finish(nullptr);
}

void ActorCall::fail(const std::string& what, py::handle error) {
  const ErrorRecord record = record_of(what, error);
  over_ = true;
  py::gil_scoped_release release;
  finish(&record);
}

void ActorCall::end() {
  over_ = true;
  py::gil_scoped_release release;
  finish(nullptr);
}

void ActorCall::finish(const ErrorRecord* error) {
  ended_ = true;
  call_.open->finish(error);  // call_ is gone
}

CallQueue::CallQueue() : event_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

void CallQueue::push(std::shared_ptr<ActorCall> call, bool cancel) {
  {
    std::lock_guard hold(mutex_);
    calls_.emplace_back(std::move(call), cancel);
  }
  if (tells_cancels_) {
    const uint64_t one = 1;
    (void)!::write(event_.get(), &one, sizeof one);
  } else {
    some_.notify_one();
  }
}

std::shared_ptr<ActorCall> CallQueue::take() {
  py::gil_scoped_release release;
  std::unique_lock hold(mutex_);
  some_.wait(hold, [this] { return !calls_.empty(); });
  auto call = std::move(calls_.front().first);
  calls_.pop_front();
  return call;
}

py::list CallQueue::take_all() {
  std::deque<std::pair<std::shared_ptr<ActorCall>, bool>> taken;
  {
    std::lock_guard hold(mutex_);
    taken.swap(calls_);
    uint64_t count = 0;
    (void)!::read(event_.get(), &count, sizeof count);
  }
  py::list list;
  for (auto& [call, cancel] : taken) list.append(py::make_tuple(std::move(call), cancel));
  return list;
}

CallQueue& queue_for(const CallQueues& queues, std::string_view name) {
  auto found = queues.end();
  if (const size_t group = name.find('\n'); group != std::string_view::npos)
    found = queues.find(name.substr(group));
  else
    found = queues.find(name);
  if (found == queues.end()) found = queues.find("");
  return *found->second;
}

void interrupt_this_thread() { g_main = ::pthread_self(); }

// Called with the backend's lock held, so nothing here waits for Python.
void on_cancelled(internal::OpenCall& call) {
  if (call.owner() == nullptr) {
    ::pthread_kill(g_main, SIGINT);  // rayo._worker has a handler that looks whether its call is cancelled
    return;
  }
  auto* own = static_cast<ActorCall*>(call.owner());
  if (!own->queue()->tells_cancels()) return;
  if (auto held = own->weak_from_this().lock()) own->queue()->push(std::move(held), true);
}

}  // namespace rayo::python
