"""Actors: classes made remote, their handles and methods."""

import functools
import inspect
import json
import types

from rayo import _concurrency, _native, _serialization
from rayo._objects import ObjectRefGenerator, _require_session
from rayo._remote import (
    WITHOUT_EFFECT,
    Exported,
    check_counts,
    checked_returns,
    children_here,
    makes_items,
    native_options,
    own_environment,
    split,
    strategy_options,
    types_to_retry,
)
from rayo._signature import Signature

# Options of an actor: Ray's name -> the native part's; None: read in this file.
_ACTOR_OPTIONS = {
    "num_cpus": "num_cpus",
    "num_gpus": "num_gpus",
    "memory": "memory",
    "resources": "resources",
    "label_selector": "labels",
    "name": "name",
    "namespace": "namespace",
    "get_if_exists": "get_if_exists",
    "max_restarts": "max_restarts",
    "max_task_retries": "max_call_retries",
    "lifetime": None,
    "max_pending_calls": "max_pending_calls",
    "max_concurrency": None,
    "concurrency_groups": None,
    "scheduling_strategy": None,
    "runtime_env": None,
    "allow_out_of_order_execution": None,  # without effect: calls of one process start in their order
    "enable_task_events": None,  # without effect, as of tasks
}

# Of a method: read in this file.

_METHOD_OPTIONS = {
    "num_returns": None,
    "concurrency_group": None,
    "max_task_retries": None,
    "retry_exceptions": None,
    "name": None,  # without effect: a method is told by its own name
    **WITHOUT_EFFECT,
}


def method(*args, **kwargs):
    """Options of one method of an actor class.

        @ray.remote(concurrency_groups={"io": 2})
        class Store:
            @ray.method(num_returns=2)
            def halves(self): ...

            @ray.method(concurrency_group="io", retry_exceptions=[OSError], max_task_retries=3)
            def fetch(self, key): ...

    `retry_exceptions` (True, or types of errors): the method runs again after them, as often as its `max_task_retries` or
    the actor's says.
    """
    if len(args) == 1 and callable(args[0]) and not kwargs:  # @ray.method, for readers and type checkers alone
        return args[0]
    if args:
        raise TypeError("method takes options by name: @ray.method(num_returns=2)")
    native_options(kwargs, _METHOD_OPTIONS, "a method")

    def mark(function):
        function._rayo_num_returns = checked_returns(kwargs.get("num_returns"), function)
        if (group := kwargs.get("concurrency_group")) is not None:
            function._rayo_concurrency_group = group
        if types := types_to_retry(kwargs.get("retry_exceptions")):
            if makes_items(function):
                raise ValueError("retry_exceptions: the items of a generator are not made again")
            function._rayo_again = (kwargs.get("max_task_retries"), types)
        return function

    return mark


# Where the methods of a named actor are looked up: some answer several values, or items.
_METHODS = "methods "


class ActorClassInheritanceException(TypeError):
    """A class was derived from an actor class."""


class ActorClass:
    """A class whose instances are actors: C.remote(...) makes one and answers its ActorHandle at once. What its constructor
    raises is the cause of the ActorDiedError of its calls.

        @ray.remote
        class Counter: ...

        counter = Counter.options(name="hits", max_restarts=1).remote()
    """

    __class_getitem__ = classmethod(types.GenericAlias)

    def __init__(self, cls, options=None, exported=None):
        self._class = cls
        self._exported = exported or Exported(cls)
        self._options = dict(options or {})
        self._native = native_options(self._options, _ACTOR_OPTIONS, "an actor")
        check_counts(self._options, {"max_restarts": -1, "max_task_retries": -1, "max_pending_calls": -1})
        if self._native.get("max_pending_calls") == -1:  # Ray's word for no limit
            del self._native["max_pending_calls"]
        self._native.update(strategy_options(self._options.get("scheduling_strategy")))
        self._settings, self._native["max_concurrency"] = _concurrency.settings_of(
            cls, self._options.get("max_concurrency"), self._options.get("concurrency_groups")
        )
        if variables := own_environment(self._options.get("runtime_env"), "an actor"):
            self._settings = {**(self._settings or {}), "variables": variables}
        if any(hasattr(inspect.getattr_static(cls, name), "_rayo_again") for name in dir(cls)):
            self._settings = {**(self._settings or {}), "retries": self._options.get("max_task_retries") or 0}
        if self._options.get("name") == "":
            raise ValueError("name is empty: leave it out for an actor without a name")
        self._detached = self._native["detached"] = is_detached(self._options.get("lifetime"))
        self.__name__ = cls.__name__
        self.__qualname__ = cls.__qualname__
        self.__doc__ = cls.__doc__
        self.__module__ = cls.__module__

    def __call__(self, *args, **kwargs):
        name = self._class.__name__
        raise TypeError(f"{name} is an actor class: make one with {name}.remote(...)")

    def __mro_entries__(self, _):
        name = self._class.__name__
        raise ActorClassInheritanceException(
            f"{name} is an actor class, of which none can be derived: derive from the plain class, and make both remote"
        )

    def __getattr__(self, name):
        """What stands in the class and needs no instance: constants, static and class methods."""
        if name.startswith("__") or "_class" not in self.__dict__:
            raise AttributeError(name)
        found = getattr(self._class, name)
        if inspect.isfunction(found) and not isinstance(inspect.getattr_static(self._class, name), staticmethod):
            actor_class = self._class.__name__
            raise AttributeError(f"{actor_class}.{name} is a method of actors: {actor_class}.remote(...).{name}.remote(...)")
        return found

    def remote(self, *args, **kwargs):
        """Makes an actor; the arguments are the constructor's."""
        session = _require_session()
        signatures = _signatures_of(self._class)
        signatures["__init__"].check(args, kwargs)
        if self._detached:  # it outlives its job, and the classes stored for that: it brings its own
            key, args = _serialization.CARRIED, (self._exported.pickle(), *args)
        else:
            key, args = self._exported.key(session), self._exported.with_names(args)
        if self._settings is not None:
            key = f"{key}\n{json.dumps(self._settings)}"
        actor = _native.spawn(key, self._class.__name__, args, kwargs, self._native)
        methods = methods_of(self._class)
        if self._options.get("name") and any(returns != 1 for returns in methods.values()):
            _native.store(_METHODS + actor.hex(), json.dumps(methods).encode())
        handle = ActorHandle(actor, self._class.__name__, methods)
        handle._signatures = signatures
        return handle

    def options(self, **actor_options):
        """The same class with other options: Counter.options(name="hits").remote()."""
        return ActorClass(self._class, {**self._options, **actor_options}, self._exported)

    def __reduce__(self):
        return (ActorClass, (self._class, self._options))


