#include "python_bindings/native/functions.h"

#include <functional>
#include <memory>
#include <mutex>
#include <pybind11/stl.h>
#include <set>
#include <string>
#include <vector>

#include <rayo/error.h>
#include <rayo/internal/entry.h>

#include "python_bindings/native/calls.h"
#include "python_bindings/native/errors.h"
#include "python_bindings/native/portable.h"

namespace rayo::python {
namespace {

using internal::Invocation;

// An actor of this process: the user's object, and where its calls go if several run at a time. Its address is Invocation::self.
struct HostedActor {
  py::object object;
  CallQueues queues;
  std::string class_name;
};

// What the main thread runs; it alone touches this.
internal::OpenCall* g_open = nullptr;
class Running {
 public:
  explicit Running(const Invocation& call) { g_open = call.open; }
  ~Running() { g_open = nullptr; }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
};

py::object& worker_module() {
  static auto* const module = new py::object(py::module_::import("rayo._worker"));  // as long as the process
  return *module;
}

// Before the first code of the user, which the arguments of a call may be of already. Where it fails, the next call tries
// it again.
void set_up() {
  static bool done = false;  // under the GIL
  if (!done) worker_module().attr("set_up")();
  done = true;
}

std::string_view name_in(const Invocation& call) {
  Decoder in(call.arguments, "the arguments of a call");
  if (in.array() < 2) in.mismatch("a call from Python");
  return in.text();
}

// Runs with the GIL; what Python raises becomes a TaskError that carries it.
template <class Code>
void guarded(const std::string& what, Code&& code) {
  try {
    code();
  } catch (py::error_already_set& error) {
    throw_remote(what, error);
  }
}

// Makes the items of `code()` one by one; what it raises is the last of them.
template <class Code>
void make_items(Invocation& call, const std::string& what, Code&& code) {
  const std::shared_ptr<ItemWriter> out = answer_with_stream(call);
  try {
    worker_module().attr("make_items")(code(), out);
  } catch (py::error_already_set& error) {
    out->fail(record_of(what, error.value()));
    return;
  }
  out->close();
}

void run_task(Invocation& call, bool items) {
  py::gil_scoped_acquire gil;
  const Running running(call);
  std::string what = "a task";
  guarded(what, [&] {
    set_up();
    CallContents contents = read_arguments(call);
    const size_t end = contents.name.find('\n');  // of the key; behind it a name of the task's own
    const py::tuple loaded = worker_module().attr("load")(contents.name.substr(0, end));  // (the function, its name)
    what = loaded[1].cast<std::string>();
    const py::object name = end == std::string::npos ? py::object(loaded[1]) : py::str(contents.name.substr(end + 1));
    if (call.open) call.open->call_it(noted_name(name.cast<std::string_view>()));
    const auto run = [&] {
      return worker_module().attr("run")(loaded[0], name, loaded[1], contents.args, contents.kwargs);
    };
    items ? make_items(call, what, run) : write_answer(call, run(), what);
  });
}

void run_constructor(Invocation& call) {
  py::gil_scoped_acquire gil;
  guarded("a constructor", [&] {
    set_up();
    CallContents contents = read_arguments(call);
    // (the object, its queues by method)
    const py::tuple made = worker_module().attr("construct")(contents.name, contents.args, contents.kwargs);
    const auto name = worker_module().attr("name_of")(py::type::of(made[0])).cast<std::string>();
    call.constructed = new HostedActor{made[0], made[1].cast<CallQueues>(), name};
  });
}

// Ends when a thread of Python ends it.
void hand_over(Invocation& call, const CallQueues& queues, bool items) {
  const std::string name(name_in(call));
  CallQueue& queue = queue_for(queues, name);
  auto handed = std::make_shared<ActorCall>(call, name, items);
  handed->into(queue);
  handed->defer();
  queue.push(std::move(handed), false);
}

enum class MethodForm {
  kPython,
  kItems,
  kNamed,  // for a caller of another language
};

void run_method(Invocation& call, MethodForm form) {
  const bool items = form == MethodForm::kItems, named = form == MethodForm::kNamed;
  call.portable = named;
  HostedActor& actor = *static_cast<HostedActor*>(call.self);
  if (call.open) call.open->call_it(noted_name(name_in(call)));
  if (!actor.queues.empty()) return hand_over(call, actor.queues, items);
  py::gil_scoped_acquire gil;
  const Running running(call);
  std::string what = "a method";
  guarded(what, [&] {
    CallContents contents = named ? read_named(call) : read_arguments(call);
    py::object& self = actor.object;
    what = actor.class_name + "." + contents.name;
    const auto run = [&] {
      return worker_module().attr("run_method")(self, contents.name, contents.args, contents.kwargs);
    };
    items ? make_items(call, what, run) : write_answer(call, run(), what);
  });
}

void end_actor(void* self) {
  py::gil_scoped_acquire gil;
  const std::unique_ptr<HostedActor> actor(static_cast<HostedActor*>(self));
  try {
    worker_module().attr("clean_up")(actor->object);
  } catch (py::error_already_set& error) {  // of its handlers of atexit
    error.discard_as_unraisable("an actor's end");
  }
}

using internal::FunctionKind;
using internal::RegisteredFunction;

RegisteredFunction g_task{{.kind = FunctionKind::kTask,
                           .mangled = "rayo.python.task",
                           .name = "a Python task",
                           .invoke = [](Invocation& call) { run_task(call, false); }}};
RegisteredFunction g_items_task{{.kind = FunctionKind::kTask,
                                 .mangled = "rayo.python.items_task",
                                 .name = "a Python generator",
                                 .invoke = [](Invocation& call) { run_task(call, true); }}};
RegisteredFunction g_constructor{{.kind = FunctionKind::kConstructor,
                                  .mangled = "rayo.python.constructor",
                                  .name = "a Python constructor",
                                  .invoke = run_constructor,
                                  .destroy = end_actor}};
RegisteredFunction g_method{{.kind = FunctionKind::kMethod,
                             .mangled = "rayo.python.method",
                             .name = "a Python method",
                             .invoke = [](Invocation& call) { run_method(call, MethodForm::kPython); }}};
RegisteredFunction g_items_method{{.kind = FunctionKind::kMethod,
                                   .mangled = "rayo.python.items_method",
                                   .name = "a Python generator",
                                   .invoke = [](Invocation& call) { run_method(call, MethodForm::kItems); }}};
RegisteredFunction g_named_method{{.kind = FunctionKind::kMethod,
                                   .mangled = "rayo.named.method",
                                   .name = "a Python method",
                                   .invoke = [](Invocation& call) { run_method(call, MethodForm::kNamed); }}};

bool is_ref(py::handle value) { return py::isinstance<Ref>(value); }

}  // namespace

uint64_t function_id(Callee callee) {
  switch (callee) {
    case Callee::kTask:
      return g_task.id;
    case Callee::kConstructor:
      return g_constructor.id;
    case Callee::kMethod:
      return g_method.id;
    case Callee::kItemsTask:
      return g_items_task.id;
    case Callee::kItemsMethod:
      return g_items_method.id;
  }
  return 0;
}

const char* noted_name(std::string_view name) {
  static std::mutex mutex;
  static auto* const names = new std::set<std::string, std::less<>>();
  thread_local const std::string* last = nullptr;  // most calls are like the one before
  name = name.substr(0, name.find('\n'));          // without its concurrency group
  if (last != nullptr && *last == name) return last->c_str();
  std::lock_guard hold(mutex);
  auto found = names->find(name);
  if (found == names->end()) found = names->emplace(name).first;
  last = &*found;
  return last->c_str();
}

uint64_t number_of(std::string_view code) { return std::hash<std::string_view>{}(code); }

CallContents read_named(Invocation& call) {
  Decoder in(call.arguments, "the arguments of a call by name");
  in.array_of(2);
  CallContents read;
  read.name = in.text();
  py::list args;
  for (uint64_t left = in.array(); left > 0; --left) {
    if (!in.take_tag(internal::kRefTag)) {
      args.append(decode_value(in, py::none()));
      continue;
    }
    Decoder value(internal::argument_value(in, call).bytes, "an argument");
    args.append(decode_value(value, py::none()));
  }
  in.finish();
  read.args = py::tuple(args);
  return read;
}

void write_answer(Invocation& call, py::handle result, const std::string& what) {
  Encoder out;
  if (call.portable)
    encode_portable(out, result, "what " + what + " answered");
  else
    encode_value(out, result);
  internal::finish_result(call, out);
}

py::object noted(Ref made, const py::object& children) {
  py::object ref = py::cast(std::move(made));
  if (!children.is_none()) py::list(children).append(py::weakref(ref));
  return ref;
}

CallContents read_arguments(Invocation& call) {
  Decoder in(call.arguments, "the arguments of a call from Python");
  const uint64_t items = in.array();
  if (items < 2) in.mismatch("a call from Python");
  CallContents read;
  read.name = in.text();
  py::object packed = decode_value(in, py::none());
  py::list values;
  for (uint64_t i = 2; i < items; ++i) {
    if (!in.take_tag(internal::kRefTag)) in.mismatch("a ref");
    Decoder value(internal::argument_value(in, call).bytes, "an argument");
    values.append(decode_value(value, py::none()));
  }
  in.finish();
  // (args, kwargs), refs in their places
  py::tuple both = worker_module().attr("fill_in")(packed, values);
  read.args = both[0];
  read.kwargs = both[1];
  return read;
}

std::pair<bool, bool> cancelled_here() {
  if (g_open == nullptr) return {false, false};
  return {g_open->cancelled(), g_open->cancels_children()};
}

CallArguments::CallArguments(std::string_view name, const py::tuple& args, const py::dict& kwargs) : name_(name) {
  internal::Backend& backend = internal::backend();
  for (py::handle value : args)
    if (is_ref(value)) refs_.push_back(value.cast<Ref&>().counted.handle(backend));
  bool plain = kwargs.empty() && refs_.empty();
  for (auto [key, value] : kwargs)
    if (is_ref(value)) refs_.push_back(value.cast<Ref&>().counted.handle(backend));
  encoded_.array(2 + refs_.size());
  encoded_.text(name);
  if (plain) {
    Encoder items;
    items.array(args.size());
    for (py::handle value : args)
      if (!(plain = plain && encode_plain(items, value))) break;
    if (plain) encoded_.raw(items.view().data(), items.view().size());
  }
  if (!plain) {
    py::object packed = py::module_::import("rayo._serialization").attr("pack")(args, kwargs);
    encode_value(encoded_, packed);
  }
  for (size_t i = 0; i < refs_.size(); ++i) {
    encoded_.tag(internal::kRefTag);
    encoded_.unsigned_integer(i);
  }
}

internal::CallRequest CallArguments::request(Callee callee, const char* name) const {
  if (name == nullptr && callee != Callee::kConstructor) name = noted_name(name_);  // of a method
  return {.function = function_id(callee),
          .arguments = encoded_.view(),
          .refs = refs_,
          .inner_refs = encoded_.inner_refs(),
          .inner_actors = encoded_.inner_actors(),
          .name = name};
}

internal::CallRequest CallArguments::request_of_task(Callee callee, std::string_view code, const char* name) const {
  internal::CallRequest made = request(callee, name);
  made.which = number_of(code);
  return made;
}

}  // namespace rayo::python
