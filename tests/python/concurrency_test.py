"""Cancel, generators, asyncio and threaded actors, futures: what runs beside something else."""

import asyncio
import os
import threading
import time

import pytest

from waiting import until


# ---- cancel ----


def test_a_cancelled_task_stops_and_its_get_says_so(ray, tmp_path):
    mark = tmp_path / "stopped"

    @ray.remote
    def endless(started):
        try:
            open(started, "w").close()
            while True:
                time.sleep(60)
        finally:
            mark.touch()

    started = tmp_path / "started"
    ref = endless.remote(str(started))
    until(started.exists)
    ray.cancel(ref)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(ref, timeout=20)
    until(mark.exists)

    @ray.remote
    def alive():
        return os.getpid()

    assert ray.get(alive.remote(), timeout=20) > 0


def test_a_task_that_waits_for_its_turn_never_starts(ray, tmp_path):
    @ray.remote(num_cpus=4)
    def hold(gate):
        while not os.path.exists(gate):
            time.sleep(0.01)

    @ray.remote(num_cpus=4)
    def write(path):
        open(path, "w").close()

    gate, written = str(tmp_path / "gate"), tmp_path / "written"
    holder = hold.remote(gate)
    waiting = write.remote(str(written))
    ray.cancel(waiting)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(waiting, timeout=20)
    open(gate, "w").close()
    ray.get(holder, timeout=20)
    assert not written.exists()


def test_cancel_reaches_what_the_task_has_called(ray, tmp_path):
    @ray.remote
    def child(path):
        try:
            open(path + ".started", "w").close()
            time.sleep(60)
        finally:
            open(path + ".stopped", "w").close()

    @ray.remote
    def parent(path):
        return ray.get(child.remote(path))

    path = str(tmp_path / "child")
    ref = parent.remote(path)
    until(lambda: os.path.exists(path + ".started"))
    ray.cancel(ref)
    until(lambda: os.path.exists(path + ".stopped"))


def test_force_ends_the_process_of_a_task_that_does_not_listen(ray, tmp_path):
    @ray.remote
    def deaf(path):
        with open(path, "w") as file:
            file.write(str(os.getpid()))
        while True:
            try:
                time.sleep(60)
            except KeyboardInterrupt:
                pass

    path = tmp_path / "pid"
    ref = deaf.remote(str(path))
    until(lambda: path.exists() and path.read_text())
    pid = int(path.read_text())
    ray.cancel(ref, force=True)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(ref, timeout=20)
    until(lambda: not os.path.exists(f"/proc/{pid}"))


def test_cancel_ends_a_coroutine_and_not_its_actor(ray):
    @ray.remote
    class Sleeper:
        def __init__(self):
            self.cancelled = 0

        async def sleep(self):
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.cancelled += 1
                raise

        async def count(self):
            return self.cancelled

    sleeper = Sleeper.remote()
    ref = sleeper.sleep.remote()
    assert ray.get(sleeper.count.remote(), timeout=20) == 0  # it has started by now
    ray.cancel(ref)
    with pytest.raises(ray.exceptions.TaskCancelledError) as caught:
        ray.get(ref, timeout=20)
    assert isinstance(caught.value, ray.exceptions.RayTaskError)  # as which Ray's guide catches it
    assert type(caught.value.cause) is ray.exceptions.TaskCancelledError
    until(lambda: ray.get(sleeper.count.remote(), timeout=20) == 1)


def test_a_method_on_a_thread_sees_that_it_is_cancelled(ray):
    @ray.remote(max_concurrency=2)
    class Worker:
        def __init__(self):
            self.seen = False

        def work(self):
            until(ray.get_runtime_context().is_canceled)
            self.seen = True

        def has_seen(self):
            return self.seen

    worker = Worker.remote()
    ref = worker.work.remote()
    assert not ray.get(worker.has_seen.remote(), timeout=20)
    ray.cancel(ref)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(ref, timeout=20)
    until(lambda: ray.get(worker.has_seen.remote(), timeout=20))


def test_a_call_that_waits_for_a_thread_and_is_cancelled_never_runs(ray):
    @ray.remote(concurrency_groups={"one": 1})
    class Worker:
        def __init__(self):
            self.gate = threading.Event()
            self.ran = []

        @ray.method(concurrency_group="one")
        def hold(self):
            self.gate.wait(20)

        @ray.method(concurrency_group="one")
        def note(self, x):
            self.ran.append(x)

        def open(self):
            self.gate.set()

        @ray.method(concurrency_group="one")
        def all(self):
            return self.ran

    worker = Worker.remote()
    worker.hold.remote()
    first, second = worker.note.remote(1), worker.note.remote(2)
    assert ray.wait([first], timeout=0.2)[0] == []
    ray.cancel(first)
    ray.get(worker.open.remote(), timeout=20)
    ray.get(second, timeout=20)
    assert ray.get(worker.all.remote(), timeout=20) == [2]


