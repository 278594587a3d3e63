"""What a user loses if these fail: the cluster's token lies about, and any program that reads /proc or a log can join."""
from pathlib import Path

from conftest import BIN, Home
from troubles_test import Program


def holders(secret):
    """Processes that show it in their arguments or environment."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            shown = [name for name in ("cmdline", "environ") if secret.encode() in (entry / name).read_bytes()] if entry.name.isdigit() else []
        except OSError:
            continue  # it ended meanwhile
        if shown:
            found[int(entry.name)] = f"{shown}: {(entry / 'cmdline').read_bytes()[:200]!r}"
    return found


def files_with(secret, root):
    return [str(path) for path in root.rglob("*") if path.is_file() and path.suffix != ".token" and secret.encode() in path.read_bytes()]


def test_the_token_is_in_no_argument_environment_log_or_setting(cluster):
    token = cluster.rayo("token", "--json", code=0).json()["token"]
    secret = token.split(".")[0]
    other, away = Home(), Home()  # other machines: they know the token by their environment alone
    try:
        other.rayo("start", "--address", cluster.address, "--node-port", "0", "--num-cpus", "2", env={"RAYO_TOKEN": token}, code=0)
        node = cluster.status()["nodes"][0]["address"]
        away.env.update(RAYO_ADDRESS=node, RAYO_TOKEN=token)
        driver = Program(away, "serve_map")
        driver.until_ready()  # its actor lives
        assert any(b"cluster_troubles_1" in Path(f"/proc/{worker['pid']}/cmdline").read_bytes()
                   for worker in cluster.rayo("list", "workers", "--json", code=0).json()["workers"] if worker["pid"] != driver.process.pid)
        shown = holders(secret)
        shown.pop(driver.process.pid)  # the user has set it there
        assert not shown, shown
        driver.process.kill()
        driver.process.wait()
        for home in (cluster, other):
            assert not files_with(secret, home.root)
        assert secret not in cluster.rayo("config", code=0).out + cluster.rayo("config", "--json", code=0).out
        # ... and what keeps it is for the owner alone.
        kept = [path for home in (cluster, other) for path in home.root.rglob("*.token")]
        assert len(kept) == 2 and all(path.stat().st_mode & 0o777 == 0o600 for path in kept), kept
        other.stop_all()
    finally:
        away.remove()
        other.remove()
