"""What runs in a worker: `python3 -m rayo._worker`, started by a raylet. The native part calls the rest."""

import gc
import json
import os
import sys

from rayo import _native, _serialization

_loaded = {}


def load(key):
    """The function or class that a driver or worker of this job stored under that key."""
    if key not in _loaded:
        pickled = _native.load(key)
        if pickled is None:
            raise LookupError(f"the function {key} is not in the cluster: its program has ended")
        import pickle

        _loaded[key] = pickle.loads(pickled)
    return _loaded[key]


def fill_in(packed, values):
    """(args, kwargs) with the refs' values in their places."""
    if isinstance(packed, list):  # plain values alone
        return tuple(packed), {}
    args, kwargs = packed
    if values:
        args = tuple(values[a.index] if type(a) is _serialization.Placeholder else a for a in args)
        kwargs = {k: values[v.index] if type(v) is _serialization.Placeholder else v for k, v in kwargs.items()}
    return args, kwargs


def name_of(function):
    """As a reader of an error knows it: without the functions around it."""
    return function.__qualname__.rpartition("<locals>.")[2]


def run(function, args, kwargs):
    result = function(*args, **kwargs)
    return _finish(result) if hasattr(result, "__await__") else result


def run_method(actor, name, args, kwargs):
    result = getattr(actor, name)(*args, **kwargs)
    return _finish(result) if hasattr(result, "__await__") else result


_event_loop = None


def _finish(awaitable):
    """Coroutines run to their end, on one event loop a process."""
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


def main():
    sys.stdout.reconfigure(line_buffering=True)
    path = json.loads(os.environ.get("RAYO_PYTHON_PATH", "[]"))
    sys.path[:] = path + [entry for entry in sys.path if entry not in path]
    sys.argv = [sys.argv[0]]
    gc.collect()
    gc.freeze()  # what is here now is shared with the zygote; a child's collector leaves it alone
    _native.serve([sys.executable, "-m", "rayo._worker"])


if __name__ == "__main__":
    from rayo import _worker

    _worker.main()