@functools.lru_cache(maxsize=1000)
def _signatures_of(cls):
    """{method: Signature} of the constructor and what a handle may call."""
    found = {"__init__": Signature(cls) if cls.__init__ is object.__init__ else Signature(cls.__init__, bound=True)}
    for name in methods_of(cls):
        static = isinstance(inspect.getattr_static(cls, name), (staticmethod, classmethod))
        found[name] = Signature(getattr(cls, name), bound=not static)
    return found


def is_detached(lifetime):
    if lifetime not in (None, "non_detached", "detached"):
        raise ValueError(f"lifetime {lifetime!r} is not known: 'detached', or None for as long as a handle and its program")
    return lifetime == "detached"


def methods_of(cls):
    """{name: num_returns} of what a handle may call."""
    found = {}
    for name in dir(cls):
        member = inspect.getattr_static(cls, name)
        function = member.__func__ if isinstance(member, (staticmethod, classmethod)) else member
        if inspect.isroutine(function) and (not name.startswith("__") or name == "__call__"):
            found[name] = getattr(function, "_rayo_num_returns", None) or checked_returns(None, function)
    return found


# The language of an actor. UNKNOWN: its handle came from C++, and the cluster is asked when it is used.
PYTHON, CPP, UNKNOWN = "Python", "C++", None

# What every actor answers besides the methods of its class (_worker.py).
_OWN_METHODS = frozenset({"__ray_ready__", "__ray_call__", "__ray_terminate__"})


class ActorMethod:
    """One method of one actor: handle.add.remote(3)."""

    __slots__ = ("_handle", "_name", "_num_returns")

    def __init__(self, handle, name, num_returns):
        self._handle = handle
        self._name = name  # "NAME", or "NAME\nGROUP" where the call names its concurrency group
        self._num_returns = num_returns

    def remote(self, *args, **kwargs):
        """Calls the method; calls of one process to one actor start in the order they were made."""
        if self._handle._language == CPP:
            return self._call_by_name(args, kwargs)
        if (signatures := self._handle._signatures) is not None:
            signature = signatures.get(self._name) or signatures.get(self._name.partition("\n")[0])
            if signature is not None:
                signature.check(args, kwargs)
        items = self._num_returns == "streaming"
        ref = _native.call(self._handle._actor, self._name, args, kwargs, items, children_here())
        if items:
            return ObjectRefGenerator(ref, self._handle)
        return ref if self._num_returns == 1 else split(ref, self._num_returns)

    def _call_by_name(self, args, kwargs):
        what = f"{self._handle._class_name}.{self._name}"
        if kwargs:
            raise TypeError(f"{what} is C++, where arguments have no names: pass {', '.join(kwargs)} by position")
        if "\n" in self._name or self._num_returns == "streaming":
            raise ValueError(f"{what.partition(chr(10))[0]} is C++: it has neither concurrency groups nor items for Python")
        ref = _native.call_named(self._handle._actor, self._name, args, what, children_here())
        return ref if self._num_returns == 1 else split(ref, self._num_returns)

    def options(self, **options):
        """The same method with other options: actor.fetch.options(concurrency_group="io").remote(key)."""
        native_options(options, _METHOD_OPTIONS, "a method")
        if options.get("retry_exceptions"):
            raise ValueError("retry_exceptions of a method stands where it is written: @ray.method(retry_exceptions=...)")
        returns = options.get("num_returns")
        name = self._name
        if (group := options.get("concurrency_group")) is not None:
            name = f"{name.partition(chr(10))[0]}\n{group}"
        return ActorMethod(self._handle, name, self._num_returns if returns is None else checked_returns(returns, None))

    def __call__(self, *args, **kwargs):
        raise TypeError(f"{self._name} is an actor's method: call it with .{self._name}.remote(...)")


