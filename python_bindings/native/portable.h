// Portable values: what any language understands. None, bools, ints of 64 bits, floats, text and bytes; lists and tuples
// (aggregates in C++ too), dicts, sets; arrays of numbers with one dimension (NumPy's, array.array) in one piece; the
// fields of a dataclass in their order; ObjectRefs and ActorHandles. The arguments and results of calls by name are such.
//
// Everything here is called with the GIL held.
#pragma once

#include <functional>
#include <pybind11/pybind11.h>
#include <string>

#include <rayo/codec.h>

namespace rayo::python {

namespace py = pybind11;

// Appends a whole value. CrossLanguageError for what no other language knows: `what` ("argument 2 of Counter.add") and the
// place in it are named.
void encode_portable(Encoder& out, py::handle value, const std::string& what);

// What begins with a tag of those that C++ writes: a ref, a handle of an actor, numbers in one piece.
py::object decode_tagged(Decoder& in);

}  // namespace rayo::python
