"""Between Python and C++, both ways. If one fails, a program that mixes the two gets wrong values, or an error that does not
say what to do."""

import array
import dataclasses
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap

import numpy
import pytest

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_BIN = _ROOT / "build" / "release" / "bin"


@pytest.fixture(scope="module")
def shop(ray):
    return ray.cpp(_BIN / "python_shop")


@pytest.fixture()
def till(ray, shop):
    till = shop.Till.remote(10)
    yield till
    ray.kill(till)


# ---- C++ from Python ----


def test_the_counter_of_the_examples_counts_for_python(ray):
    counter = ray.cpp(_BIN / "counter").Counter.options(name="hits", num_cpus=0.5).remote()
    assert ray.get([counter.add.remote(n) for n in (3, 4)], timeout=60) == [3, 7]
    assert ray.get(ray.cpp(_BIN / "counter").half.remote(counter.add.remote(1)), timeout=60) == 4.0
    assert ray.get(ray.get_actor("hits").add.remote(0), timeout=20) == 8
    with pytest.raises(ValueError, match="'hits' is taken"):
        ray.cpp(_BIN / "counter").Counter.options(name="hits").remote()


@dataclasses.dataclass
class Line:
    item: str
    price: float


def test_values_of_both_languages_are_the_same_values(ray, till):
    order = ([("tea", 2.5), Line("rice", 1)], None)
    assert ray.get(till.pay.remote(order), timeout=60) == 13.5
    assert ray.get(till.receipt.remote("jam", "paid")) == [[["jam", 13.5]], "paid"]
    assert ray.get(till.receipt.remote("jam", None)) == [[["jam", 13.5]], None]
    assert ray.get(till.pay.remote(till.receipt.remote("jam", None))) == 27  # one method's struct is another's argument
    for numbers in ([1, 2.0, 3], (1, 2, 3), array.array("d", [1, 2, 3]), numpy.arange(1.0, 4.0), numpy.array([1, 2, 3])[::1].astype(float)):
        assert ray.get(till.halves.remote(numbers)) == [0.5, 1.0, 1.5]
    assert ray.get(till.count.remote(["a", "b", "a"])) == {"a": 2, "b": 1}
    assert ray.get(till.reversed.remote(b"abc")) == b"cba"
    assert ray.get(till.reversed.remote(bytearray(b"abc"))) == b"cba"
    assert ray.get(till.large.remote(2**64 - 1)) == 2**64 - 1
    assert ray.get(till.small.remote(numpy.int64(-5))) == -5


def test_functions_run_as_tasks_with_options(ray, shop):
    numbers = ray.get(shop.up_to.remote(100_000), timeout=60)
    assert ray.get(shop["shop::sum"].options(num_cpus=1).remote(numbers), timeout=60) == 4999950000
    with pytest.raises(ray.exceptions.CrossLanguageError, match="argument 1 of shop::sum.*found numbers of another type"):
        ray.get(shop["shop::sum"].remote(shop.up_to.remote(3)))  # a ref to int64_t where double is wanted
    assert ray.get(shop.sum_of_two.remote(ray.put(1.5), 2)) == 3.5
    first, second = shop.up_to.options(num_returns=2).remote(2)
    assert ray.get([second, first]) == [1, 0]
    ready, pending = ray.wait([shop.up_to.remote(i) for i in range(4)], num_returns=4, timeout=30)
    assert len(ready) == 4 and not pending


def test_handles_and_refs_cross_in_both_directions(ray, shop, till):
    @ray.remote
    class Till:
        def total(self):
            return 2.5

    assert ray.get(till.add_total_of.remote(shop.Till.remote(5)), timeout=60) == 15
    assert ray.get(till.add_total_of.remote(Till.remote())) == 17.5  # the same call, written in Python
    branch = ray.get(till.branch.remote())
    assert ray.get(branch.total.remote()) == 7
    assert ray.get(ray.get(till.refs.remote())) == [1, 2]

    @ray.remote
    def use(handles, program):
        return ray.get(handles[0].total.remote()), ray.get(program.sum_of_two.remote(1, 2))

    assert ray.get(use.remote([branch], shop), timeout=60) == (7, 3)


