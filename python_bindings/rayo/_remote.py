"""The remote decorator and tasks."""

import contextlib
import functools
import hashlib
import inspect
import numbers

from rayo import _native
from rayo._environment import in_environment
from rayo._objects import ObjectRefGenerator, _require_session, _whole
from rayo._signature import Signature

# Accepted, and without effect here: calls are noted in any case, and a generator's window is the same for all.
WITHOUT_EFFECT = dict.fromkeys(("enable_task_events", "_generator_backpressure_num_objects"))

# Options of a task: Ray's name -> the native part's; None: read in this file.
_TASK_OPTIONS = {
    "num_cpus": "num_cpus",
    "num_gpus": "num_gpus",
    "memory": "memory",
    "resources": "resources",
    "label_selector": "labels",
    "scheduling_strategy": None,
    "max_retries": "max_retries",
    "max_calls": "max_calls",
    "retry_exceptions": None,
    "runtime_env": None,
    "name": None,
    **WITHOUT_EFFECT,
}


# Bytes up to this size stand in the cluster's table themselves; of larger ones, the id of an object that holds them does,
# behind this mark (with which no pickle and no zip begins).
_LARGEST_STORED = 1 << 20
_LARGE = b"rayo object "


def store_large(key, content):
    """Stores bytes for this job; answers a ref that has to be kept, or None."""
    if len(content) <= _LARGEST_STORED or _native.context()["remote"]:  # a remote driver has no arena: this refuses
        _native.store(key, content)
        return None
    ref = _native.put(content)
    _native.store(key, _LARGE + ref.binary())
    return ref


def load_large(key):
    content = _native.load(key)
    if content is not None and content.startswith(_LARGE):
        return _native.value_of(_native.ObjectRef.adopt(content.removeprefix(_LARGE)), None)
    return content


class Names:
    """The refs and handles that a function names: the last argument of a call, which the worker takes off."""

    __slots__ = ("_names",)

    def __init__(self, names):
        self._names = names

    def __reduce__(self):
        return (Names, (self._names,))


class Exported:
    """A function or class as the workers of this job find it: stored once a session under a hash of its pickle. The refs and
    handles that it names (closed over, or globals) go with each call that may be the first to load it."""

    def __init__(self, value):
        self.value = value
        self._pickle = None  # (bytes, refs and handles that they name)
        self._key = None
        self._session = None
        self._large = None  # counted as long as this may be called

    def pickle(self):
        if self._pickle is None:
            from rayo import _serialization

            self._pickle = _serialization.dumps_code(self.value)
            self._key = hashlib.sha256(self._pickle[0]).hexdigest()[:32]
        return self._pickle

    def with_names(self, args):
        """The arguments of a call, with what the function names behind them; after key()."""
        names = self._pickle[1]
        return (*args, Names(names)) if names else args

    def key(self, session):
        if self._session != session:
            pickled, _ = self.pickle()
            self._large = store_large(self._key, pickled)
            self._session = session
        return self._key


def native_options(given, known, what):
    """The options for the native part; TypeError for a name that nobody knows."""
    options = {}
    for name, value in given.items():
        if name not in known:
            raise TypeError(f"{what} has no option {name!r}. Options: {', '.join(sorted(known))}")
        if known[name] is not None and value is not None:
            options[known[name]] = _label_rules(value) if known[name] == "labels" else value
    _check_amounts(options)
    return options


def _check_amounts(options):
    """TypeError or ValueError for what no node can be asked."""
    custom = options.get("resources", {})
    if not isinstance(custom, dict):
        raise TypeError(f"resources is {custom!r}: a dict, {{'name': amount}}")
    if own := _OF_THEIR_OWN & custom.keys():
        name = min(own)
        raise ValueError(f"resources has {name!r}: it has an option of its own, {_OPTION_OF[name]}")
    asked = {name: options[name] for name in ("num_cpus", "num_gpus", "memory") if name in options}
    for name, amount in [*asked.items(), *custom.items()]:
        if isinstance(amount, bool) or not isinstance(amount, numbers.Real):
            raise TypeError(f"{name} is {amount!r}: a number")
        if amount < 0:  # what is no number at all, or too large, the native part refuses with its limits
            raise ValueError(f"{name} is {amount!r}: a number from 0")
    if (gpus := options.get("num_gpus", 0)) > 1 and gpus != int(gpus):
        raise ValueError(f"num_gpus is {gpus}: a part of one device, or whole ones")


_OPTION_OF = {"CPU": "num_cpus", "cpu": "num_cpus", "GPU": "num_gpus", "gpu": "num_gpus", "memory": "memory"}
_OF_THEIR_OWN = _OPTION_OF.keys()


