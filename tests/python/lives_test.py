"""If these fail: an actor that was to outlive its program is gone, or one that may come back does not."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time

import pytest

_ROOT = pathlib.Path(__file__).resolve().parents[2]

_KEEPER = """
    import os
    import rayo as ray

    ray.init(namespace="lives")

    class Base:
        step = 1

    @ray.remote
    def double(x):
        return 2 * x

    @ray.remote
    class Keeper(Base):
        def __init__(self, count):
            self.count = count

        def add(self):
            self.count += self.step
            return self.count

        def doubled(self):
            return ray.get(double.remote(self.count))

        def pid(self):
            return os.getpid()

    keeper = Keeper.options(name="keeper", lifetime="detached", max_restarts=1).remote(40)
    print(ray.get(keeper.add.remote()))
"""

# Without the class, and after the end of the program that had it.
_OTHER = """
    import os
    import signal
    import rayo as ray

    ray.init(namespace="lives")
    keeper = ray.get_actor("keeper")
    assert ray.get(keeper.add.remote(), timeout=20) == 42
    assert ray.get(keeper.doubled.remote(), timeout=20) == 84
    pid = ray.get(keeper.pid.remote(), timeout=20)
    os.kill(pid, signal.SIGKILL)
    while True:
        try:
            assert ray.get(keeper.add.remote(), timeout=20) == 41
            break
        except ray.exceptions.ActorDiedError:
            pass  # it was sent before its death was known
    assert ray.get(keeper.pid.remote(), timeout=20) != pid
    ray.kill(keeper)
    try:
        ray.get_actor("keeper")
    except ValueError:
        print("gone")
