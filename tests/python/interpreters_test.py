"""Every Python that is installed here either runs Rayo or is told why not; and what a node's Python lacks is told with the node
and the interpreter. If one fails, a user reads a bare "No module named" and does not know where, or of what."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import textwrap

import pytest

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_PACKAGE = _ROOT / "build" / "release" / "python"


def _found():
    """(path, version, ABI) of each python3.X on PATH and of pyenv's, once each."""
    folders = [*map(pathlib.Path, os.environ["PATH"].split(os.pathsep)), *pathlib.Path("/root/.pyenv/versions").glob("*/bin")]
    ask = "import os, sys, sysconfig; print(os.path.realpath(sys.executable), sys.version.split()[0], sysconfig.get_config_var('SOABI'))"
    found = set()
    for path in {path for folder in folders for path in folder.glob("python3.*") if re.fullmatch(r"python3\.\d+", path.name)}:
        asked = subprocess.run([path, "-c", ask], capture_output=True, text=True)
        if asked.returncode == 0:  # a shim of pyenv may have nothing behind it
            found.add(tuple(asked.stdout.split()))
    return [pytest.param(*each, id=f"{each[1]}-{pathlib.Path(each[0]).parts[1]}") for each in sorted(found)]


@pytest.mark.parametrize("python, version, abi", _found())
def test_an_installed_python_runs_a_task_or_is_told_what_it_lacks(home, python, version, abi):
    script = "import rayo; rayo.init(num_cpus=1); print(rayo.get(rayo.remote(lambda: 6 * 7).remote()))"
    environment = {**os.environ, "PYTHONPATH": str(_PACKAGE), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([python, "-c", script], capture_output=True, text=True, timeout=60, env=environment)
    if abi == sysconfig.get_config_var("SOABI") and done.returncode != 0 and "No module named 'cloudpickle'" in done.stderr:
        pytest.skip(f"{python} has no cloudpickle")
    if abi == sysconfig.get_config_var("SOABI"):
        assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr
        return
    told = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1 and told.startswith("ImportError: "), done.stderr
    assert f"Python {version.rpartition('.')[0]}" in told and str(python) in told, told
    pytest.skip(f"the native part is built for {sysconfig.get_config_var('SOABI')}, and the user of {python} is told so")


@pytest.fixture()
def script(home, tmp_path):
    """Runs a script in a process of its own, on a cluster of its own."""

    def run(text):
        path = tmp_path / "script.py"
        path.write_text(textwrap.dedent(text))
        environment = {**os.environ, "PYTHONPATH": str(_PACKAGE)}
        return subprocess.run([sys.executable, path], env=environment, text=True, capture_output=True, timeout=60, cwd=tmp_path)

    return run


def test_a_module_that_a_node_lacks_is_named_with_node_and_interpreter(script, tmp_path):
    (tmp_path / "only_here.py").write_text("def triple(x):\n    return 3 * x\n")
    done = script("""
        import os
        import socket
        import sys
        import rayo as ray
        import only_here

        ray.init(num_cpus=1)
        os.remove("only_here.py")                       # as if the workers were on another machine

        @ray.remote
        def imports_inside():
            import not_anywhere

        @ray.remote
        class Holder:
            def hold(self, value):
                return 1

        @ray.remote
        def takes(value):
            return 1

        calls = [ray.remote(only_here.triple).remote(1), imports_inside.remote(), Holder.remote().hold.remote(only_here.triple),
                 takes.remote(only_here.triple)]
        for call in calls:
            try:
                print(ray.get(call, timeout=30))
            except ModuleNotFoundError as error:
                text = str(error)
                print(error.name, socket.gethostname() in text, sys.executable in text, ray.nodes()[0]["NodeID"][:8] in text)
    """)
    there = "True True True\n"
    assert done.stdout == f"only_here {there}not_anywhere {there}only_here {there}only_here {there}", done.stdout + done.stderr


def test_modules_beside_the_script_arrive_where_it_is_not(script, tmp_path):
    (tmp_path / "only_here.py").write_text("import tools.deep\n\nclass Box:\n    size = tools.deep.SIZE\n\ndef triple(x):\n    return 3 * x\n")
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "__init__.py").touch()
    (tmp_path / "tools" / "deep.py").write_text("SIZE = 7\n")
    (tmp_path / "never_imported.py").write_text("NAME = 'late'\n")
    (tmp_path / "data.csv").write_text("1,2")
    done = script("""
        import os
        import shutil
        import sys
        import rayo as ray
        import only_here

        ray.init(num_cpus=1)
        os.remove(sys.argv[0])                          # as if the workers were on another machine
        os.remove("only_here.py")
        os.remove("never_imported.py")
        shutil.rmtree("tools")

        @ray.remote
        class Holder:
            def __init__(self, box):
                self.size = box.size

            def late(self):
                import never_imported

                return never_imported.NAME, self.size, os.listdir(os.path.dirname(never_imported.__file__))

            def nothing(self):
                import not_anywhere

        holder = Holder.remote(only_here.Box())
        print(ray.get(holder.late.remote(), timeout=30), ray.get(ray.remote(num_cpus=0)(only_here.triple).remote(4), timeout=30))
        try:
            ray.get(holder.nothing.remote(), timeout=30)
        except ModuleNotFoundError as error:
            print(error.name)
    """)
    first, *rest = done.stdout.splitlines()
    assert first.startswith("('late', 7, [") and first.endswith("]) 12") and "data.csv" not in first, done.stdout + done.stderr
    assert rest == ["not_anywhere"], done.stdout + done.stderr