def check_counts(options, least):
    """ValueError where an option of `least` (name: its smallest value) is no whole number from there."""
    for name, smallest in least.items():
        value = options.get(name)
        if value is not None and (not isinstance(value, int) or value < smallest):
            raise ValueError(f"{name} is {value!r}: it is a whole number from {smallest}")


def _label_rules(selector):
    """{label: (values, whether it must be none of them)} of {"zone": "a", "disk": "!slow", "arch": "in(x, y)"}."""
    rules = {}
    for key, told in selector.items():
        negate = told.startswith("!")
        text = told.removeprefix("!")
        listed = text.startswith("in(") and text.endswith(")")
        rules[key] = ([value.strip() for value in text[3:-1].split(",")] if listed else [text], negate)
    return rules


def own_environment(runtime_env, what):
    """The variables that one task or actor asks for; the rest of an environment is the job's."""
    if not runtime_env:
        return None
    if others := sorted(set(runtime_env) - {"env_vars"}):
        raise ValueError(f"runtime_env of {what}: {', '.join(others)} can be given to init() alone; env_vars here too")
    return {name: str(value) for name, value in (runtime_env.get("env_vars") or {}).items()}


class _WithVariables:
    """A function that runs with variables of its own, to its last item where it makes some."""

    def __init__(self, function, variables):
        functools.update_wrapper(self, function)
        self._function = function
        self._variables = variables

    def __call__(self, *args, **kwargs):
        with in_environment(self._variables):
            result = self._function(*args, **kwargs)
        if inspect.isgenerator(result):
            return self._items(result)
        if inspect.isasyncgen(result):
            return self._async_items(result)
        return self._finish(result) if inspect.iscoroutine(result) else result

    def _items(self, items):
        with in_environment(self._variables):
            yield from items

    async def _async_items(self, items):
        with in_environment(self._variables):
            async for item in items:
                yield item

    async def _finish(self, coroutine):
        with in_environment(self._variables):
            return await coroutine


class Again:
    """A function or method that is called again when it raises (one of some types of) errors: so often; -1: without end."""

    def __init__(self, function, times, types):
        functools.update_wrapper(self, function)
        self._function = function
        self._times = times
        self._types = types

    def __call__(self, *args, **kwargs):
        if inspect.iscoroutinefunction(self._function):
            return self._call_coroutine(args, kwargs)
        for attempt in self._attempts():
            with attempt:
                return self._function(*args, **kwargs)

    async def _call_coroutine(self, args, kwargs):
        for attempt in self._attempts():
            with attempt:
                return await self._function(*args, **kwargs)

    def _attempts(self):
        """Contexts to run it in: each but the last swallows the errors after which it runs again."""
        left = self._times
        while left != 0:
            yield contextlib.suppress(self._types)
            left -= 1
        yield contextlib.nullcontext()


def types_to_retry(retry_exceptions):
    """What `except` takes, of True or a list of types; None: no error is run again."""
    if not retry_exceptions:
        return None
    return Exception if retry_exceptions is True else tuple(retry_exceptions)


def _wrapped(function, options):
    """The function as workers run it: with its variables, and again after errors."""
    if types := types_to_retry(options.get("retry_exceptions")):
        times = options.get("max_retries")
        function = Again(function, 3 if times is None else times, types)
    if variables := own_environment(options.get("runtime_env"), "a task"):
        function = _WithVariables(function, variables)
    return function


def strategy_options(strategy):
    """scheduling_strategy as options of the native part."""
    if strategy is None or strategy == "DEFAULT":
        return {}
    if strategy == "SPREAD":
        return {"spread": True}
    if hasattr(strategy, "hard"):
        from rayo.util.scheduling_strategies import DoesNotExist, NotIn

        negated = (NotIn, DoesNotExist)
        return {"labels": {key: (list(rule.values), isinstance(rule, negated)) for key, rule in strategy.hard.items()}}
    if hasattr(strategy, "node_id"):
        return {"node": strategy.node_id, "node_soft": bool(getattr(strategy, "soft", False))}
    raise TypeError(
        f"scheduling_strategy {strategy!r} is not known: 'DEFAULT', 'SPREAD', NodeAffinitySchedulingStrategy or "
        "NodeLabelSchedulingStrategy"
    )


