"""The wheel: who installs it has the package and the program `rayo`, in an environment that knows nothing of the tree."""

import os
import pathlib
import subprocess
import sys

import pytest

_ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.skipif(sys.executable != "/usr/bin/python3", reason="the extension is built for Debian's python3")
def test_a_wheel_carries_the_package_and_the_program(home, tmp_path):
    plain = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "RAYO_BIN")}
    pip = [sys.executable, "-m", "pip"]
    if subprocess.run([*pip, "--version"], capture_output=True).returncode != 0:
        pytest.skip("there is no pip for this python3")
    subprocess.run([*pip, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--config-settings", "build=no",
                    "--wheel-dir", tmp_path, _ROOT], check=True, env=plain, timeout=120)
    wheel, = tmp_path.glob("rayo-*.whl")
    site = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", site], check=True, timeout=120)
    subprocess.run([site / "bin/pip", "install", "--quiet", "--no-deps", "--no-index", wheel], check=True, env=plain,
                   timeout=120)
    script = "import rayo, sys; rayo.init(num_cpus=1); print(rayo.get(rayo.remote(lambda: rayo.__file__).remote()))"
    done = subprocess.run([site / "bin/python3", "-c", script], env=plain, capture_output=True, text=True, timeout=60,
                          cwd=tmp_path)
    assert done.stdout.startswith(str(site)), done.stderr
    told = subprocess.run([site / "bin/rayo", "version"], env=plain, capture_output=True, text=True, timeout=20)
    assert told.returncode == 0 and "0.1.0" in told.stdout, told.stderr
