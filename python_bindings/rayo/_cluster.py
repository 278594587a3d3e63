"""Joining a cluster, leaving it, and looking around in it."""

import atexit
import json
import os
import sys
import threading

from rayo import _beside, _native, _objects, exceptions
from rayo._environment import in_environment, worker_variables

_given = None  # the address that init() was called with


class ClientContext:
    """What init() answers: `address_info` ({"address" and "gcs_address" of the head, "node_ip_address", "node_id",
    "cluster"}), and a context manager that shuts down at its end. `dashboard_url` is "": there is none."""

    def __init__(self, address_info):
        self.address_info = address_info
        self.dashboard_url = ""
        self.python_version = sys.version.split()[0]

    def disconnect(self):
        """shutdown()."""
        shutdown()

    def __getitem__(self, key):
        return self.address_info[key]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutdown()

    def __repr__(self):
        return f"ClientContext({self.address_info})"


def init(
    address=None,
    *,
    num_cpus=None,
    num_gpus=None,
    resources=None,
    labels=None,
    object_store_memory=None,
    local_mode=False,
    ignore_reinit_error=False,
    include_dashboard=None,
    dashboard_host="127.0.0.1",
    dashboard_port=None,
    job_config=None,
    configure_logging=True,
    logging_level="info",
    logging_format=None,
    logging_config=None,
    log_to_driver=None,
    namespace=None,
    runtime_env=None,
    enable_resource_isolation=False,
    cgroup_path=None,
    system_reserved_cpu=None,
    system_reserved_memory=None,
    proxy_server_url=None,
    **kwargs,
):
    """Joins a cluster: `address` (HOST:PORT) or RAYO_ADDRESS; else the one that runs on this machine; else one of this
    program's own is started, and ends with it. "local" asks for one of its own whatever runs here, "auto" for one that runs
    already. A ConnectionError where no cluster answers.

    num_cpus, num_gpus, resources, labels and object_store_memory (bytes) are those of a cluster of this program's own; a
    ValueError where it joins another one, whose nodes were given theirs at `rayo start`. `log_to_driver=False`: what
    workers print is in `rayo logs` alone. runtime_env: env_vars, working_dir (a folder that workers run in a copy of,
    wherever they are), py_modules (folders of packages, or modules) and excludes (patterns of files that stay here);
    `config` is Ray's and without effect. `namespace` is where actors' names are looked for.
    The other arguments are Ray's and without effect.

        ray.init(num_cpus=4, labels={"zone": "a"}, namespace="shop")
    """
    global _given
    _refuse(address, local_mode, kwargs)
    if _native.is_initialized():
        if ignore_reinit_error:
            return ClientContext(_address_info())
        raise RuntimeError("rayo.init was called twice: call rayo.shutdown() first, or pass ignore_reinit_error=True")
    environment, packed = _environment(runtime_env or {})
    options = {
        "address": address,
        "namespace": namespace,
        "log_to_driver": log_to_driver,
        "num_cpus": num_cpus,
        "num_gpus": num_gpus,
        "resources": resources,
        "labels": labels,
        "object_store_memory": object_store_memory,
    }
    _given = None if address in (None, "auto", "local") else address
    script = _beside.script()
    on_main = threading.current_thread() is threading.main_thread()
    try:
        # Workers get a copy of the environment that this process has when it joins.
        with in_environment({**environment, **worker_variables(packed, script)}):
            _native.init([sys.executable, "-m", "rayo._worker"], options, on_main)
    except exceptions.RaySystemError as error:
        raise exceptions.ClusterConnectionError.of(error) from None
    _objects._begun()
    if packed:
        from rayo import _packages

        _packages.publish(packed)
    if script:
        _beside.publish(script[1])
    return ClientContext(_address_info())


def _refuse(address, local_mode, others):
    for name in others:
        if not name.startswith("_"):
            raise TypeError(f"init has no argument {name!r}")
    if local_mode:
        raise ValueError("local_mode is not there: a cluster of this program's own starts in half a second")
    if address is not None and address.startswith("ray://"):
        raise ValueError(f"init: {address!r} is for Ray Client, which is not there: give HOST:PORT, also from another machine")


def _environment(runtime_env):
    """(variables, packages) of the workers."""
    known = {"env_vars", "working_dir", "py_modules", "excludes", "config"}
    unknown = set(runtime_env) - known
    if unknown:
        raise ValueError(f"runtime_env has {', '.join(sorted(unknown))}: known here are {', '.join(sorted(known))}")
    packed = []
    if runtime_env.get("working_dir") or runtime_env.get("py_modules"):
        from rayo import _packages

        packed = _packages.pack(runtime_env)
    return {key: str(value) for key, value in (runtime_env.get("env_vars") or {}).items()}, packed


def shutdown(*, wait_for_processes=False):
    """Leaves the cluster: the actors of this program end. A second init() works.

    It always waits until the cluster knows; `wait_for_processes` is Ray's and changes nothing. Refs and handles of before are
    of no use afterwards: a RaySystemError.

        ray.init("10.0.0.5:6379")
        ...
        ray.shutdown()
    """
    futures = sys.modules.get("rayo._futures")
    if futures is None or not _native.is_initialized():
        _native.shutdown()
    else:
        futures.thread().leave(_native.shutdown)


def is_initialized():
    """Whether this program has joined a cluster.

        if not ray.is_initialized():
            ray.init(num_cpus=4)
    """
    return _native.is_initialized()


