// rayo._native: what the Python files of the package stand on. Thin: ids are bytes or hexadecimal text, values are encoded
// by value.h, errors raised by errors.h. Every function that can wait gives up the GIL while it does.
#include <chrono>
#include <cstring>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <string>
#include <vector>

#include <rayo/rayo.h>

#include "python_bindings/native/calls.h"
#include "python_bindings/native/completions.h"
#include "python_bindings/native/errors.h"
#include "python_bindings/native/functions.h"
#include "python_bindings/native/get.h"
#include "python_bindings/native/named.h"
#include "python_bindings/native/options.h"
#include "python_bindings/native/signals.h"
#include "python_bindings/native/streams.h"
#include "python_bindings/native/value.h"
#include "python_bindings/native/worker.h"
#include "runtime/base/version.h"

namespace rayo::python {
namespace {

using internal::Backend;
using std::chrono::nanoseconds;

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

py::object get(const py::object& ref, const py::object& timeout) { return value_of(ref, span_of(timeout)); }

py::list wait(const py::list& refs, size_t count, const py::object& timeout) {
  Backend& backend = internal::backend();
  std::vector<internal::ObjectHandle> handles;
  for (py::handle ref : refs) handles.push_back(ref.cast<Ref&>().counted.handle(backend));
  std::vector<bool> ready(handles.size());
  wait_for(span_of(timeout),
           [&](nanoseconds span) { return handles.empty() || backend.wait(handles, count, span, ready) >= count; });
  py::list flags;
  for (bool yes : ready) flags.append(yes);
  return flags;
}

py::object call(const Actor& actor, std::string_view method, const py::tuple& args, const py::dict& kwargs, bool items,
                const py::object& children) {
  Backend& backend = internal::backend();
  const CallArguments arguments(method, args, kwargs);
  const internal::CallRequest request = arguments.request(items ? Callee::kItemsMethod : Callee::kMethod);
  const ActorId& id = actor.counted.id(backend);
  Ref made;
  {
    py::gil_scoped_release release;
    made.counted = internal::CountedRef(backend, backend.call(id, request));
    made.of_actor = true;
  }
  return noted(std::move(made), children);
}

// A task's function: where workers find it, and its name for people.
using KeyAndName = std::pair<std::string, std::string_view>;

py::object submit(const KeyAndName& function, const py::tuple& args, const py::dict& kwargs, const TaskOptions& options,
                  bool items, const py::object& children) {
  Backend& backend = internal::backend();
  const CallArguments arguments(function.first, args, kwargs);
  const std::string_view key = function.first;
  const internal::CallRequest request = arguments.request_of_task(
      items ? Callee::kItemsTask : Callee::kTask, key.substr(0, key.find('\n')), noted_name(function.second));
  Ref made;
  {
    py::gil_scoped_release release;
    made.counted = internal::CountedRef(backend, backend.submit(options, request));
  }
  return noted(std::move(made), children);
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

// (the actor, its class, whether that is of Python)
py::tuple described(const Actor& actor, const internal::ActorRecord& record) {
  return py::make_tuple(actor, record.class_name, record.constructor == internal::kPythonConstructor);
}

py::tuple find_actor(const std::string& name, const std::string& name_space) {
  Backend& backend = internal::backend();
  internal::ActorRecord record;
  {
    py::gil_scoped_release release;
    record = backend.find_actor(name, name_space);
  }
  return described(Actor{internal::CountedActor(backend, record.id)}, record);
}

// Of an actor whose handle came from another language.
py::tuple look_up(const Actor& actor) {
  Backend& backend = internal::backend();
  internal::ActorRecord record;
  {
    py::gil_scoped_release release;
    record = backend.look_up(actor.counted.id(backend));
  }
  return described(actor, record);
}

void cancel(const Ref& ref, bool force, bool recursive) {
  Backend& backend = internal::backend();
  py::gil_scoped_release release;
  backend.cancel(ref.counted.handle(backend), {.force = force, .recursive = recursive});
}

bool ready(const Ref& ref) {
  Backend& backend = internal::backend();
  py::gil_scoped_release release;
  return backend.ready(ref.counted.handle(backend));
}

void kill_actor(const Actor& actor, bool no_restart) {
  Backend& backend = internal::backend();
  py::gil_scoped_release release;
  backend.kill_actor(actor.counted.id(backend), {.no_restart = no_restart});
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
  module.def("init", &start, py::arg("arguments"), py::arg("options"), py::arg("main_thread"));
  module.def("shutdown", [] {
    py::gil_scoped_release release;
    shutdown();
  });
  module.def("serve", &serve, py::arg("arguments"));
  module.def("is_initialized", &is_initialized);
  module.def("is_worker", &is_worker);
  module.def("nodes", &node_list);
  module.def("context", &context_record);
  module.def("head_address", &head_address);
  module.attr("VERSION") = base::kVersion;
  module.def("store", &store);
  module.def("load", &load);
}

Actor adopt(const ActorId& id) {
  Backend& backend = internal::backend();
  backend.retain_actor(id);
  return {internal::CountedActor(backend, id)};
}

void define_objects(py::module_& module) {
  py::class_<Ref>(module, "ObjectRef")
      .def("binary", [](const Ref& ref) { return bytes_of(ref.counted.id()); })
      .def("hex", [](const Ref& ref) { return ref.counted.id().hex(); })
      .def_readonly("_of_actor", &Ref::of_actor)
      .def_static("adopt", [](const py::bytes& id) {
        Backend& backend = internal::backend();
        return Ref{internal::CountedRef(backend, backend.adopt(id_from<ObjectId>(id)))};
      });
  py::class_<Actor>(module, "Actor")
      .def("binary", [](const Actor& actor) { return bytes_of(actor.counted.any_id()); })
      .def("hex", [](const Actor& actor) { return actor.counted.any_id().hex(); })
      .def_static("adopt", [](const py::bytes& bytes) { return adopt(id_from<ActorId>(bytes)); })
      .def_static("of_hex", [](const std::string& hex) {
        const auto id = ActorId::from_hex(hex);
        if (!id) throw py::value_error("not an actor's id: " + hex);
        return adopt(*id);
      });
  py::class_<Block>(module, "Block", py::buffer_protocol())
      .def(py::init<py::object, uintptr_t, size_t>())
      .def_buffer([](Block& block) {
        return py::buffer_info(const_cast<char*>(block.begin()), 1, py::format_descriptor<unsigned char>::format(), 1,
                               {static_cast<py::ssize_t>(block.size())}, {1}, true);
      });
  py::class_<TaskOptions>(module, "TaskOptions").def(py::init(&task_options));  // of a dict; for submit
  module.def("put", &put_value);
  module.def("value_of", &get);
  module.def("wait", &wait);
  module.def("call", &call, py::arg("actor"), py::arg("method"), py::arg("args"), py::arg("kwargs"), py::arg("items"),
             py::arg("children"));
  module.def("submit", &submit, py::arg("function"), py::arg("args"), py::arg("kwargs"), py::arg("options"),
             py::arg("items"), py::arg("children"));
  module.def("cancel", &cancel, py::arg("ref"), py::arg("force"), py::arg("recursive"));
  module.def("ready", &ready);
  module.def("spawn", &spawn);
  module.def("find_actor", &find_actor);
  module.def("look_up", &look_up);
  module.def("kill_actor", &kill_actor);
}

void define_calls(py::module_& module) {
  py::class_<ItemWriter, std::shared_ptr<ItemWriter>>(module, "ItemWriter")
      .def("write", &ItemWriter::write, py::arg("value"), py::arg("timeout") = py::none());
  py::class_<ItemReader>(module, "ItemReader")
      .def(py::init<const Ref&>())
      .def("next", &ItemReader::next)
      .def("cancel", &ItemReader::cancel);
  py::class_<ActorCall, std::shared_ptr<ActorCall>>(module, "ActorCall")
      .def_property_readonly("name", &ActorCall::name)
      .def_property_readonly("id",
                             [](const ActorCall& call) {
                               py::gil_scoped_release release;
                               return call.id();
                             })
      .def_property_readonly("makes_items", &ActorCall::makes_items)
      .def_property_readonly("cancelled", &ActorCall::cancelled)
      .def_property_readonly("cancels_children", &ActorCall::cancels_children)
      .def("arguments", &ActorCall::arguments)
      .def("open_stream", &ActorCall::open_stream)
      .def("answer", &ActorCall::answer)
      .def("fail", &ActorCall::fail)
      .def("end", &ActorCall::end);
  py::class_<CallQueue, std::shared_ptr<CallQueue>>(module, "CallQueue")
      .def(py::init<>())
      .def("fileno", &CallQueue::fd)
      .def("tell_cancels", &CallQueue::tell_cancels)
      .def("take", &CallQueue::take)
      .def("take_all", &CallQueue::take_all);
  module.def("fail_items", [](ItemWriter& writer, const std::string& what, py::handle error) {
    writer.fail(record_of(what, error));
  });
  module.def("close_items", [](ItemWriter& writer) { writer.close(); });
  module.def("cancelled_here", &cancelled_here);
  py::class_<Completions>(module, "Completions")
      .def(py::init<>())
      .def("fileno", &Completions::fd)
      .def("watch", &Completions::watch)
      .def("take", &Completions::take)
      .def("wait", &Completions::wait)
      .def_static("any_watched", &Completions::any_watched);
}

}  // namespace

PYBIND11_MODULE(_native, module) {
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const Error& error) {
      set_error(error.record());
    }
  });
  define_objects(module);
  define_calls(module);
  define_named(module);
  define_get(module);
  define_session(module);
}

}  // namespace rayo::python
