"""init and shutdown, programs of their own, Ctrl-C, output of workers."""

import os
import pathlib
import resource
import signal
import subprocess
import sys
import textwrap
import time

import pytest

_ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture()
def script(home, tmp_path):
    """Runs a script in a process of its own, on a cluster of its own."""

    def run(text, wait=True, **extra):
        path = tmp_path / "script.py"
        path.write_text(textwrap.dedent(text))
        environment = {**os.environ, "PYTHONPATH": str(_ROOT / "build" / "release" / "python"), **extra}
        process = subprocess.Popen([sys.executable, path], env=environment, text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, cwd=tmp_path)
        if not wait:
            return process
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    return run


def test_a_script_needs_no_init_and_a_second_init_works(script):
    code, out, err = script("""
        import rayo as ray

        @ray.remote
        def one():
            return 1

        print(ray.get(one.remote()), ray.is_initialized())
        ray.shutdown()
        print(ray.is_initialized())
        with ray.init(num_cpus=2):
            print(ray.get(one.remote()), ray.cluster_resources()["CPU"])
    """)
    assert (code, out) == (0, "1 True\nFalse\n1 2.0\n"), err


def test_a_future_of_an_earlier_sessions_ref_is_refused_and_not_waited_for(script):
    code, out, err = script("""
        import rayo as ray
        from rayo import _native

        ray.init(num_cpus=2)
        old = ray.put(1)
        ray.shutdown()
        ray.init(num_cpus=2)
        try:
            old.future()
        except Exception as error:
            print("session had ended" in str(error), _native.Completions.any_watched())
    """)
    assert (code, out) == (0, "True False\n"), err


def test_a_cluster_of_its_own_is_as_init_says(script):
    code, out, err = script("""
        import rayo as ray

        ray.init(num_cpus=3, num_gpus=0, resources={"tpu": 2}, labels={"zone": "a", "disk": "ssd"}, object_store_memory=80 << 20)
        print(ray.cluster_resources()["CPU"], ray.cluster_resources()["tpu"], ray.nodes()[0]["Labels"])
        from rayo.util import state
        print(state._rows("nodes", None, 30)[0]["object_store"]["capacity_bytes"])
        print(ray.get(ray.remote(label_selector={"zone": "a"})(lambda: "there").remote()))
    """)
    *first, capacity, there = out.splitlines()
    assert (code, there) == (0, "there"), err
    assert "3.0 2.0" in first[0] and "'zone': 'a'" in first[0] and "'disk': 'ssd'" in first[0]
    assert 64 << 20 <= int(capacity) <= 80 << 20


def test_what_is_chosen_for_a_cluster_that_runs_already_is_refused_with_the_flag(script):
    code, out, err = script("""
        import os
        import subprocess
        import rayo as ray
        from rayo import _program

        ports = ["--port", "0", "--http-port", "0", "--node-port", "0"]
        subprocess.run([_program.path(), "start", "--head", "--local", *ports, "--num-cpus", "2"], check=True, capture_output=True)
        try:
            chosen = {"num_cpus": 4, "num_gpus": 0, "resources": {"a": 1}, "labels": {"a": "b"}, "object_store_memory": 1 << 30}
            for name, value in chosen.items():
                try:
                    ray.init(**{name: value})
                except ValueError as error:
                    assert name in str(error), error
                    print(error.__notes__[0].rpartition("give a node ")[2])
            ray.init(address="auto", log_to_driver=True)
            print(ray.cluster_resources()["CPU"])
            ray.shutdown()
        finally:
            subprocess.run([_program.path(), "stop", "--all"], check=True, capture_output=True)
    """)
    assert code == 0, err
    flags = ["--num-cpus", "--num-gpus", "--resources", "--labels", "--object-store-memory"]
    assert out.splitlines() == [*(f"{flag} at `rayo start`" for flag in flags), "2.0"]


