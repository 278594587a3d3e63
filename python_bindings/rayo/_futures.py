"""Futures of refs: for threads (ref.future()) and for event loops (await ref). No thread a ref: replies are taken in by
one thread, and a loop hears of its refs through a descriptor that it watches."""

import asyncio
import concurrent.futures
import itertools
import threading
import weakref

from rayo import _native

_tokens = itertools.count(1)


def _settle(future, ref):
    """Gives `future` what `ref`, which is there, has."""
    if future.done():  # cancelled by who waited
        return
    try:
        value = _native.value_of(ref, None)
    except BaseException as error:
        error.__traceback__ = None  # of this function; the one of the other side is in its text
        future.set_exception(RuntimeError(str(error)) if isinstance(error, StopIteration) else error)
    else:
        future.set_result(value)


class _Thread:
    """concurrent.futures.Future of refs; waits in the engine while any ref of this process is awaited."""

    def __init__(self):
        self._completions = _native.Completions()
        self._futures = {}  # token: (future, ref)
        self._lock = threading.Lock()
        self._loops = weakref.WeakSet()
        self._running = False
        self._thread = None

    def ensure(self, loop=None):
        with self._lock:
            if loop is not None:
                self._loops.add(loop)
            if not self._running:
                self._running = True
                self._thread = threading.Thread(target=self._serve, name="rayo-futures", daemon=True)
                self._thread.start()

    def future(self, ref):
        future = concurrent.futures.Future()
        future.set_running_or_notify_cancel()
        token = next(_tokens)
        self._futures[token] = (future, ref)
        self._completions.watch(ref, token)
        self.ensure()
        return future

    def leave(self, end_session):
        """Ends the session; who waits hears of it before this returns."""
        waits = self._running and _native.Completions.any_watched()
        end_session()
        if waits:
            self._thread.join(timeout=2)

    def _serve(self):
        try:
            while True:
                for token in self._completions.wait():
                    future, ref = self._futures.pop(token)
                    _settle(future, ref)
        except BaseException as error:  # the session has ended
            with self._lock:
                self._running = False
                loops = list(self._loops)
                futures = [self._futures.pop(token)[0] for token in list(self._futures)]
            for future in futures:
                future.set_exception(error)
            for loop in loops:
                loop.fail(error)


class _Loop:
    """Futures of one event loop."""

    def __init__(self, loop):
        self._loop = loop
        self._completions = _native.Completions()
        self._futures = {}
        loop.add_reader(self._completions.fileno(), self._take)

    def future(self, ref):
        future = self._loop.create_future()
        if _native.ready(ref):
            _settle(future, ref)
            return future
        token = next(_tokens)
        self._futures[token] = (future, ref)
        self._completions.watch(ref, token)
        thread().ensure(self)
        return future

    def _take(self):
        for token in self._completions.take():
            if (waiting := self._futures.pop(token, None)) is not None:
                _settle(*waiting)

    def fail(self, error):
        def tell():
            for token in list(self._futures):
                future, _ = self._futures.pop(token)
                if not future.done():
                    future.set_exception(error)

        try:
            self._loop.call_soon_threadsafe(tell)
        except RuntimeError:  # the loop is closed: nobody waits
            pass


_thread = None
_loops = weakref.WeakKeyDictionary()
_making = threading.Lock()


def thread():
    global _thread
    if _thread is None:
        with _making:
            _thread = _thread or _Thread()
    return _thread


def of_thread(ref):
    return thread().future(ref)


def of_loop(ref):
    loop = asyncio.get_running_loop()
    mine = _loops.get(loop)
    if mine is None:
        mine = _loops[loop] = _Loop(loop)
    return mine.future(ref)
