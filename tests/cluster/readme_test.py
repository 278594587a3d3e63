"""If these fail: what README and docs tell a newcomer to type or to compile does not work."""
import os
import re
import shlex
import subprocess

import pytest
from conftest import BIN, ROOT

# What the C++ of a document prints; that of others runs, and may print what it likes.
PRINTS = {"README.md": "3\n"}


def blocks(language):
    """(where, text) of each fenced block of README and docs."""
    for file in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = file.read_text()
        for found in re.finditer(rf"^```{language}\n(.*?)^```", text, re.S | re.M):
            line = text.count("\n", 0, found.start()) + 1
            yield pytest.param(file.relative_to(ROOT).as_posix(), found[1], id=f"{file.relative_to(ROOT)}:{line}")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    if not (BIN.parent / "lib" / "librayo.a").exists():
        pytest.skip("not built (./dev build)")
    prefix = tmp_path_factory.mktemp("prefix")
    subprocess.run(["cmake", "--install", BIN.parent, "--prefix", prefix], check=True, capture_output=True)
    return prefix


@pytest.mark.parametrize("where, code", blocks("cpp"))
def test_a_program_of_the_documents_builds_and_runs_on_a_cluster(home, installed, tmp_path, where, code):
    source, program = tmp_path / "example.cc", tmp_path / "example"
    source.write_text(code)
    (pkgconfig,) = installed.rglob("pkgconfig")
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "rayo"], env={**os.environ, "PKG_CONFIG_PATH": str(pkgconfig)}, text=True,
                           capture_output=True, check=True).stdout
    built = subprocess.run(["g++", "-std=c++20", "-Wall", "-Wextra", "-Werror", source, "-o", program, *shlex.split(flags)], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    home.start_head()
    ran = subprocess.run([program], env=home.env, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert where not in PRINTS or ran.stdout == PRINTS[where]


@pytest.mark.parametrize("where, text", blocks("sh"))
def test_the_commands_of_the_documents_run_as_written(home, where, text):
    commands = [line for line in text.splitlines() if line and not line.startswith("./dev demo") and line != "./dev test"]
    # `./dev demo` is ctest's cluster.demo, and `./dev test` is what runs this.
    ran = subprocess.run(["bash", "-e", "-c", "\n".join(commands)], cwd=ROOT, env=home.env, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr
