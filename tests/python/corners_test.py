"""Corners of Ray's API that scripts lean on. If one fails, a script that was written for Ray stops or goes astray here."""

import asyncio
import copy
import os
import pathlib
import subprocess
import sys
import textwrap
import time

import pytest

_ROOT = pathlib.Path(__file__).resolve().parents[2]


# ---- refs, handles, wait ----


def test_wait_of_nothing_is_nothing_and_a_negative_timeout_is_refused(ray):
    assert ray.wait([]) == ([], []) and ray.get([]) == []
    with pytest.raises(ValueError, match="timeout is -1"):
        ray.wait([ray.put(1)], timeout=-1)


def test_a_call_takes_hundreds_of_refs_to_small_values(ray):
    """Each is small enough to travel with the call, all of them are more than it carries."""

    @ray.remote
    def total(*parts):
        return sum(map(len, parts))

    @ray.remote
    class Adder:
        def total(self, *parts):
            return sum(map(len, parts))

    parts = [ray.put(bytes(90_000)) for _ in range(200)]
    assert ray.get([total.remote(*parts), Adder.remote().total.remote(*parts)], timeout=30) == [18_000_000] * 2


def test_refs_and_handles_are_copied_with_what_holds_them(ray):
    @ray.remote
    class Held:
        def value(self):
            return 7

    config = {"ref": ray.put(3), "actor": Held.remote()}
    copied = copy.deepcopy(config)
    assert copied["ref"] == config["ref"] and copy.copy(config["ref"]) == config["ref"]
    assert ray.get([copied["ref"], copied["actor"].value.remote()]) == [3, 7]


def test_types_take_parameters_in_annotations(ray):
    def total(parts: list[ray.ObjectRef[int]], of: ray.ActorHandle["int"] | ray.ActorClass[int], items: ray.ObjectRefGenerator[int]) -> ray.ObjectRef[int]:
        return parts[0]

    assert total.__annotations__["return"].__origin__ is ray.ObjectRef


def test_an_actors_id_is_text_and_knows_its_digits(ray):
    @ray.remote
    class Known:
        def who(self):
            return ray.get_runtime_context().get_actor_id()

    known = Known.remote()
    assert known._actor_id.hex() == known._actor_id == ray.get(known.who.remote())
    assert known._actor_id.binary().hex() == known._actor_id


def test_a_task_may_have_no_result(ray, tmp_path):
    @ray.remote(num_returns=0)
    def note(path):
        pathlib.Path(path).write_text("done")

    path = tmp_path / "note"
    assert note.remote(str(path)) is None
    end = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < end
        time.sleep(0.01)


_shared = None


def test_a_function_may_use_a_ref_and_a_handle_that_stand_outside_of_it(ray):
    global _shared

    @ray.remote
    class Counter:
        def __init__(self):
            self.count = 0

        def add(self):
            self.count += 1
            return self.count

    counter, number = Counter.remote(), ray.put(40)
    _shared = ray.put("global")

    @ray.remote
    def both():
        return ray.get(counter.add.remote()) + ray.get(number), ray.get(_shared)

    @ray.remote
    class Holder:
        def number(self):
            return ray.get(number)

    assert ray.get(both.remote(), timeout=20) == (41, "global")
    holder = Holder.remote()
    del number
    del counter
    assert ray.get(both.remote(), timeout=20) == (42, "global")
    assert ray.get(holder.number.remote(), timeout=20) == 40


def test_a_ref_is_pickled_inside_of_values_alone_also_after_an_error(ray):
    import pickle
    import threading

    with pytest.raises(TypeError, match="lock"):
        ray.put(threading.Lock())
    with pytest.raises(TypeError, match="only inside a value"):
        pickle.dumps(ray.put(1))


# ---- calls ----