def _address_info():
    context = _native.context()
    address = _gcs_address(context)
    return {
        "address": address,
        "gcs_address": address,
        "node_ip_address": ip_of(context["address"]),
        "node_id": context["node_id"],
        "cluster": context["cluster_name"],
    }


def ip_of(address):
    """Of HOST:PORT the host."""
    return address.rpartition(":")[0].strip("[]")


def _gcs_address(context):
    """The head's address, where this process can know it; else that of its node."""
    return head_address() or context["address"]


def head_address():
    """Of this program's cluster, as `rayo --address` takes it; None where only the environment knows."""
    return _native.head_address() if _given is None else _given


def nodes():
    """A dict for each node, also of those that have gone: NodeID, NodeName, NodeManagerAddress, Alive, State ("alive", "suspect",
    "draining", "dead"), Head, Resources and Available ({"CPU": 8.0, "memory": bytes, ...}), Labels.

        print([node["NodeName"] for node in ray.nodes() if node["Alive"]])
    """
    return [_in_rays_keys(node) for node in _native.nodes()]


def _in_rays_keys(node):
    return {
        **node,
        "alive": node["Alive"],
        "NodeName": node["NodeManagerHostname"],
        "NodeManagerAddress": ip_of(node["Address"]),
        "Resources": _in_rays_spelling(node["Resources"]),
        "Available": _in_rays_spelling(node["Available"]),
    }


_NAMES = {"cpu": "CPU", "gpu": "GPU"}  # Ray's spelling


def _in_rays_spelling(amounts):
    return {_NAMES.get(name, name): amount for name, amount in amounts.items()}


def _sum(key):
    total = {}
    for node in nodes():
        if node["State"] == "alive":
            for name, amount in node[key].items():
                total[name] = total.get(name, 0) + amount
    return total


def cluster_resources():
    """What all living nodes have together: {"CPU": 8.0, "memory": bytes, ...}.

        workers = int(ray.cluster_resources()["CPU"])
    """
    return _sum("Resources")


def available_resources():
    """What of cluster_resources() is free: the same names, 0.0 where all of it is held.

        if ray.available_resources().get("GPU", 0) >= 1:
            ref = train.options(num_gpus=1).remote()
    """
    return _sum("Available")


def get_gpu_ids():
    """The devices that this task or actor holds, by UUID, as CUDA_VISIBLE_DEVICES has them: [] where it asked for none.

        @ray.remote(num_gpus=1)
        def which():
            return ray.get_gpu_ids()        # ["GPU-6f2a..."]
    """
    return _native.context()["devices"]


def _in_worker(question):
    """The answer of rayo._worker where this is one, else None."""
    if not _native.is_worker():
        return None
    from rayo import _worker

    return getattr(_worker, question)()


class RuntimeContext:
    """Where this code runs: ray.get_runtime_context().get_node_id()."""

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

    def get_actor_name(self):
        """Of the actor whose method this is; "" where it has none, None outside of an actor."""
        return self._record["actor_name"] if self._record["actor_id"] is not None else None

    def get_task_id(self):
        """Of the task or method that runs here, as ObjectRef.hex() of its result and util.state.list_tasks() have it; None
        where none runs."""
        return _in_worker("current_id") or self._record["task_id"]

    def get_task_name(self):
        """What options(name=) gave the running task, else its function's name; of a method "Class.method"."""
        names = _in_worker("current_names")
        return names and names[0]

    def get_task_function_name(self):
        """Of the running task's function; of a method "Class.method"."""
        names = _in_worker("current_names")
        return names and names[1]

    def get_assigned_resources(self):
        """What the running task or this actor holds: {"CPU": 1.0}."""
        return _in_rays_spelling(self._record["resources"])

    node_id = property(get_node_id)
    job_id = property(get_job_id)
    actor_id = property(get_actor_id)
    task_id = property(get_task_id)

    def get_session_name(self):
        return self._record["cluster_name"]

    def get_node_labels(self):
        return next((node["Labels"] for node in nodes() if node["NodeID"] == self.get_node_id()), {})

    def get_accelerator_ids(self):
        """{"GPU": [UUID, ...]} of the devices that this task or actor holds."""
        return {"GPU": list(self._record["devices"])}

    def get_resource_ids(self):
        return self.get_accelerator_ids()

    @property
    def current_actor(self):
        """A handle of the actor whose method this is; RuntimeError outside of one."""
        if self._record["actor_id"] is None:
            raise RuntimeError("this code runs in no actor")
        from rayo._actor import current_handle

        return current_handle(self._record["actor_id"])

    def get_placement_group_id(self):
        """None: there are no placement groups yet."""
        return None

    current_placement_group_id = property(get_placement_group_id)

    @property
    def should_capture_child_tasks_in_placement_group(self):
        return False

    def is_canceled(self):
        """Whether the caller of the running task or method has cancelled it."""
        from rayo import _worker

        return _worker.is_cancelled()

    @property
    def namespace(self):
        return self._record["namespace"]

    @property
    def gcs_address(self):
        return _gcs_address(self._record)

    @property
    def was_current_actor_reconstructed(self):
        return self._record["incarnation"] > 1

    def get(self):
        return dict(self._record)


def get_runtime_context():
    """The RuntimeContext of the task, actor or driver that asks.

        context = ray.get_runtime_context()
        print(context.get_node_id(), context.get_task_name())
    """
    return RuntimeContext(_native.context())


atexit.register(shutdown)
