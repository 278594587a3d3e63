"""What the user guides of Ray Core teach, told with our own data; docs/python_examples.md says which page stands where. If
one fails, a habit that Ray's users bring with them fails here."""

import os
import pathlib
import subprocess
import sys
import time

import numpy
import pytest

from waiting import until


# ---- tasks ----


def test_options_are_given_at_the_decorator_and_with_options(ray):
    @ray.remote(num_cpus=2, num_returns=2)
    def pair():
        return 1, 2

    assert ray.get(pair.remote()) == [1, 2]
    one = pair.options(num_cpus=1, num_returns=1).remote()
    assert ray.get(one) == (1, 2)


def test_tasks_are_nested_and_their_refs_passed_back(ray):
    @ray.remote
    def leaf(n):
        return n * n

    @ray.remote
    def branch(n):
        return [leaf.remote(i) for i in range(n)]

    assert ray.get(ray.get(branch.remote(4))) == [0, 1, 4, 9]


def test_a_bounded_number_of_tasks_is_kept_under_way_with_wait(ray):
    @ray.remote
    def square(n):
        return n * n

    todo, under_way, done, most = list(range(40)), [], [], 0
    while todo or under_way:
        while todo and len(under_way) < 6:
            under_way.append(square.remote(todo.pop()))
        most = max(most, len(under_way))
        ready, under_way = ray.wait(under_way)
        done += ray.get(ready)
    assert sorted(done) == [n * n for n in range(40)] and most == 6


def test_resources_bound_how_many_tasks_run(ray, tmp_path):
    @ray.remote(num_cpus=0, resources={"tpu": 1})
    def use(folder):
        mine = os.path.join(folder, str(os.getpid()))
        open(mine, "w").close()
        most = 0
        for _ in range(20):
            most = max(most, len(os.listdir(folder)))
            time.sleep(0.01)
        os.unlink(mine)
        return most

    assert max(ray.get([use.remote(str(tmp_path)) for _ in range(6)], timeout=60)) <= 2


def test_a_large_value_is_put_once_and_read_by_many_without_a_copy(ray):
    @ray.remote
    def mean(array, part):
        assert not array.flags.writeable
        return float(array[part::4].mean())

    array = ray.put(numpy.arange(400_000, dtype=numpy.float64))
    assert sum(ray.get([mean.remote(array, i) for i in range(4)])) / 4 == pytest.approx(199_999.5)


def test_a_function_may_close_over_something_large(ray):
    large = bytes(2 << 20)

    @ray.remote
    def length():
        return len(large)

    assert ray.get([length.remote(), length.remote()], timeout=20) == [2 << 20] * 2


def test_a_task_is_run_again_after_the_errors_that_it_names(ray, tmp_path):
    @ray.remote
    def third_time(path, error):
        with open(path, "a") as file:
            file.write(".")
        if os.path.getsize(path) < 3:
            raise error("not yet")
        return os.path.getsize(path)

    again = third_time.options(max_retries=5, retry_exceptions=[ConnectionError])
    assert ray.get(again.remote(str(tmp_path / "a"), ConnectionError)) == 3
    with pytest.raises(ValueError):
        ray.get(again.remote(str(tmp_path / "b"), ValueError))
    with pytest.raises(ConnectionError):
        ray.get(third_time.remote(str(tmp_path / "c"), ConnectionError))
    with pytest.raises(ConnectionError):
        ray.get(third_time.options(max_retries=1, retry_exceptions=True).remote(str(tmp_path / "d"), ConnectionError))


def test_tasks_and_actors_have_variables_of_their_own(ray):
    @ray.remote
    def mode():
        return os.environ.get("MODE")

    @ray.remote
    class Mode:
        def get(self):
            return os.environ.get("MODE")

    loud = {"env_vars": {"MODE": "loud"}}
    assert ray.get(mode.options(runtime_env=loud).remote()) == "loud"
    assert ray.get([mode.remote() for _ in range(4)]) == [None] * 4
    assert ray.get([Mode.options(runtime_env=loud).remote().get.remote(), Mode.remote().get.remote()]) == ["loud", None]
    with pytest.raises(ValueError, match="init"):
        mode.options(runtime_env={"pip": ["requests"]})


