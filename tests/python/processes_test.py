"""Workers as processes: how fast they come, fork, threads, tracebacks, what they hold. Most of it is what Ray's users suffer from."""

import os
import pathlib
import subprocess
import sys
import threading
import time

import pytest


def test_many_actors_are_there_in_seconds(ray):
    @ray.remote(num_cpus=0)
    class Small:
        def ping(self):
            return 1

    begin = time.monotonic()
    actors = [Small.remote() for _ in range(20)]
    assert sum(ray.get([actor.ping.remote() for actor in actors], timeout=60)) == 20
    assert time.monotonic() - begin < 7.1  # what Ray takes on an idle machine; here others build meanwhile


def test_a_fork_in_user_code_is_safe_and_says_what_it_cannot(ray):
    @ray.remote
    def forks():
        import multiprocessing

        with multiprocessing.get_context("fork").Pool(2) as pool:
            return pool.map(abs, [-1, -2])

    assert ray.get(forks.remote(), timeout=30) == [1, 2]
    ref = ray.put(1)
    child = os.fork()
    if child == 0:
        try:
            ray.get(ref)
        except Exception as error:
            os._exit(7 if "fork" in str(error) else 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert ray.get(ref) == 1


def test_threads_of_a_driver_and_of_a_task_call_at_the_same_time(ray):
    from concurrent.futures import ThreadPoolExecutor

    @ray.remote
    def same(x):
        return x

    @ray.remote
    def threads():
        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(lambda i: ray.get(same.remote(i)), range(12)))

    assert ray.get(threads.remote(), timeout=60) == list(range(12))
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda i: ray.get(same.remote(i)), range(40))) == list(range(40))


def test_a_traceback_shows_the_users_frames_of_both_sides_and_none_of_ours(ray):
    @ray.remote
    class Deep:
        def outer(self):
            return self.inner()

        def inner(self):
            raise LookupError("down here")

    with pytest.raises(LookupError) as caught:
        ray.get(Deep.remote().outer.remote())
    text = str(caught.value)
    assert "in outer" in text and "in inner" in text and "down here" in text
    assert str(pathlib.Path(ray.__file__).parent) not in text


def test_a_wait_leaves_other_threads_of_python_running(ray, tmp_path):
    import threading

    @ray.remote
    def after(gate):
        while not os.path.exists(gate):
            time.sleep(0.005)
        return 1

    @ray.remote
    def items(gate):
        yield ray.get(after.remote(gate))

    waits = {
        "get": lambda gate: ray.get(after.remote(gate), timeout=20),
        "list": lambda gate: ray.get([after.remote(gate)], timeout=20)[0],
        "wait": lambda gate: len(ray.wait([after.remote(gate)], timeout=20)[0]),
        "future": lambda gate: after.remote(gate).future().result(timeout=20),
        "items": lambda gate: ray.get(next(items.remote(gate)), timeout=20),
    }
    for name, wait in waits.items():
        gate = tmp_path / name
        threading.Timer(0.05, gate.touch).start()  # while the main thread waits
        assert wait(gate) == 1, name


def test_a_worker_begins_with_rayo_and_cloudpickle_alone(ray):
    """What the driver has imported is imported where it is used: a worker is a fork of a small process."""
    import numpy

    @ray.remote
    class Fresh:
        def modules(self):
            return installed()

    def installed():
        import sys

        return sorted({name.partition(".")[0] for name, module in list(sys.modules.items())
                       if "-packages" in (getattr(module, "__file__", None) or "") or name == "rayo"})

    code = "import sys; print(*(name.partition('.')[0] for name, m in sys.modules.items() if '-packages' in (getattr(m, '__file__', None) or '')))"
    plain = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert numpy.__name__ in installed()
    assert set(ray.get(Fresh.remote().modules.remote(), timeout=20)) - set(plain.split()) == {"cloudpickle", "rayo"}


def test_a_worker_has_few_threads(ray):
    @ray.remote
    def threads():
        return len(os.listdir("/proc/self/task"))

    assert ray.get(threads.remote()) <= 4