def test_auto_wants_a_cluster_that_runs_and_local_one_of_its_own(script):
    code, out, err = script("""
        import subprocess
        import rayo as ray
        from rayo import _program

        try:
            ray.init("auto")
        except ConnectionError as error:
            print(type(error).__name__, "rayo start" in str(error))
        ports = ["--port", "0", "--http-port", "0", "--node-port", "0"]
        subprocess.run([_program.path(), "start", "--head", "--local", *ports, "--num-cpus", "2"], check=True, capture_output=True)
        try:
            ray.init("auto")
            running = ray.cluster_resources()["CPU"]
            ray.shutdown()
            ray.init("local", num_cpus=3)
            print(running, ray.cluster_resources()["CPU"], ray.get(ray.remote(len).remote("abc")))
            ray.shutdown()
        finally:
            subprocess.run([_program.path(), "stop", "--all"], check=True, capture_output=True)
    """)
    assert (code, out) == (0, "ClusterConnectionError True\n2.0 3.0 3\n"), err


def test_a_cluster_that_does_not_answer_is_a_connection_error(script):
    token = f"{'0' * 64}.{'0' * 64}"
    code, out, err = script("""
        import rayo as ray

        for address in ("127.0.0.1:1", "ray://head:10001"):
            try:
                ray.init(address)
            except (ConnectionError, ValueError) as error:
                print(type(error).__name__, "127.0.0.1:1" in str(error) or "Ray Client" in str(error))
    """, RAYO_TOKEN=token)
    assert (code, out) == (0, "ClusterConnectionError True\nValueError True\n"), err


def test_log_to_driver_false_keeps_what_workers_print_away(script):
    code, out, err = script("""
        import sys
        import rayo as ray

        ray.init(num_cpus=1, log_to_driver=False)

        @ray.remote
        def loud():
            print("heard", flush=True)
            print("heard", file=sys.stderr, flush=True)

        ray.get(loud.remote())
        ray.shutdown()
    """)
    assert (code, out, err) == (0, "", "")


def test_init_twice_is_an_error_that_names_both_ways_out(script):
    code, out, err = script("""
        import rayo
        rayo.init(num_cpus=1)
        rayo.init(ignore_reinit_error=True)
        try:
            rayo.init()
        except RuntimeError as error:
            print(error)
    """)
    assert code == 0 and "shutdown()" in out and "ignore_reinit_error" in out, err


def test_a_module_beside_the_script_arrives(script, tmp_path):
    (tmp_path / "helper_module.py").write_text("def triple(x):\n    return 3 * x\n")
    code, out, err = script("""
        import rayo as ray
        import helper_module

        print(ray.get(ray.remote(helper_module.triple).remote(5)))
    """)
    assert (code, out) == (0, "15\n"), err


def test_what_workers_print_appears_at_the_driver_with_its_prefix(script):
    code, out, err = script("""
        import rayo as ray

        @ray.remote
        class Talker:
            def talk(self):
                print("good morning")

        talker = Talker.remote()
        ray.get(talker.talk.remote())
    """)
    assert code == 0, err
    assert "(Talker pid=" in out + err and "good morning" in out + err


def test_what_many_workers_say_alike_is_told_once_and_a_progress_bar_is_its_last_state(script):
    code, out, err = script("""
        import rayo as ray

        @ray.remote(num_cpus=0)
        class Warner:
            def warn(self):
                print("no accelerator was found")

            def progress(self):
                for i in range(0, 101, 10):
                    print(f"{i}% done", end="\\r" if i < 100 else "\\n", flush=True)

        warners = [Warner.remote() for _ in range(5)]
        ray.get([warner.warn.remote() for warner in warners])
        ray.get(warners[0].progress.remote())
    """)
    told = [line for line in (out + err).splitlines() if "no accelerator" in line]
    assert code == 0 and len(told) == 2 and told[0].startswith("(Warner pid=") and "4 more said so" in told[1], out + err
    bars = [line for line in out.splitlines() if "% done" in line]
    assert len(bars) == 1 and bars[0].startswith("(Warner pid=") and bars[0].endswith("100% done"), out


