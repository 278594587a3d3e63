"""Tasks, actors and objects as Ray's key concepts teach them. What a user loses if one fails stands in its name."""

import time

import numpy
import pytest


def test_a_function_runs_as_a_task_and_its_ref_is_an_argument(ray):
    @ray.remote
    def half(x):
        return x / 2

    assert ray.get(half.remote(half.remote(12))) == 3.0


def test_values_of_all_plain_types_come_back_as_they_went(ray):
    @ray.remote
    def same(value):
        return value

    for value in [None, True, False, 0, -1, 2**63 - 1, -(2**63), 2**80, 1.5, "", "text", "\ud800", b"\x00\xff", (1, 2),
                  [1, [2]], {"a": {1, 2}}, float("inf"), 1 + 2j]:
        result = ray.get(same.remote(value))
        assert result == value and type(result) is type(value), value


def test_closures_lambdas_and_classes_of_this_file_arrive(ray):
    factor = 3

    class Point:
        def __init__(self, x):
            self.x = x

    @ray.remote
    def scaled(point):
        return Point(point.x * factor)

    assert ray.get(scaled.remote(Point(2))).x == 6
    assert ray.get(ray.remote(lambda a, b=1: a + b).remote(1, b=4)) == 5


def test_an_actor_keeps_state_and_its_calls_keep_their_order(ray):
    @ray.remote
    class Counter:
        def __init__(self, start=0):
            self.value = start

        def add(self, n):
            self.value += n
            return self.value

    counter = Counter.remote(start=10)
    refs = [counter.add.remote(1) for _ in range(200)]
    assert ray.get(refs) == list(range(11, 211))


def test_what_a_task_raised_is_an_instance_of_its_type_with_the_remote_traceback(ray):
    @ray.remote
    def fails():
        raise ValueError("seven is wrong")

    with pytest.raises(ValueError) as caught:
        ray.get(fails.remote())
    error = caught.value
    assert isinstance(error, ray.exceptions.RayTaskError)
    assert "seven is wrong" in str(error) and "core_test.py" in str(error) and "in fails" in str(error)
    assert isinstance(error.cause, ValueError) and error.cause.args == ("seven is wrong",)


def test_an_error_of_a_users_own_type_keeps_its_attributes(ray):
    class Refused(Exception):
        def __init__(self, code):
            super().__init__(f"refused with {code}")
            self.code = code

    @ray.remote
    class Door:
        def open(self):
            raise Refused(42)

    with pytest.raises(ray.exceptions.RayTaskError) as caught:
        ray.get(Door.remote().open.remote())
    assert caught.value.code == 42


def test_an_error_goes_through_tasks_that_take_the_failed_ref(ray):
    @ray.remote
    def fails():
        raise KeyError("missing")

    @ray.remote
    def same(value):
        return value

    with pytest.raises(KeyError):
        ray.get(same.remote(fails.remote()))


def test_a_constructor_that_raises_is_the_reason_of_the_actors_death(ray):
    @ray.remote
    class Broken:
        def __init__(self):
            raise RuntimeError("no such model")

        def ping(self):
            return 1

    with pytest.raises(ray.exceptions.ActorDiedError, match="no such model"):
        ray.get(Broken.remote().ping.remote())


def test_arrays_come_back_as_read_only_views_without_a_copy(ray):
    array = numpy.arange(1_000_000, dtype=numpy.float64)
    ref = ray.put({"weights": array, "name": "w"})
    first, second = ray.get(ref)["weights"], ray.get(ref)["weights"]
    assert (first == array).all()
    assert first.ctypes.data == second.ctypes.data and first.ctypes.data % 64 == 0
    with pytest.raises(ValueError):
        first[0] = 1
    del ref
    assert first[-1] == 999_999  # the view keeps the value


def test_an_array_goes_to_a_task_and_comes_back(ray):
    @ray.remote
    def total(array):
        return array.sum(), array * 2

    array = numpy.ones(300_000)
    number, doubled = ray.get(total.remote(ray.put(array)))
    assert number == 300_000 and doubled.sum() == 600_000


