"""Lists of tasks and objects, timelines, and what code is told of the call that it is. If one fails: a user who asks what his
program does is told something else."""

import json
import os
import subprocess
import time

import numpy
import pytest

from waiting import until


def _tasks(ray, **wanted):
    from rayo.util import state

    return state.list_tasks(filters=[(key, "=", value) for key, value in wanted.items()], limit=1000)


@pytest.fixture(scope="module")
def half(ray):
    @ray.remote
    def half(x):
        return x / 2

    return half


def test_a_task_is_listed_with_who_made_it_and_who_ran_it(ray, half):
    before = time.time() * 1000
    ref = half.options(name="my half").remote(4)
    assert ray.get(ref) == 2
    row, = _tasks(ray, name="my half")
    assert (row.task_id, row.type, row.state, row.attempt_number) == (ref.hex(), "NORMAL_TASK", "FINISHED", 0)
    assert row.caller_pid == os.getpid() != row.worker_pid and row.actor_id is None
    here = ray.get_runtime_context()
    assert (row.node_id, row.job_id, row.caller_id) == (here.get_node_id(), here.get_job_id(), here.get_worker_id())
    assert before - 1 <= row.creation_time_ms <= row.start_time_ms <= row.end_time_ms <= time.time() * 1000 + 1


def test_one_row_is_asked_for_by_its_id(ray, half):
    from rayo.util import state

    ref = half.options(name="asked for").remote(4)
    assert ray.get(ref) == 2
    row = state.get_task(ref)
    assert row.name == "asked for" and state.get_task(ref.hex()) == row and state.get_task("0" * 48) is None
    assert state.get_worker(row.worker_id).pid == row.worker_pid and state.get_worker("0" * 32) is None
    assert state.get_job(row.job_id).status == "RUNNING"
    large = ray.put(numpy.zeros(100_000))
    assert [found.object_id for found in state.get_objects(large.hex())] == [large.hex()] and state.get_objects("0" * 48) == []


def test_the_state_of_a_task_is_told_while_it_waits_runs_and_fails(ray, tmp_path):
    @ray.remote(num_cpus=3)
    def held(path):
        while not os.path.exists(path):
            time.sleep(0.01)
        raise ValueError("released")

    path = tmp_path / "go"
    running = held.options(name="held first").remote(path)
    until(lambda: [row.state for row in _tasks(ray, name="held first")] == ["RUNNING"])
    waiting = held.options(name="held second").remote(path)
    row, = _tasks(ray, name="held second")
    assert row.state in ("PENDING_NODE_ASSIGNMENT", "SUBMITTED_TO_WORKER")
    assert row.worker_pid is None and row.start_time_ms is None
    path.touch()
    for ref in (running, waiting):
        with pytest.raises(ValueError):
            ray.get(ref, timeout=30)
    assert {row.state for row in _tasks(ray) if row.name.startswith("held")} == {"FAILED"}


def test_calls_of_actors_are_listed_whatever_runs_them(ray):
    @ray.remote
    class Plain:
        def add(self, n):
            return n

    @ray.remote
    class Async:
        async def add(self, n):
            return n

    @ray.remote(max_concurrency=2)
    class Threads:
        def add(self, n):
            return n

    for cls in (Plain, Async, Threads):
        actor = cls.remote()
        ray.get([actor.add.remote(i) for i in range(3)])
        name = cls.__name__
        rows = [row for row in _tasks(ray, actor_id=actor._actor_id) if row.type == "ACTOR_TASK"]
        assert [(row.name, row.state) for row in rows] == [(f"{name}.add", "FINISHED")] * 3, name
        made, = [row for row in _tasks(ray, actor_id=actor._actor_id) if row.type == "ACTOR_CREATION_TASK"]
        assert made.name == name and made.state == "FINISHED" and made.worker_pid == rows[0].worker_pid


def test_a_task_that_runs_again_has_a_row_for_the_run_that_is_left(ray, tmp_path):
    @ray.remote
    def second_time(path):
        if not path.exists():
            path.touch()
            os._exit(1)
        return os.getpid()

    pid = ray.get(second_time.remote(tmp_path / "once"), timeout=60)
    row, = _tasks(ray, name="second_time")  # what the first process noted has gone with it
    assert (row.worker_pid, row.state) == (pid, "FINISHED")


def test_tasks_are_summed_up_by_name(ray, half):
    from rayo.util import state

    ray.get([half.options(name="summed").remote(i) for i in range(7)])
    told = state.summarize_tasks()["cluster"]
    assert told["summary"]["summed"] == {
        "func_or_class_name": "summed", "type": "NORMAL_TASK", "state_counts": {"FINISHED": 7}}
    assert told["total_tasks"] >= 7 and told["summary_by"] == "func_name"


