#include "python_bindings/native/get.h"

#include <algorithm>

#include <rayo/error.h>
#include <rayo/internal/backend.h>
#include <rayo/rayo.h>

#include "python_bindings/native/errors.h"
#include "python_bindings/native/signals.h"
#include "python_bindings/native/value.h"
#include "runtime/base/text.h"

namespace rayo::python {
namespace {

using std::chrono::nanoseconds;

// Its first lines are what inspect.signature() and help() show.
constexpr const char* kHelp = R"(get(object_refs, *, timeout=None)
--

The value of a ref, or a list of the values of a list of refs.

Waits until all are there; GetTimeoutError after `timeout` seconds (None: no limit). Raises the first error among them:
what a task or method raised is an instance of its own type and of RayTaskError. Arrays are views over shared memory
and read-only.

    ray.get(counter.add.remote(3))
    ray.get([half.remote(i) for i in range(100)], timeout=10))";

struct Seen {
  internal::Bytes bytes;
  const ErrorRecord* error = nullptr;
};

void check_ref(py::handle value) {
  if (py::isinstance<Ref>(value)) return;
  throw py::type_error(base::cat("get takes ObjectRefs, not ", Py_TYPE(value.ptr())->tp_name,
                                 ": it is what .remote() and put() answer"));
}

py::object values_of(py::handle refs, nanoseconds timeout) {
  if (!py::isinstance<py::list>(refs) && !py::isinstance<py::tuple>(refs)) {
    check_ref(refs);
    return value_of(py::reinterpret_borrow<py::object>(refs), timeout);
  }
  for (py::handle ref : refs) check_ref(ref);
  const auto end = internal::Clock::now() + timeout;
  py::list values;
  for (py::handle ref : refs) {
    const nanoseconds left =
        timeout.count() < 0 ? timeout : std::max(nanoseconds(0), nanoseconds(end - internal::Clock::now()));
    values.append(value_of(py::reinterpret_borrow<py::object>(ref), left));
  }
  return values;
}

// One of them by position, the other by name.
bool read_arguments(PyObject* const* arguments, Py_ssize_t count, PyObject* names, py::handle& refs,
                    py::handle& timeout) {
  const Py_ssize_t named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  if (count > 1)
    return PyErr_Format(PyExc_TypeError, "get() takes 1 positional argument but %zd were given", count), false;
  if (count == 1) refs = arguments[0];
  for (Py_ssize_t i = 0; i < named; ++i) {
    PyObject* name = PyTuple_GET_ITEM(names, i);
    if (PyUnicode_CompareWithASCIIString(name, "timeout") == 0) {
      timeout = arguments[count + i];
    } else if (PyUnicode_CompareWithASCIIString(name, "object_refs") == 0 && !refs) {
      refs = arguments[count + i];
    } else {
      return PyErr_Format(PyExc_TypeError, "get() got an unexpected keyword argument '%U'", name), false;
    }
  }
  if (!refs)
    return PyErr_SetString(PyExc_TypeError, "get() missing 1 required positional argument: 'object_refs'"), false;
  return true;
}

PyObject* get(PyObject*, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
  py::handle refs, timeout;
  if (!read_arguments(arguments, count, names, refs, timeout)) return nullptr;
  try {
    if (!is_initialized()) py::module_::import("rayo._objects").attr("_require_session")();
    const nanoseconds span = timeout ? span_of(py::reinterpret_borrow<py::object>(timeout)) : nanoseconds(-1);
    return values_of(refs, span).release().ptr();
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const py::builtin_exception& error) {
    error.set_error();
  } catch (const Error& error) {
    set_error(error.record());
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

PyMethodDef g_get = {"get", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&get)),
                     METH_FASTCALL | METH_KEYWORDS, kHelp};

}  // namespace

py::object value_of(const py::object& ref, nanoseconds timeout) {
  internal::Backend& backend = internal::backend();
  const internal::ObjectHandle handle = ref.cast<Ref&>().counted.handle(backend);
  Seen seen;
  const auto look = [](void* context, const internal::ValueView& view) {
    *static_cast<Seen*>(context) = {view.bytes, view.error};
  };
  if (!wait_for(timeout, [&](nanoseconds span) { return backend.get(handle, span, look, &seen); }))
    internal::throw_timeout(handle.id, timeout);
  if (seen.error != nullptr) raise(*seen.error);
  Decoder in(seen.bytes, "a Python value");
  py::object value = decode_value(in, ref);
  in.finish();
  return value;
}

void define_get(py::module_& module) {
  module.add_object("get",
                    py::reinterpret_steal<py::object>(PyCFunction_NewEx(&g_get, module.ptr(), py::str("rayo").ptr())));
}

}  // namespace rayo::python
