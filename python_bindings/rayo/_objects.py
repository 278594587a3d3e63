"""ObjectRef, get, put, wait and cancel."""

import types
import weakref

from rayo import _native, _serialization

ObjectRef = _native.ObjectRef
ObjectRef.__module__ = "rayo"
ObjectRef.__doc__ = """A counted reference to an immutable value of the cluster, which is there already or will come.

It is an argument wherever its value would be; inside another value it arrives as a ref. `await ref` waits for the value
in a coroutine, `ref.future()` is a concurrent.futures.Future of it. Copies are equal and hash alike.

    ref = ray.put([1, 2, 3])
    total = ray.get(ray.remote(sum).remote(ref))
"""


def _restore(binary):
    return ObjectRef.adopt(binary)


def _reduce(self):
    _serialization.noted("an ObjectRef").refs.append(self)
    return (_restore, (self.binary(),))


def _future(self):
    """A concurrent.futures.Future that gets the value or the error.

        print(ref.future().result(timeout=10))
    """
    from rayo import _futures

    return _futures.of_thread(self)


def _as_future(self):
    """An asyncio.Future of the running loop."""
    from rayo import _futures

    return _futures.of_loop(self)


def _await(self):
    from rayo import _futures

    return _futures.of_loop(self).__await__()  # no frame of ours stands in the traceback of what it raises


ObjectRef.__reduce__ = _reduce
ObjectRef.__eq__ = lambda self, other: isinstance(other, ObjectRef) and self.binary() == other.binary()
ObjectRef.__hash__ = lambda self: hash(self.binary())
ObjectRef.__repr__ = lambda self: f"ObjectRef({self.hex()})"
ObjectRef.future = _future
ObjectRef.as_future = _as_future
ObjectRef.is_nil = lambda self: False
ObjectRef.__await__ = _await
ObjectRef.__copy__ = lambda self: self
ObjectRef.__deepcopy__ = lambda self, _: self
ObjectRef.__class_getitem__ = classmethod(types.GenericAlias)


class ObjectRefGenerator:
    """What a generator task or method answers: an iterator over an ObjectRef for each item, as the items are made.

        @ray.remote
        def squares(n):
            for i in range(n):
                yield i * i

        for ref in squares.remote(3):
            print(ray.get(ref))         # 0, 1, 4

    `async for` works too. What the generator raises is raised by get() of the last ref. The generator goes on while its
    reader does other things, up to 1024 items ahead; it ends early when this object is dropped or cancelled.
    """

    __class_getitem__ = classmethod(types.GenericAlias)

    def __init__(self, answer, actor=None):
        self._answer = answer
        self._actor = actor  # lives while its items are wanted
        self._reader = None
        self._over = False
        self._seen = None  # a ref that next_ready() has taken

    def __iter__(self):
        return self

    def __aiter__(self):
        return self

    def __next__(self):
        ref = self._next(None)
        if ref is None:
            raise StopIteration
        return ref

    async def __anext__(self):
        import asyncio

        ref = await asyncio.get_running_loop().run_in_executor(None, self._next, None)
        if ref is None:
            raise StopAsyncIteration
        return ref

    def next_ready(self):
        """Whether next() would answer (or stop) at once."""
        from rayo.exceptions import GetTimeoutError

        if self._seen is None and not self._over:
            try:
                self._seen = self._next(0)
            except GetTimeoutError:
                return False
        return True

    def is_finished(self):
        """Whether all refs have been taken."""
        return self.next_ready() and self._over and self._seen is None

    def close(self):
        """No more items are wanted: the generator ends."""
        self._cancel(False, True)

    def _next(self, timeout):
        """A ref; None at the end; GetTimeoutError."""
        if self._seen is not None:
            ref, self._seen = self._seen, None
            return ref
        if self._over:
            return None
        if self._reader is None:
            if not _native.wait([self._answer], 1, timeout)[0]:
                return self._late(timeout)
            try:
                self._reader = _native.ItemReader(self._answer)
            except Exception:  # the call has failed before its first item: so says get() of its answer
                self._over = True
                return self._answer
        ref = self._reader.next(timeout)
        if ref is False:
            return self._late(timeout)
        if ref is None:
            self._over = True
            self._actor = None
        return ref

    @staticmethod
    def _late(timeout):
        from rayo.exceptions import GetTimeoutError

        raise GetTimeoutError(f"the next item of a generator was not there within {timeout} s")

    def _cancel(self, force, recursive):
        if self._over:
            return
        self._over = True
        self._seen = None
        if self._reader is not None:
            self._reader.cancel()
        elif _native.ready(self._answer):
            _drop(self._answer)
        else:
            _native.cancel(self._answer, force, recursive)

    def __del__(self):
        try:
            if not self._over and _native.is_initialized():
                self._cancel(False, True)
        except Exception:  # at the end of the interpreter there may be nothing left to tell
            pass

    def __reduce__(self):
        raise TypeError("an ObjectRefGenerator stays where it was made: pass the refs that it gives")

    def __repr__(self):
        return f"ObjectRefGenerator({self._answer.hex()})"


