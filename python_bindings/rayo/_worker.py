"""What runs in a worker: `python3 -m rayo._worker`, started by a raylet. The native part calls the rest."""

import atexit
import contextvars
import functools
import gc
import json
import os
import pickle
import signal
import sys

from rayo import _cluster, _native, _remote, _serialization

_loaded = {}

# The call that runs here: (its ActorCall, or None on the main thread; weak refs of what it has called; its name, its function's).
_current = contextvars.ContextVar("rayo_call", default=None)


def load(key):
    """(the function or class that a driver or worker of this job stored under that key, its name)"""
    if key not in _loaded:
        pickled = _remote.load_large(key)
        if pickled is None:
            raise LookupError(f"the function {key} is not in the cluster: its program has ended")
        loaded = pickle.loads(pickled)
        _loaded[key] = (loaded, name_of(loaded))
    return _loaded[key]


def set_up():
    """What init(runtime_env=) named, and the modules beside the script; called once, before any code of the user."""
    for name in ("RAYO_WORKER", "RAYO_WORKER_ZYGOTE"):  # gone from the environment, not from what Python has read of it
        os.environ.pop(name, None)
    wanted = json.loads(os.environ.get("RAYO_PYTHON_PACKAGES", "[]"))
    script = os.environ.get("RAYO_PYTHON_SCRIPT")
    is_elsewhere = bool(script) and not os.path.exists(script)
    if not wanted and not is_elsewhere:
        return
    from rayo import _beside, _packages

    if is_elsewhere:
        sys.meta_path.append(_beside.Finder())
    for is_working_dir, place in _packages.unpack(wanted):
        sys.path.insert(0, place)
        if is_working_dir:
            os.chdir(place)


_carried = None  # what the function of the last such call names: held until that is loaded, and holds it itself


def fill_in(packed, values):
    """(args, kwargs) with the refs' values in their places."""
    if isinstance(packed, list):  # plain values alone
        return tuple(packed), {}
    args, kwargs = packed
    if args and type(args[-1]) is _remote.Names:
        global _carried
        _carried, args = args[-1], args[:-1]
    if values:
        args = tuple(values[a.index] if type(a) is _serialization.Placeholder else a for a in args)
        kwargs = {k: values[v.index] if type(v) is _serialization.Placeholder else v for k, v in kwargs.items()}
    return args, kwargs


name_of = _remote.name_of


# ---- calls ----


def begin_call(call, name, function_name):
    """Notes what this call calls from here on; answers the notes."""
    children = []
    _current.set((call, children, name, function_name))
    return children


def current_names():
    """(name, function's name) of the call that runs here; None outside of one."""
    current = _current.get()
    return None if current is None else current[2:]


def current_id():
    """Of the call that runs here where the main thread does not run it, else None."""
    current = _current.get()
    return None if current is None or current[0] is None else current[0].id


def children_here():
    """Where the call that runs here, if one does, notes what it calls: it is cancelled with it."""
    current = _current.get()
    return None if current is None else current[1]


def cancel_children(children):
    for child in children:
        if (ref := child()) is not None:
            _native.cancel(ref, False, True)


def is_cancelled():
    current = _current.get()
    if current is not None and current[0] is not None:
        return current[0].cancelled
    return _native.cancelled_here()[0]


def run(function, name, function_name, args, kwargs):
    begin_call(None, name, function_name)
    result = function(*args, **kwargs)
    return _finish(result) if hasattr(result, "__await__") else result


# What every actor answers besides its own methods, as in Ray.
_OWN = {
    "__ray_ready__": lambda actor: True,
    "__ray_call__": lambda actor, function, *args, **kwargs: function(actor, *args, **kwargs),
    "__ray_terminate__": lambda actor: exit_actor(),
}


def call_method(actor, name, args, kwargs):
    if name in _OWN:
        return _OWN[name](actor, *args, **kwargs)
    if not hasattr(actor, name):  # the caller did not see the class
        from rayo import _actor

        there = ", ".join(sorted(_actor.methods_of(type(actor)))) or "none"
        raise AttributeError(f"{name_of(type(actor))!r} has no method {name!r}: it has {there}")
    method = getattr(actor, name)
    if (again := getattr(method, "_rayo_again", None)) is not None:
        times, types = again
        method = _remote.Again(method, _retries if times is None else times, types)
    return method(*args, **kwargs)


def method_name(actor, name):
    return _method_name(type(actor), name)


@functools.lru_cache(maxsize=1000)
def _method_name(cls, name):
    return f"{name_of(cls)}.{name}"


def check_group(group):
    """ValueError where a call names a concurrency group that this actor does not have."""
    if group and group not in _groups:
        there = f"it has {', '.join(sorted(_groups))}" if _groups else "it has none"
        raise ValueError(f"the actor has no concurrency group {group!r}: {there}")