def test_a_node_without_rayo_is_named_with_its_interpreter(script):
    done = script("""
        import os
        import sys
        import rayo as ray
        from rayo import _environment

        os.environ["PYTHONPATH"] = ""
        os.environ["RAYO_BIN"] = os.path.join(_environment.HERE, "bin")
        _environment.HERE = "/nowhere/rayo"                # where the driver says that rayo lies: not so on the node
        ray.init(num_cpus=1)
        try:
            ray.get(ray.remote(lambda: 1).remote(), timeout=30)
        except ray.exceptions.RayError as error:
            print(str(error).replace("\\n", " "), error.death["node"] == ray.nodes()[0]["NodeID"])
    """)
    told = f"python_mismatch: the driver's {sys.executable} (Python {sys.version_info.major}.{sys.version_info.minor}) has rayo"
    assert told in done.stdout and "on node" in done.stdout, done.stdout + done.stderr
    assert f"{sys.executable}: " in done.stdout and "No module named 'rayo'" in done.stdout, done.stdout + done.stderr
    assert done.stdout.endswith("True\n"), done.stdout + done.stderr


# ---- which Python a node runs ----


@pytest.fixture()
def cluster():
    """Starts nodes of one cluster; `rayo("start", ...)` and the environment of its programs."""
    folder = tempfile.mkdtemp(prefix="rayo-i-", dir="/tmp")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAYO_")}
    environment |= {"RAYO_HOME": f"{folder}/home", "RAYO_RUNTIME_DIR": f"{folder}/run", "PYTHONPATH": str(_PACKAGE)}

    def rayo(*arguments, **extra):
        done = subprocess.run([_ROOT / "build/release/bin/rayo", *arguments], env={**environment, **extra}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    yield rayo, environment
    rayo("stop", "--all")
    shutil.rmtree(folder)


_ANY = ("--port", "0", "--http-port", "0", "--node-port", "0", "--num-cpus", "1")


def _joined(rayo, *flags, **extra):
    address = json.loads(rayo("status", "--json"))["cluster"]["address"]
    rayo("start", "--address", address, "--node-port", "0", "--num-cpus", "1", "--resources", '{"far": 1}', *flags, **extra)


def _run(python, environment, tmp_path, text):
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(text))
    done = subprocess.run([python, path], env=environment, text=True, capture_output=True, timeout=90, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _venv(place):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", place], check=True)
    return str(place / "bin" / "python3")


_WHICH = """
    import sys
    import rayo as ray

    ray.init()

    @ray.remote
    def which():
        return sys.executable

    @ray.remote(resources={"far": 1})
    class There:
        def which(self):
            return sys.executable

    print(ray.get([which.remote(), which.options(resources={"far": 1}).remote()], timeout=60), ray.get(There.remote().which.remote(), timeout=60))
"""


def test_a_node_runs_the_python_that_its_owner_names(cluster, tmp_path):
    rayo, environment = cluster
    own = _venv(tmp_path / "own")
    rayo("start", "--head", "--local", *_ANY)
    _joined(rayo, "--python", own)
    assert _run(sys.executable, environment, tmp_path, _WHICH) == f"{[sys.executable, own]} {own}\n"


def test_a_node_without_the_drivers_python_runs_that_of_its_path(cluster, tmp_path):
    rayo, environment = cluster
    rayo("start", "--head", "--local", *_ANY, PATH="/usr/bin:/bin")
    drivers = _venv(tmp_path / "venv")
    text = """
        import shutil
        import sys
        import rayo as ray

        shutil.rmtree(sys.prefix)                       # as on a machine where there is no such environment
        ray.init()
        print(ray.get(ray.remote(lambda: sys.executable).remote(), timeout=60))
    """
    assert _run(drivers, environment, tmp_path, text) == "/usr/bin/python3\n"


@pytest.mark.parametrize("python", [each.values[0] for each in _found() if not each.values[1].startswith("3.11.")])
def test_another_minor_version_on_a_node_is_a_python_mismatch_with_both(cluster, tmp_path, python):
    rayo, environment = cluster
    rayo("start", "--head", "--local", *_ANY, "--python", python)
    told = _run(sys.executable, environment, tmp_path, """
        import rayo as ray

        ray.init()
        try:
            ray.get(ray.remote(lambda: 1).remote(), timeout=60)
        except ray.exceptions.RayError as error:
            print(error)
    """)
    there = re.search(r"python(3\.\d+)", python)[1]
    assert f"python_mismatch: the driver runs Python 3.11, and this node's {python} is Python {there}" in told, told
