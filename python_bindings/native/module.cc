// rayo._native: what the Python files of the package stand on. Thin: ids are bytes or hexadecimal text, values are encoded
// by value.h, errors raised by errors.h. Every function that can wait gives up the GIL while it does.
#include <chrono>
#include <cstring>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <string>
#include <vector>

#include <rayo/rayo.h>

#include "python_bindings/native/errors.h"
#include "python_bindings/native/functions.h"
#include "python_bindings/native/options.h"
#include "python_bindings/native/value.h"
#include "python_bindings/native/worker.h"

namespace rayo::python {
namespace {

using internal::Backend;
using std::chrono::nanoseconds;

// How long a wait goes on before Python's signal handlers get a turn.
constexpr nanoseconds kSlice = std::chrono::milliseconds(50);

// A counted handle of an actor.
struct Actor {
  internal::CountedActor counted;
};

nanoseconds span_of(const py::object& seconds) {
  if (seconds.is_none()) return nanoseconds(-1);
  return nanoseconds(static_cast<int64_t>(std::max(0.0, seconds.cast<double>()) * 1e9));
}

template <class Id>
py::bytes bytes_of(const Id& id) {
  return py::bytes(reinterpret_cast<const char*>(&id), sizeof id);
}

template <class Id>
Id id_from(const py::bytes& bytes) {
  const auto view = bytes.cast<std::string_view>();
  Id id;
  if (view.size() != sizeof id) throw py::value_error("an id has another size");
  std::memcpy(&id, view.data(), sizeof id);
  return id;
}

// Runs `step(slice)` without the GIL until it answers true or the time is over; signals are looked at in between.
template <class Step>
bool wait_in_slices(nanoseconds timeout, Step&& step) {
  const auto end = timeout.count() < 0 ? internal::Clock::time_point::max() : internal::Clock::now() + timeout;
  while (true) {
    const nanoseconds left = end == internal::Clock::time_point::max() ? kSlice : end - internal::Clock::now();
    bool done = false;
    {
      py::gil_scoped_release release;
      done = step(std::clamp(left, nanoseconds(0), kSlice));
    }
    if (done) return true;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if (end != internal::Clock::time_point::max() && internal::Clock::now() >= end) return false;
  }
}

struct Seen {
  internal::Bytes bytes;
  const ErrorRecord* error = nullptr;
};

// The value, or raises what stands in its place. The bytes live as long as the ref is counted, so views over them do too.
py::object get(const py::object& ref, const py::object& timeout) {
  Backend& backend = internal::backend();
  const internal::ObjectHandle handle = ref.cast<Ref&>().counted.handle(backend);
  Seen seen;
  const auto look = [](void* context, const internal::ValueView& view) {
    *static_cast<Seen*>(context) = {view.bytes, view.error};
  };
  if (!wait_in_slices(span_of(timeout), [&](nanoseconds slice) { return backend.get(handle, slice, look, &seen); }))
    internal::throw_timeout(handle.id, span_of(timeout));
  if (seen.error != nullptr) raise(*seen.error);
  Decoder in(seen.bytes, "a Python value");
  py::object value = decode_value(in, ref);
  in.finish();
  return value;
}

py::list wait(const py::list& refs, size_t count, const py::object& timeout) {
  Backend& backend = internal::backend();
  std::vector<internal::ObjectHandle> handles;
  for (py::handle ref : refs) handles.push_back(ref.cast<Ref&>().counted.handle(backend));
  std::vector<bool> ready(handles.size());
  wait_in_slices(span_of(timeout), [&](nanoseconds slice) {
    return handles.empty() || backend.wait(handles, count, slice, ready) >= count;
  });
  py::list flags;
  for (bool yes : ready) flags.append(yes);
  return flags;
}

Ref put(py::handle value) {
  Encoder out;
  encode_value(out, value);
  py::gil_scoped_release release;
  return {internal::put_object(out)};
}

Ref call(const Actor& actor, std::string_view method, const py::tuple& args, const py::dict& kwargs) {
  Backend& backend = internal::backend();
  const CallArguments arguments(method, args, kwargs);
  const internal::CallRequest request = arguments.request(Callee::kMethod);
  const ActorId& id = actor.counted.id(backend);
  py::gil_scoped_release release;
  return {internal::CountedRef(backend, backend.call(id, request))};
}

Ref submit(const std::string& key, const py::tuple& args, const py::dict& kwargs, const py::dict& options) {
  Backend& backend = internal::backend();
  const CallArguments arguments(key, args, kwargs);
  const internal::CallRequest request = arguments.request(Callee::kTask);
  const TaskOptions told = task_options(options);
  py::gil_scoped_release release;
  return {internal::CountedRef(backend, backend.submit(told, request))};
}

Actor spawn(const std::string& key, const std::string& class_name, const py::tuple& args, const py::dict& kwargs,
            const py::dict& options) {
  Backend& backend = internal::backend();
  const CallArguments arguments(key, args, kwargs);
  const internal::CallRequest request = arguments.request(Callee::kConstructor);
  const ActorOptions told = actor_options(options);
  py::gil_scoped_release release;
  return {internal::CountedActor(backend, backend.spawn(told, class_name, request))};
}

py::tuple find_actor(const std::string& name, const std::string& name_space) {
  Backend& backend = internal::backend();
  internal::ActorRecord record;
  {
    py::gil_scoped_release release;
    record = backend.find_actor(name, name_space);
  }
  return py::make_tuple(Actor{internal::CountedActor(backend, record.id)}, record.class_name);
}

void kill_actor(const Actor& actor) {
  Backend& backend = internal::backend();
  py::gil_scoped_release release;
  backend.kill_actor(actor.counted.id(backend));
}

void store(const std::string& key, const py::bytes& value) {
  Backend& backend = internal::backend();
  const auto bytes = value.cast<std::string_view>();
  py::gil_scoped_release release;
  backend.store(key, std::as_bytes(std::span(bytes)));
}

py::object load(const std::string& key) {
  Backend& backend = internal::backend();
  std::optional<std::string> value;
  {
    py::gil_scoped_release release;
    value = backend.load(key);
  }
  if (!value) return py::none();
  return py::bytes(*value);
}

void define_session(py::module_& module) {
  module.def("init", &start, py::arg("arguments"), py::arg("options"));
  module.def("shutdown", [] {
    py::gil_scoped_release release;
    shutdown();
  });
  module.def("serve", &serve, py::arg("arguments"));
  module.def("is_initialized", &is_initialized);
  module.def("is_worker", &is_worker);
  module.def("nodes", &node_list);
  module.def("context", &context_record);
  module.def("store", &store);
  module.def("load", &load);
}

void define_objects(py::module_& module) {
  py::class_<Ref>(module, "ObjectRef")
      .def("binary", [](const Ref& ref) { return bytes_of(ref.counted.id()); })
      .def("hex", [](const Ref& ref) { return ref.counted.id().hex(); })
      .def_static("adopt", [](const py::bytes& id) {
        Backend& backend = internal::backend();
        return Ref{internal::CountedRef(backend, backend.adopt(id_from<ObjectId>(id)))};
      });
  py::class_<Actor>(module, "Actor")
      .def("binary", [](const Actor& actor) { return bytes_of(actor.counted.any_id()); })
      .def("hex", [](const Actor& actor) { return actor.counted.any_id().hex(); })
      .def_static("adopt", [](const py::bytes& bytes) {
        Backend& backend = internal::backend();
        const auto id = id_from<ActorId>(bytes);
        backend.retain_actor(id);
        return Actor{internal::CountedActor(backend, id)};
      });
  py::class_<Block>(module, "Block", py::buffer_protocol())
      .def(py::init<py::object, uintptr_t, size_t>())
      .def_buffer([](Block& block) {
        return py::buffer_info(const_cast<char*>(block.begin()), 1, py::format_descriptor<unsigned char>::format(), 1,
                               {static_cast<py::ssize_t>(block.size())}, {1}, true);
      });
  module.def("put", &put);
  module.def("get", &get);
  module.def("wait", &wait);
  module.def("call", &call);
  module.def("submit", &submit);
  module.def("spawn", &spawn);
  module.def("find_actor", &find_actor);
  module.def("kill_actor", &kill_actor);
}

}  // namespace

PYBIND11_MODULE(_native, module) {
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const Error& error) {
      const py::object exception = exception_of(error.record());
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
    }
  });
  define_objects(module);
  define_session(module);
}

}  // namespace rayo::python
