"""Prints, as JSON, the names of Ray Core's Python API with their parameters: run by Ray's own Python.

    $(bench/peers/ray.sh) bench/peers/ray_signatures.py > tests/python/ray_signatures.json

Names and parameter lists are facts; nothing else of Ray is stored. A parameter is "name", "name=" where it has a default,
"*" before those by keyword alone, "*args" and "**kwargs"; self and private ones are left out, and so are the constructors
of what users do not make themselves.
"""

import inspect
import json

import ray
import ray.actor
import ray.exceptions
import ray.remote_function
import ray.runtime_context
import ray.util
import ray.util.multiprocessing
import ray.util.queue
import ray.util.scheduling_strategies
import ray.util.state
from ray._common import ray_option_utils

from signature_parameters import parameters

FUNCTIONS = """init shutdown is_initialized remote get put wait kill cancel get_actor method get_runtime_context nodes
cluster_resources available_resources get_gpu_ids timeline actor.exit_actor util.placement_group util.get_placement_group
util.remove_placement_group util.placement_group_table util.get_current_placement_group util.list_named_actors
util.register_serializer util.deregister_serializer util.get_node_ip_address util.state.list_actors util.state.list_nodes
util.state.list_tasks util.state.list_objects util.state.list_workers util.state.list_jobs
util.state.list_placement_groups util.state.summarize_tasks util.state.summarize_actors util.state.get_actor
util.state.get_node util.inspect_serializability""".split()

CLASSES = {
    "ObjectRef": ray.ObjectRef,
    "ObjectRefGenerator": ray.ObjectRefGenerator,
    "actor.ActorClass": ray.actor.ActorClass,
    "actor.ActorHandle": ray.actor.ActorHandle,
    "actor.ActorMethod": ray.actor.ActorMethod,
    "remote_function.RemoteFunction": ray.remote_function.RemoteFunction,
    "runtime_context.RuntimeContext": ray.runtime_context.RuntimeContext,
    "util.ActorPool": ray.util.ActorPool,
    "util.queue.Queue": ray.util.queue.Queue,
    "util.multiprocessing.Pool": ray.util.multiprocessing.Pool,
    "util.scheduling_strategies.NodeAffinitySchedulingStrategy":
        ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy,
    "util.scheduling_strategies.NodeLabelSchedulingStrategy":
        ray.util.scheduling_strategies.NodeLabelSchedulingStrategy,
    "util.scheduling_strategies.PlacementGroupSchedulingStrategy":
        ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy,
}


def resolve(root, name):
    for part in name.split("."):
        root = getattr(root, part)
    return root


def names_of(path, cls):
    made_by_users = path.startswith("util.")
    for name in sorted(vars(cls)):
        if not name.startswith("_") or (name == "__init__" and made_by_users):
            yield name, inspect.getattr_static(cls, name)


def main():
    names = {name: parameters(resolve(ray, name)) for name in FUNCTIONS}
    for path, cls in CLASSES.items():
        for name, member in names_of(path, cls):
            function = member.__func__ if isinstance(member, (staticmethod, classmethod)) else member
            names[f"{path}.{name}"] = None if isinstance(member, property) else parameters(function)
    for name in dir(ray.exceptions):
        if isinstance(getattr(ray.exceptions, name), type) and issubclass(getattr(ray.exceptions, name), Exception):
            names[f"exceptions.{name}"] = None
    for kind, known in {"task": ray_option_utils.task_options, "actor": ray_option_utils.actor_options}.items():
        for name in known:
            names[f"{kind} option {name}"] = None
    print(json.dumps({"ray": ray.__version__, "names": dict(sorted(names.items()))}, indent=0))


main()