def test_a_tree_is_reduced_in_the_order_in_which_results_come(ray):
    @ray.remote
    def value(n):
        return n

    @ray.remote
    def add(a, b):
        return a + b

    refs = [value.remote(i) for i in range(16)]
    while len(refs) > 1:
        (a, b), refs = ray.wait(refs, num_returns=2)
        refs.append(add.remote(a, b))
    assert ray.get(refs[0]) == sum(range(16))


# ---- actors ----


def test_a_supervisor_owns_a_tree_of_actors(ray):
    @ray.remote(num_cpus=0)
    class Trainer:
        def __init__(self, rate):
            self.rate = rate

        def step(self, data):
            return self.rate * data

    @ray.remote(num_cpus=0)
    class Supervisor:
        def __init__(self):
            self.trainers = [Trainer.remote(rate) for rate in (1, 10)]

        def work(self, data):
            return ray.get([trainer.step.remote(data) for trainer in self.trainers])

    assert ray.get(Supervisor.remote().work.remote(3), timeout=60) == [3, 30]


def test_two_workers_meet_through_an_asyncio_signal_actor(ray):
    import asyncio

    @ray.remote(num_cpus=0)
    class Signal:
        def __init__(self):
            self.ready = asyncio.Event()

        def send(self, clear=False):
            self.ready.set()
            if clear:
                self.ready.clear()

        async def wait(self):
            await self.ready.wait()

    @ray.remote
    def wait_for(signal, name):
        ray.get(signal.wait.remote())
        return name

    signal = Signal.remote()
    waiting = [wait_for.remote(signal, i) for i in range(2)]
    assert ray.wait(waiting, timeout=0.2)[0] == []
    ray.get(signal.send.remote())
    assert sorted(ray.get(waiting, timeout=20)) == [0, 1]


def test_a_pipeline_overlaps_fetching_and_working(ray):
    @ray.remote
    class Source:
        def __init__(self):
            self.left = list(range(8))

        def next(self):
            return self.left.pop(0) if self.left else None

    @ray.remote
    class Worker:
        def __init__(self, source):
            self.source = source

        def run(self):
            done, coming = [], self.source.next.remote()
            while (item := ray.get(coming)) is not None:
                coming = self.source.next.remote()
                done.append(item * 2)
            return done

    source = Source.remote()
    results = ray.get([Worker.remote(source).run.remote() for _ in range(2)], timeout=30)
    assert sorted(sum(results, [])) == [0, 2, 4, 6, 8, 10, 12, 14]


def test_an_actor_is_shared_by_name_between_functions(ray):
    @ray.remote
    class Config:
        def __init__(self):
            self.values = {}

        def set(self, key, value):
            self.values[key] = value

        def get(self, key):
            return self.values[key]

    config = Config.options(name="config", get_if_exists=True).remote()
    again = Config.options(name="config", get_if_exists=True).remote()

    @ray.remote
    def read():
        return ray.get(ray.get_actor("config").get.remote("size"))

    ray.get(config.set.remote("size", 9))
    assert again == config and ray.get(read.remote(), timeout=20) == 9


def test_a_handle_by_name_knows_which_methods_make_items(ray):
    @ray.remote
    class Counter:
        def upto(self, n):
            yield from range(n)

        @ray.method(num_returns=2)
        def pair(self):
            return "a", "b"

    keep = Counter.options(name="by name").remote()
    found = ray.get_actor("by name")
    assert [ray.get(ref) for ref in found.upto.remote(3)] == [0, 1, 2]
    assert ray.get(found.pair.remote()) == ["a", "b"] and found == keep


def test_inheritance_static_and_class_methods_work(ray):
    class Base:
        kind = "base"

        def who(self):
            return f"{self.kind} {self.detail()}"

        @classmethod
        def make(cls):
            return cls.__name__

        @staticmethod
        def double(n):
            return 2 * n

    @ray.remote
    class Derived(Base):
        kind = "derived"

        def detail(self):
            return super().double(4)

    actor = Derived.remote()
    assert ray.get([actor.who.remote(), actor.make.remote(), actor.double.remote(5)]) == ["derived 8", "Derived", 10]