"""


@pytest.fixture()
def cluster():
    """The environment of programs of one cluster, which no program owns."""
    folder = tempfile.mkdtemp(prefix="rayo-p-", dir="/tmp")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAYO_")}
    environment |= {"RAYO_HOME": f"{folder}/home", "RAYO_RUNTIME_DIR": f"{folder}/run",
                    "PYTHONPATH": str(_ROOT / "build" / "release" / "python")}
    command = _ROOT / "build" / "release" / "bin" / "rayo"
    ports = ["--port", "0", "--http-port", "0", "--node-port", "0"]
    subprocess.run([command, "start", "--head", "--local", *ports, "--num-cpus", "4"], env=environment, check=True, capture_output=True)
    yield environment
    subprocess.run([command, "stop", "--all"], env=environment, check=True, capture_output=True)
    shutil.rmtree(folder)


def test_a_detached_actor_outlives_its_script_and_comes_back_without_it(cluster, tmp_path):
    for script, said in ((_KEEPER, "41\n"), (_OTHER, "gone\n")):
        path = tmp_path / "script.py"
        path.write_text(textwrap.dedent(script))
        done = subprocess.run([sys.executable, path], env=cluster, text=True, capture_output=True, timeout=90)
        assert (done.returncode, done.stdout) == (0, said), done.stdout + done.stderr


def test_a_detached_actor_needs_a_name_and_a_lifetime_is_one_of_two(ray):
    @ray.remote
    class Nothing:
        pass

    with pytest.raises(ValueError, match="could be found by nobody"):
        Nothing.options(lifetime="detached").remote()
    with pytest.raises(ValueError, match="forever"):
        Nothing.options(lifetime="forever")


def test_calls_under_way_run_in_the_next_life_where_they_may(ray):
    @ray.remote(max_restarts=2, max_task_retries=1)
    class Phoenix:
        def pid(self):
            return os.getpid()

        def wait(self, marker):
            if os.path.exists(marker):
                return "second life"
            pathlib.Path(marker).touch()
            time.sleep(60)

    phoenix = Phoenix.remote()
    pid = ray.get(phoenix.pid.remote(), timeout=20)
    marker = f"/tmp/rayo-lives-{pid}"
    try:
        answer = phoenix.wait.remote(marker)
        while not os.path.exists(marker):
            pass
        os.kill(pid, signal.SIGKILL)
        assert ray.get(answer, timeout=20) == "second life"
        assert ray.get(phoenix.pid.remote(), timeout=20) != pid
    finally:
        pathlib.Path(marker).unlink(missing_ok=True)


def test_a_kill_that_means_one_life_is_followed_by_the_next_as_often_as_it_may(ray):
    @ray.remote(max_restarts=1)
    class Phoenix:
        def __init__(self, first):
            self.count = first

        def add(self):
            self.count += 1
            return self.count, os.getpid()

    phoenix = Phoenix.options(name="killed twice").remote(40)
    _, pid = ray.get(phoenix.add.remote(), timeout=20)
    ray.kill(phoenix, no_restart=False)
    count, other = ray.get(phoenix.add.remote(), timeout=20)
    assert (count, other != pid) == (41, True), "its constructor has run again"
    assert not os.path.exists(f"/proc/{pid}")
    ray.kill(phoenix, no_restart=False)
    with pytest.raises(ray.exceptions.ActorDiedError) as caught:
        ray.get(phoenix.add.remote(), timeout=20)
    assert caught.value.death["kind"] == "killed"
    with pytest.raises(ValueError):
        ray.get_actor("killed twice")
    mortal = Phoenix.options(max_restarts=0).remote(0)
    ray.get(mortal.add.remote(), timeout=20)
    ray.kill(mortal, no_restart=False)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(mortal.add.remote(), timeout=20)


def _runs(path):
    """The pids of the runs that a task has noted there."""
    return pathlib.Path(path).read_text().split()


def test_a_task_whose_worker_dies_runs_again_in_another(ray, tmp_path):
    @ray.remote
    def third_time(path):
        with open(path, "a") as file:
            file.write(f"{os.getpid()}\n")
        if len(_runs(path)) < 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return os.getpid()

    path = tmp_path / "runs"
    last = ray.get(third_time.remote(path), timeout=60)
    assert len(set(_runs(path))) == 3 and _runs(path)[-1] == str(last)
    for most in (0, 1):
        path = tmp_path / f"runs {most}"
        with pytest.raises(ray.exceptions.WorkerCrashedError) as caught:
            ray.get(third_time.options(max_retries=most).remote(path), timeout=60)
        assert caught.value.death["signal"] == signal.SIGKILL
        assert len(_runs(path)) == most + 1
    with pytest.raises(ValueError, match="max_retries is -2"):
        third_time.options(max_retries=-2)


def test_a_worker_ends_after_max_calls(ray):
    @ray.remote(max_calls=2, num_cpus=4)  # one at a time
    def pid():
        return os.getpid()

    pids = ray.get([pid.remote() for _ in range(6)], timeout=60)
    assert [pids[i] == pids[i + 1] for i in range(0, 6, 2)] == [True] * 3
    assert len(set(pids)) == 3

    @ray.remote
    def gone(pid):
        for _ in range(1000):
            if not os.path.exists(f"/proc/{pid}"):
                return True
            time.sleep(0.01)

    assert ray.get(gone.remote(pids[0]), timeout=60)


def test_an_actor_takes_no_more_calls_than_max_pending_calls(ray, tmp_path):
    @ray.remote(max_pending_calls=2)
    class Slow:
        def wait_for(self, path):
            while not os.path.exists(path):
                time.sleep(0.01)
            return "done"

    slow = Slow.remote()
    path = tmp_path / "go"
    refs = [slow.wait_for.remote(path) for _ in range(2)]
    with pytest.raises(ray.exceptions.PendingCallsLimitExceeded, match="max_pending_calls"):
        slow.wait_for.remote(path)
    path.touch()
    assert ray.get(refs, timeout=20) == ["done"] * 2
    assert ray.get(slow.wait_for.remote(path), timeout=20) == "done"


def test_spread_is_understood(ray):
    @ray.remote(scheduling_strategy="SPREAD")
    def where():
        return ray.get_runtime_context().get_node_id()

    assert len(set(ray.get([where.remote() for _ in range(8)], timeout=30))) == 1  # one node is all there is
