"""Actors that run several calls at a time: on one asyncio event loop (classes with a coroutine among their methods), or on
threads (max_concurrency over 1, concurrency groups).

The driver's side makes the settings that travel with the constructor; the worker's side starts the loop or the threads,
which take calls from queues that the native part fills (python_bindings/native/calls.h).
"""

import contextlib
import inspect
import threading

from rayo import _native

_ASYNC_DEFAULT = 1000  # calls of an asyncio actor at a time, as in Ray
_ENOUGH = 4096  # with groups: calls that stand in their queues


def settings_of(cls, max_concurrency, groups):
    """(settings or None, the native max_concurrency) of an actor of that class."""
    members = [inspect.getattr_static(cls, name) for name in dir(cls)]
    is_async = any(inspect.iscoroutinefunction(member) or inspect.isasyncgenfunction(member) for member in members)
    groups = dict(groups or {})
    for name, size in groups.items():
        if not isinstance(size, int) or size < 1:
            raise ValueError(f"concurrency_groups: {name!r} is {size!r}, and must be a number of calls from 1")
    count = max_concurrency or (_ASYNC_DEFAULT if is_async else 1)
    if not isinstance(count, int) or count < 1:
        raise ValueError(f"max_concurrency is {count!r}, and must be a number of calls from 1")
    methods = {}
    for name in dir(cls):
        group = getattr(inspect.getattr_static(cls, name), "_rayo_concurrency_group", None)
        if group is None:
            continue
        if group not in groups:
            raise ValueError(f"method {name!r} is in the concurrency group {group!r}, which the actor does not have")
        methods[name] = group
    if not is_async and count == 1 and not groups:
        return None, 1
    return {"async": is_async, "max": count, "groups": groups, "methods": methods}, _ENOUGH if groups else max(2, count)


def start(cls, args, kwargs, settings):
    """(the actor, {method: its queue}): made where its calls will run."""
    if settings["async"]:
        loop = _Loop(settings)
        return loop.make(cls, args, kwargs), {"": loop.queue}
    actor = cls(*args, **kwargs)
    queues = {"": _Threads(actor, settings["max"]).queue}
    for group, size in settings["groups"].items():
        queues["\n" + group] = _Threads(actor, size).queue
    for name, group in settings["methods"].items():
        queues[name] = queues["\n" + group]
    return actor, queues


def _what(actor, call):
    from rayo import _worker

    return _worker.method_name(actor, call.name.partition("\n")[0])


class _Threads:
    """A concurrency group: up to `count` threads, started as they are needed."""

    def __init__(self, actor, count):
        self.queue = _native.CallQueue()
        self._actor = actor
        self._count = count
        self._started = 0
        self._idle = 0
        self._lock = threading.Lock()
        self._start()

    def _start(self):
        self._started += 1
        self._idle += 1
        threading.Thread(target=self._serve, name=f"rayo-call-{self._started}", daemon=True).start()

    def _serve(self):
        while True:
            call = self.queue.take()
            with self._lock:
                self._idle -= 1
                if self._idle == 0 and self._started < self._count:
                    self._start()
            _run(self._actor, call)
            del call  # what it holds is not kept until the next one
            with self._lock:
                self._idle += 1


def _run(actor, call):
    from rayo import _worker

    what = _what(actor, call)
    try:
        _worker.begin_call(call, what, what)
        if call.cancelled:  # while it stood in the queue
            raise KeyboardInterrupt("the call was cancelled")
        args, kwargs = call.arguments()
        if not call.makes_items:
            call.answer(_worker.run_method(actor, call.name, args, kwargs))
            return
    except BaseException as error:  # whatever it is, it is the caller's
        call.fail(what, error)
        return
    _make_items(actor, call, what, args, kwargs)


def _make_items(actor, call, what, args, kwargs):
    from rayo import _worker

    try:
        writer = call.open_stream()
        try:
            _worker.make_items(_worker.run_method(actor, call.name, args, kwargs), writer)
        except BaseException as error:
            _native.fail_items(writer, what, error)
        else:
            _native.close_items(writer)
    finally:
        call.end()


class _Loop:
    """The event loop of an asyncio actor, on a thread of its own; its sync methods run on it too."""

    def __init__(self, settings):
        self.queue = _native.CallQueue()
        self.queue.tell_cancels()
        import asyncio  # not at the head: `import rayo` is to be quick

        self._actor = None
        self._tasks = {}
        self._groups = {name: asyncio.Semaphore(size) for name, size in settings["groups"].items()}
        self._methods = settings["methods"]
        bounded = settings["groups"] or settings["max"] == 1  # else the native part lets no more in
        self._rest = asyncio.Semaphore(settings["max"]) if bounded else contextlib.nullcontext()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._serve, name="rayo-asyncio", daemon=True).start()

    def _serve(self):
        import asyncio

        asyncio.set_event_loop(self._loop)
        self._loop.add_reader(self.queue.fileno(), self._take)
        self._loop.run_forever()

    def make(self, cls, args, kwargs):
        """The constructor runs on the loop, so that it may make tasks."""

        import asyncio

        async def construct():
            self._actor = cls(*args, **kwargs)
            return self._actor

        return asyncio.run_coroutine_threadsafe(construct(), self._loop).result()

    def _take(self):
        for call, cancel in self.queue.take_all():
            if cancel:
                if (task := self._tasks.get(call)) is not None:
                    task.cancel()
                continue
            task = self._tasks[call] = self._loop.create_task(self._run(call))
            task.add_done_callback(lambda _, call=call: self._tasks.pop(call, None))

    async def _run(self, call):
        from rayo import _worker

        name, _, group = call.name.partition("\n")
        what = _what(self._actor, call)
        children = _worker.begin_call(call, what, what)
        writer = None
        try:
            _worker.check_group(group)
            async with self._groups.get(group or self._methods.get(name), self._rest):
                args, kwargs = call.arguments()
                if call.makes_items:
                    writer = call.open_stream()
                result = _worker.call_method(self._actor, name, args, kwargs)
                if writer is not None:
                    await self._write_items(result, writer)
                    _native.close_items(writer)
                    call.end()
                    return
                if inspect.isawaitable(result) and not isinstance(result, _native.ObjectRef):
                    result = await result
                call.answer(result)
        except SystemExit as error:
            _worker.leave(error)
        except BaseException as error:  # whatever it is, it is the caller's
            if call.cancelled and call.cancels_children:
                _worker.cancel_children(children)
            if writer is None:
                call.fail(what, error)
                return
            try:
                await self._loop.run_in_executor(None, _native.fail_items, writer, what, error)
            finally:
                call.end()

    async def _write_items(self, items, writer):
        if hasattr(items, "__aiter__"):
            async for item in items:
                if not await self._write(item, writer):
                    await items.aclose()
                    return
            return
        for item in items:
            if not await self._write(item, writer):
                return

    async def _write(self, item, writer):
        wrote = writer.write(item, 0)
        if wrote == "full":  # the reader has to take some first
            wrote = await self._loop.run_in_executor(None, writer.write, item)
        return wrote == "taken"