def test_options_of_actors_are_kept(ray, shop):
    till = shop.Till.options(name="front", namespace="mall", runtime_env={"env_vars": {"COLOUR": "green"}}).remote(0)
    assert ray.get(till.variable.remote("COLOUR"), timeout=60) == "green"
    assert ray.get_actor("front", namespace="mall") == till
    with pytest.raises(TypeError, match="no option 'colour'"):
        shop.Till.options(colour="green").remote(0)
    with pytest.raises(TypeError, match="C\\+\\+, which has no option 'concurrency_groups'"):
        shop.Till.options(concurrency_groups={"io": 2}).remote(0)
    waiting = shop.Till.options(max_concurrency=2).remote(3)
    blocked = waiting.add_total_of.remote(waiting)  # which waits for a second call of the same actor
    assert ray.get(blocked, timeout=20) == 6


def test_what_cpp_throws_arrives_with_type_and_text(ray, shop, till):
    with pytest.raises(ray.exceptions.RayTaskError, match="shop::Till::fail threw shop::Sorry: not today") as told:
        ray.get(till.fail.remote("not today"), timeout=60)
    assert told.value.remote_type == "shop::Sorry" and "Till::fail" in told.value.remote_traceback
    with pytest.raises(ray.exceptions.RayTaskError, match="shop::always_fails threw shop::Sorry: closed today"):
        ray.get(shop.always_fails.remote())
    with pytest.raises(ray.exceptions.ActorDiedError, match="begins with nothing or more"):
        ray.get(shop.Till.remote(-1).total.remote())


def test_a_wrong_call_says_what_there_is(ray, shop, till):
    with pytest.raises(AttributeError, match="no 'Tills'; it has shop::Till, shop::always_fails, shop::sum"):
        shop.Tills.remote()
    with pytest.raises(AttributeError, match="'shop::Till' has no method 'lend': it has add_total_of, branch"):
        till.lend.remote()
    with pytest.raises(ValueError, match=r"pay was called with 2 arguments: it takes pay\(const shop::Order&\)"):
        ray.get(till.pay.remote(1, 2), timeout=60)
    with pytest.raises(ValueError, match=r"Till was called with 0 arguments: it takes Till\(long int\)"):
        ray.get(shop.Till.remote().total.remote())
    with pytest.raises(TypeError, match="arguments have no names: pass order by position"):
        till.pay.remote(order=None)
    named = shop.Till.options(name="by name").remote(0)
    with pytest.raises(ValueError, match="the C\\+\\+ class shop::Till has no method 'lend'") as told:
        ray.get(ray.get_actor("by name").lend.remote(), timeout=20)
    assert "small(signed char)" in "".join(told.value.__notes__)
    del named


def test_values_that_do_not_fit_say_so(ray, till):
    with pytest.raises(ray.exceptions.CrossLanguageError,
                       match=r"argument 1 of shop::Till::small\(signed char\): .*'signed char': 300 is out of its range"):
        ray.get(till.small.remote(300), timeout=60)
    with pytest.raises(ray.exceptions.CrossLanguageError, match="argument 2 of shop::Till::receipt.*expected text, found an integer"):
        ray.get(till.receipt.remote("jam", 3))
    with pytest.raises(ray.exceptions.CrossLanguageError, match="argument 1 of shop::Till::pay.*expected an array of 2"):
        ray.get(till.pay.remote(([("tea",)], None)))
    with pytest.raises(ray.exceptions.CrossLanguageError, match="argument 1 of shop::Till::small"):
        ray.get(till.small.remote(None))


def test_what_no_other_language_knows_is_refused_at_the_call(ray, till):
    with pytest.raises(ray.exceptions.CrossLanguageError,
                       match=r"argument 1 of shop::Till.pay: \[0\]\['when'\] in it is of type complex, which no other"):
        till.pay.remote([{"when": 1j}])
    with pytest.raises(ray.exceptions.CrossLanguageError, match="argument 1 of shop::Till.small is of type int, which has more than 64 bits"):
        till.small.remote(2**70)
    with pytest.raises(ray.exceptions.CrossLanguageError, match="try: pass None, bool, int"):
        till.small.remote(object())
    with pytest.raises(ray.exceptions.CrossLanguageError, match="found a value that Python has pickled"):
        ray.get(till.count.remote(ray.put(["a", "b"])), timeout=60)
    loop = []
    loop.append(loop)
    with pytest.raises(ValueError, match="nested more than 64 levels"):
        till.pay.remote(loop)


def test_a_running_method_is_cancelled(ray, till):
    running = till.wait_for_cancel.remote()
    ready, _ = ray.wait([running], timeout=0.1)
    assert not ready
    ray.cancel(running)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(running, timeout=20)
    assert ray.get(till.total.remote(), timeout=20) == 10