def test_refs_and_handles_inside_values_arrive_as_they_are(ray):
    @ray.remote
    def first_of(box):
        return ray.get(box["refs"][0])

    @ray.remote
    class Store:
        def __init__(self):
            self.value = None

        def keep(self, value):
            self.value = value

        def value_of(self):
            return self.value

    @ray.remote
    def fill(store, value):
        ray.get(store.keep.remote(value))

    assert ray.get(first_of.remote({"refs": [ray.put("inside")]})) == "inside"
    store = Store.remote()
    ray.get(fill.remote(store, 8))
    assert ray.get(store.value_of.remote()) == 8


def test_tasks_start_tasks_even_when_all_cpus_wait(ray):
    @ray.remote
    def fib(n):
        if n < 2:
            return n
        return sum(ray.get([fib.remote(n - 1), fib.remote(n - 2)]))

    assert ray.get(fib.remote(5), timeout=60) == 5


def test_a_recursion_deeper_than_a_node_runs_tasks_ends(ray):
    @ray.remote
    def down(n):
        return 0 if n == 0 else ray.get(down.remote(n - 1)) + 1

    assert ray.get(down.remote(40), timeout=60) == 40


def test_wait_answers_the_quick_and_leaves_the_slow(ray):
    @ray.remote
    def sleep(seconds):
        time.sleep(seconds)
        return seconds

    quick, slow = sleep.remote(0), sleep.remote(3)
    ready, pending = ray.wait([slow, quick], num_returns=1, timeout=2)
    assert ready == [quick] and pending == [slow]
    with pytest.raises(ValueError):
        ray.wait([quick, quick])


def test_get_ends_in_time(ray):
    @ray.remote
    def sleep():
        time.sleep(3)

    with pytest.raises(ray.exceptions.GetTimeoutError):
        ray.get(sleep.remote(), timeout=0.1)
    with pytest.raises(TimeoutError):
        ray.get(sleep.remote(), timeout=0)


def test_named_actors_are_found_and_killed(ray):
    @ray.remote
    class Greeter:
        def greet(self, name):
            return f"hello {name}"

    greeter = Greeter.options(name="greeter").remote()
    assert ray.get(greeter.greet.remote("a")) == "hello a"
    found = ray.get_actor("greeter")
    assert ray.get(found.greet.remote("b")) == "hello b"
    ray.kill(greeter)
    with pytest.raises(ray.exceptions.ActorDiedError) as caught:
        ray.get(found.greet.remote("c"), timeout=10)
    assert caught.value.death["kind"] == "killed"
    with pytest.raises(ValueError):
        ray.get_actor("nobody")


def test_a_worker_that_exits_is_explained(ray):
    @ray.remote
    class Victim:
        def leave(self):
            import os

            print("last words", flush=True)
            os._exit(7)

    with pytest.raises(ray.exceptions.ActorDiedError) as caught:
        ray.get(Victim.remote().leave.remote(), timeout=10)
    assert caught.value.death["exit_code"] == 7
    assert "last words" in caught.value.death["last_log_lines"]


def test_words_that_are_no_utf8_arrive(ray):
    @ray.remote
    def fails():
        raise ValueError("no file caf\udce9.txt")

    @ray.remote
    class Victim:
        def leave(self):
            import os

            os.write(2, b"caf\xe9\n")
            os._exit(7)

    with pytest.raises(ValueError, match=r"no file caf\\udce9.txt"):
        ray.get(fails.remote(), timeout=10)
    with pytest.raises(ray.exceptions.ActorDiedError) as caught:
        ray.get(Victim.remote().leave.remote(), timeout=10)
    assert caught.value.death["last_log_lines"] == ["caf\ufffd"]


def test_several_returns_are_several_refs(ray):
    @ray.remote(num_returns=3)
    def three():
        return 1, 2, 3

    @ray.remote
    class Maker:
        @ray.method(num_returns=2)
        def two(self):
            return "a", "b"

    assert ray.get(three.remote()) == [1, 2, 3]
    a, b = Maker.remote().two.remote()
    assert (ray.get(a), ray.get(b)) == ("a", "b")


