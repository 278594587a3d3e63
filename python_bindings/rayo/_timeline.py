"""The calls of a cluster in Chrome's trace format."""

import json

from rayo._objects import _require_session


def timeline(filename=None):
    """What the cluster has run of late, in Chrome's trace format: chrome://tracing and ui.perfetto.dev show it.

    A list of events, or with `filename` nothing: they are written there. Each process keeps its last 10,000 calls, those
    that it made and those that it ran, whatever language they are of; those of processes that have ended are gone. A run is a bar
    (`"ph": "X"`) in its process's row, a call that is made a mark (`"ph": "i"`) in its maker's. Times are microseconds.

        ray.get([work.remote(i) for i in range(100)])
        ray.timeline("trace.json")
    """
    _require_session()
    from rayo.util import state

    events = _events(state._rows("tasks", None, 30))
    if filename is None:
        return events
    with open(filename, "w") as file:
        json.dump(events, file)
    return None


def _events(rows):
    """Of rows of `rayo list tasks --json`."""
    processes, events = {}, []
    for row in rows:
        args = {"task_id": row["id"], "job_id": row["job"], "attempt": row["attempt"], "state": row["state"]}
        if row["submitted_at"] is not None and row["attempt"] == 0:
            place = _place(processes, row["caller_node"], row["caller_pid"])
            at = _us(row["submitted_at"])
            events.append({"ph": "i", "s": "t", "cat": "submit", "name": row["name"], **place, "ts": at, "args": args})
        if row["started_at"] is not None:
            place = _place(processes, row["node"], row["pid"])
            begin = _us(row["started_at"])
            event = {"ph": "X", "cat": row["type"], "name": row["name"], **place, "ts": begin, "args": args}
            if row["ended_at"] is not None:  # else it runs: a bar without an end
                event["dur"] = max(0.0, _us(row["ended_at"]) - begin)
            events.append(event)
    return [*_names(processes), *events]


def _us(seconds):
    return round(seconds * 1e6)


def _place(processes, node, pid):
    """Chrome's row: its "process" is our node, its "thread" our process."""
    row = processes.setdefault(node, len(processes) + 1)
    processes.setdefault((node, pid), pid)
    return {"pid": row, "tid": pid}


def _names(processes):
    for key, value in processes.items():
        if isinstance(key, tuple):
            node, pid = key
            yield {"ph": "M", "name": "thread_name", "pid": processes[node], "tid": pid, "args": {"name": f"process {pid}"}}
        else:
            yield {"ph": "M", "name": "process_name", "pid": value, "args": {"name": f"node {key}"}}