def test_arguments_that_do_not_fit_are_told_where_the_call_is_made(ray):
    @ray.remote
    def pair(a, b=2, *, c=3):
        return a, b, c

    @ray.remote
    class Pair:
        def __init__(self, a):
            self.a = a

        def sum(self, b):
            return self.a + b

        @staticmethod
        def twice(n):
            return 2 * n

        @classmethod
        def name(cls):
            return cls.__name__

    for wrong in (lambda: pair.remote(), lambda: pair.remote(1, 2, 3), lambda: pair.remote(1, d=4), lambda: Pair.remote()):
        with pytest.raises(TypeError, match="[Pp]air"):
            wrong()
    assert ray.get(pair.remote(1, c=ray.put(4))) == (1, 2, 4)
    made = Pair.remote(1)
    for wrong in (lambda: made.sum.remote(), lambda: made.sum.remote(1, 2), lambda: made.twice.remote(), lambda: made.name.remote(1)):
        with pytest.raises(TypeError, match="Pair"):
            wrong()
    assert ray.get([made.sum.remote(b=2), made.twice.remote(4), made.name.remote()]) == [3, 8, "Pair"]


@pytest.mark.parametrize("option, error", [
    ({"num_cpus": -1}, "num_cpus is -1"), ({"num_cpus": "a"}, "num_cpus is 'a'"), ({"memory": -5}, "memory is -5"),
    ({"resources": {"tpu": -1}}, "tpu is -1"), ({"resources": {"CPU": 1}}, "'CPU': it has an option of its own, num_cpus"),
    ({"resources": ["tpu"]}, "resources is"), ({"num_gpus": 1.5}, "num_gpus is 1.5")])
def test_an_option_that_nobody_can_meet_is_refused_where_it_stands(ray, option, error):
    with pytest.raises((TypeError, ValueError), match=error):
        ray.remote(**option)(lambda: 1)
    with pytest.raises((TypeError, ValueError), match=error):
        ray.remote(**option)(type("Empty", (), {}))


def test_a_name_is_not_empty(ray):
    with pytest.raises(ValueError, match="name is empty"):
        ray.remote(type("Empty", (), {})).options(name="")


@pytest.mark.parametrize("kind", ["plain", "threads", "coroutines"])
def test_a_concurrency_group_that_is_not_there_is_named(ray, kind):
    groups = {} if kind == "plain" else {"concurrency_groups": {"io": 2}}

    class Sync:
        def get(self):
            return 1

    class Async:
        async def get(self):
            return 1

    made = ray.remote(Async if kind == "coroutines" else Sync).options(**groups).remote()
    assert ray.get(made.get.remote(), timeout=20) == 1
    there = "it has none" if kind == "plain" else "it has io"
    with pytest.raises(ValueError, match=f"no concurrency group 'oi': {there}"):
        ray.get(made.get.options(concurrency_group="oi").remote(), timeout=20)


def test_an_error_whose_constructor_wants_more_arrives_as_it_was(ray):
    class Refused(Exception):
        def __init__(self, text, code):
            super().__init__(text)
            self.code = code
            self.lock = __import__("threading").Lock()

    @ray.remote
    def refuse():
        raise Refused("not you", 403)

    with pytest.raises(Refused) as caught:
        ray.get(refuse.remote(), timeout=20)
    assert caught.value.code == 403 and isinstance(caught.value, ray.exceptions.RayTaskError)
    assert isinstance(caught.value.as_instanceof_cause(), Refused) and not hasattr(caught.value, "lock")


def test_what_an_error_came_of_is_told_too(ray):
    @ray.remote
    def convert(text):
        try:
            return int(text)
        except ValueError as error:
            raise KeyError("no number") from error

    @ray.remote
    def stumble():
        try:
            raise OSError("first")
        except OSError:
            raise KeyError("second")

    with pytest.raises(KeyError, match="(?s)ValueError: invalid literal.*direct cause.*KeyError: 'no number'"):
        ray.get(convert.remote("x"), timeout=20)
    with pytest.raises(KeyError, match="(?s)OSError: first.*During handling.*KeyError: 'second'"):
        ray.get(stumble.remote(), timeout=20)