def test_a_flood_of_output_is_cut_and_counted_and_holds_nobody_up(script):
    begin = time.monotonic()
    code, out, err = script("""
        import time
        import rayo as ray

        @ray.remote
        def flood():
            for i in range(60_000):
                print("line", i)
            return "done"

        print(ray.get(flood.remote()))
        time.sleep(1.5)
    """)
    assert code == 0 and "done" in out, err
    assert "left out" in out + err
    assert len(out.splitlines()) < 50_000 and time.monotonic() - begin < 30


def test_environment_variables_of_the_runtime_env_reach_workers_only(script):
    code, out, err = script("""
        import os
        import rayo as ray

        ray.init(runtime_env={"env_vars": {"MODE": "fast"}})

        @ray.remote
        def mode():
            return os.environ.get("MODE")

        print(ray.get(mode.remote()), os.environ.get("MODE"))
    """)
    assert (code, out) == (0, "fast None\n"), err


def test_a_program_ends_well_while_threads_and_loops_still_wait(script):
    for _ in range(5):
        code, out, err = script("""
            import asyncio
            import threading
            import time
            import rayo as ray

            @ray.remote
            def sleep():
                time.sleep(60)

            refs = [sleep.remote() for _ in range(3)]
            threading.Thread(target=lambda: ray.get(refs[0]), daemon=True).start()
            future = refs[1].future()

            async def main():
                task = asyncio.ensure_future(asyncio.wait_for(refs[2].as_future(), 0.1))
                await asyncio.wait([task])

            asyncio.run(main())
            print("end", flush=True)
        """)
        assert (code, out) == (0, "end\n"), err
        assert "terminate" not in err and "Fatal" not in err, err


def test_another_python_on_a_node_is_named_with_both_versions(script):
    code, out, err = script("""
        import rayo as ray
        from rayo import _cluster

        variables = _cluster.worker_variables
        _cluster.worker_variables = lambda *given: {**variables(*given), "RAYO_PYTHON_VERSION": "3.7"}
        ray.init(num_cpus=1)
        try:
            ray.get(ray.remote(lambda: 1).remote(), timeout=30)
        except ray.exceptions.RayError as error:
            print(error)
    """)
    assert code == 0 and "python_mismatch" in out and "on node" in out and "3.7" in out and sys.executable in out, out + err


def test_working_dir_and_py_modules_travel(script, tmp_path):
    code, out, err = script("""
        import os
        import pathlib
        import sys
        import rayo as ray

        here = pathlib.Path(sys.argv[0]).parent
        (here / "work" / "data").mkdir(parents=True)
        (here / "work" / "beside.py").write_text("NAME = 'beside'")
        (here / "work" / "data" / "numbers.txt").write_text("1 2 3")
        (here / "elsewhere" / "tools").mkdir(parents=True)
        (here / "elsewhere" / "tools" / "__init__.py").write_text("def triple(x): return 3 * x")
        ray.init(runtime_env={"working_dir": str(here / "work"), "py_modules": [str(here / "elsewhere" / "tools")]})

        @ray.remote
        def use():
            import beside
            import tools

            return beside.NAME, tools.triple(2), open("data/numbers.txt").read(), os.getcwd()

        name, six, numbers, folder = ray.get(use.remote())
        print(name, six, numbers, folder != str(here / "work"), os.getcwd() == str(here))
        ray.shutdown()
        print(os.path.exists(folder))
        try:
            ray.init(runtime_env={"working_dir": str(here / "nothing")})
        except ValueError as error:
            print(error)
    """)
    assert code == 0 and out.startswith("beside 6 1 2 3 True True\nFalse\nruntime_env names"), out + err