def test_code_runs_inside_of_an_actor_that_has_no_method_for_it(ray):
    @ray.remote
    class Holder:
        def __init__(self):
            self.items = [1, 2, 3]

    holder = Holder.remote()
    assert ray.get(holder.__ray_call__.remote(lambda self, extra: sum(self.items) + extra, 4)) == 10


# ---- objects ----


def test_refs_are_compared_hashed_and_kept_in_values(ray):
    ref = ray.put("kept")
    box = ray.put({"inside": ref})
    del ref
    inside = ray.get(box)["inside"]
    assert ray.get(inside) == "kept" and {inside: 1}[ray.get(box)["inside"]] == 1


def test_objects_of_a_class_travel_by_a_serializer_of_its_own(ray):
    import threading

    class Connection:
        def __init__(self, url):
            self.url = url
            self.lock = threading.Lock()  # which does not travel

    with pytest.raises(TypeError):
        ray.put(Connection("db"))
    ray.util.register_serializer(Connection, serializer=lambda c: c.url, deserializer=Connection)
    try:
        @ray.remote
        def url_of(connection):
            return connection.url, connection.lock.acquire(False)

        assert ray.get(url_of.remote(Connection("db"))) == ("db", True)
    finally:
        ray.util.deregister_serializer(Connection)
    with pytest.raises(TypeError):
        ray.put(Connection("db"))


def test_a_serializer_may_put_the_value_and_answer_its_ref(ray):
    class Big:
        def __init__(self, data):
            self.data = data

    ray.util.register_serializer(Big, serializer=lambda b: ray.put(b.data), deserializer=lambda r: Big(ray.get(r)))
    try:
        @ray.remote
        def size(big, held):
            return len(big.data), len(held["it"].data)

        @ray.remote
        class Sizes:
            def size(self, big):
                return len(big.data)

        sizes = Sizes.remote()
        for count in (10, 300_000):
            data = "x" * count
            assert ray.get(size.remote(Big(data), {"it": Big(data)})) == (count, count)
            assert ray.get(sizes.size.remote(Big(data))) == count
    finally:
        ray.util.deregister_serializer(Big)


def test_what_cannot_travel_is_named(ray, capsys):
    import threading

    held = threading.Lock()
    assert ray.util.inspect_serializability({"lock": held}, name="config") == (False, {"config['lock'], a lock"})
    assert ray.util.inspect_serializability([1, 2]) == (True, set())
    assert "config cannot travel because of config['lock']" in capsys.readouterr().out