def test_the_death_of_an_actor_has_its_record(ray, shop):
    till = shop.Till.options(max_restarts=1).remote(1)
    pid = ray.get(till.pid.remote(), timeout=60)
    with pytest.raises(ray.exceptions.ActorDiedError) as told:
        ray.get(till.crash.remote(), timeout=20)
    death = told.value.death
    assert (death["kind"], death["signal"], death["pid"]) == ("signal", signal.SIGABRT, pid)
    assert "out of paper" in death["last_log_lines"]
    assert ray.get(till.pid.remote(), timeout=30) != pid  # its second life
    ray.kill(till)
    with pytest.raises(ray.exceptions.ActorDiedError) as told:
        ray.get(till.total.remote(), timeout=20)
    assert told.value.death["kind"] == "killed"


def test_a_program_that_is_none_is_named(ray, tmp_path):
    with pytest.raises(ValueError, match="cannot open the program .*nowhere: No such file"):
        ray.cpp(tmp_path / "nowhere").Counter.remote()
    (tmp_path / "text").write_text("not a program")
    with pytest.raises(ValueError, match="text is no executable program"):
        ray.cpp(tmp_path / "text").Counter.remote()
    with pytest.raises(ray.exceptions.RayError, match="never reached rayo::init: exit code 0"):
        ray.cpp("/bin/true").Counter.remote()


# ---- Python from C++ ----

_GREETER = """
    import sys
    import {spelling}

    ray.init(namespace="both")

    @ray.remote
    class Greeter:
        def greet(self, name, times):
            return ", ".join([f"hello {{name}}"] * times)

        def mirror(self, point):
            return point[::-1]

        def count(self, words):
            return {{word: words.count(word) for word in words}}

        def add(self, a, b):
            return a + b

        def numbers(self, n):
            import numpy

            return numpy.arange(float(n))

        def remember(self, other):
            self.other = other

        def greet_through(self, name):
            return f"through me, {{name}}" if self.other.greet is not None else ""

        def fail(self, why):
            raise ValueError(why)

        def today(self):
            return 1j

    {concurrency}
    import subprocess
    done = subprocess.run([sys.argv[1], "greeter", "both"], text=True, capture_output=True, timeout=60)
    print(done.stdout, done.stderr, done.returncode)
"""

_PLAIN = 'greeter = Greeter.options(name="greeter").remote()'
_THREADS = 'greeter = Greeter.options(name="greeter", max_concurrency=2).remote()'


