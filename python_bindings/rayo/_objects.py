"""ObjectRef, get, put and wait."""

import asyncio

from rayo import _native, _serialization

ObjectRef = _native.ObjectRef
ObjectRef.__module__ = "rayo"
ObjectRef.__doc__ = """A counted reference to an immutable value of the cluster, which is there already or will come.

It is an argument wherever its value would be; inside another value it arrives as a ref. `await ref` waits for the value
in a coroutine, `ref.future()` is a concurrent.futures.Future of it. Copies are equal and hash alike.
"""


def _restore(binary):
    return ObjectRef.adopt(binary)


def _reduce(self):
    _serialization.noted("an ObjectRef").refs.append(self)
    return (_restore, (self.binary(),))


def _future(self):
    """A concurrent.futures.Future that gets the value or the error."""
    import concurrent.futures
    import threading

    future = concurrent.futures.Future()

    def wait_for_it():
        try:
            future.set_result(get(self))
        except BaseException as error:  # whatever it is, it is the future's
            future.set_exception(error)

    threading.Thread(target=wait_for_it, name="rayo-future", daemon=True).start()
    return future


def _await(self):
    return asyncio.wrap_future(self.future()).__await__()


ObjectRef.__reduce__ = _reduce
ObjectRef.__eq__ = lambda self, other: isinstance(other, ObjectRef) and self.binary() == other.binary()
ObjectRef.__hash__ = lambda self: hash(self.binary())
ObjectRef.__repr__ = lambda self: f"ObjectRef({self.hex()})"
ObjectRef.future = _future
ObjectRef.__await__ = _await


def _check_ref(ref, where):
    if not isinstance(ref, ObjectRef):
        raise TypeError(f"{where} takes ObjectRefs, not {type(ref).__name__}: it is what .remote() and put() answer")


def get(object_refs, *, timeout=None):
    """The value of a ref, or a list of the values of a list of refs.

    Waits until all are there; GetTimeoutError after `timeout` seconds (None: no limit). Raises the first error among them:
    what a task or method raised is an instance of its own type and of RayTaskError. Arrays are views over shared memory
    and read-only.

        ray.get(counter.add.remote(3))
        ray.get([half.remote(i) for i in range(100)], timeout=10)
    """
    _require_session()
    if isinstance(object_refs, ObjectRef):
        return _native.get(object_refs, timeout)
    if not isinstance(object_refs, (list, tuple)):
        _check_ref(object_refs, "get")
    for ref in object_refs:
        _check_ref(ref, "get")
    if timeout is None:
        return [_native.get(ref, None) for ref in object_refs]
    import time

    end = time.monotonic() + timeout
    return [_native.get(ref, max(0.0, end - time.monotonic())) for ref in object_refs]


def put(value):
    """Stores a value in the cluster and answers its ref. For what several calls use: it is packed and moved once."""
    _require_session()
    if isinstance(value, ObjectRef):
        raise TypeError("put of an ObjectRef: it is in the cluster already. To put a ref inside a value, put it in a list.")
    return _native.put(value)


def wait(object_refs, *, num_returns=1, timeout=None, fetch_local=True):
    """(ready, not ready): waits until `num_returns` of the refs have a value or an error, or `timeout` seconds are over.

    Both lists keep the order of `object_refs`; `ready` has at most `num_returns`. Refs must be different.
    """
    _require_session()
    if isinstance(object_refs, ObjectRef) or not isinstance(object_refs, (list, tuple)):
        raise TypeError("wait takes a list of ObjectRefs")
    for ref in object_refs:
        _check_ref(ref, "wait")
    if len(set(object_refs)) != len(object_refs):
        raise ValueError("wait takes each ObjectRef once")
    if not 0 < num_returns <= len(object_refs):
        raise ValueError(f"num_returns is {num_returns}: it must be from 1 to the number of refs, {len(object_refs)}")
    flags = _native.wait(list(object_refs), num_returns, timeout)
    ready, pending = [], []
    for ref, is_ready in zip(object_refs, flags):
        (ready if is_ready and len(ready) < num_returns else pending).append(ref)
    return ready, pending


def _require_session():
    if not _native.is_initialized():
        from rayo._cluster import init

        init()
