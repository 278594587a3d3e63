"""What a user loses if these fail: two real machines do not come together, or a firewall's block is a riddle.

The machines are network namespaces (machines.py).
"""
import fcntl
import os
import select
import subprocess
import termios

import pytest
from conftest import BIN, start_and_token
from cut_off_test import cut_off
from errors_table import expect


def test_a_node_on_another_machine_joins_with_the_pasted_line(two_machines):
    head, other = two_machines
    started, token = start_and_token(head)
    assert started["address"] == f"{head.address}:6379"
    joined = other.rayo("start", "--address", started["address"], "--num-cpus", "1", "--json", env=token, code=0).json()
    assert joined["node_address"].startswith(other.address)
    states = {one["id"]: one["state"] for one in head.status()["nodes"]}
    assert states[joined["node"]] == "alive" and len(states) == 2
    # Without the token in the environment: the joined machine keeps it for its own commands.
    assert len(other.status()["nodes"]) == 2
    other.rayo("stop", code=0)
    head.wait_for(lambda: sum(one["state"] == "alive" for one in head.status()["nodes"]) == 1, "the node has left")


def test_the_line_that_start_prints_joins_as_it_is(two_machines):
    head, other = two_machines
    printed = head.rayo("start", "--head", "--num-cpus", "1", code=0).out.splitlines()[-1].strip()
    assert printed == head.rayo("token", code=0).out.strip() and printed.startswith("RAYO_TOKEN=")
    done = other.run("sh", "-c", f"PATH={BIN}:$PATH; {printed}")
    assert done.returncode == 0 and "This machine is part of the cluster" in done.stdout, done
    assert len(head.status()["nodes"]) == 2


def test_without_a_token_a_join_asks_for_it_on_the_terminal(two_machines):
    head, other = two_machines
    started, token = start_and_token(head)
    master, slave = os.openpty()
    joining = subprocess.Popen(other.inside(BIN / "rayo", "start", "--address", started["address"], "--num-cpus", "1"), env=other.env, stdin=slave,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=lambda: on_terminal(slave))
    os.close(slave)
    asked = read_until(master, b": ")
    assert b"Token of the cluster at " + started["address"].encode() in asked, asked
    os.write(master, token["RAYO_TOKEN"].encode() + b"\n")
    out, err = joining.communicate(timeout=60)
    assert joining.returncode == 0, err
    assert token["RAYO_TOKEN"].encode() not in read_until(master, b"") and len(head.status()["nodes"]) == 2
    os.close(master)


def on_terminal(slave):
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)


def read_until(master, end):
    """What the terminal shows: up to these words, or (b"") what stands there now."""
    seen = b""
    while (end and not seen.endswith(end)) or select.select([master], [], [], 0)[0]:
        try:
            seen += os.read(master, 1024)
        except OSError:  # nobody has it open any more
            return seen
    return seen


def test_the_interface_and_the_tokens_file_are_those_that_were_asked_for(network):
    head, other = network.machine("a"), network.machine("b")
    for _ in range(2):
        network.cable(head, other)
    head.sh("ip", "route", "add", "default", "dev", head.devices[0])
    started, token = start_and_token(head, "--interface", head.devices[1])
    assert started["address"] == f"{head.addresses[1]}:6379" and started["node_address"] == f"{head.addresses[1]}:6380", started
    file = other.root / "token"
    file.write_text(token["RAYO_TOKEN"] + "\n")
    seen = other.rayo("status", "--json", "--address", started["address"], env={"RAYO_TOKEN_FILE": str(file)}, code=0).json()
    assert seen["cluster"]["address"] == started["address"]
    join = ("start", "--address", started["address"], "--interface", other.devices[1], "--num-cpus", "1", "--json")
    refused = other.rayo(*join, "--token-file", other.root / "none", code=4)
    assert refused.error[0] == f"cannot read {other.root}/none: No such file or directory", repr(refused)
    joined = other.rayo(*join, "--token-file", file, code=0).json()
    assert joined["node_address"] == f"{other.addresses[1]}:6380", joined


def test_stop_tells_which_nodes_it_could_not_reach(two_machines):
    head, other = two_machines
    started, token = start_and_token(head)
    joined = other.rayo("start", "--address", started["address"], "--num-cpus", "1", "--json", env=token, code=0).json()
    cut_off(other)
    stopped = head.rayo("stop", "--grace", "2s", code=1)
    assert "is stopped" in stopped.out and not head.processes(), repr(stopped)
    what, next_step = stopped.error
    assert joined["node_address"] in what and next_step == "rayo stop on each of those machines", repr(stopped)
    other.rayo("stop", code=0)


