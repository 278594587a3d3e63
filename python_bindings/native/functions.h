// What a worker runs for Python callers: five functions of fixed names, which find the user's function or class in
// rayo._worker; and one for callers of other languages, that calls a method by its name (<rayo/internal/by_name.h>) and
// answers a portable value. Arguments of the five on the wire: an array of
//
//   text   of a task "KEY", of a constructor "KEY\nSETTINGS" (_concurrency.py), of a method its name or "NAME\nGROUP"
//   value  the arguments: an array of plain values and refs, or one pickled (args, kwargs) that names refs by index
//   refs   the ObjectRefs that stand for arguments (internal::kRefTag)
//
// Of those that make items (generators) the answer is a stream (streams.h), sent when they begin.
#pragma once

#include <pybind11/pybind11.h>

#include <rayo/internal/registry.h>

#include "python_bindings/native/value.h"

namespace rayo::python {

enum class Callee : uint8_t { kTask, kConstructor, kMethod, kItemsTask, kItemsMethod };

uint64_t function_id(Callee callee);

// One call's arguments, encoded. `args` is a tuple, `kwargs` a dict; refs among args and the values of kwargs stand for
// their values.
class CallArguments {
 public:
  CallArguments(std::string_view name, const py::tuple& args, const py::dict& kwargs);
  // `name`: noted_name(), for people; null: a method's own.
  internal::CallRequest request(Callee callee, const char* name = nullptr) const;
  // `code`: which function it is (internal::CallRequest::which).
  internal::CallRequest request_of_task(Callee callee, std::string_view code, const char* name) const;

 private:
  std::string_view name_;  // the caller's
  Encoder encoded_;
  std::vector<internal::ObjectHandle> refs_;
};

// The same where it arrived, refs replaced by their values. Throws the error of a ref that has one.
struct CallContents {
  std::string name;
  py::tuple args;
  py::dict kwargs;
};
CallContents read_arguments(internal::Invocation& call);
// Of a call by name.
CallContents read_named(internal::Invocation& call);
// Appends the answer to a call; `what` ("Counter.add") made it.
void write_answer(internal::Invocation& call, py::handle result, const std::string& what);

// Notes what the running call has made among its children (a list of weak refs, or None) before Python code goes on: a
// signal that cancels the call finds it there.
py::object noted(Ref made, const py::object& children);

// A function's or method's name as the cluster notes it (internal::CallRequest::name): the same text for the same name, as
// long as the process. Any thread.
const char* noted_name(std::string_view name);

// internal::CallRequest::which of the function of that key or name.
uint64_t number_of(std::string_view code);

// The call that the main thread runs: whether its caller has cancelled it, and what it has called too.
std::pair<bool, bool> cancelled_here();

}  // namespace rayo::python