def test_a_process_pool_has_the_methods_of_multiprocessings(ray):
    from rayo.util.multiprocessing import Pool, TimeoutError

    def power(base, exponent=2):
        return base**exponent

    def slow(_):
        time.sleep(30)

    with Pool(processes=2) as pool:
        assert pool.map(power, range(7)) == [n * n for n in range(7)]
        assert pool.starmap(power, [(2, 3), (3, 2)]) == [8, 9]
        assert pool.apply(power, (2,), {"exponent": 5}) == 32
        assert list(pool.imap(power, range(9), chunksize=2)) == [n * n for n in range(9)]
        assert sorted(pool.imap_unordered(power, range(9), chunksize=4)) == sorted(n * n for n in range(9))
        told = []
        result = pool.map_async(power, [1, 2], callback=told.append)
        assert result.get(timeout=20) == [1, 4] and result.successful()
        with pytest.raises(ZeroDivisionError):
            pool.map(lambda n: 1 // n, [1, 0])
        with pytest.raises(TimeoutError):
            pool.apply_async(slow, (1,)).get(timeout=0.1)
    with pytest.raises(ValueError):
        pool.map(power, [1])
    while not told:
        time.sleep(0.01)
    assert told == [[1, 4]]


def test_a_queue_serves_coroutines_too(ray):
    import asyncio

    from rayo.util.queue import Empty, Queue

    async def main():
        queue = Queue(maxsize=1)
        await queue.put_async("a")
        later = asyncio.ensure_future(queue.put_async("b"))
        assert await queue.get_async() == "a"
        await later
        assert await queue.get_async(timeout=5) == "b"
        with pytest.raises(Empty):
            await queue.get_async(block=False)

    asyncio.run(main())


# ---- what is in the cluster ----


def test_the_state_of_actors_and_nodes_can_be_listed(ray):
    from rayo.util import state

    @ray.remote
    class Listed:
        def ping(self):
            return os.getpid()

    actor = Listed.options(name="listed").remote()
    pid = ray.get(actor.ping.remote())
    row = state.get_actor(actor._actor_id)
    assert (row.state, row["class_name"], row.name, row.pid) == ("ALIVE", "Listed", "listed", pid)
    assert [n["actor_id"] for n in state.list_actors(filters=[("name", "=", "listed")])] == [row.actor_id]
    assert "listed" in ray.util.list_named_actors()
    assert state.list_nodes()[0].node_id == ray.nodes()[0]["NodeID"]
    assert any(worker.pid == pid for worker in state.list_workers())
    assert state.summarize_actors()["cluster"]["summary"]["Listed"]["state_counts"]["ALIVE"] == 1
    with pytest.raises(ValueError, match="'<'"):
        state.list_actors(filters=[("pid", "<", "3")])


def test_code_knows_where_it_runs(ray):
    @ray.remote
    class Where:
        def me(self):
            context = ray.get_runtime_context()
            return context.get_actor_id(), context.current_actor, context.namespace, context.get_job_id()

    where = Where.remote()
    actor_id, itself, namespace, job = ray.get(where.me.remote())
    here = ray.get_runtime_context()
    assert actor_id == where._actor_id and itself == where
    assert (namespace, job) == (here.namespace, here.get_job_id()) and here.get_actor_id() is None


def test_what_is_held_is_not_available(ray):
    @ray.remote(num_cpus=0, resources={"tpu": 1.5})
    class Holder:
        def devices(self):
            return ray.get_gpu_ids(), ray.get_runtime_context().get_accelerator_ids()

    holder = Holder.remote()
    assert ray.get(holder.devices.remote(), timeout=20) == ([], {"GPU": []}) and ray.get_gpu_ids() == []
    until(lambda: ray.available_resources()["tpu"] == 0.5)
    assert ray.available_resources().keys() == ray.cluster_resources().keys() and ray.cluster_resources()["tpu"] == 2
    ray.kill(holder)
    until(lambda: ray.available_resources()["tpu"] == 2)


def test_placement_by_node_and_label(ray):
    from rayo.util.scheduling_strategies import (
        DoesNotExist,
        Exists,
        In,
        NodeAffinitySchedulingStrategy,
        NodeLabelSchedulingStrategy,
    )

    @ray.remote
    def here():
        return ray.get_runtime_context().get_node_id()

    @ray.remote
    class There:
        def get(self):
            return 1

    node = ray.nodes()[0]["NodeID"]
    assert ray.get(here.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote()) == node
    unknown = NodeAffinitySchedulingStrategy("0123456789abcdef" * 2, soft=False)
    begin = time.monotonic()
    with pytest.raises(ray.exceptions.ActorUnschedulableError, match="which this cluster does not know") as refused:
        ray.get(here.options(scheduling_strategy=unknown).remote(), timeout=20)
    assert "rayo list nodes" in refused.value.next_step
    with pytest.raises(ray.exceptions.ActorUnschedulableError, match="which this cluster does not know"):
        ray.get(There.options(scheduling_strategy=unknown).remote().get.remote(), timeout=20)
    assert time.monotonic() - begin < 5, "nobody waits for it"
    unknown.soft = True
    assert ray.get(here.options(scheduling_strategy=unknown).remote(), timeout=20) == node
    anywhere = here.options(scheduling_strategy=NodeLabelSchedulingStrategy({"zone": DoesNotExist()})).remote()
    assert ray.get(anywhere) == node
    for rule in (In("moon"), Exists()):
        nowhere = here.options(scheduling_strategy=NodeLabelSchedulingStrategy({"zone": rule})).remote()
        assert ray.wait([nowhere], timeout=0.3)[0] == []
        ray.cancel(nowhere)


def test_the_guides_run_in_both_spellings(home):
    root = pathlib.Path(__file__).resolve().parents[2]
    code = "import rayo, rayo.util; rayo.init(num_cpus=1); print(rayo.get(rayo.remote(len).remote('abc')), rayo.util.ActorPool)"
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(root / "build/release/python")},
                          capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("3 <class"), done.stderr