def test_stop_on_the_heads_machine_ends_the_other_machine_too(two_machines):
    head, other = two_machines
    started, token = start_and_token(head)
    other.rayo("start", "--address", started["address"], "--num-cpus", "1", env=token, code=0)
    head.rayo("stop", code=0)
    other.wait_for(lambda: not other.processes(), "the other machine's processes have ended")


def test_port_blocked_one_way(two_machines):
    head, other = two_machines
    started, token = start_and_token(head)
    rules = f"table inet block {{\n chain in {{\n type filter hook input priority 0\n ip saddr {head.address} tcp dport 6380 drop\n }}\n}}"
    other.sh("nft", rules)
    refused = other.rayo("start", "--address", started["address"], "--num-cpus", "1", env=token)
    expect("port_blocked_one_way", refused)
    assert f"{other.address}:6380" in refused.error[0], repr(refused)
    assert not other.processes()
    assert len(head.status()["nodes"]) == 1 or all(one["state"] != "alive" or one["head"] for one in head.status()["nodes"])


def test_a_port_that_is_blocked_on_the_heads_machine_is_named(two_machines):
    head, other = two_machines
    started, token = start_and_token(head)
    head.sh("nft", f"table inet block {{\n chain in {{\n type filter hook input priority 0\n ip saddr {other.address} tcp dport 6380 drop\n }}\n}}")
    refused = other.rayo("start", "--address", started["address"], "--num-cpus", "1", env=token, code=3)
    what, next_step = refused.error
    assert what.startswith("this node (") and f"cannot reach {started['node_address']}: " in what, repr(refused)
    assert next_step.startswith(f"open port 6380 (TCP, incoming) in the firewall on the machine of {started['node_address']}"), repr(refused)
    assert not other.processes()


def test_several_interfaces(network):
    head, other = network.machine("a"), network.machine("b")
    for _ in range(2):
        network.cable(head, other)
    head.sh("ip", "route", "add", "default", "dev", head.devices[1])
    started = head.rayo("start", "--head", "--num-cpus", "1", code=0)
    expect("several_interfaces", started.code, started.out)
    assert f"{head.addresses[1]}:6379" in started.out and f"{head.devices[0]} {head.addresses[0]}" in started.out, repr(started)


def calls_work_on(machine, said="2 nodes, local", **env):
    done = machine.run(BIN / "cluster_calls", env=env)
    assert done.returncode == 0 and said in done.stdout, done.stdout + done.stderr


