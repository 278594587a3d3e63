"""Joining a cluster, leaving it, and looking around in it."""

import atexit
import json
import os
import sys

from rayo import _native

_HERE = os.path.dirname(os.path.abspath(__file__))

# Arguments of Ray's init that have no meaning here and are taken without effect.
_IGNORED = {
    "include_dashboard", "dashboard_host", "dashboard_port", "configure_logging", "logging_level", "logging_format",
    "logging_config", "log_to_driver", "object_store_memory", "num_gpus", "allow_multiple", "enable_resource_isolation",
}


class ClientContext:
    """What init() answers: `address_info`, and a context manager that shuts down at its end."""

    def __init__(self, address_info):
        self.address_info = address_info

    def __getitem__(self, key):
        return self.address_info[key]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutdown()

    def __repr__(self):
        return f"ClientContext({self.address_info})"


def init(address=None, *, num_cpus=None, resources=None, namespace=None, ignore_reinit_error=False, runtime_env=None, **others):
    """Joins a cluster: `address` (HOST:PORT) or RAYO_ADDRESS; else the one that runs on this machine; else one of this
    program's own is started ("local" asks for that), and ends with it.

    num_cpus and resources are those of a cluster of this program's own. runtime_env: env_vars, working_dir and py_modules
    (paths that exist on the nodes).
    """
    for name in others:
        if name not in _IGNORED and not name.startswith("_"):
            raise TypeError(f"init has no argument {name!r}")
    if _native.is_initialized():
        if ignore_reinit_error:
            return ClientContext(_address_info())
        raise RuntimeError("rayo.init was called twice: call rayo.shutdown() first, or pass ignore_reinit_error=True")
    environment, path = _environment(runtime_env or {})
    options = {"namespace": namespace, "num_cpus": num_cpus, "resources": resources}
    if address not in (None, "auto", "local"):
        options["address"] = address
    before = dict(os.environ)
    os.environ.update(environment)
    # Workers find rayo where this process found it; their own path is the driver's.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [os.path.dirname(_HERE), before.get("PYTHONPATH", "")]))
    os.environ["RAYO_PYTHON_PATH"] = json.dumps(path)
    if "RAYO_BIN" not in before and os.path.exists(os.path.join(_HERE, "bin", "rayo")):
        os.environ["RAYO_BIN"] = os.path.join(_HERE, "bin")
    try:
        _native.init([sys.executable, "-m", "rayo._worker"], options)
    finally:
        os.environ.clear()
        os.environ.update(before)
    return ClientContext(_address_info())


def _environment(runtime_env):
    """(variables, sys.path) of the workers."""
    known = {"env_vars", "working_dir", "py_modules"}
    unknown = set(runtime_env) - known
    if unknown:
        raise ValueError(f"runtime_env has {', '.join(sorted(unknown))}: known here are {', '.join(sorted(known))}")
    path = [os.path.abspath(entry or os.getcwd()) for entry in sys.path]
    for module in runtime_env.get("py_modules") or []:
        path.insert(0, os.path.dirname(os.path.abspath(module)))
    if runtime_env.get("working_dir"):
        path.insert(0, os.path.abspath(runtime_env["working_dir"]))
    return {key: str(value) for key, value in (runtime_env.get("env_vars") or {}).items()}, path


def shutdown():
    """Leaves the cluster: the actors of this program end. A second init() works."""
    _native.shutdown()


def is_initialized():
    return _native.is_initialized()


def _address_info():
    context = _native.context()
    return {"address": context["address"], "node_id": context["node_id"], "cluster": context["cluster_name"]}


def nodes():
    """A dict for each node: NodeID, Alive, State, Address, Resources, Available, Labels ..."""
    return _native.nodes()


_NAMES = {"cpu": "CPU", "gpu": "GPU"}  # Ray's spelling


def _sum(key):
    total = {}
    for node in nodes():
        if node["State"] == "alive":
            for name, amount in node[key].items():
                name = _NAMES.get(name, name)
                total[name] = total.get(name, 0) + amount
    return total


def cluster_resources():
    """What all living nodes have together: {"CPU": 8.0, "memory": ..., ...}."""
    return _sum("Resources")


def available_resources():
    """What of it is free."""
    return _sum("Available")


def get_gpu_ids():
    """The devices that this task or actor holds, by UUID."""
    return _native.context()["devices"]


class RuntimeContext:
    """Where this code runs."""

    def __init__(self, record):
        self._record = record

    def get_node_id(self):
        return self._record["node_id"]

    def get_job_id(self):
        return self._record["job_id"]

    def get_worker_id(self):
        return self._record["worker_id"]

    def get_actor_id(self):
        """None outside of an actor."""
        return self._record["actor_id"]

    @property
    def namespace(self):
        return self._record["namespace"]

    @property
    def gcs_address(self):
        return self._record["address"]

    @property
    def was_current_actor_reconstructed(self):
        return self._record["incarnation"] > 1

    def get(self):
        return dict(self._record)


def get_runtime_context():
    """The RuntimeContext of the task, actor or driver that asks."""
    return RuntimeContext(_native.context())


atexit.register(_native.shutdown)
