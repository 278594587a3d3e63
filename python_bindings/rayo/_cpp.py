"""Actors and functions that are written in C++: rayo.cpp("./counter").Counter.remote().

A C++ program of Rayo is its own description: asked by name, it says which classes, methods and functions it has (what it
calls itself, and what it lists with rayo::expose and rayo::expose_functions). It is shipped by content hash as a driver's
program is, and its workers run it; in the cluster it has a job of its own, which ends with this program's.
"""

import os
import re

from rayo import _actor, _native, _remote
from rayo._objects import _require_session

# FunctionKind of <rayo/internal/registry.h>.
_FUNCTION, _METHOD, _CONSTRUCTOR = range(3)

# Options that mean something to Python alone.
_OF_PYTHON = {"concurrency_groups", "max_calls", "retry_exceptions", "_generator_backpressure_num_objects"}


def cpp(program):
    """The classes and functions of a C++ program, to be called from here; `program` is the path of its executable.

        counter = ray.cpp("./build/release/bin/counter").Counter.options(name="hits").remote()
        print(ray.get(counter.add.remote(3)))
        half = ray.cpp("./build/release/bin/counter").half
        print(ray.get(half.remote(3.0)))

    Arguments and results are values that both languages have: None, bool, int, float, str, bytes, lists and tuples (a C++
    struct is the tuple of its members), dicts, sets, dataclasses, one-dimensional arrays of numbers, ObjectRefs (which
    stand for their value) and ActorHandles. Arguments go by position. What has no such form is a CrossLanguageError at the
    call; what C++ cannot take or throws is raised by get(), with the argument or the C++ type named.

    ValueError where the file is no executable program.
    """
    return CppProgram(program)


class CppProgram:
    """What rayo.cpp() answers: its attributes are the program's classes and functions. One in a namespace is found by its
    last name, and in full as program["shop::Counter"]; dir(program) shows them."""

    def __init__(self, path):
        self._path = os.path.abspath(os.path.expanduser(os.fspath(path)))
        self._opened = None  # (this program's job, the C++ program's)
        self._things = None

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return CppRemote(self, name)

    def __getitem__(self, name):
        return CppRemote(self, name)

    def __dir__(self):
        return sorted(_short(name) for name in self._description())

    def __repr__(self):
        return f"rayo.cpp({self._path!r})"

    def __reduce__(self):
        self._description()
        return (_restore, (self._path, self._opened, self._things))

    def _job(self):
        """The job in whose workers the program runs."""
        _require_session()
        own = _native.context()["job_id"]
        if self._opened is None or (self._opened[0] != own and not self._travelled()):
            self._opened = (own, _native.open_program(self._path))
            self._things = None
        return self._opened[1]

    def _travelled(self):
        return False

    def _description(self):
        """{full name: _Function or _Class}."""
        job = self._job()
        if self._things is None:
            self._things = _things(_native.value_of(_native.describe_program(job), None))
        return self._things

    def _find(self, name):
        things = self._description()
        if name in things:
            return things[name]
        found = [full for full in things if full.endswith("::" + name)]
        if len(found) == 1:
            return things[found[0]]
        if found:
            raise AttributeError(f"{name!r} is {' or '.join(sorted(found))} of {self._path}: say which, as program[{found[0]!r}]")
        there = ", ".join(sorted(things)) or "nothing: it lists what it has with rayo::expose and rayo::expose_functions"
        raise AttributeError(f"the C++ program {self._path} has no {name!r}; it has {there}")


class _Arrived(CppProgram):
    """One that came from another process: the path need not be there."""

    def _travelled(self):
        return True


def _restore(path, opened, things):
    program = _Arrived(path)
    program._opened, program._things = opened, things
    return program


class _Function:
    def __init__(self, name):
        self.name = name
        self.signatures = []


class _Class:
    def __init__(self, name):
        self.name = name
        self.constructors = []
        self.methods = {}  # name: signatures


def _things(described):
    things = {}
    for kind, owner, name, parameters, _, result in described:
        if kind == _FUNCTION:
            things.setdefault(name, _Function(name)).signatures.append(f"{_short(name)}{_told(parameters)}")
        elif kind == _CONSTRUCTOR:
            things.setdefault(name, _Class(name)).constructors.append(f"{_short(name)}{_told(parameters)}")
        else:
            cls = things.setdefault(owner, _Class(owner))
            cls.methods.setdefault(name, []).append(f"{name}{_told(parameters)} -> {_told(result)}")
    return things


def _short(name):
    return re.sub(r"^.*::(?=[^:<>]+(<.*>)?$)", "", name)


def _told(types):
    return types.replace("std::__cxx11::basic_string<char>", "std::string")


class CppRemote:
    """A class or function of a C++ program: .remote(...) makes an actor of the one and runs the other as a task."""

    def __init__(self, program, name, options=None):
        self._program = program
        self._name = name
        self._options = dict(options or {})

    def remote(self, *args, **kwargs):
        """An ActorHandle of a class, an ObjectRef of a function; arguments by position."""
        thing = self._program._find(self._name)
        if kwargs:
            raise TypeError(f"{thing.name} is C++, where arguments have no names: pass {', '.join(kwargs)} by position")
        make = self._spawn if isinstance(thing, _Class) else self._submit
        return make(thing, args)

    def options(self, **options):
        """The same with options of an actor or task: program.Counter.options(name="hits", num_cpus=1).remote()."""
        return CppRemote(self._program, self._name, {**self._options, **options})

    def __call__(self, *args, **kwargs):
        raise TypeError(f"{self._name} runs in the cluster: call it with {self._name}.remote(...)")

    def __repr__(self):
        return f"{self._program!r}[{self._name!r}]"

    def __reduce__(self):
        return (CppRemote, (self._program, self._name, self._options))

    def _native_options(self, known, what):
        if wrong := sorted(_OF_PYTHON & {name for name, value in self._options.items() if value is not None}):
            raise TypeError(f"{self._name} is C++, which has no option {wrong[0]!r}")
        native = _remote.native_options(self._options, known, what)
        native.update(_remote.strategy_options(self._options.get("scheduling_strategy")))
        return native

    def _spawn(self, cls, args):
        if not cls.constructors:
            raise TypeError(f"{cls.name} of C++ cannot be made by name: its program lists how, rayo::expose<{cls.name}, rayo::constructor<...>>")
        native = self._native_options(_actor._ACTOR_OPTIONS, "an actor")
        native["max_concurrency"] = self._options.get("max_concurrency")
        native["detached"] = _actor.is_detached(self._options.get("lifetime"))
        native["environment"] = _remote.own_environment(self._options.get("runtime_env"), "an actor")
        actor = _native.spawn_named(self._program._job(), cls.name, args, native)
        return _actor.ActorHandle(actor, cls.name, {name: 1 for name in cls.methods}, _actor.CPP)

    def _submit(self, function, args):
        if self._options.get("runtime_env"):
            raise ValueError(f"runtime_env of {self._name}: an actor of C++ can have one, a function cannot")
        options = dict(self._options)
        returns = _remote.checked_returns(options.pop("num_returns", None) or 1, None)
        if returns == "streaming":
            raise ValueError(f"{self._name} is C++, which makes no items for Python: num_returns='streaming' is not there")
        native = CppRemote(self._program, self._name, options)._native_options(_remote._TASK_OPTIONS, "a task")
        ref = _native.submit_named(self._program._job(), function.name, args, native, _remote.children_here())
        return ref if returns == 1 else _remote.split(ref, returns)