def _drop(answer):
    """The items of a generator that nobody has begun to read are not wanted: it hears that once it is linked to us."""
    import threading

    def drop():
        try:
            reader = _native.ItemReader(answer)
            reader.next(10.0)
            reader.cancel()
        except Exception:  # it has ended
            pass

    threading.Thread(target=drop, name="rayo-drop", daemon=True).start()


def _check_ref(ref, where):
    if not isinstance(ref, ObjectRef):
        raise TypeError(f"{where} takes ObjectRefs, not {type(ref).__name__}: it is what .remote() and put() answer")


get = _native.get


def put(value):
    """Stores a value in the cluster and answers its ref. For what several calls use: it is packed and moved once.

        weights = ray.put(numpy.zeros(10_000_000))
        ray.get([score.remote(weights, part) for part in parts])
    """
    _require_session()
    if isinstance(value, ObjectRef):
        raise TypeError("put of an ObjectRef: it is in the cluster already. To put a ref inside a value, put it in a list.")
    return _native.put(value)


def wait(ray_waitables, *, num_returns=1, timeout=None, fetch_local=True):
    """(ready, not ready): waits until `num_returns` of the refs have a value or an error, or `timeout` seconds are over.

    Both lists keep the order of `ray_waitables`; `ready` has at most `num_returns`. Refs must be different. Of an empty list
    both are empty. `fetch_local` is Ray's and changes nothing: a value is brought when it is read.

        ready, pending = ray.wait(refs, num_returns=2, timeout=1.0)

    An ObjectRefGenerator may stand among the refs: it is ready when its next ref is there.
    """
    _require_session()
    if isinstance(ray_waitables, ObjectRef) or not isinstance(ray_waitables, (list, tuple)):
        raise TypeError("wait takes a list of ObjectRefs")
    for ref in ray_waitables:
        if not isinstance(ref, ObjectRefGenerator):
            _check_ref(ref, "wait")
    if timeout is not None and timeout < 0:
        raise ValueError(f"timeout is {timeout}: it must be a number of seconds from 0, or None")
    if not ray_waitables:
        return [], []
    if len(set(ray_waitables)) != len(ray_waitables):
        raise ValueError("wait takes each ObjectRef once")
    if not 0 < num_returns <= len(ray_waitables):
        raise ValueError(f"num_returns is {num_returns}: it must be from 1 to the number of refs, {len(ray_waitables)}")
    if any(isinstance(ref, ObjectRefGenerator) for ref in ray_waitables):
        flags = _wait_for_some(ray_waitables, num_returns, timeout)
    else:
        flags = _native.wait(list(ray_waitables), num_returns, timeout)
    ready, pending = [], []
    for ref, is_ready in zip(ray_waitables, flags):
        (ready if is_ready and len(ready) < num_returns else pending).append(ref)
    return ready, pending


_POLL_S = 0.002  # nothing tells of refs and generators together


def _wait_for_some(waitables, num_returns, timeout):
    """wait() with generators among what is waited for: they are asked."""
    import time

    end = None if timeout is None else time.monotonic() + timeout
    refs = [ref for ref in waitables if isinstance(ref, ObjectRef)]
    while True:
        there = {ref for ref, yes in zip(refs, _native.wait(refs, len(refs), 0)) if yes}
        flags = [ref in there if isinstance(ref, ObjectRef) else ref.next_ready() for ref in waitables]
        if sum(flags) >= num_returns or (end is not None and time.monotonic() >= end):
            return flags
        time.sleep(_POLL_S)


def cancel(ray_waitable, *, force=False, recursive=True):
    """Ends a call whose result is not wanted any more: get() of it raises TaskCancelledError.

    One that has not started never will. A running task or method on its actor's main thread gets a KeyboardInterrupt, a
    coroutine a CancelledError; a method on a thread sees get_runtime_context().is_canceled(). `force` ends the process
    that runs a task, and is a ValueError for a call of an actor, whose process others need. `recursive`: what the call has
    called is cancelled too. Nothing happens where the value is there. Of several refs of one call (num_returns), any of them
    cancels it. Only the process that made the call can cancel it.

        ref = endless.remote()
        ray.cancel(ref)
    """
    if isinstance(ray_waitable, ObjectRefGenerator):
        if force and ray_waitable._actor is not None:
            raise _no_force()
        ray_waitable._cancel(force, recursive)
        return
    _check_ref(ray_waitable, "cancel")
    if _native.ready(ray_waitable):
        return
    whole, of_actor = _whole.get(ray_waitable, (None, ray_waitable._of_actor))
    if force and of_actor:
        raise _no_force()
    if whole is not None:
        _native.cancel(ObjectRef.adopt(whole), force, recursive)
    _native.cancel(ray_waitable, force, recursive)


# Of refs that are one item each of a call's result: (the result's id, whether an actor makes it). It lives until they are
# there.
_whole = weakref.WeakKeyDictionary()


def _no_force():
    error = ValueError("force=True is not supported for actor tasks.")  # in Ray's words
    error.add_note("try: cancel() without it; or kill(actor), which ends the actor's process")
    return error


_session = 0  # counts this process's sessions


def _begun():
    """A session has begun: what was stored for the one before is stored again when it is used."""
    global _session
    _session += 1


def _require_session():
    """The number of this process's session; one begins where there is none."""
    if not _native.is_initialized():
        from rayo._cluster import init

        init()
    return _session
