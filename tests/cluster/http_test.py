"""What a user loses if these fail: anyone on the network reads the cluster's status, or keeps its owner from it."""
import json
import sys
from pathlib import Path

from conftest import start_and_token
from errors_table import expect
from ports_test import MOST_GROWTH, daemons, rss

# Run on another machine: python3 -c SCRIPT HOST CA CODE; CODE sets `answer`.
SCRIPT = """
import json, socket, ssl, sys, time
host, ca, code = sys.argv[1:4]
def connect(secure=True):
    plain = socket.create_connection((host, 8265), timeout=20)
    if not secure: return plain
    context = ssl.create_default_context(cafile=ca) if ca else ssl.create_default_context()
    return context.wrap_socket(plain, server_hostname=host)
def ask(path, token=None, secure=True, more=""):
    with connect(secure) as connection:
        bearer = f"Authorization: Bearer {token}\\r\\n" if token else ""
        connection.sendall(f"GET {path} HTTP/1.1\\r\\nHost: {host}\\r\\n{bearer}{more}\\r\\n".encode())
        seen = b""
        while piece := connection.recv(65536): seen += piece
    return seen.decode()
exec(code)
print(json.dumps(answer))
"""


def there(machine, head, started, code, ca=True):
    ca_file = Path(head.root) / "run" / "state"
    ca_file = next(ca_file.rglob("ca.pem")) if ca else ""
    done = machine.run(sys.executable, "-c", SCRIPT, head.address, ca_file, code)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_beyond_loopback_tls_and_the_token_are_needed(two_machines):
    head, other = two_machines
    started, token = start_and_token(head)
    assert started["http"] == f"https://{head.address}:8265", started
    assert head.status()["cluster"]["http"] == started["http"]
    secret = token["RAYO_TOKEN"].split(".")[0]
    wrong = ("0" if secret[0] != "0" else "1") + secret[1:]

    def ask(arguments):
        return there(other, head, started, f"answer = ask({arguments})")

    for stranger in (ask("'/api/status'"), ask(f"'/healthz', token='{wrong}'"), ask("'/healthz', token='x'"), ask("'/nowhere'")):
        first, body = stranger.split("\r\n", 1)[0], stranger.split("\r\n\r\n", 1)[1]
        assert first == "HTTP/1.1 401 Unauthorized" and "WWW-Authenticate: Bearer realm=\"rayo\"" in stranger, stranger
        expect("http_without_token", 401, *body.strip().split("\ntry: "))
        assert "rayo/" not in stranger, stranger
    for good in (secret, token["RAYO_TOKEN"]):
        page = ask(f"'/api/status', token='{good}'")
        assert page.startswith("HTTP/1.1 200 ") and json.loads(page.split("\r\n\r\n", 1)[1])["cluster"]["http"] == started["http"], page
    assert ask(f"'/nowhere', token='{secret}'").startswith("HTTP/1.1 404 ")
    plain = ask(f"'/healthz', token='{secret}', secure=False")
    assert plain.startswith("HTTP/1.1 400 ") and f"try: {started['http']}" in plain, plain
    expect("http_plain_for_tls", 400, *plain.split("\r\n\r\n", 1)[1].strip().split("\ntry: "))
    assert "CERTIFICATE_VERIFY_FAILED" in there(other, head, started, """
try: answer = ask('/healthz')
except ssl.SSLError as error: answer = str(error)""", ca=False)


def test_on_the_heads_machine_loopback_needs_no_token(two_machines):
    head, _ = two_machines
    head.rayo("start", "--head", "--num-cpus", "1", code=0)
    here = head.run("curl", "-s", "http://127.0.0.1:8265/healthz")
    assert here.stdout == "ok\n", here
    assert head.run("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", "Host: evil.example", "http://127.0.0.1:8265/").stdout == "403"


def test_start_prints_where_and_how(two_machines):
    head, _ = two_machines
    out = head.rayo("start", "--head", "--num-cpus", "1", code=0).out
    assert f"https://{head.address}:8265\n" in out and "http://127.0.0.1:8265\n" in out, out
    authority = out.split("the CA ", 1)[1].split("\n", 1)[0]
    assert Path(authority).read_text().startswith("-----BEGIN CERTIFICATE-----"), out


def test_idle_slow_and_endless_clients_are_bounded(two_machines):
    head, other = two_machines
    started, token = start_and_token(head)
    secret = token["RAYO_TOKEN"].split(".")[0]
    seen = there(other, head, started, f"""
idle = []
for _ in range(400):
    try: idle.append(connect(secure=False))
    except OSError: pass
begin = time.monotonic()
while time.monotonic() - begin < 15:
    try:
        good = ask('/healthz', token='{secret}')
        if good: break
    except OSError: pass
good_after = time.monotonic() - begin
for one in idle: one.close()
begin, slow = time.monotonic(), connect()
slow.settimeout(0.25)
slow.sendall(b'GET / HTTP/1.1\\r\\nX: ')
while time.monotonic() - begin < 20:
    try:
        slow.sendall(b'a')
        if slow.recv(1) == b'': break
    except TimeoutError: pass
    except OSError: break
slow_after = time.monotonic() - begin
endless, sent = connect(), 0
try:
    while sent < 32 << 20: sent += endless.send(b'X' * 16384)
except OSError: pass
answer = dict(good=good[:15], good_after=good_after, slow_after=slow_after, sent=sent)""")
    assert seen["good"] == "HTTP/1.1 200 OK" and seen["good_after"] < 8, seen
    assert 5 < seen["slow_after"] < 15, seen
    assert seen["sent"] < 8 << 20, seen
    assert head.status()["cluster"]["reachable"] is True


def test_random_bytes_beyond_loopback_change_nothing(two_machines):
    head, other = two_machines
    started, _ = start_and_token(head)
    pid = daemons(started)["head"]

    def noise(count):
        there(other, head, started, f"""
import random
chance = random.Random(7)
for i in range({count}):
    try:
        with connect(secure=i % 4 == 0) as connection:
            connection.sendall(chance.choice([b'', b'GET / HTTP/1.1\\r\\n', b'\\x16\\x03\\x01']) + chance.randbytes(chance.randrange(300)))
    except OSError: pass
answer = None""")

    noise(400)
    before = rss(pid)
    noise(2000)
    assert daemons(started)["head"] == pid and rss(pid) - before <= MOST_GROWTH, rss(pid) - before
