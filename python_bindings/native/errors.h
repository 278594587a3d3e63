// Errors between the two languages. What a Python function raised travels in its ErrorRecord: the type's name, the
// traceback's text, and in `payload` the exception itself, pickled by rayo.exceptions.
#pragma once

#include <pybind11/pybind11.h>

#include <rayo/codec.h>
#include <rayo/error.h>

namespace rayo::python {

namespace py = pybind11;

// What `error`, an exception that `what` raised, is on the wire; the GIL is held.
ErrorRecord record_of(const std::string& what, py::handle error);

// The TaskError for what `error` holds; the GIL is held. Errors of Rayo that passed through the user's code keep theirs.
[[noreturn]] void throw_remote(const std::string& what, py::error_already_set& error);

// The exception of rayo.exceptions for a record; the GIL is held.
py::object exception_of(const ErrorRecord& record);
// It is the one that Python raises next.
void set_error(const ErrorRecord& record);
[[noreturn]] void raise(const ErrorRecord& record);

// The same as two values that travel: what encode_error wrote is an exception again, which take_error answers.
void encode_error(Encoder& out, const ErrorRecord& record);
py::object take_error(Decoder& in);

}  // namespace rayo::python
