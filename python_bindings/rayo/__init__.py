"""Rayo: tasks, actors and shared-memory objects over a few machines, under Ray Core's names.

    import rayo as ray

    @ray.remote
    def half(x):
        return x / 2

    @ray.remote
    class Counter:
        def __init__(self):
            self.value = 0
        def add(self, n):
            self.value += n
            return self.value

    ray.init()                              # finds the cluster, or starts one of this program's own
    counter = Counter.remote()
    print(ray.get(half.remote(counter.add.remote(3))))   # 1.5: a ref is an argument, and waits for its value

A task is a function called with .remote(), an actor a class made with .remote(); both answer at once, with an ObjectRef
(or an ActorHandle). get() waits for the value and raises what was raised there. Options are given to the decorator,
@ray.remote(num_cpus=2), or to one use, half.options(num_cpus=2).remote(4). ray.cpp("./counter").Counter.remote() is an
actor that is written in C++.

Errors are in rayo.exceptions. docs/python.md lists what differs from Ray.
"""

from rayo import _interpreter

_interpreter.check()

from rayo import _native, exceptions
from rayo._actor import ActorClass, ActorHandle, get_actor, kill, method
from rayo._cluster import (
    available_resources,
    cluster_resources,
    get_gpu_ids,
    get_runtime_context,
    init,
    is_initialized,
    nodes,
    shutdown,
)
from rayo._cpp import cpp
from rayo._objects import ObjectRef, ObjectRefGenerator, cancel, get, put, wait
from rayo._remote import RemoteFunction, remote
from rayo._timeline import timeline

__version__ = _native.VERSION

__all__ = [
    "ActorClass",
    "ActorHandle",
    "ObjectRef",
    "ObjectRefGenerator",
    "RemoteFunction",
    "available_resources",
    "cancel",
    "cluster_resources",
    "cpp",
    "exceptions",
    "get",
    "get_actor",
    "get_gpu_ids",
    "get_runtime_context",
    "init",
    "is_initialized",
    "kill",
    "method",
    "nodes",
    "put",
    "remote",
    "shutdown",
    "timeline",
    "wait",
]


def __getattr__(name):
    if name in ("actor", "cloudpickle", "remote_function", "runtime_context", "runtime_env", "util"):  # imported when they are asked for
        import importlib

        return importlib.import_module("rayo." + name)
    raise AttributeError(f"module 'rayo' has no attribute {name!r}")
