// Values between Python and Rayo's wire.
//
// None, bool, int of 64 bits, float, str and bytes (exactly these types, not subclasses) are plain CBOR, which other
// languages read too (and what these write is read here: portable.h). Everything else is CBOR tag kPickleTag over a byte string: a pickle of protocol 5 with its buffers out of
// band, each aligned to 64 bytes from the start of the value, so that a NumPy array is a view over the arena.
//
// CBOR tag kErrorTag is a value that raises where it is read (errors.h).
//
//   u32 count, u32 pickle bytes, count x (u64 offset, u64 size), the pickle, the buffers;  offsets from the string's start
//
// Everything here is called with the GIL held.
#pragma once

#include <chrono>
#include <pybind11/pybind11.h>

#include <rayo/actor.h>
#include <rayo/codec.h>
#include <rayo/internal/backend.h>
#include <rayo/object.h>

namespace rayo::python {

namespace py = pybind11;

inline constexpr uint64_t kPickleTag = 0x5250;  // private use
inline constexpr uint64_t kErrorTag = 0x5252;

// Seconds, None for ever (-1 ns).
std::chrono::nanoseconds span_of(const py::object& seconds);

// A counted reference as Python holds it; ids are shown as hexadecimal digits.
struct Ref {
  internal::CountedRef counted;
  bool of_actor = false;  // the result of an actor's call
};

// A counted handle of an actor.
struct Actor {
  internal::CountedActor counted;
};

// Appends `value`. Refs and actor handles inside it are noted in `out`. Throws what pickling throws.
void encode_value(Encoder& out, py::handle value);
// Stores a value without an encoded copy of its large buffers; answers the ref.
Ref put_value(py::handle value);
// True, and appended, where it is one of the plain types.
bool encode_plain(Encoder& out, py::handle value);

// Reads the next item. `owner` keeps the bytes alive for views into them: a Ref, or None where the bytes live only
// during this call (buffers are copied then).
py::object decode_value(Decoder& in, const py::object& owner);

}  // namespace rayo::python
