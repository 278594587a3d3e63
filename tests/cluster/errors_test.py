"""What a user loses if these fail: an error message that docs/errors.md promises, or its exit code.

Each row of the table in docs/errors.md is a test; the function of its id brings the input about and returns the Result.
"""
import ctypes
import http.server
import os
import resource
import shutil
import socket
import subprocess
import threading
from pathlib import Path

import pytest
from conftest import BIN, ROOT, Home, Result, can_make_namespaces
from errors_table import expect, rows

OTHER_TOKEN = "0" * 64 + "." + "1" * 64
FAKE_NVML = next(iter(sorted((BIN.parent).rglob("libfake_nvml.so"))), None)


def listen(home, handler=None):
    """A socket of this process on a free port, closed at the end of the test."""
    server = socket.create_server(("127.0.0.1", 0))
    home.closers.append(server.close)
    if handler:
        def serve():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                home.closers.append(connection.close)
                handler(connection)
        threading.Thread(target=serve, daemon=True).start()
    return server.getsockname()[1]


def head(*flags):
    return lambda home: home.rayo("start", "--head", "--local", "--port", "0", "--http-port", "0", "--node-port", "0", *flags)


def command(*words):
    return lambda home: home.rayo(*words)


def join(address, token=OTHER_TOKEN):
    return lambda home: home.rayo("start", "--address", address, env={"RAYO_TOKEN": token} if token else None)