def test_a_filter_names_what_there_is(ray):
    from rayo.util import state

    with pytest.raises(ValueError, match="no 'stat' to filter by: .*state"):
        state.list_nodes(filters=[("stat", "=", "ALIVE")])


def test_a_generator_may_have_a_fixed_number_of_results(ray):
    @ray.remote(num_returns=3)
    def parts(n):
        for i in range(n):
            yield i * 10

    @ray.remote
    class Parts:
        @ray.method(num_returns=2)
        def two(self):
            yield "a"
            yield "b"

    assert ray.get(parts.remote(3), timeout=20) == [0, 10, 20]
    assert ray.get(Parts.remote().two.remote(), timeout=20) == ["a", "b"]
    with pytest.raises(ValueError, match="4 values, num_returns is 3"):
        ray.get(parts.remote(4)[0], timeout=20)


# ---- names that scripts import, classes, handles ----


def test_a_remote_class_tells_what_needs_no_instance_and_is_no_base(ray):
    @ray.remote
    class Counter:
        STEP = 3

        @staticmethod
        def double(n):
            return 2 * n

        @classmethod
        def name(cls):
            return cls.__name__

        @ray.method
        def add(self, n):
            return n

    assert ray.get(Counter.remote().add.remote(5), timeout=20) == 5
    assert (Counter.STEP, Counter.double(4), Counter.name()) == (3, 8, "Counter")
    with pytest.raises(AttributeError, match="Counter.add is a method of actors"):
        Counter.add(1)
    with pytest.raises(AttributeError, match="nothing"):
        Counter.nothing
    with pytest.raises(ray.actor.ActorClassInheritanceException, match="Counter is an actor class.*derive from the plain class"):

        class Derived(Counter):
            pass

    for remote in (Counter, ray.remote(len)):
        with pytest.raises(TypeError, match="is remote already.*options"):
            ray.remote(num_cpus=2)(remote)
    assert {"add", "double", "name"} < set(dir(Counter.remote()))


def test_results_come_as_they_are_ready(ray, tmp_path):
    @ray.remote(num_cpus=0)
    def after(seconds):
        time.sleep(seconds)
        return seconds

    refs = [after.remote(0.5), after.remote(0)]
    assert list(ray.util.as_completed(refs)) == [0, 0.5]
    assert list(ray.util.as_completed(refs, yield_obj_refs=True)) == refs and list(ray.util.as_completed([])) == []

    @ray.remote
    def under_way(i):
        mine = tmp_path / str(i)
        mine.touch()
        most = len(list(tmp_path.iterdir()))
        mine.unlink()
        return i, most

    answers = list(ray.util.map_unordered(under_way, iter(range(20)), backpressure_size=2))
    assert sorted(i for i, _ in answers) == list(range(20)) and max(most for _, most in answers) <= 2


def test_modules_that_rays_scripts_import_are_there(home):
    code = textwrap.dedent("""
        import ray.cloudpickle as pickle
        from ray import cloudpickle
        from ray.actor import ActorClass, ActorClassInheritanceException, ActorHandle, ActorProxy
        from ray.remote_function import RemoteFunction
        from ray.runtime_context import get_runtime_context
        from ray.runtime_env import RuntimeEnv

        print(pickle.loads(cloudpickle.dumps(lambda: 5))(), RuntimeEnv(env_vars={"A": "1"}, pip=None))
        import ray
        with ray.init(num_cpus=1, runtime_env=RuntimeEnv(env_vars={"A": "1"})) as context:
            here = ray.get_runtime_context()
            print(context.address_info["address"] == here.gcs_address, context.address_info["node_ip_address"] == ray.util.get_node_ip_address())
            print(context.dashboard_url == "", context.python_version.startswith("3."))
    """)
    path = os.pathsep.join([str(_ROOT / "tests/python/shim"), str(_ROOT / "build/release/python")])
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=60)
    assert done.stdout == "5 {'env_vars': {'A': '1'}}\nTrue True\nTrue True\n", done.stdout + done.stderr


