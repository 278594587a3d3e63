#include "python_bindings/native/named.h"

#include <string>
#include <vector>

#include <rayo/internal/by_name.h>
#include <rayo/rayo.h>

#include "python_bindings/native/functions.h"
#include "python_bindings/native/options.h"
#include "python_bindings/native/portable.h"
#include "python_bindings/native/value.h"
#include "runtime/base/text.h"

namespace rayo::python {
namespace {

using internal::Backend;

JobId job_of(const std::string& hex) {
  const auto job = JobId::from_hex(hex);
  if (!job) throw py::value_error("not a job's id: " + hex);
  return *job;
}

// One call's arguments, encoded. `what`: "Counter.add", for errors.
class NamedArguments {
 public:
  NamedArguments(const std::string& name, const py::tuple& args, const std::string& what) : what_(what) {
    Backend& backend = internal::backend();
    encoded_.array(2);
    encoded_.text(name);
    encoded_.array(args.size());
    size_t number = 0;
    for (py::handle value : args) {
      ++number;
      if (py::isinstance<Ref>(value)) {
        encoded_.tag(internal::kRefTag);
        encoded_.unsigned_integer(refs_.size());
        refs_.push_back(value.cast<Ref&>().counted.handle(backend));
      } else {
        encode_portable(encoded_, value, base::cat("argument ", number, " of ", what));
      }
    }
  }

  internal::CallRequest request(uint64_t function, const JobId& program = {}) const {
    return {.function = function,
            .arguments = encoded_.view(),
            .refs = refs_,
            .inner_refs = encoded_.inner_refs(),
            .inner_actors = encoded_.inner_actors(),
            .program = program,
            .name = noted_name(what_),
            .which = number_of(what_)};
  }

 private:
  const std::string& what_;
  Encoder encoded_;
  std::vector<internal::ObjectHandle> refs_;
};

py::object call_named(const Actor& actor, const std::string& method, const py::tuple& args, const std::string& what,
                      const py::object& children) {
  Backend& backend = internal::backend();
  const NamedArguments arguments(method, args, what);
  const ActorId& id = actor.counted.id(backend);
  Ref made;
  {
    py::gil_scoped_release release;
    made.counted = internal::CountedRef(backend, backend.call(id, arguments.request(internal::kNamedMethod)));
    made.of_actor = true;
  }
  return noted(std::move(made), children);
}

py::object submit_named(const std::string& program, const std::string& function, const py::tuple& args,
                        const py::dict& options, const py::object& children) {
  Backend& backend = internal::backend();
  const JobId job = job_of(program);
  const NamedArguments arguments(function, args, function);
  const TaskOptions told = task_options(options);
  Ref made;
  {
    py::gil_scoped_release release;
    made.counted = internal::CountedRef(backend, backend.submit(told, arguments.request(internal::kNamedTask, job)));
  }
  return noted(std::move(made), children);
}

Actor spawn_named(const std::string& program, const std::string& class_name, const py::tuple& args,
                  const py::dict& options) {
  Backend& backend = internal::backend();
  const JobId job = job_of(program);
  const NamedArguments arguments(class_name, args, class_name);
  ActorOptions told = actor_options(options);
  told.stack_size = ActorOptions{}.stack_size;  // C++ runs its concurrent calls on stacks of their own
  py::gil_scoped_release release;
  const ActorId id = backend.spawn(told, class_name, arguments.request(internal::kNamedConstructor, job));
  return {internal::CountedActor(backend, id)};
}

std::string open_program(const std::string& path) {
  Backend& backend = internal::backend();
  py::gil_scoped_release release;
  return backend.open_program(path).hex();
}

// What can be called by name there: a ref of by_name.h's list.
Ref describe(const std::string& program) {
  Backend& backend = internal::backend();
  Encoder none;
  none.array(0);
  const internal::CallRequest request{.function = internal::kDescribe,
                                      .arguments = none.view(),
                                      .program = job_of(program),
                                      .name = "what it has for other languages"};
  TaskOptions options;
  options.resources.cpus = 0;
  py::gil_scoped_release release;
  return {internal::CountedRef(backend, backend.submit(options, request))};
}

}  // namespace

void define_named(py::module_& module) {
  module.def("call_named", &call_named, py::arg("actor"), py::arg("method"), py::arg("args"), py::arg("what"),
             py::arg("children"));
  module.def("submit_named", &submit_named, py::arg("program"), py::arg("function"), py::arg("args"),
             py::arg("options"), py::arg("children"));
  module.def("spawn_named", &spawn_named, py::arg("program"), py::arg("class_name"), py::arg("args"),
             py::arg("options"));
  module.def("open_program", &open_program, py::arg("path"));
  module.def("describe_program", &describe, py::arg("program"));
}

}  // namespace rayo::python