def printed_to(where):
    def make(home):
        ran = subprocess.run(["bash", "-c", f'"$0" version {where}', str(home.program)], env=home.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        return Result(["version", where], ran.returncode, ran.stdout, ran.stderr, 0)
    return make


def after_reboot(home):
    import json
    folder = home.root / "home" / "sessions"
    folder.mkdir(parents=True)
    (folder / "alpha.json").write_text(json.dumps(dict(
        schema=1, name="alpha", dir=str(home.root / "run" / "alpha"), state="", cluster="", cluster_name="alpha", address="127.0.0.1:6379",
        http="", head=True, machine="another-boot", owner_pid=0)))
    result = home.rayo("status")
    (folder / "alpha.json").unlink()
    return result


def files_removed(home):
    home.start_head("--name", "alpha")
    shutil.rmtree(home.root / "run")
    result = home.rayo("status")
    home.rayo("stop", code=0)
    return result


def several_clusters(home):
    home.start_head()
    home.start_head()
    return home.rayo("stop")


def name_taken(home):
    home.start_head("--name", "alpha")
    return head("--name", "alpha")(home)


def name_held_by(pid_file):
    """A cluster without an address yet, of which the process of that pid file lives: this one."""
    def make(home):
        import json
        folder, run = home.root / "home" / "sessions", home.root / "run" / "alpha"
        for made in (folder, (run / pid_file).parent):
            made.mkdir(parents=True)
        (folder / "alpha.json").write_text(json.dumps(dict(
            schema=1, name="alpha", dir=str(run), state="", cluster="", cluster_name="alpha", address="", http="", head=False, machine="", owner_pid=0)))
        ticks = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
        (run / pid_file).write_text(f"{os.getpid()} {ticks} {Path('/proc/sys/kernel/random/boot_id').read_text()}")
        result = head("--name", "alpha")(home)
        (folder / "alpha.json").unlink()
        (run / pid_file).unlink()
        return result
    return make


def with_config(text):
    def make(home):
        file = home.root / "rayo.toml"
        file.write_text(text)
        return head("--config", file)(home)
    return make


def fake_gpus(count):
    def make(home):
        if FAKE_NVML is None:
            pytest.skip("fake_nvml is not built")
        return head("--num-gpus", "3")(with_env(home, RAYO_NVML_PATH=str(FAKE_NVML), RAYO_FAKE_NVML=str(count)))
    return make


def with_env(home, **more):
    home.env.update(more)
    return home


def directory_of_others(home):
    place = home.root / "shared"
    place.mkdir()
    place.chmod(0o1777)
    result = home.rayo("start", "--head", "--local", env={"RAYO_RUNTIME_DIR": str(place)})
    assert place.stat().st_mode & 0o7777 == 0o1777
    return result


def other_machine(home):
    """As such a kernel's name says it: what uname answers a 32-bit process."""
    linux32 = 8  # sys/personality.h
    return home.rayo("start", "--head", "--local", preexec_fn=lambda: ctypes.CDLL(None).personality(linux32))


def limited(limit, value, *flags):
    """Each limit is of the command and of the daemons that it starts."""
    return lambda home: home.rayo("start", "--head", "--local", "--port", "0", "--http-port", "0", "--node-port", "0", *flags,
                                  preexec_fn=lambda: resource.setrlimit(limit, (value, value)))


def home_in_the_way(home):
    (home.root / "file").write_text("x")
    return home.rayo("start", "--head", "--local", env={"RAYO_HOME": str(home.root / "file" / "home")})


def mounted(options, home, fill=None):
    """start --head with home and runtime directory on a fresh tmpfs, in a mount namespace of its own."""
    if not can_make_namespaces():
        pytest.skip("no right to make a mount namespace")
    place = home.root / "mnt"
    place.mkdir()
    script = f"mount -t tmpfs -o size=64k tmpfs {place} && chmod 700 {place} && {fill or 'true'}; {options}; exec {home.program} start --head --local"
    env = {**home.env, "RAYO_HOME": str(place / "home"), "RAYO_RUNTIME_DIR": str(place / "run")}
    process = subprocess.run(["unshare", "--mount", "sh", "-c", script], env=env, text=True, capture_output=True, timeout=60)
    from conftest import Result
    return Result(["start"], process.returncode, process.stdout, process.stderr, 0)


def home_not_writable(home):
    return mounted(f"mount -o remount,ro {home.root}/mnt", home)


def disk_full(home):
    return mounted("true", home, fill=f"head -c 64k /dev/zero > {home.root}/mnt/ballast 2>/dev/null")


def path_too_long(home):
    return home.rayo("start", "--head", "--local", env={"RAYO_RUNTIME_DIR": str(home.root / ("x" * 90))})


def port_taken(flag):
    def make(home):
        port = listen(home)
        flags = ["--port", "0", "--http-port", "0", "--node-port", "0"]
        flags[flags.index(flag) + 1] = str(port)
        return home.rayo("start", "--head", "--local", *flags)
    return make


def wrong_token(home):
    address = home.start_head()["address"]
    stranger = Home()
    try:
        return stranger.rayo("start", "--address", address, env={"RAYO_TOKEN": OTHER_TOKEN})
    finally:
        stranger.remove()


def not_rayo(home):
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    home.closers += [server.server_close, server.shutdown]
    return join(f"127.0.0.1:{server.server_address[1]}")(home)


def closed_port():
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    server.close()
    return f"127.0.0.1:{port}"


def silent(home):
    return join(f"127.0.0.1:{listen(home, handler=lambda connection: None)}")(home)


def beside_a_head_of_another_version(*words):
    def make(home):
        head = subprocess.Popen([str(BIN / "cluster_other_version"), "head"], stdout=subprocess.PIPE, text=True)
        home.closers.append(lambda: (head.kill(), head.wait()))
        address, token = head.stdout.readline().strip(), head.stdout.readline().strip()
        return home.rayo(*words, "--address", address, env={"RAYO_TOKEN": token})
    return make


def other_version_node(home):
    from conftest import Result
    address = home.start_head()["address"]
    token = home.rayo("token", "--json", code=0).json()["token"]
    done = subprocess.run([str(BIN / "cluster_other_version"), "node", address, token], capture_output=True, text=True, timeout=30)
    assert len(home.status()["nodes"]) == 1
    return Result(["join of another version"], done.returncode, "", "rayo: " + done.stdout, 0)


def in_cluster(*words):
    def make(home):
        home.start_head()
        return home.rayo(*words)
    return make


def head_gone(home):
    started = home.start_head()
    pid = int((Path(started["session_dir"]) / "head" / "head.pid").read_text().split()[0])
    os.kill(pid, 9)
    home.wait_for(lambda: not os.path.exists(f"/proc/{pid}") or "Z" in Path(f"/proc/{pid}/stat").read_text(), "the head is gone")
    return home.rayo("status")


INPUTS = {
    "no_cluster": command("status"),
    "no_cluster_stop": command("stop"),
    "after_reboot": after_reboot,
    "files_removed": files_removed,
    "several_clusters": several_clusters,
    "name_taken": name_taken,
    "name_being_started": name_held_by("starter.pid"),
    "name_half_started": name_held_by("head/head.pid"),
    "bad_name": head("--name", "../x"),
    "unknown_command": command("strat"),
    "planned_command": command("memory"),
    "planned_resume": head("--resume", "alpha"),
    "planned_rotate": command("token", "--rotate"),
    "planned_list": command("list", "groups"),
    "unknown_flag": command("start", "--haed"),
    "word_missing": command("list"),
    "nothing_to_start": command("start"),
    "address_typo": command("start", "--address", "10.0.0.5"),
    "port_range": command("start", "--head", "--port", "70000"),
    "bad_json": head("--resources", "{tpu: 2}"),
    "bad_amount": head("--resources", '{"tpu": -1}'),
    "bad_size": head("--memory", "8 gigs"),
    "bad_cpus": head("--num-cpus", "many"),
    "cpus_too_many": head("--num-cpus", "1e308"),
    "gpus_too_many": head("--num-gpus", "5000"),
    "gpus_halved": head("--num-gpus", "1.5"),
    "cpus_nan": head("--num-cpus", "nan"),
    "amount_too_large": head("--resources", '{"tpu": 1e308}'),
    "amount_twice": head("--resources", '{"tpu": 1, "tpu": 2}'),
    "object_store_too_small": head("--object-store-memory", "1"),
    "label_twice": head("--labels", "zone=a,zone=b"),
    "bad_label": head("--labels", "zone"),
    "no_such_python": head("--python", "/nowhere/python3"),
    "bad_grace": command("stop", "--grace", "10"),
    "more_gpus_than_nvml": fake_gpus(2),
    "gpus_without_driver": lambda home: head("--num-gpus", "1")(with_env(home, RAYO_NVML_PATH="/nonexistent/libnvidia-ml.so.1")),
    "no_such_interface": command("start", "--head", "--interface", "nope0"),
    "no_such_ip": command("start", "--head", "--node-ip", "192.0.2.1"),
    "unknown_setting": with_config('[nodes]\nsuspekt_after = "2s"\n'),
    "bad_setting": with_config("[nodes]\nsuspect_after = 2\n"),
    "missing_config": lambda home: head("--config", home.root / "none.toml")(home),
    "few_files": limited(resource.RLIMIT_NOFILE, 20),
    "small_address_space": limited(resource.RLIMIT_AS, 2 << 30, "--object-store-memory", "3GiB"),
    "files_may_not_grow": limited(resource.RLIMIT_FSIZE, 0),
    "home_in_the_way": home_in_the_way,
    "directory_of_others": directory_of_others,
    "other_machine": other_machine,
    "home_not_writable": home_not_writable,
    "disk_full": disk_full,
    "path_too_long": path_too_long,
    "port_taken": port_taken("--port"),
    "http_port_taken": port_taken("--http-port"),
    "no_token": join("192.0.2.1:6379", token=None),
    "malformed_token": join("127.0.0.1:1", token="nonsense"),
    "wrong_token": wrong_token,
    "address_unresolved": join("no-such-host.invalid:6379"),
    "address_refused": lambda home: join(closed_port())(home),
    "address_dead": lambda home: home.rayo("status", env={"RAYO_ADDRESS": closed_port()}),
    "address_silent": silent,
    "not_rayo": not_rayo,
    "bad_advertise": command("start", "--head", "--advertise", "gate lan"),
    "other_version": beside_a_head_of_another_version("start"),
    "other_version_command": beside_a_head_of_another_version("status"),
    "other_version_node": other_version_node,
    "unknown_id": in_cluster("why", "0123456789ab"),
    "bad_filter": in_cluster("list", "nodes", "--filter", "stat=alive"),
    "head_gone": head_gone,
    "output_full": printed_to(">/dev/full"),
    "output_closed": printed_to(">&-"),
}


@pytest.fixture
def place(home):
    home.closers = []
    yield home
    for close in reversed(home.closers):
        close()


@pytest.mark.parametrize("name", [row[0] for row in rows("Rows")])
def test_row(name, place):
    result = INPUTS[name](place)
    expect(name, result)
    what, _ = result.error
    errors = [line for line in result.err.splitlines() if line.startswith("rayo: ") and line != f"rayo: {what}"]
    assert result.code in (3,) or not errors or all("taken by" in line or "using" in line for line in errors), repr(result)


def test_every_row_has_its_input_and_every_input_its_row():
    assert sorted(INPUTS) == sorted(row[0] for row in rows("Rows"))


def test_every_row_of_elsewhere_is_looked_at_by_a_test():
    tests = "".join(file.read_text() for file in Path(__file__).parent.glob("*_test.py"))
    missing = [row[0] for row in rows("Elsewhere") if f'expect("{row[0]}"' not in tests]
    assert rows("Elsewhere") and not missing, missing