def test_an_argument_may_be_of_a_class_of_the_working_dir_and_excludes_stay(script):
    code, out, err = script("""
        import os
        import pathlib
        import sys
        import rayo as ray
        from rayo.runtime_env import RuntimeEnv

        work = pathlib.Path(sys.argv[0]).parent / "work"
        for folder in ("data", "src/data"):
            (work / folder).mkdir(parents=True)
            (work / folder / "numbers.csv").write_text("1 2 3")
        (work / "boxes.py").write_text("class Box:\\n    size = 3\\n")
        (work / "notes.log").touch()
        sys.path.insert(0, str(work))
        import boxes
        sys.path.remove(str(work))                      # so that workers find it in their copy alone
        ray.init(num_cpus=1, runtime_env=RuntimeEnv(working_dir=str(work), excludes=["*.log", "/data/"], config={"eager_install": True}))

        @ray.remote
        def size_of(box):
            return box.size, sorted(os.listdir(".")), os.listdir("src/data")

        @ray.remote(num_cpus=0)
        class Holder:
            def __init__(self, box):
                self.size = box.size

            def get(self):
                return self.size

        print(ray.get([size_of.remote(boxes.Box()), Holder.remote(boxes.Box()).get.remote()], timeout=30))
    """)
    assert (code, out) == (0, "[(3, ['boxes.py', 'src'], ['numbers.csv']), 3]\n"), err


@pytest.mark.parametrize("read", ["ray.get(fails.remote())", "ray.get([fails.remote()], timeout=30)", "asyncio.run(awaits(fails.remote()))",
                                  "asyncio.run(awaits(ready(fails.remote())))", "fails.remote().future().result()"])
def test_an_uncaught_error_shows_the_users_frames_of_both_sides_and_none_of_ours(script, read):
    code, out, err = script("""
        import asyncio
        import rayo as ray

        @ray.remote
        def fails():
            raise ValueError("seven is wrong")

        def ready(ref):
            ray.wait([ref])
            return ref

        async def awaits(ref):
            await ref

        ray.init(num_cpus=1, log_to_driver=False)
        READ
    """.replace("READ", read))
    assert code == 1 and read in err and "in fails" in err and "seven is wrong" in err, err
    assert str(_ROOT / "build/release/python") not in err and str(_ROOT / "python_bindings") not in err, err


def test_get_is_a_function_like_others(ray):
    """Also as a global of a user's function, which travels with it."""
    import inspect
    from rayo import get

    @ray.remote
    def twice(refs):
        return 2 * get(refs[0])

    assert get([twice.remote([ray.put(4)])], timeout=20) == [8]
    assert str(inspect.signature(get)) == "(object_refs, *, timeout=None)" and "list of refs" in inspect.getdoc(get)
    assert get(object_refs=ray.put(1)) == 1
    for wrong in (lambda: get(), lambda: get(ray.put(1), 5), lambda: get(ray.put(1), until=5), lambda: get([ray.put(1), 2])):
        with pytest.raises(TypeError, match="get"):
            wrong()


def test_ctrl_c_ends_a_get_at_once(script):
    process = script("""
        import time
        import rayo as ray

        @ray.remote
        def sleep():
            time.sleep(60)

        ref = sleep.remote()
        print("waiting", flush=True)
        try:
            ray.get(ref)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """, wait=False)
    assert process.stdout.readline() == "waiting\n"
    time.sleep(0.2)  # into get: nothing outside shows that it waits
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert "interrupted" in out, err
    assert time.monotonic() - begin < 5


def test_a_signals_handler_runs_at_once_in_a_get(script):
    code, out, err = script("""
        import signal
        import statistics
        import time
        import rayo as ray

        class Enough(Exception):
            pass

        def on_alarm(*_):
            raise Enough

        @ray.remote
        def sleep():
            time.sleep(30)

        ref = sleep.remote()
        signal.signal(signal.SIGALRM, on_alarm)
        late = []
        for _ in range(9):
            due = time.monotonic() + 0.1
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            try:
                ray.get(ref)
            except Enough:
                late.append(time.monotonic() - due)
        print(len(late), statistics.median(late) < 0.01, late)
    """)
    assert code == 0 and out.startswith("9 True"), out + err


def test_importing_is_quick(home):
    environment = {**os.environ, "PYTHONPATH": str(_ROOT / "build" / "release" / "python")}
    spent = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", "import rayo"], env=environment, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(spent) < 0.4  # of a processor, not of a clock: this notices an import that grows by an order