@pytest.fixture()
def cluster():
    """The environment of programs of one cluster, which no program owns."""
    folder = tempfile.mkdtemp(prefix="rayo-x-", dir="/tmp")
    path = os.pathsep.join(str(_ROOT / part) for part in ("tests/python/shim", "build/release/python"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAYO_")}
    environment |= {"RAYO_HOME": f"{folder}/home", "RAYO_RUNTIME_DIR": f"{folder}/run", "PYTHONPATH": path}
    ports = ["--port", "0", "--http-port", "0", "--node-port", "0"]
    subprocess.run([_BIN / "rayo", "start", "--head", "--local", *ports, "--num-cpus", "2"], env=environment, check=True,
                   capture_output=True)
    yield environment
    subprocess.run([_BIN / "rayo", "stop", "--all"], env=environment, check=True, capture_output=True)
    shutil.rmtree(folder)


def _run(environment, tmp_path, text, *arguments):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(text))
    done = subprocess.run([sys.executable, script, *arguments], env=environment, text=True, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("spelling, concurrency", [("ray", _PLAIN), ("rayo as ray", _THREADS)])
def test_an_actor_in_python_is_called_from_cpp_by_name(cluster, tmp_path, spelling, concurrency):
    said = _run(cluster, tmp_path, _GREETER.format(spelling=spelling, concurrency=concurrency), str(_BIN / "python_caller"))
    for line in ("hello Ada, hello Ada", "2 1", "a is there 2 times", "42", "1000", "through me, Bo"):
        assert f"{line}\n" in said, said
    assert "raise: TaskError of ValueError: Greeter.fail raised ValueError: too early" in said
    assert 'in fail\n' in said and "raise ValueError(why)" in said  # the Python traceback
    assert "no method: TaskError of AttributeError" in said and "has no method 'gret': it has add, count" in said
    assert "arguments: TaskError of TypeError" in said and "missing 2 required positional arguments" in said
    assert "result: a value does not fit 'long int': expected an integer, found text" in said
    assert "object: TaskError of CrossLanguageError" in said and "of type complex, which no other language knows" in said
    assert "typed: actor 'greeter' is written in Python" in said and 'rayo::actor("greeter")' in said
    assert "nobody: no actor 'nobody' in the namespace 'both'" in said
    assert "killed: actor Greeter" in said and said.rstrip().endswith("0"), said


def test_a_detached_actor_of_cpp_outlives_its_script(cluster, tmp_path):
    _run(cluster, tmp_path, """
        import sys
        import rayo as ray

        ray.init(namespace="stay")
        till = ray.cpp(sys.argv[1]).Till.options(name="till", lifetime="detached", max_restarts=1).remote(5)
        assert ray.get(till.total.remote(), timeout=60) == 5
    """, str(_BIN / "python_shop"))
    _run(cluster, tmp_path, """
        import rayo as ray

        ray.init(namespace="stay")
        till = ray.get_actor("till")
        assert ray.get(till.pay.remote(([("a", 1)], None)), timeout=60) == 6
        try:
            ray.get(till.crash.remote(), timeout=30)
        except ray.exceptions.ActorDiedError:
            pass
        assert ray.get(till.total.remote(), timeout=30) == 5    # its second life
        ray.kill(till)
    """)


# ---- over nodes ----

_TWO_NODES = """
    import sys
    import {spelling}

    ray.init()
    here = ray.get_runtime_context().get_node_id()
    shop = ray.cpp(sys.argv[1])
    there = next(node["NodeID"] for node in ray.nodes() if node["NodeID"] != here)
    till = shop.Till.options(resources={{"far": 1}}, name="far").remote(1)
    assert ray.get(till.node.remote(), timeout=60) == there
    assert ray.get(shop.where.options(resources={{"far": 1}}).remote(), timeout=60) == there
    total = till.pay.remote(([("gold", 2.0**40)], None))
    assert ray.get(shop.sum_of_two.remote(total, 1.0), timeout=60) == 2.0**40 + 2
    numbers = till.halves.remote([float(i) for i in range(100_000)])
    assert ray.get(shop["shop::sum"].remote(numbers), timeout=60) == 2499975000

    @ray.remote(resources={{"far": 1}})
    def from_there(program, path):
        '''Its program is that of the driver, or one that this node opens by itself.'''
        again = ray.cpp(path)
        return ray.get(program.sum_of_two.remote(1, 2)), ray.get(again.where.remote()), ray.get(again.sum_of_two.remote(3, 4))

    three, _, seven = ray.get(from_there.remote(shop, sys.argv[2]), timeout=60)
    assert (three, seven) == (3, 7)
    try:
        ray.get(till.crash.remote(), timeout=30)
    except ray.exceptions.ActorDiedError as error:
        assert error.death["node"] == there and error.death["kind"] == "signal", error.death
        assert "out of paper" in error.death["last_log_lines"], error.death
    print("done")
"""


@pytest.mark.parametrize("spelling", ["ray", "rayo as ray"])
def test_programs_run_on_other_nodes_and_leave_nothing_behind(cluster, tmp_path, spelling):
    status = subprocess.run([_BIN / "rayo", "status", "--json"], env=cluster, check=True, capture_output=True, text=True).stdout
    import json

    address = json.loads(status)["cluster"]["address"]
    subprocess.run([_BIN / "rayo", "start", "--address", address, "--node-port", "0", "--num-cpus", "2", "--resources", '{"far": 2}'],
                   env=cluster, check=True, capture_output=True)
    other = tmp_path / "another_build"  # the same program with another hash
    shutil.copy(_BIN / "python_shop", other)
    with open(other, "ab") as file:
        file.write(b"\0")
    said = _run(cluster, tmp_path, _TWO_NODES.format(spelling=spelling), str(_BIN / "python_shop"), str(other))
    assert "done" in said.splitlines(), said  # among what its workers printed
    listed = subprocess.run([_BIN / "rayo", "list", "jobs", "--json"], env=cluster, check=True, capture_output=True, text=True)
    jobs = json.loads(listed.stdout)["jobs"]
    assert len(jobs) == 3 and {job["state"] for job in jobs} == {"ended"}, jobs
    assert len({job["parent"] for job in jobs} - {None}) == 1
