"""Values to pickles and back, called by the native part (python_bindings/native/value.h has the layout).

An ObjectRef or ActorHandle inside a value notes itself while it is pickled, so that what it names lives as long as the
value. Large buffers (NumPy arrays, bytes-like objects of pickle protocol 5) stay out of the pickle.
"""

import io
import pickle
import threading
import types

import cloudpickle

from rayo import _native

# A buffer below this is copied into the pickle: a view of its own costs more than it saves.
_SMALLEST_BUFFER = 100 * 1024

# In the place of a class's key: the class itself, pickled, is the constructor's first argument.
CARRIED = "carried"

_local = threading.local()


class _Noted:
    """What the value that this thread is pickling refers to, while this is entered."""

    def __init__(self):
        self.refs = []
        self.actors = []  # ids
        self.handles = []  # of the same actors

    def __enter__(self):
        self._outer = getattr(_local, "notes", None)
        _local.notes = self
        return self

    def __exit__(self, *_):
        _local.notes = self._outer


def noted(what):
    """The current value's notes, for __reduce__; TypeError where no value of Rayo is being pickled."""
    notes = getattr(_local, "notes", None)
    if notes is None:
        raise TypeError(
            f"{what} can be pickled only inside a value that Rayo carries: an argument, a result, or put(). "
            "Elsewhere nothing would keep it alive."
        )
    return notes


class Placeholder:
    """Stands for the ref of that index among a call's arguments."""

    __slots__ = ("index",)

    def __init__(self, index):
        self.index = index

    def __reduce__(self):
        return (Placeholder, (self.index,))


_own = {}  # type: (serializer, deserializer)


def register_serializer(cls, *, serializer, deserializer):
    """Objects of exactly that class travel from this process as serializer(object), and deserializer(that) is what
    arrives. Any process reads them; each that writes them registers for itself.

        register_serializer(Connection, serializer=lambda c: c.url, deserializer=Connection)
    """
    _own[cls] = (serializer, deserializer)


def deregister_serializer(cls):
    """Objects of that class are pickled again."""
    _own.pop(cls, None)


class _Pickler(cloudpickle.Pickler):
    def reducer_override(self, value):
        own = _own.get(type(value))
        if own is not None:
            return (own[1], (own[0](value),))
        return super().reducer_override(value)


def dumps(value):
    """(pickle, buffers, refs, actor ids, their handles). Of a generator, its items: a function that makes some has a fixed num_returns."""
    if type(value) is types.GeneratorType:
        value = tuple(value)
    buffers = []

    def take(buffer):
        try:
            raw = buffer.raw()
        except BufferError:  # not contiguous: goes into the pickle
            return True
        if raw.nbytes < _SMALLEST_BUFFER:
            return True
        buffers.append(raw)
        return False

    file = io.BytesIO()
    pickler = _Pickler if _own else cloudpickle.Pickler
    with _Noted() as notes:
        try:
            pickler(file, protocol=5, buffer_callback=take).dump(value)
        except Exception as error:
            _explain(value, error)
            raise
    return file.getbuffer(), buffers, notes.refs, notes.actors, notes.handles


def dumps_code(value):
    """(pickle, [refs and handles that it names]) of a function or class, which may close over them or use them as globals."""
    with _Noted() as notes:
        try:
            return cloudpickle.dumps(value), [*notes.refs, *notes.handles]
        except Exception as error:
            _explain(value, error)
            raise


def loads(data, buffers):
    return pickle.loads(data, buffers=buffers)


def view(owner, begin, size):
    """Read-only memory inside of a value; `owner` is its ref."""
    return memoryview(_native.Block(owner, begin, size))


def pack(args, kwargs):
    """The arguments of a call with a Placeholder for each ref, numbered as the native part numbers them."""
    index = 0
    placed = []
    for value in args:
        if isinstance(value, _native.ObjectRef):
            value, index = Placeholder(index), index + 1
        placed.append(value)
    named = {}
    for key, value in kwargs.items():
        if isinstance(value, _native.ObjectRef):
            value, index = Placeholder(index), index + 1
        named[key] = value
    return (tuple(placed), named)


def _explain(value, error):
    """Adds to `error` which part of the value cannot be pickled: cloudpickle names the type alone."""
    path = _find_unpicklable(value, type(value).__name__, 4, set())
    if path:
        error.add_note(f"It cannot be pickled because of {path}.")


def inspect_serializability(base_obj, name=None, depth=3, print_file=None):
    """(whether the object can travel, {what of it cannot}); prints the same.

        ok, culprits = ray.util.inspect_serializability(config, name="config")
    """
    import sys

    name = name or getattr(base_obj, "__qualname__", type(base_obj).__name__)
    try:
        with _Noted():
            cloudpickle.dumps(base_obj)
        culprit = None
    except Exception:
        culprit = _find_unpicklable(base_obj, name, depth + 1, set()) or f"{name}, a {type(base_obj).__name__}"
    told = f"{name} can travel" if culprit is None else f"{name} cannot travel because of {culprit}"
    print(told, file=print_file or sys.stdout)
    return culprit is None, set() if culprit is None else {culprit}


def _parts(value):
    if isinstance(value, dict):
        return [(f"[{key!r}]", part) for key, part in value.items()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return [(f"[{i}]", part) for i, part in enumerate(value)]
    parts = [(f".{name}", part) for name, part in getattr(value, "__dict__", {}).items() if not isinstance(value, type)]
    closure = getattr(value, "__closure__", None)
    if closure:
        for name, cell in zip(value.__code__.co_freevars, closure):
            try:
                parts.append((f" (closure variable {name!r})", cell.cell_contents))
            except ValueError:
                pass
    if hasattr(value, "__code__"):
        for name in value.__code__.co_names:
            if name in value.__globals__:
                parts.append((f" (global {name!r})", value.__globals__[name]))
    return parts


def _find_unpicklable(value, path, depth, seen):
    if depth == 0 or id(value) in seen:
        return None
    seen.add(id(value))
    for suffix, part in _parts(value):
        try:
            with _Noted():
                cloudpickle.dumps(part)
        except Exception:
            return _find_unpicklable(part, path + suffix, depth - 1, seen) or f"{path}{suffix}, a {type(part).__name__}"
    return None
