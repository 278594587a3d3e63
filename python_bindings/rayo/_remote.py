"""The remote decorator and tasks."""

import functools
import hashlib
import inspect

import cloudpickle

from rayo import _native
from rayo._objects import _require_session

# Options of a task: Ray's name -> ours; None: accepted and without effect here.
_TASK_OPTIONS = {
    "num_cpus": "num_cpus",
    "num_gpus": "num_gpus",
    "memory": "memory",
    "resources": "resources",
    "label_selector": "labels",
    "scheduling_strategy": None,
    "max_retries": None,
    "max_calls": None,
    "retry_exceptions": None,
    "runtime_env": None,
    "name": None,
}


class Exported:
    """A function or class as the workers of this job find it: stored once a session under a hash of its pickle."""

    def __init__(self, value):
        self.value = value
        self._pickle = None
        self._key = None
        self._job = None

    def key(self):
        job = _native.context()["job_id"]
        if self._job != job:
            if self._pickle is None:
                from rayo import _serialization

                try:
                    self._pickle = cloudpickle.dumps(self.value)
                except Exception as error:
                    _serialization._explain(self.value, error)
                    raise
                self._key = hashlib.sha256(self._pickle).hexdigest()[:32]
            _native.store(self._key, self._pickle)
            self._job = job
        return self._key


def native_options(given, known, what):
    """The options for the native part; TypeError for a name that nobody knows."""
    options = {}
    for name, value in given.items():
        if name not in known:
            raise TypeError(f"{what} has no option {name!r}. Options: {', '.join(sorted(known))}")
        if known[name] is not None and value is not None:
            options[known[name]] = value
    return options


def strategy_options(strategy):
    """scheduling_strategy as options of the native part."""
    if strategy is None or strategy in ("DEFAULT", "SPREAD"):
        return {}
    if hasattr(strategy, "node_id"):
        return {"node": strategy.node_id, "node_soft": bool(getattr(strategy, "soft", False))}
    raise TypeError(f"scheduling_strategy {strategy!r} is not known: 'DEFAULT', 'SPREAD' or NodeAffinitySchedulingStrategy")


class RemoteFunction:
    """A function that runs as a task: f.remote(...) answers an ObjectRef (or a list of them with num_returns > 1)."""

    def __init__(self, function, options=None, exported=None):
        functools.update_wrapper(self, function)
        self._function = function
        self._exported = exported or Exported(function)
        self._options = dict(options or {})
        self._num_returns = self._options.pop("num_returns", 1) or 1
        self._native = native_options(self._options, _TASK_OPTIONS, "a task")
        self._native.update(strategy_options(self._options.get("scheduling_strategy")))

    def __call__(self, *args, **kwargs):
        name = self._function.__name__
        raise TypeError(f"{name} is a remote function: call it with {name}.remote(...), or its plain form as {name}._function(...)")

    def remote(self, *args, **kwargs):
        """Starts the task; the arguments are the function's."""
        _require_session()
        ref = _native.submit(self._exported.key(), args, kwargs, self._native)
        return ref if self._num_returns == 1 else split(ref, self._num_returns)

    def options(self, **options):
        """The same function with other options: f.options(num_cpus=2).remote(...)."""
        merged = {**self._options, "num_returns": self._num_returns, **options}
        return RemoteFunction(self._function, merged, self._exported)

    def __reduce__(self):
        return (RemoteFunction, (self._function, {**self._options, "num_returns": self._num_returns}))


def _item(values, index, count):
    values = tuple(values)
    if len(values) != count:
        raise ValueError(f"the function answered {len(values)} values, num_returns is {count}")
    return values[index]


_item_exported = Exported(_item)


def split(ref, count):
    """One ref for each item of the value that `ref` will have."""
    return [_native.submit(_item_exported.key(), (ref, i, count), {}, {"num_cpus": 0}) for i in range(count)]


def remote(*args, **options):
    """Makes a function a task and a class an actor class.

        @ray.remote
        def half(x): ...

        @ray.remote(num_cpus=2, max_restarts=1)
        class Counter: ...
    """
    if len(args) == 1 and not options and callable(args[0]):
        return _make_remote(args[0], {})
    if args:
        raise TypeError("remote takes options by name: @ray.remote(num_cpus=2)")
    return lambda target: _make_remote(target, options)


def _make_remote(target, options):
    from rayo._actor import ActorClass

    if inspect.isclass(target):
        return ActorClass(target, options)
    if inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target):
        raise TypeError("generator tasks come with a later version: answer a list, or put the items and answer their refs")
    if not callable(target):
        raise TypeError(f"remote makes tasks of functions and actors of classes; this is a {type(target).__name__}")
    return RemoteFunction(target, options)
