"""If this fails: the archive of ./dev dist does not run on a machine that has nothing but glibc and libstdc++.

The machine is a root directory that holds the unpacked archive, the libraries, and what a kernel gives (/proc, /dev/null, /dev/urandom,
/dev/shm): no shell, no /etc, no other program.
"""
import re
import shutil
import subprocess
import tarfile

import pytest
from conftest import BIN, ROOT, Home

# glibc (with its loader and libm) and libstdc++ (with the compiler's own libgcc_s).
LIBRARIES = ("ld-linux-x86-64.so.2", "libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1")
# Makes the kernel's part of the root in a mount namespace of the command's own, then is the command.
ENTER = """
mount -t proc proc "$0/proc" && mount -t tmpfs tmpfs "$0/dev" && mkdir "$0/dev/shm" &&
for device in null urandom; do : >"$0/dev/$device" && mount --bind "/dev/$device" "$0/dev/$device" || exit 99; done &&
exec chroot "$0" "$@"
"""


def can_change_root():
    return subprocess.run(["unshare", "--mount", "sh", "-c", "mount -t tmpfs tmpfs /mnt && exec chroot / /bin/true"], capture_output=True).returncode == 0


class BareMachine(Home):
    """A home inside the bare root; its folders have the same path there as this object's `root` has outside."""

    def __init__(self, tree, archive):
        super().__init__()
        self.tree = tree
        with tarfile.open(archive) as tar:
            tar.extractall(tree)
        (unpacked,) = tree.iterdir()
        self.program = "/" + unpacked.name + "/bin/rayo"
        for folder in ("proc", "dev", "tmp", "lib64", "lib/x86_64-linux-gnu", str(self.root).lstrip("/")):
            (tree / folder).mkdir(parents=True, exist_ok=True)
        self.env.update(PATH="/" + unpacked.name + "/bin")
        for name in LIBRARIES:
            found = subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
            shutil.copy(found, tree / "lib/x86_64-linux-gnu" / name)
        shutil.copy(tree / "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", tree / "lib64/")

    def popen(self, *args, env=None, **more):
        command = ["/usr/bin/unshare", "--mount", "/bin/sh", "-c", ENTER, str(self.tree), self.program, *map(str, args)]
        return subprocess.Popen(command, env={**self.env, "PATH": self.env["PATH"] + ":/usr/sbin:/usr/bin:/sbin:/bin", **(env or {})}, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, **more)


@pytest.fixture(scope="module")
def archive():
    if not (BIN / "rayo").exists() or not (BIN.parent / "lib" / "librayo.a").exists():
        pytest.skip("not built (./dev build)")
    made = subprocess.run([ROOT / "cmake" / "dist.sh"], capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr
    return ROOT / made.stdout.split()[0]


def test_the_archive_holds_programs_headers_and_one_library(archive):
    with tarfile.open(archive) as tar:
        names = {re.sub(r"^[^/]+/", "", name) for name in tar.getnames()}
    for program in ("rayo", "rayo-head", "rayo-raylet", "rayo-keeper", "rayo-gpu-probe"):
        assert f"bin/{program}" in names
    assert {"include/rayo/rayo.h", "include/boost/pfr.hpp", "LICENSE", "README.md"} <= names
    assert [name for name in names if name.endswith(".a")] == ["lib/librayo.a"]


def test_a_node_joins_from_a_root_that_holds_nothing_but_the_archive(home, archive, tmp_path):
    if not can_change_root():
        pytest.skip("no right to mount and change the root directory")
    head = home.start_head("--num-cpus", "0")
    token = {"RAYO_TOKEN": home.rayo("token", "--json", code=0).json()["token"]}
    bare = BareMachine(tmp_path / "root", archive)
    try:
        bare.rayo("version", code=0)
        joined = bare.start_node(head["address"], "--num-cpus", "1", env=token)
        # Only the bare node has a CPU: every task runs there, in a program that was shipped to it.
        ran = subprocess.run([BIN / "pi", "--tasks", "4", "--darts", "1000"], env=home.env, capture_output=True, text=True, timeout=60)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert re.search(rf"{re.escape(joined['node_address'])}\s+4 batches", ran.stdout), ran.stdout
        assert len(bare.status()["nodes"]) == 2
        bare.rayo("stop", code=0)
        home.wait_for(lambda: sum(one["state"] == "alive" for one in home.status()["nodes"]) == 1, "the bare node has left")
        home.wait_for(lambda: not bare.processes(), f"its processes have ended: {bare.processes()}")
        inside = bare.tree / str(bare.root).lstrip("/")
        assert not [path for path in (inside / "run").rglob("*") if path.is_socket() or path.is_file()]
    finally:
        bare.remove()
