"""rayo.util: an actor pool, a queue, a process pool, serializers of your own, and strategies of placement."""

from rayo._serialization import deregister_serializer, inspect_serializability, register_serializer
from rayo.util.actor_pool import ActorPool
from rayo.util.completed import as_completed, map_unordered
from rayo.util.placement_group import (
    get_current_placement_group,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)

__all__ = [
    "ActorPool",
    "as_completed",
    "deregister_serializer",
    "get_current_placement_group",
    "get_node_ip_address",
    "get_placement_group",
    "inspect_serializability",
    "list_named_actors",
    "map_unordered",
    "placement_group",
    "placement_group_table",
    "register_serializer",
    "remove_placement_group",
]


def get_node_ip_address(address=None):
    """The address at which others reach this node."""
    from rayo import _cluster, _native, _objects

    _objects._require_session()
    return _cluster.ip_of(_native.context()["address"])


def list_named_actors(all_namespaces=False):
    """Names of living actors of this program's namespace; with `all_namespaces`, [{"name", "namespace"}] of all."""
    import rayo
    from rayo.util import state

    rows = [row for row in state.list_actors(limit=10_000) if row["name"] and row["state"] != "DEAD"]
    if all_namespaces:
        return [{"name": row["name"], "namespace": row["ray_namespace"]} for row in rows]
    here = rayo.get_runtime_context().namespace
    return [row["name"] for row in rows if row["ray_namespace"] == here]


def __getattr__(name):
    if name in ("multiprocessing", "queue", "scheduling_strategies", "state"):  # imported when they are asked for
        import importlib

        return importlib.import_module("rayo.util." + name)
    raise AttributeError(f"module 'rayo.util' has no attribute {name!r}")