def run_method(actor, name, args, kwargs):
    name, _, group = name.partition("\n")
    check_group(group)
    if _current.get() is None or _current.get()[0] is None:
        what = method_name(actor, name)
        begin_call(None, what, what)
    try:
        result = call_method(actor, name, args, kwargs)
        return _finish(result) if hasattr(result, "__await__") else result
    except SystemExit as error:
        leave(error)


def construct(name, args, kwargs):
    """(the actor, {method: its queue}), for a name "KEY" or "KEY\\nSETTINGS"."""
    global _actor, _actor_class, _groups, _retries
    key, _, settings = name.partition("\n")
    if key == _serialization.CARRIED:
        (pickled, _names), *args = args
        cls = pickle.loads(pickled)
    else:
        cls, _ = load(key)
    _actor_class = cls
    what = f"{name_of(cls)}.__init__"
    begin_call(None, what, what)
    settings = json.loads(settings) if settings else {}
    os.environ.update(settings.get("variables", {}))
    _retries = settings.get("retries", 0)
    _groups = frozenset(settings.get("groups", ()))
    if "max" not in settings:
        _actor, queues = cls(*args, **kwargs), {}
    else:
        from rayo import _concurrency

        _actor, queues = _concurrency.start(cls, args, kwargs, settings)
    return _actor, queues


_actor = None  # that lives in this process
_actor_class = None
_groups = frozenset()  # of concurrency, by name
_retries = 0  # of methods with retry_exceptions that do not say themselves how often


def actor_class():
    """Of the actor that lives in this process."""
    return _actor_class


def make_items(items, writer):
    """Writes what a generator makes, until nobody reads any more."""
    if hasattr(items, "__aiter__"):
        items = _async_items(items)
    try:
        iterator = iter(items)
    except TypeError:
        raise TypeError(f"num_returns='streaming' wants a generator, and got a {type(items).__name__}") from None
    for item in iterator:
        if writer.write(item) != "taken":
            if hasattr(iterator, "close"):
                iterator.close()
            return


def _async_items(items):
    async def step():
        try:
            return await anext(items), True
        except StopAsyncIteration:
            return None, False

    while True:
        item, more = _finish(step())
        if not more:
            return
        yield item


_event_loop = None


def _finish(awaitable):
    """Coroutines of tasks run to their end, on one event loop a process."""
    global _event_loop
    import asyncio

    if isinstance(awaitable, _native.ObjectRef):
        return awaitable
    if _event_loop is None:
        _event_loop = asyncio.new_event_loop()
        asyncio.set_event_loop(_event_loop)

    async def wait():
        return await awaitable

    return _event_loop.run_until_complete(wait())


def exit_actor():
    """Ends the actor whose method calls this, for good."""
    actor_id = _native.context()["actor_id"]
    if actor_id is None:
        raise TypeError("exit_actor is for methods of actors: this code runs in none")
    clean_up(_actor)  # before anybody is told: what is told to end has not long
    _native.kill_actor(_native.Actor.of_hex(actor_id), True)
    os._exit(0)


def clean_up(actor):
    """At an actor's end in good order (no handle is left, exit_actor()): its __ray_shutdown__(), and what atexit was given."""
    try:
        if hasattr(actor, "__ray_shutdown__"):
            actor.__ray_shutdown__()
    except BaseException:  # the rest is done all the same
        import traceback

        traceback.print_exc()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()


def leave(error):
    """A method has called sys.exit(): with 0 or nothing as exit_actor(); else its process ends so, and may come back."""
    code = error.code
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    if not code:
        exit_actor()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _on_interrupt(_signum, _frame):
    """SIGINT in a worker: the caller of the call that runs has cancelled it, or it has ended meanwhile."""
    cancelled, recursive = _native.cancelled_here()
    if not cancelled:
        return
    if recursive and (current := _current.get()) is not None:
        cancel_children(current[1])
    raise KeyboardInterrupt("the call was cancelled")


def _drivers_path():
    """The driver's sys.path; for another interpreter than the driver's, without what belongs to that one."""
    told = json.loads(os.environ.get("RAYO_PYTHON_PATH", "{}"))
    if not told:
        return []
    return told["path"] if told["interpreter"] == sys.executable else [p for p in told["path"] if p not in told["own"]]


def main():
    sys.stdout.reconfigure(line_buffering=True)
    path = _drivers_path()
    sys.path[:] = path + [entry for entry in sys.path if entry not in path]
    sys.argv = [sys.argv[0]]
    signal.signal(signal.SIGINT, _on_interrupt)
    atexit.unregister(_cluster.shutdown)  # a worker leaves no cluster (clean_up)
    gc.collect()
    gc.freeze()  # what is here now is shared with the zygote; a child's collector leaves it alone
    _native.serve([sys.executable, "-m", "rayo._worker"])


if __name__ == "__main__":
    from rayo import _worker

    _worker.main()