class ActorID(str):
    """An actor's id as text, which hex() is too."""

    def hex(self):
        return str(self)

    def binary(self):
        return bytes.fromhex(self)


class ActorHandle:
    """A counted handle of an actor; it may be an argument or stand inside a value. The actor ends after its last handle
    and its calls, at kill(), or with the program that made it; one of lifetime="detached" at kill() alone.

        counter = Counter.remote()
        ref = counter.add.remote(3)         # an ObjectRef; calls of one process run in their order
        print(ray.get(ref))                 # ActorDiedError where the actor has ended, with how in its `death`
    """

    __class_getitem__ = classmethod(types.GenericAlias)

    def __init__(self, actor, class_name, methods, language=PYTHON):
        self._actor = actor
        self._class_name = class_name
        self._methods = methods
        self._language = language
        self._signatures = None  # {method: Signature} where the class is known

    def __getattr__(self, name):
        if self.__dict__.get("_language", PYTHON) == UNKNOWN and not name.startswith("__"):
            self._class_name, self._methods, self._language = _facts(*_native.look_up(self._actor))
        if name in _OWN_METHODS and self._language == PYTHON:
            return ActorMethod(self, name, 1)
        if name.startswith("_") and name != "__call__" and name not in self.__dict__.get("_methods", ()):
            raise AttributeError(name)
        methods = self._methods
        if methods and name not in methods:
            there = f": it has {', '.join(sorted(methods))}" if self._language == CPP else ""
            raise AttributeError(f"actor class {self._class_name!r} has no method {name!r}{there}")
        return ActorMethod(self, name, methods.get(name, 1))

    def __dir__(self):
        return sorted({*super().__dir__(), *self._methods})

    @property
    def _actor_id(self):
        return ActorID(self._actor.hex())

    def __copy__(self):
        return self

    def __deepcopy__(self, _):
        return self

    def __repr__(self):
        return f"Actor({self._class_name}, {self._actor.hex()})"

    def __eq__(self, other):
        return isinstance(other, ActorHandle) and self._actor.binary() == other._actor.binary()

    def __hash__(self):
        return hash(self._actor.binary())

    def __reduce__(self):
        binary = self._actor.binary()
        notes = _serialization.noted("an ActorHandle")
        notes.actors.append(binary)
        notes.handles.append(self)
        return (_restore, (binary, self._class_name, self._methods, self._language))


def _restore(binary, class_name, methods, language):
    return ActorHandle(_native.Actor.adopt(binary), class_name, methods, language)


def _foreign(actor):
    """The handle of an actor that came inside a value of another language; called by the native part."""
    return ActorHandle(actor, "", {}, UNKNOWN)


def _facts(actor, class_name, is_python):
    """(class, methods, language) of an actor that somebody else made."""
    if not is_python:
        return class_name, {}, CPP
    methods = _native.load(_METHODS + actor.hex())  # of this job's actors; None: all of them answer one value
    return class_name, json.loads(methods) if methods else {}, PYTHON


def current_handle(actor_id):
    from rayo import _worker

    cls = _worker.actor_class()
    return ActorHandle(_native.Actor.of_hex(actor_id), cls.__name__, methods_of(cls))


def get_actor(name, namespace=None):
    """An ActorHandle of the living actor of that name, in this program's namespace or another one; ValueError where there is
    none.

        hits = ray.get_actor("hits")
        print(ray.get(hits.add.remote(1)))
    """
    _require_session()
    actor, *known = _native.find_actor(name, namespace or "")
    return ActorHandle(actor, *_facts(actor, *known))


def kill(actor, *, no_restart=True):
    """Ends an actor now, for good: running and waiting calls raise ActorDiedError. With `no_restart=False` this life alone ends: what
    is left of max_restarts applies, and calls that have not begun wait for the next one.

        ray.kill(ray.get_actor("hits"))
    """
    if not isinstance(actor, ActorHandle):
        raise TypeError(f"kill takes an ActorHandle, not {type(actor).__name__}")
    _native.kill_actor(actor._actor, bool(no_restart))