def test_an_error_is_a_value_too(ray):
    """Who catches one keeps it, sends it on and raises it again."""

    @ray.remote
    def fails():
        raise ValueError("seven")

    @ray.remote
    def caught():
        try:
            ray.get(fails.remote())
        except ValueError as error:
            return error

    error = ray.get(caught.remote(), timeout=20)
    again = ray.get(ray.put([error]))[0]
    for each in (error, again):
        assert isinstance(each, ValueError) and isinstance(each, ray.exceptions.RayTaskError) and "in fails" in str(each)


# ---- running again, variables ----


def test_coroutines_are_run_again_after_errors(ray, tmp_path):
    @ray.remote(max_retries=5, retry_exceptions=[ConnectionError])
    async def third_time(path):
        with open(path, "a") as file:
            file.write(".")
        await asyncio.sleep(0)
        if os.path.getsize(path) < 3:
            raise ConnectionError("not yet")
        return os.path.getsize(path)

    assert ray.get(third_time.remote(str(tmp_path / "runs")), timeout=20) == 3


@pytest.mark.parametrize("spelled", ["of the method", "of the actor"])
def test_a_method_is_run_again_after_the_errors_that_it_names(ray, spelled):
    mine = {"max_task_retries": 4} if spelled == "of the method" else {}

    @ray.remote
    class Flaky:
        def __init__(self):
            self.runs = 0

        @ray.method(retry_exceptions=[ConnectionError], **mine)
        def third_time(self):
            self.runs += 1
            if self.runs < 3:
                raise ConnectionError("not yet")
            return self.runs

        @ray.method(retry_exceptions=True, **mine)
        def never(self):
            self.runs += 1
            raise ValueError(self.runs)

    flaky = (Flaky if mine else Flaky.options(max_task_retries=4)).remote()
    assert ray.get(flaky.third_time.remote(), timeout=20) == 3
    with pytest.raises(ValueError, match="8"):
        ray.get(flaky.never.remote(), timeout=20)
    with pytest.raises(ValueError, match="@ray.method"):
        flaky.never.options(retry_exceptions=True)


def test_a_coroutine_method_is_run_again_too(ray):
    @ray.remote(max_task_retries=1)
    class Flaky:
        def __init__(self):
            self.runs = 0

        @ray.method(retry_exceptions=True)
        async def second_time(self):
            self.runs += 1
            if self.runs < 2:
                raise ConnectionError("not yet")
            return self.runs

    assert ray.get(Flaky.remote().second_time.remote(), timeout=20) == 2


def test_variables_of_a_task_are_there_to_its_last_item(ray):
    loud = {"env_vars": {"MODE": "loud"}}

    @ray.remote
    def items():
        for _ in range(2):
            yield os.environ.get("MODE")

    @ray.remote
    async def later():
        await asyncio.sleep(0)
        return os.environ.get("MODE")

    assert [ray.get(ref) for ref in items.options(runtime_env=loud).remote()] == ["loud"] * 2
    assert ray.get(later.options(runtime_env=loud).remote(), timeout=20) == "loud"
    assert ray.get(later.remote(), timeout=20) is None


# ---- pools ----


def test_what_imap_answers_goes_on_after_an_error_and_after_close(ray):
    from rayo.util.multiprocessing import Pool, TimeoutError

    def inverse(n):
        return 1 / n

    def slow(n):
        time.sleep(60)

    with Pool(processes=2) as pool:
        answers = pool.imap(inverse, [1, 0, 2, 4])
        assert next(answers) == 1
        with pytest.raises(ZeroDivisionError):
            next(answers)
        assert list(answers) == [0.5, 0.25]
        with pytest.raises(TimeoutError):
            pool.imap_unordered(slow, [1]).next(timeout=0.1)
        with pytest.raises(ValueError, match="Chunksize"):
            pool.imap(inverse, [1], chunksize=0)
        nothing = pool.map_async(inverse, [])
        nothing.wait(timeout=5)
        assert nothing.ready() and nothing.successful() and nothing.get() == []
    pool = Pool(processes=2)
    answers = pool.imap(inverse, range(1, 20))
    pool.close()
    pool.join()
    assert list(answers) == [1 / n for n in range(1, 20)]
    with pytest.raises(ValueError, match="not running"):
        pool.imap(inverse, [1])
    pool.terminate()