def test_advertise_through_nat(network):
    """The head stands behind a router that passes on two ports: only what it publishes can be reached."""
    head, router, other = network.machine("a"), network.machine("r"), network.machine("b")
    network.cable(head, router)
    network.cable(other, router)
    gate = router.addresses[1]
    for machine, way_out in ((head, router.addresses[0]), (other, gate)):
        machine.sh("ip", "route", "add", "default", "via", way_out)
    router.sh("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
    router.sh("nft", f"""
        table ip nat {{
          chain pre {{ type nat hook prerouting priority -100;
            ip daddr {gate} tcp dport 7379 dnat to {head.address}:6379;
            ip daddr {gate} tcp dport 6380 dnat to {head.address}:6380; }}
          chain post {{ type nat hook postrouting priority 100;
            ip saddr {head.address} masquerade; }}
        }}
        table ip gate {{
          chain forward {{ type filter hook forward priority 0;
            ip saddr {other.address} ct status dnat accept;
            ip saddr {other.address} ct state new drop; }}
        }}""")
    started, token = start_and_token(head, "--advertise", f"{gate}:7379", "--num-cpus", "8")
    assert started["address"] == f"{gate}:7379" and started["node_address"] == f"{gate}:6380", started
    other.rayo("start", "--address", started["address"], "--num-cpus", "8", env=token, code=0)
    published = {node["hostname"]: node["address"] for node in other.status()["nodes"]}
    assert sorted(node["address"] for node in other.status()["nodes"]) == sorted([f"{gate}:6380", f"{other.address}:6380"]), published
    calls_work_on(head)
    calls_work_on(other)
    # Without a joined node the other machine is a remote driver, through the gate as well: by the head's port or the node's.
    other.rayo("stop", code=0)
    head.wait_for(lambda: sum(one["state"] == "alive" for one in head.status()["nodes"]) == 1, "the node has left")
    for port in (6380, 7379):
        calls_work_on(other, ", remote", RAYO_ADDRESS=f"{gate}:{port}", **token)


def test_a_program_on_another_machine_needs_the_heads_address_alone(two_machines):
    """What `rayo start --head` prints is what people write into RAYO_ADDRESS."""
    head, other = two_machines
    started, token = start_and_token(head, "--num-cpus", "8")
    calls_work_on(other, "1 nodes, remote", RAYO_ADDRESS=started["address"], **token)
    wrong = {"RAYO_ADDRESS": started["address"], "RAYO_TOKEN": "0" * 64 + "." + "1" * 64}
    refused = other.run(BIN / "cluster_calls", env=wrong)
    assert refused.returncode != 0 and "the cluster refused the connection" in refused.stderr and "`rayo token` on the head's machine" in refused.stderr, refused.stderr


def test_a_program_goes_to_a_node_that_it_reaches(two_machines):
    """The head answers; its own machine's raylet cannot be reached, another node can."""
    head, other = two_machines
    started, token = start_and_token(head, "--num-cpus", "0")
    other.rayo("start", "--address", started["address"], "--num-cpus", "2", env=token, code=0)
    block = "table inet block {{ chain in {{ type filter hook input priority 0; ip saddr {} tcp dport 6380 reject with tcp reset; }}\n}}"
    head.sh("nft", block.format(other.address))
    away = {**token, "RAYO_ADDRESS": started["address"], "RAYO_HOME": str(other.root / "away"), "RAYO_RUNTIME_DIR": str(other.root / "away-run")}
    done = other.run(BIN / "cluster_lives", "detach", env=away)
    assert (done.returncode, done.stdout.strip()) == (0, "1"), done.stderr
    other.rayo("stop", code=0)
    head.wait_for(lambda: sum(one["state"] == "alive" for one in head.status()["nodes"]) == 1, "the node has left")
    done = other.run(BIN / "cluster_lives", "use", env=away)
    assert done.returncode != 0 and f"the head at {started['address']} answers, but none of its nodes does" in done.stderr, done.stderr
    assert f"{head.address}:6380: connection refused" in done.stderr, done.stderr


# Frames of ours begin with "RAYO" behind 20 bytes of TCP header and 12 of its time stamps; control is TLS.
NO_DATA = """table inet block {{ chain in {{ type filter hook input priority 0;
  iifname {device} tcp dport 6380 @th,256,32 0x5241594f counter drop
}}
}}"""


def test_data_interface(network):
    """Calls and objects go over the second cable; the first one lets control alone through."""
    head, other = network.machine("a"), network.machine("b")
    for _ in range(2):
        network.cable(head, other)
    for machine in (head, other):
        machine.sh("ip", "route", "add", "default", "dev", machine.devices[0])
        machine.sh("nft", NO_DATA.format(device=machine.devices[0]))
    started, token = start_and_token(head, "--data-interface", head.devices[1], "--num-cpus", "8")
    assert started["node_address"] == f"{head.addresses[0]}:6380" and started["data_address"] == f"{head.addresses[1]}:6380", started
    joined = other.rayo("start", "--address", started["address"], "--data-interface", other.devices[1], "--num-cpus", "8", "--json", env=token, code=0).json()
    assert joined["data_address"] == f"{other.addresses[1]}:6380", joined
    before = head.bytes_through(head.devices[1])
    calls_work_on(head)
    assert head.bytes_through(head.devices[1]) - before > 400_000  # the large values at least


def test_a_blocked_data_interface_is_named(network):
    head, other = network.machine("a"), network.machine("b")
    for _ in range(2):
        network.cable(head, other)
    for machine in (head, other):
        machine.sh("ip", "route", "add", "default", "dev", machine.devices[0])
    other.sh("nft", f"table inet block {{ chain in {{ type filter hook input priority 0; iifname {other.devices[1]} tcp dport 6380 drop; }}\n}}")
    started, token = start_and_token(head, "--data-interface", head.devices[1])
    refused = other.rayo("start", "--address", started["address"], "--data-interface", other.devices[1], "--num-cpus", "1", env=token)
    expect("port_blocked_one_way", refused)
    assert f"{other.addresses[1]}:6380" in refused.error[0], repr(refused)
    assert not other.processes()


@pytest.mark.parametrize("advertise", [False, True])
def test_a_cluster_over_v6(network, advertise):
    head, other = network.machine("a"), network.machine("b")
    network.cable(head, other, v6=True)
    flags = ["--advertise", head.address] if advertise else []
    started, token = start_and_token(head, "--node-ip", head.address, "--num-cpus", "8", *flags)
    assert started["address"] == f"[{head.address}]:6379" and started["node_address"] == f"[{head.address}]:6380", started
    joined = other.rayo("start", "--address", started["address"], "--num-cpus", "8", "--json", env=token, code=0).json()
    assert joined["node_address"] == f"[{other.address}]:6380", joined
    calls_work_on(head)
    calls_work_on(other)
    other.rayo("stop", code=0)


def test_a_cluster_on_v6_loopback(home):
    started = home.start_head("--node-ip", "::1", "--num-cpus", "8")
    assert started["address"].startswith("[::1]:"), started
    node = home.start_node(started["address"], "--num-cpus", "8")
    assert node["node_address"].startswith("[::1]:"), node
    assert len(home.status("--address", started["address"])["nodes"]) == 2