def test_a_timeline_has_submit_start_and_end_in_chromes_format(ray, tmp_path):
    @ray.remote
    def nap():
        time.sleep(0.2)
        return os.getpid()

    pids = set(ray.get([nap.remote() for _ in range(2)]))
    events = ray.timeline()
    runs = [event for event in events if event["ph"] == "X" and event["name"] == "nap"]
    marks = [event for event in events if event["ph"] == "i" and event["name"] == "nap"]
    assert len(runs) == len(marks) == 2 and {run["tid"] for run in runs} == pids
    for run in runs:
        mark, = [mark for mark in marks if mark["args"]["task_id"] == run["args"]["task_id"]]
        assert mark["ts"] <= run["ts"] and mark["tid"] == os.getpid()
        assert 0.15e6 < run["dur"] < 5e6 and run["cat"] == "task"
    rows = {event["pid"] for event in events}
    assert {event["pid"] for event in events if event["name"] == "process_name"} == rows
    path = tmp_path / "trace.json"
    assert ray.timeline(filename=path) is None
    assert len([event for event in json.loads(path.read_text()) if event["name"] == "nap"]) == 4


def test_objects_are_listed_with_size_place_and_references(ray):
    from rayo.util import state

    @ray.remote
    class Holder:
        def hold(self, refs):
            self.refs = refs

    large = ray.put(numpy.zeros(1_000_000))
    small = ray.put("small")  # of this process alone, until it is passed on
    holder = Holder.remote()
    ray.get(holder.hold.remote([large, small]))
    rows = {row.object_id: row for row in state.list_objects(limit=1000)}
    here = ray.get_runtime_context()
    row = rows[large.hex()]
    assert 8_000_000 <= row.object_size <= 8_001_000 and row.task_status == "FINISHED"
    assert row.node_ids == [here.get_node_id()] and row.home_node_id == here.get_node_id()
    assert row.reference_count == 2 and row.pid == os.getpid() and row.worker_id == here.get_worker_id()
    assert rows[small.hex()].object_size < 100 and rows[small.hex()].node_ids == []
    assert [row.object_size for row in state.list_objects(limit=1)] == [max(row.object_size for row in rows.values())]
    ray.kill(holder)
    until(lambda: [row.reference_count for row in state.list_objects(filters=[("object_id", "=", large.hex())])] == [1])
    hex_id = large.hex()
    del large
    until(lambda: state.list_objects(filters=[("object_id", "=", hex_id)]) == [])


def test_the_command_lists_tasks_and_objects_for_people(ray, half):
    from rayo import _cluster, _program

    kept = ray.put(numpy.ones(100_000))
    ref = half.options(name="for people").remote(1)
    ray.get(ref)

    def listed(what):
        command = [_program.path(), "list", what, "--address", _cluster.head_address()]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    line, = [line for line in listed("tasks").splitlines() if "for people" in line]
    assert line.startswith(ref.hex()) and "finished" in line
    line, = [line for line in listed("objects").splitlines() if line.startswith(kept.hex())]
    assert "arena" in line and str(os.getpid()) in line


def test_code_knows_which_call_it_is_and_what_it_holds(ray):
    def names():
        context = ray.get_runtime_context()
        return context.get_task_id(), context.get_task_name(), context.get_task_function_name()

    @ray.remote
    def task():
        return *names(), ray.get_runtime_context().get_assigned_resources()

    ref = task.remote()
    assert ray.get(ref) == (ref.hex(), "task", "task", {"CPU": 1.0})
    ref = task.options(name="named", num_cpus=0.5, resources={"tpu": 1}).remote()
    assert ray.get(ref) == (ref.hex(), "named", "task", {"CPU": 0.5, "tpu": 1.0})

    class Base:
        def names(self):
            return *names(), ray.get_runtime_context().get_actor_name()

    class Async(Base):
        async def wait(self):
            return *names(), ray.get_runtime_context().get_actor_name()

    for cls, options in ((Base, {}), (Base, {"max_concurrency": 2}), (Async, {})):
        actor = ray.remote(cls).options(name=f"it {cls.__name__} {len(options)}", num_cpus=1, **options).remote()
        ref = actor.names.remote()
        assert ray.get(ref) == (ref.hex(), *[f"{cls.__name__}.names"] * 2, f"it {cls.__name__} {len(options)}")
        ref = actor.__ray_call__.remote(lambda _: ray.get_runtime_context().get_assigned_resources())
        assert ray.get(ref) == {"CPU": 1.0}
    ref = actor.wait.remote()
    assert ray.get(ref)[:2] == (ref.hex(), "Async.wait")
    unnamed = ray.remote(Base).remote()
    assert ray.get(unnamed.names.remote())[3] == ""
    here = ray.get_runtime_context()
    assert (here.get_task_id(), here.get_task_name(), here.get_actor_name()) == (None, None, None)
    assert here.get_assigned_resources() == {}


def test_a_task_of_asyncio_that_outlives_its_call_still_knows_which_it_was(ray):
    import asyncio

    @ray.remote
    class Starter:
        async def start(self):
            self.go = asyncio.Event()
            self.behind = asyncio.create_task(self.look())

        async def look(self):
            await self.go.wait()
            context = ray.get_runtime_context()
            return context.get_task_id(), context.is_canceled()

        async def nothing(self):
            pass

        async def looked(self):
            self.go.set()
            return await self.behind

    starter = Starter.remote()
    started = starter.start.remote()
    ray.get(started)
    ray.get([starter.nothing.remote() for _ in range(1000)])
    assert ray.get(starter.looked.remote()) == (started.hex(), False)