def test_an_actor_belongs_to_a_pool_once(ray):
    @ray.remote
    class Worker:
        def double(self, n):
            return 2 * n

    first, second = Worker.remote(), Worker.remote()
    pool = ray.util.ActorPool([first])
    with pytest.raises(ValueError, match="already belongs"):
        pool.push(first)
    pool.push(second)
    assert sorted(pool.map_unordered(lambda actor, n: actor.double.remote(n), range(5))) == [0, 2, 4, 6, 8]


# ---- the cluster ----


def test_nodes_are_told_in_rays_words(ray):
    node = ray.nodes()[0]
    assert node["Resources"]["CPU"] == 4 and node["Resources"]["tpu"] == 2 and node["alive"] is node["Alive"] is True
    assert node["NodeManagerAddress"] and ":" not in node["NodeManagerAddress"] and node["NodeName"]


def test_the_version_is_that_of_the_program(ray):
    from rayo import _program

    told = subprocess.run([_program.path(), "version"], capture_output=True, text=True, timeout=20)
    assert told.stdout == f"rayo {ray.__version__}\n"


def test_placement_groups_are_refused_in_words(ray):
    from rayo.util.placement_group import placement_group_table
    from rayo.util.scheduling_strategies import PlacementGroupSchedulingStrategy
    from rayo.util.state import list_placement_groups

    for refused in (
        lambda: ray.util.placement_group([{"CPU": 1}], strategy="STRICT_PACK"),
        lambda: PlacementGroupSchedulingStrategy(None),
    ):
        with pytest.raises(NotImplementedError, match="placement groups are not there yet.*SPREAD.*label_selector"):
            refused()
    with pytest.raises(ValueError, match="'mine'"):
        ray.util.get_placement_group("mine")
    assert ray.util.get_current_placement_group() is ray.get_runtime_context().get_placement_group_id() is None
    assert placement_group_table() == {} and list_placement_groups() == []


def test_a_value_that_fits_no_store_says_so_under_both_names(ray):
    numpy = pytest.importorskip("numpy")
    too_large = numpy.empty(_capacity() + 1, dtype=numpy.uint8)  # never touched: no memory is taken
    with pytest.raises(ray.exceptions.ObjectStoreFullError) as caught:
        ray.put(too_large)
    assert isinstance(caught.value, ray.exceptions.OutOfMemoryError)


def _capacity():
    from rayo.util import state

    return state._rows("nodes", None, 30)[0]["object_store"]["capacity_bytes"]


def test_the_names_of_groups_are_imported_as_in_ray(home):
    code = textwrap.dedent("""
        import ray
        import ray.util.placement_group
        from ray.util.placement_group import placement_group
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

        print(ray.util.placement_group is placement_group, callable(placement_group))
    """)
    path = os.pathsep.join([str(_ROOT / "tests/python/shim"), str(_ROOT / "build/release/python")])
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "True True\n"), done.stderr


def test_a_task_runs_a_program_that_is_a_driver_of_its_own(ray):
    """It is no worker, although it inherits a worker's environment."""

    @ray.remote
    def outer():
        code = "import rayo; rayo.init(); print(rayo.get(rayo.remote(lambda: 42).remote()))"
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "RAYO_ADDRESS": address}, capture_output=True,
                              text=True, timeout=60)
        return done.stdout + done.stderr

    address = ray.get_runtime_context().gcs_address
    assert ray.get(outer.remote(), timeout=60) == "42\n"