def test_force_is_refused_for_a_call_of_an_actor_whose_process_others_need(ray, tmp_path):
    @ray.remote(max_concurrency=2)
    class Worker:
        def work(self, gate):
            until(lambda: os.path.exists(gate))
            return "done"

        def items(self, gate):
            yield self.work(gate)

        @ray.method(num_returns=2)
        def pair(self, gate):
            return self.work(gate), "second"

    worker, gate = Worker.remote(), tmp_path / "gate"
    calls = [worker.work.remote(gate), worker.items.remote(gate), worker.pair.remote(gate)[1]]
    for call in calls:
        with pytest.raises(ValueError, match="^force=True is not supported for actor tasks.$"):
            ray.cancel(call, force=True)
    gate.touch()
    assert ray.get([calls[0], next(calls[1]), calls[2]], timeout=20) == ["done", "done", "second"]
    ray.cancel(calls[0], force=True)  # it has ended: nothing is to be done, as in Ray


@pytest.mark.parametrize("kind", ["task", "method"])
def test_any_of_several_refs_of_a_call_cancels_it(ray, tmp_path, kind):
    def work(started, stopped):
        try:
            open(started, "w").close()
            while True:
                time.sleep(60)
        finally:
            open(stopped, "w").close()

    @ray.remote
    class Worker:
        @ray.method(num_returns=2)
        def work(self, *paths):
            work(*paths)

    worker = Worker.remote()
    started, stopped = tmp_path / "started", tmp_path / "stopped"
    call = worker.work if kind == "method" else ray.remote(num_returns=2)(work)
    first, second = call.remote(started, stopped)
    until(started.exists)
    ray.cancel(second)
    until(stopped.exists)
    for ref in (first, second):
        with pytest.raises(ray.exceptions.TaskCancelledError):
            ray.get(ref, timeout=20)


# ---- actors that run several calls ----


def test_coroutines_of_an_actor_wait_for_each_other(ray):
    @ray.remote
    class Gate:
        def __init__(self):
            self.event = asyncio.Event()

        async def wait(self):
            await self.event.wait()
            return "open"

        async def open(self):
            self.event.set()

    gate = Gate.remote()
    waiting = [gate.wait.remote() for _ in range(50)]
    ray.get(gate.open.remote(), timeout=20)
    assert ray.get(waiting, timeout=20) == ["open"] * 50


def test_max_concurrency_bounds_coroutines_and_threads(ray):
    class Most:
        def __init__(self):
            self.now = self.most = 0

        def note(self, change):
            self.now += change
            self.most = max(self.most, self.now)

    @ray.remote
    class Coroutines(Most):
        async def work(self):
            self.note(1)
            await asyncio.sleep(0.02)
            self.note(-1)

        async def get_most(self):
            return self.most

    @ray.remote
    class Threads(Most):
        def work(self):
            self.note(1)
            time.sleep(0.02)
            self.note(-1)

        def get_most(self):
            return self.most

    for cls in (Coroutines, Threads):
        for most in (1, 3):
            actor = cls.options(max_concurrency=most).remote()
            ray.get([actor.work.remote() for _ in range(9)], timeout=30)
            assert ray.get(actor.get_most.remote()) == most, (cls, most)


def test_an_actor_may_await_refs_and_other_actors(ray):
    @ray.remote
    def one():
        return 1

    @ray.remote
    class Summer:
        async def total(self, n):
            return sum(await asyncio.gather(*(one.remote() for _ in range(n))))

        async def through(self, other, n):
            return await other.total.remote(n)

    a, b = Summer.remote(), Summer.remote()
    assert ray.get(a.through.remote(b, 5), timeout=30) == 5


def test_a_concurrency_group_is_not_held_up_by_others(ray):
    @ray.remote(concurrency_groups={"io": 2, "compute": 1})
    class Store:
        def __init__(self):
            self.gate = threading.Event()

        @ray.method(concurrency_group="io")
        def wait(self):
            return self.gate.wait(20)

        @ray.method(concurrency_group="compute")
        def open(self):
            self.gate.set()
            return threading.current_thread().name

        def plain(self):
            return "plain"

    store = Store.remote()
    waiting = [store.wait.remote() for _ in range(5)]
    assert ray.get(store.plain.remote(), timeout=10) == "plain"
    assert ray.get(store.plain.options(concurrency_group="compute").remote(), timeout=10) == "plain"
    ray.get(store.open.remote(), timeout=10)
    assert ray.get(waiting, timeout=20) == [True] * 5
    with pytest.raises(ValueError, match="'disk'"):

        @ray.remote
        class Wrong:
            @ray.method(concurrency_group="disk")
            def read(self): ...


