#include "python_bindings/native/functions.h"

#include <string>
#include <vector>

#include <rayo/error.h>
#include <rayo/internal/entry.h>

#include "python_bindings/native/errors.h"

namespace rayo::python {
namespace {

using internal::Invocation;

// An actor: the user's object. Its address is Invocation::self.
struct Actor {
  py::object object;
};

py::object& worker_module() {
  static auto* const module = new py::object(py::module_::import("rayo._worker"));  // as long as the process
  return *module;
}

// Reads what CallArguments wrote: (name, args, kwargs).
struct Arguments {
  std::string name;
  py::tuple args;
  py::dict kwargs;
};

Arguments read_arguments(const Invocation& call) {
  Decoder in(call.arguments, "the arguments of a call from Python");
  const uint64_t items = in.array();
  if (items < 2) in.mismatch("a call from Python");
  Arguments read;
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

void answer(Invocation& call, const py::object& result) {
  Encoder out;
  encode_value(out, result);
  internal::finish_result(call, out);
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

void run_task(Invocation& call) {
  py::gil_scoped_acquire gil;
  std::string what = "a task";
  guarded(what, [&] {
    Arguments arguments = read_arguments(call);
    py::object function = worker_module().attr("load")(arguments.name);
    what = worker_module().attr("name_of")(function).cast<std::string>();
    answer(call, worker_module().attr("run")(function, arguments.args, arguments.kwargs));
  });
}

void run_constructor(Invocation& call) {
  py::gil_scoped_acquire gil;
  guarded("a constructor", [&] {
    Arguments arguments = read_arguments(call);
    py::object type = worker_module().attr("load")(arguments.name);
    call.constructed = new Actor{worker_module().attr("run")(type, arguments.args, arguments.kwargs)};
  });
}

void run_method(Invocation& call) {
  py::gil_scoped_acquire gil;
  std::string what = "a method";
  guarded(what, [&] {
    Arguments arguments = read_arguments(call);
    py::object& self = static_cast<Actor*>(call.self)->object;
    what = worker_module().attr("name_of")(py::type::of(self)).cast<std::string>() + "." + arguments.name;
    answer(call, worker_module().attr("run_method")(self, arguments.name, arguments.args, arguments.kwargs));
  });
}

void end_actor(void* self) {
  py::gil_scoped_acquire gil;
  delete static_cast<Actor*>(self);
}

internal::RegisteredFunction g_task{internal::FunctionKind::kTask, "rayo.python.task", "a Python task", run_task};
internal::RegisteredFunction g_constructor{internal::FunctionKind::kConstructor, "rayo.python.constructor",
                                           "a Python constructor", run_constructor, end_actor};
internal::RegisteredFunction g_method{internal::FunctionKind::kMethod, "rayo.python.method", "a Python method",
                                      run_method};

bool is_ref(py::handle value) { return py::isinstance<Ref>(value); }

}  // namespace

uint64_t function_id(Callee callee) {
  return callee == Callee::kTask ? g_task.id : callee == Callee::kConstructor ? g_constructor.id : g_method.id;
}

CallArguments::CallArguments(std::string_view name, const py::tuple& args, const py::dict& kwargs) {
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

internal::CallRequest CallArguments::request(Callee callee, std::chrono::nanoseconds timeout) const {
  return {.function = function_id(callee),
          .arguments = encoded_.view(),
          .refs = refs_,
          .inner_refs = encoded_.inner_refs(),
          .inner_actors = encoded_.inner_actors(),
          .timeout = timeout};
}

}  // namespace rayo::python
