#include "python_bindings/native/worker.h"

#include <rayo/rayo.h>

#include "python_bindings/native/calls.h"
#include "python_bindings/native/options.h"
#include "python_bindings/native/signals.h"
#include "runtime/api/current.h"
#include "runtime/worker/process.h"

namespace rayo::python {

void start(const std::vector<std::string>& arguments, const py::dict& options, bool main_thread) {
  const InitOptions told = init_options(options);
  std::vector<std::string> copies = arguments;
  std::vector<char*> argv;
  for (std::string& argument : copies) argv.push_back(argument.data());
  py::gil_scoped_release release;
  init(static_cast<int>(argv.size()), argv.data(), told);
  if (main_thread) hear_signals(internal::backend());
}

void serve(const std::vector<std::string>& arguments) {
  const worker::LanguageHooks hooks{.fork = {.before = PyOS_BeforeFork,
                                             .in_parent = PyOS_AfterFork_Parent,
                                             .in_child = [] { PyOS_AfterFork_Child(); }},
                                    .cancelled = &on_cancelled};
  // From then on user code takes the GIL for each call; nobody holds it in between.
  worker::serve(
      arguments,
      [](internal::Backend& backend) {
        api::set_current_backend(&backend);
        hear_signals(backend);
        interrupt_this_thread();
        PyEval_SaveThread();
      },
      hooks);
}

}  // namespace rayo::python