def test_an_error_in_a_coroutine_is_its_callers(ray):
    @ray.remote
    class Fails:
        async def fail(self):
            await asyncio.sleep(0)
            raise KeyError("missing")

        async def ok(self):
            return "ok"

    actor = Fails.remote()
    with pytest.raises(KeyError) as caught:
        ray.get(actor.fail.remote(), timeout=20)
    assert "concurrency_test.py" in str(caught.value) and "in fail" in str(caught.value)
    assert ray.get(actor.ok.remote(), timeout=20) == "ok"


def test_a_constructor_of_an_asyncio_actor_may_make_tasks(ray):
    @ray.remote
    class Beats:
        def __init__(self):
            self.beats = 0
            self.task = asyncio.get_running_loop().create_task(self.beat())

        async def beat(self):
            while True:
                self.beats += 1
                await asyncio.sleep(0.005)

        async def count(self):
            return self.beats

    beats = Beats.remote()
    until(lambda: ray.get(beats.count.remote(), timeout=20) > 3)


def test_exit_actor_ends_an_actor_for_good(ray):
    @ray.remote
    class Leaver:
        def leave(self):
            ray.actor.exit_actor()

        def ping(self):
            return 1

    leaver = Leaver.remote()
    assert ray.get(leaver.__ray_ready__.remote(), timeout=20)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(leaver.leave.remote(), timeout=20)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(leaver.ping.remote(), timeout=20)


@pytest.mark.parametrize("end", ["exit_actor", "__ray_terminate__", "the last handle"])
def test_an_actor_cleans_up_at_its_end(ray, tmp_path, end):
    """Longer than what is told to end has in a hurry."""

    @ray.remote
    class Keeper:
        def __init__(self, path):
            import atexit

            self.path = path
            atexit.register(self.note, "atexit")

        def note(self, what):
            with open(self.path, "a") as file:
                file.write(f"{what} ")

        def __ray_shutdown__(self):
            time.sleep(1)
            self.note("shutdown")

        def leave(self):
            ray.actor.exit_actor()

    path = tmp_path / "notes"
    keeper = Keeper.remote(path)
    assert ray.get(keeper.__ray_ready__.remote(), timeout=20)
    if end != "the last handle":
        (keeper.leave if end == "exit_actor" else keeper.__ray_terminate__).remote()
    else:
        del keeper
    until(lambda: path.exists() and path.read_text() == "shutdown atexit ")


@pytest.mark.parametrize("kind", ["plain", "threads", "coroutines"])
def test_sys_exit_ends_an_actors_process(ray, kind):
    """With 0 for good, else as a crash does: max_restarts applies."""
    import sys

    class Sync:
        def leave(self, code):
            sys.exit(code)

        def pid(self):
            return os.getpid()

    class Async:
        async def leave(self, code):
            sys.exit(code)

        async def pid(self):
            return os.getpid()

    options = {"max_concurrency": 2} if kind == "threads" else {}
    leaver = ray.remote(Async if kind == "coroutines" else Sync).options(max_restarts=1, **options).remote()
    pid = ray.get(leaver.pid.remote(), timeout=20)
    with pytest.raises(ray.exceptions.ActorDiedError) as caught:
        ray.get(leaver.leave.remote(3), timeout=20)
    assert caught.value.death["exit_code"] == 3
    assert ray.get(leaver.pid.remote(), timeout=20) != pid
    for call in (lambda: leaver.leave.remote(0), lambda: leaver.pid.remote()):
        with pytest.raises(ray.exceptions.ActorDiedError):
            ray.get(call(), timeout=20)


# ---- futures ----


def test_thousands_of_awaits_need_no_thread_each(ray):
    @ray.remote
    class Echo:
        def same(self, x):
            return x

    echo = Echo.remote()

    async def main():
        return await asyncio.gather(*(echo.same.remote(i) for i in range(1000)))

    before = threading.active_count()
    assert asyncio.run(main()) == list(range(1000))
    assert threading.active_count() <= before + 1
    futures = [echo.same.remote(i).future() for i in range(200)]
    assert [future.result(timeout=20) for future in futures] == list(range(200))
    assert threading.active_count() <= before + 1


def test_an_awaited_error_is_raised(ray):
    @ray.remote
    def fails():
        raise ValueError("seven")

    async def main():
        await fails.remote()

    with pytest.raises(ValueError, match="seven"):
        asyncio.run(main())