class RemoteFunction:
    """A function that runs as a task: f.remote(...) answers an ObjectRef at once, a list of them with num_returns > 1, an
    ObjectRefGenerator of a generator. TypeError where the arguments do not fit.

        @ray.remote
        def half(x): ...

        ref = half.options(num_cpus=2, max_retries=0).remote(3)
    """

    def __init__(self, function, options=None, exported=None):
        functools.update_wrapper(self, function)
        self._function = function
        self._options = dict(options or {})
        wrapped = _wrapped(function, self._options)
        self._exported = Exported(wrapped) if exported is None or wrapped is not function else exported
        self._num_returns = checked_returns(self._options.pop("num_returns", None), function)
        check_counts(self._options, {"max_retries": -1, "max_calls": 0})
        self._native = native_options(self._options, _TASK_OPTIONS, "a task")
        self._native.update(strategy_options(self._options.get("scheduling_strategy")))
        if self._options.get("num_gpus") and self._options.get("max_calls") is None:
            self._native["max_calls"] = 1  # as in Ray: the memory that libraries keep on a device goes with the process
        self._task_name = self._options.get("name")
        self._submitted = self._told = None  # (key, name) and options as the native part takes them in the session of that number
        self._session = None
        self._signature = None  # made at the first call: many functions are never called

    def __call__(self, *args, **kwargs):
        name = self._function.__name__
        raise TypeError(f"{name} is a remote function: call it with {name}.remote(...), or its plain form as {name}._function(...)")

    def remote(self, *args, **kwargs):
        """Starts the task; the arguments are the function's."""
        session = _require_session()
        if self._signature is None:
            self._signature = Signature(self._function)
        self._signature.check(args, kwargs)
        if self._session != session:
            key, name = self._exported.key(session), self._task_name
            self._submitted = (f"{key}\n{name}", name) if name else (key, name_of(self._function))
            self._told = _native.TaskOptions(self._native)
            self._session = session
        items = self._num_returns == "streaming"
        args = self._exported.with_names(args)
        ref = _native.submit(self._submitted, args, kwargs, self._told, items, children_here())
        if items:
            return ObjectRefGenerator(ref)
        return ref if self._num_returns == 1 else split(ref, self._num_returns)

    def options(self, **task_options):
        """The same function with other options: f.options(num_cpus=2).remote(...)."""
        merged = {**self._options, "num_returns": self._num_returns, **task_options}
        plain = self._exported if self._exported.value is self._function else None
        return RemoteFunction(self._function, merged, plain)

    def __reduce__(self):
        return (RemoteFunction, (self._function, {**self._options, "num_returns": self._num_returns}))


def name_of(function):
    """As a reader of an error knows it: without the functions around it."""
    return getattr(function, "__qualname__", type(function).__name__).rpartition("<locals>.")[2]


def makes_items(function):
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def checked_returns(num_returns, function):
    """A number of refs, or "streaming"; what a function answers where nothing is said."""
    if num_returns is None:
        return "streaming" if makes_items(function) else 1
    if num_returns == "streaming" or (isinstance(num_returns, int) and num_returns >= 0):
        return num_returns
    raise ValueError(f"num_returns is {num_returns!r}: a number from 0, or 'streaming' for a generator")


def children_here():
    """In a worker, where the running call notes what it calls, which is cancelled with it; else None."""
    if not _in_worker:
        return None
    from rayo import _worker

    return _worker.children_here()


_in_worker = _native.is_worker()


def _item(values, index, count):
    values = tuple(values)
    if len(values) != count:
        raise ValueError(f"the function answered {len(values)} values, num_returns is {count}")
    return values[index]


_take_item = RemoteFunction(_item, {"num_cpus": 0, "name": "item"})


def split(ref, count):
    """One ref for each item of the value that `ref` will have; None where there are to be none."""
    if count == 0:
        return None
    items = [_take_item.remote(ref, i, count) for i in range(count)]
    _whole.update(dict.fromkeys(items, (ref.binary(), ref._of_actor)))
    return items


def remote(*args, **kwargs):
    """Makes a function a task and a class an actor class.

        @ray.remote
        def half(x): ...

        @ray.remote
        def squares(n):         # a generator: answers an ObjectRefGenerator
            yield from (i * i for i in range(n))

        @ray.remote(num_cpus=2, max_restarts=1)
        class Counter: ...
    """
    if len(args) == 1 and not kwargs and callable(args[0]):
        return _make_remote(args[0], {})
    if args:
        raise TypeError("remote takes options by name: @ray.remote(num_cpus=2)")
    return lambda target: _make_remote(target, kwargs)


def _make_remote(target, options):
    from rayo._actor import ActorClass

    if inspect.isclass(target):
        return ActorClass(target, options)
    if isinstance(target, (ActorClass, RemoteFunction)):
        raise TypeError(f"{target.__name__} is remote already: {target.__name__}.options(...) is the same with other options")
    if not callable(target):
        raise TypeError(f"remote makes tasks of functions and actors of classes; this is a {type(target).__name__}")
    return RemoteFunction(target, options)