def test_async_methods_run_to_their_end(ray):
    @ray.remote
    class Async:
        async def twice(self, n):
            import asyncio

            await asyncio.sleep(0.001)
            return 2 * n

    assert ray.get(Async.remote().twice.remote(4)) == 8


def test_refs_are_awaited_and_are_futures(ray):
    import asyncio

    @ray.remote
    def one():
        return 1

    async def main():
        return await one.remote() + sum(await asyncio.gather(one.remote(), one.remote()))

    assert asyncio.run(main()) == 3
    assert one.remote().future().result(timeout=10) == 1


def test_custom_resources_and_cpus_are_counted(ray):
    total = ray.cluster_resources()
    assert total["CPU"] == 4 and total["tpu"] == 2

    @ray.remote(resources={"tpu": 1}, num_cpus=1)
    def where():
        return ray.get_runtime_context().get_node_id()

    assert ray.get(where.remote()) == ray.nodes()[0]["NodeID"]


def test_wrong_use_says_what_to_do(ray):
    @ray.remote
    def f():
        return 1

    @ray.remote
    class C:
        def m(self):
            return 1

    with pytest.raises(TypeError, match=r"f\.remote"):
        f()
    with pytest.raises(TypeError, match=r"C\.remote"):
        C()
    with pytest.raises(TypeError, match="no option 'num_cpu'"):
        ray.remote(num_cpu=1)(lambda: 1)
    with pytest.raises(TypeError, match="ObjectRefs"):
        ray.get(1)
    with pytest.raises(AttributeError, match="'nothing'"):
        C.remote().nothing
    with pytest.raises(TypeError, match="already"):
        ray.put(ray.put(1))


def test_an_unpicklable_argument_names_the_part(ray):
    import threading

    @ray.remote
    def f(value):
        return value

    with pytest.raises(TypeError) as caught:
        f.remote({"config": {"lock": threading.Lock()}})
    assert "['config']['lock']" in "".join(caught.value.__notes__)


def test_random_numbers_differ_between_workers(ray):
    @ray.remote
    class Dice:
        def roll(self):
            import random

            return random.random()

    dice = [Dice.remote() for _ in range(4)]
    assert len(set(ray.get([die.roll.remote() for die in dice]))) == 4


def test_an_actor_pool_and_a_queue_work(ray):
    from rayo.util import ActorPool
    from rayo.util.queue import Empty, Queue

    @ray.remote
    class Doubler:
        def double(self, n):
            return 2 * n

    pool = ActorPool([Doubler.remote(), Doubler.remote()])
    assert list(pool.map(lambda actor, n: actor.double.remote(n), range(6))) == [0, 2, 4, 6, 8, 10]
    assert sorted(pool.map_unordered(lambda actor, n: actor.double.remote(n), range(6))) == [0, 2, 4, 6, 8, 10]
    queue = Queue(maxsize=2)
    queue.put("a")
    queue.put("b")
    assert queue.full() and queue.get() == "a" and queue.get() == "b"
    with pytest.raises(Empty):
        queue.get_nowait()


def test_the_handle_of_an_actor_just_made_may_be_passed_on_at_once(ray):
    @ray.remote
    class Store:
        def value(self):
            return 8

    @ray.remote
    def ask(store):
        return ray.get(store.value.remote())

    @ray.remote
    def make():
        return Store.remote()

    for _ in range(20):  # lost a race with the control store in one of three
        assert ray.get(ask.remote(Store.remote()), timeout=20) == 8
        assert ray.get(ray.get(make.remote()).value.remote(), timeout=20) == 8


def test_a_demand_that_is_no_amount_is_refused(ray):
    for options in ({"num_cpus": float("nan")}, {"num_cpus": 1e308}, {"resources": {"tpu": float("inf")}}):
        for made in (lambda: 1, type("Counter", (), {})):
            with pytest.raises(ValueError, match=r"cannot ask for (nan|1e\+308|inf) (cpus|tpu): an amount is a number from 0 to 1000000000"):
                ray.remote(**options)(made).remote()
