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


def get_actor(id, address=None, timeout=30):
    """The row of that actor, or None."""
    return next(iter(list_actors(address, [("actor_id", "=", id)], 1, timeout)), None)


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
