"""rayo.util.state: what runs in the cluster, as `rayo list ... --json` tells it.

    from rayo.util.state import list_actors
    for actor in list_actors(filters=[("state", "=", "ALIVE")]):
        print(actor["class_name"], actor["node_id"])

Rows are dicts that answer to attributes as well: actor.state. Filters are (key, "=" or "!=", value).
"""

import collections
import json
import subprocess

import rayo
from rayo import _cluster, _program


class Row(dict):
    """A dict whose keys are attributes too."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def _rows(what, address, timeout):
    """The rows of `rayo list`, unchanged."""
    if address is None:
        if not rayo.is_initialized():
            rayo.init()
        address = _cluster.head_address()
    command = [_program.path(), "list", what, "--json", *(["--address", address] if address else [])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    if done.returncode != 0:
        raise rayo.exceptions.RaySystemError(done.stderr.strip() or f"{' '.join(command)} ended with {done.returncode}")
    return json.loads(done.stdout)[what]


def _chosen(rows, filters, limit):
    for key, operator, wanted in filters or []:
        if operator not in ("=", "!="):
            raise ValueError(f"a filter is (key, '=' or '!=', value), not with {operator!r}")
        if rows and key not in rows[0]:
            raise ValueError(f"there is no {key!r} to filter by: there are {', '.join(rows[0])}")
        rows = [row for row in rows if (str(row.get(key)).lower() == str(wanted).lower()) == (operator == "=")]
    return rows[:limit]


def list_actors(address=None, filters=None, limit=100, timeout=30, detail=False, raise_on_missing_output=True):
    """actor_id, class_name, state (PENDING, STARTING, ALIVE, RESTARTING, DEAD), name, ray_namespace, node_id, pid,
    job_id, death_cause."""
    return _chosen([_actor_row(row) for row in _rows("actors", address, timeout)], filters, limit)


def list_nodes(address=None, filters=None, limit=100, timeout=30, detail=False, raise_on_missing_output=True):
    """node_id, node_ip, is_head_node, state (ALIVE, SUSPECT, DRAINING, DEAD), node_name, resources_total, labels."""
    return _chosen([_node_row(row) for row in _rows("nodes", address, timeout)], filters, limit)


def list_workers(address=None, filters=None, limit=100, timeout=30, detail=False, raise_on_missing_output=True):
    """worker_id, node_id, pid, and what it does."""
    return _chosen([_worker_row(row) for row in _rows("workers", address, timeout)], filters, limit)


def list_jobs(address=None, filters=None, limit=100, timeout=30, detail=False, raise_on_missing_output=True):
    """job_id, and what `rayo list jobs` says of it."""
    return _chosen([_job_row(row) for row in _rows("jobs", address, timeout)], filters, limit)


def list_tasks(address=None, filters=None, limit=100, timeout=30, detail=False, raise_on_missing_output=True):
    """Tasks, calls of actors and constructors of late, the newest first: task_id, attempt_number, name, state
    (PENDING_NODE_ASSIGNMENT, SUBMITTED_TO_WORKER, RUNNING, FINISHED, FAILED; NIL: it has ended, nobody knows how), type
    (NORMAL_TASK, ACTOR_TASK, ACTOR_CREATION_TASK), actor_id, job_id, node_id, worker_id, worker_pid, caller_pid,
    creation_time_ms, start_time_ms, end_time_ms.

    Each process keeps its last 10,000 calls, those that it made and those that it ran, until it ends.

        running = list_tasks(filters=[("state", "=", "RUNNING"), ("name", "=", "train")])
    """
    return _chosen([_task_row(row) for row in _rows("tasks", address, timeout)], filters, limit)


def list_objects(address=None, filters=None, limit=100, timeout=30, detail=False, raise_on_missing_output=True):
    """Objects that the nodes know of, the largest first: object_id, object_size (bytes), task_status (PENDING, FINISHED,
    FAILED), node_ids (in whose store it lies), reference_count (processes that hold it), pinned_count (processes that read it
    in the store), pid and worker_id of the process that made it or was to get it as a result, home_node_id.

    A value up to 100 KiB whose refs have not left their process is known to that process alone, and not listed.

        large = list_objects(limit=10)
    """
    return _chosen([_object_row(row) for row in _rows("objects", address, timeout)], filters, limit)


def list_placement_groups(address=None, filters=None, limit=100, timeout=30, detail=False, raise_on_missing_output=True):
    """[]: the scheduler has no groups yet."""
    return []


def get_actor(id, address=None, timeout=30):
    """The row of that actor, or None."""
    return next(iter(list_actors(address, [("actor_id", "=", id)], 1, timeout)), None)


def get_task(id, address=None, timeout=30):
    """The row of that task, by its id or its ref, or None; a list of them where it was run more than once."""
    wanted = id.hex() if isinstance(id, rayo.ObjectRef) else id
    rows = list_tasks(address, [("task_id", "=", wanted)], None, timeout)
    return rows if len(rows) > 1 else next(iter(rows), None)


def get_worker(id, address=None, timeout=30):
    """The row of that worker, or None."""
    return next(iter(list_workers(address, [("worker_id", "=", id)], 1, timeout)), None)


def get_job(id, address=None, timeout=30):
    """The row of that job, or None."""
    return next(iter(list_jobs(address, [("job_id", "=", id)], 1, timeout)), None)


def get_objects(id, address=None, timeout=30):
    """[the row of that object], or []."""
    return list_objects(address, [("object_id", "=", id)], None, timeout)


def get_node(id, address=None, timeout=30):
    """The row of that node, or None."""
    return next(iter(list_nodes(address, [("node_id", "=", id)], 1, timeout)), None)


def summarize_actors(address=None, timeout=30, raise_on_missing_output=True):
    """{"cluster": {"summary": {CLASS: {"class_name", "state_counts": {STATE: count}}}, "total_actors"}}."""
    counts = collections.defaultdict(collections.Counter)
    rows = list_actors(address, limit=10_000, timeout=timeout)
    for row in rows:
        counts[row["class_name"]][row["state"]] += 1
    summary = {name: {"class_name": name, "state_counts": dict(states)} for name, states in counts.items()}
    return {"cluster": {"summary": summary, "total_actors": len(rows)}}


def summarize_tasks(address=None, timeout=30, raise_on_missing_output=True):
    """{"cluster": {"summary": {NAME: {"func_or_class_name", "type", "state_counts": {STATE: count}}}, "total_tasks",
    "total_actor_tasks", "total_actor_scheduled", "summary_by": "func_name"}}, of what list_tasks() knows.

        print(summarize_tasks()["cluster"]["summary"]["train"]["state_counts"])
    """
    rows = list_tasks(address, limit=None, timeout=timeout)
    summary = {}
    for row in rows:
        name = row["func_or_class_name"]
        entry = summary.setdefault(name, {"func_or_class_name": name, "type": row["type"], "state_counts": {}})
        entry["state_counts"][row["state"]] = entry["state_counts"].get(row["state"], 0) + 1
    types = collections.Counter(row["type"] for row in rows)
    return {
        "cluster": {
            "summary": summary,
            "total_tasks": types["NORMAL_TASK"],
            "total_actor_tasks": types["ACTOR_TASK"],
            "total_actor_scheduled": types["ACTOR_CREATION_TASK"],
            "summary_by": "func_name",
        }
    }


# ---- rows under Ray's names ----


def _actor_row(row):
    return Row(
        actor_id=row["id"],
        class_name=row["class"],
        state=row["state"].upper(),
        name=row["name"],
        ray_namespace=row["namespace"],
        node_id=row["node"],
        pid=row["pid"],
        job_id=row["job"],
        required_resources=row["resources"],
        num_restarts=max(0, row["incarnation"] - 1),
        death_cause=row["death"],
        reasons=row["reasons"],
    )


def _node_row(row):
    return Row(
        node_id=row["id"],
        node_ip=row["address"].rpartition(":")[0].strip("[]"),
        is_head_node=row["head"],
        state=row["state"].upper(),
        node_name=row["hostname"],
        resources_total={name: amount["total"] for name, amount in row["resources"].items()},
        labels=row["labels"],
        state_message=None if row["death"] is None else row["death"]["text"],
    )


def _worker_row(row):
    return Row(
        worker_id=row["id"],
        node_id=row["node"],
        pid=row["pid"],
        worker_type=row["kind"].upper(),
        is_alive=row["death"] is None,
        exit_detail=None if row["death"] is None else row["death"]["text"],
        what=row["what"],
        actor_id=row["actor"],
        job_id=row["job"],
    )


_TASK_STATES = {
    "waiting": "PENDING_NODE_ASSIGNMENT",
    "submitted": "SUBMITTED_TO_WORKER",
    "running": "RUNNING",
    "finished": "FINISHED",
    "failed": "FAILED",
    "ended": "NIL",
}
_TASK_TYPES = {"task": "NORMAL_TASK", "actor_call": "ACTOR_TASK", "constructor": "ACTOR_CREATION_TASK"}


def _ms(seconds):
    return None if seconds is None else round(seconds * 1000)


def _task_row(row):
    return Row(
        task_id=row["id"],
        attempt_number=row["attempt"],
        name=row["name"],
        func_or_class_name=row["name"],
        state=_TASK_STATES[row["state"]],
        type=_TASK_TYPES[row["type"]],
        actor_id=row["actor"],
        job_id=row["job"],
        node_id=row["node"],
        worker_id=row["worker"],
        worker_pid=row["pid"] or None,
        caller_id=row["caller"],
        caller_pid=row["caller_pid"] or None,
        creation_time_ms=_ms(row["submitted_at"]),
        start_time_ms=_ms(row["started_at"]),
        end_time_ms=_ms(row["ended_at"]),
    )


def _object_row(row):
    states = {"pending": "PENDING", "failed": "FAILED"}
    return Row(
        object_id=row["id"],
        object_size=row["size_bytes"],
        task_status=states.get(row["state"], "FINISHED"),
        node_ids=row["nodes"],
        home_node_id=row["home"],
        reference_count=row["references"],
        pinned_count=row["pins"],
        worker_id=row["maker"],
        pid=row["maker_pid"] or None,
        error_message=row["failure"] or None,
    )


def _job_row(row):
    return Row(
        job_id=row["id"],
        status=row["state"].upper(),
        entrypoint=" ".join([row["program"], *row["arguments"]]),
        namespace=row["namespace"],
        driver_node_id=row["node"],
        driver_info=Row(pid=str(row["pid"])),
        start_time=row["started_at"],
        end_time=row["ended_at"],
    )
