"""Files that were written for Ray, `import ray` and all, run as they are (the package in shim/, for tests alone)."""

import os
import pathlib
import subprocess
import sys
import textwrap

_ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_a_file_that_imports_ray_runs_unchanged(home, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent("""
        import ray
        from ray.exceptions import RayTaskError, TaskCancelledError
        from ray.util import ActorPool
        from ray.util.queue import Queue

        ray.init(num_cpus=2)

        @ray.remote
        class Adder:
            def add(self, a, b):
                return a + b

        @ray.remote
        def count(queue, n):
            for i in range(n):
                queue.put(i)

        @ray.remote
        def fail():
            raise ray.exceptions.RayError("by name")

        pool = ActorPool([Adder.remote() for _ in range(2)])
        print(list(pool.map(lambda actor, n: actor.add.remote(n, n), range(4))))
        queue = Queue()
        ray.get(count.remote(queue, 3))
        print([queue.get() for _ in range(3)])
        try:
            ray.get(fail.remote())
        except RayTaskError as error:
            print(type(error.cause).__name__)
    """))
    path = os.pathsep.join([str(_ROOT / "tests/python/shim"), str(_ROOT / "build/release/python")])
    done = subprocess.run([sys.executable, script], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
                          timeout=60)
    assert (done.returncode, done.stdout) == (0, "[0, 2, 4, 6]\n[0, 1, 2]\nRayError\n"), done.stderr


def test_the_example_of_dev_demo_python_runs(home):
    done = subprocess.run([sys.executable, _ROOT / "examples/python/three_nodes.py"], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "PYTHONPATH": str(_ROOT / "build/release/python")})
    assert done.returncode == 0 and "pi is about 3.14" in done.stdout, done.stdout + done.stderr
    assert "('the', 345)" in done.stdout and "ZeroDivisionError" in done.stdout
