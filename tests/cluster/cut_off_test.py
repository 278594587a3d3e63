"""What a user loses if these fail: a machine whose cable is cut is waited for without end, or what ran there is thought to live.

The machines are network namespaces (machines.py).
"""
import json
import os
import signal
import time
from pathlib import Path

from conftest import Program, start_and_token


def cut_off(machine):
    """Every packet from and to it is lost: no reset, no refusal."""
    rules = "\n".join(f'chain {hook} {{\n type filter hook {hook} priority 0\n {name} != "lo" drop\n }}' for hook, name in (("input", "iifname"), ("output", "oifname")))
    machine.sh("nft", f"table inet cut {{\n{rules}\n}}")


def test_a_machine_that_is_cut_off_is_dead_in_ten_seconds_and_its_actors_callers_are_told(two_machines):
    """And when the cable is back the machine serves again."""
    head, other = two_machines
    started, token = start_and_token(head)
    joined = other.rayo("start", "--address", started["address"], "--num-cpus", "1", "--json", env=token, code=0).json()
    program = Program(head, "cluster_deaths", "call", joined["node"], wrap=head.inside())
    assert [program.line(60) for _ in range(3)] == ["0", "1", "2"]
    cut_off(other)
    cut = time.monotonic()
    state = lambda: next(one for one in head.status()["nodes"] if one["id"] == joined["node"])
    states = {}
    while "dead" not in states:
        states.setdefault(state()["state"], time.monotonic() - cut)
        assert time.monotonic() - cut < 20, states
        time.sleep(0.05)
    assert 0.5 < states["suspect"] < 3 and 9 < states["dead"] < 12, states  # nodes.suspect_after and nodes.dead_after_silent
    told = json.loads(program.line_that("{", 10))
    assert (told["kind"], told["node"]) == ("node_lost", joined["node"]), told
    dead = state()
    assert (dead["workers"], dead["drivers"], dead["death"]["kind"]) == (0, 0, "node_lost")
    other.sh("nft", "delete", "table", "inet", "cut")
    head.wait_for(lambda: state()["state"] == "alive", "the machine is back", 30)
    assert len(head.status()["nodes"]) == 2
    assert program.end() == 0


def test_a_node_that_was_dead_and_comes_back_is_one_row(home):
    file = home.root / "rayo.toml"
    file.write_text('[nodes]\ndead_after_silent = "2s"\n')
    address = home.start_head("--config", file)["address"]
    node = home.start_node(address)
    raylet = int((Path(node["node_dir"]) / "raylet.pid").read_text().split()[0])

    def rows():
        return [one for one in home.rayo("list", "nodes", "--json", code=0).json()["nodes"] if one["id"] == node["node"]]
    for _ in range(2):
        os.kill(raylet, signal.SIGSTOP)
        try:
            home.wait_for(lambda: rows()[0]["state"] == "dead", "the node is dead")
        finally:
            os.kill(raylet, signal.SIGCONT)
        home.wait_for(lambda: any(row["state"] == "alive" for row in rows()), "the node is back")
        assert [(row["state"], row["death"]) for row in rows()] == [("alive", None)]
        assert [one["state"] for one in home.status()["nodes"]] == ["alive", "alive"]
        assert home.rayo("list", "nodes", code=0).out.count(node["node"][:12]) == 1


def test_a_remote_driver_whose_machine_is_cut_off_leaves_nothing(two_machines):
    head, other = two_machines
    started, token = start_and_token(head)
    node = head.status()["nodes"][0]
    away = {**token, "RAYO_ADDRESS": node["address"]}
    program = Program(other, "cluster_deaths", "call", node["id"], env=away, wrap=other.inside())
    assert [program.line(60) for _ in range(3)] == ["0", "1", "2"]
    assert head.status()["actors"]["alive"] == 1
    cut_off(other)
    gone = lambda: (s := head.status())["actors"]["alive"] == 0 and (n := s["nodes"][0])["drivers"] == 0 and n["workers"] == 0
    head.wait_for(gone, "the driver is known as gone", 16)
    assert json.loads(program.line_that("{", 30))["error_kind"] == 9  # Unavailable: its own end is told the program too
    assert program.end() == 0


def test_a_program_that_ends_while_its_machine_is_cut_off_for_a_moment_is_known_to_have_ended(two_machines):
    """The node is alive all the time; what it wrote to the head while packets were lost went with the broken connection."""
    head, other = two_machines
    started, token = start_and_token(head)
    joined = other.rayo("start", "--address", started["address"], "--num-cpus", "1", "--json", env=token, code=0).json()
    program = Program(other, "cluster_deaths", "call", head.status()["nodes"][0]["id"], wrap=other.inside())
    assert [program.line(60) for _ in range(3)] == ["0", "1", "2"]
    assert head.status()["actors"]["alive"] == 1
    cut_off(other)
    program.close()
    (log,) = other.root.rglob("raylet.log")
    other.wait_for(lambda: "the head is away" in log.read_text(), "its connection to the head is given up", 9)
    other.sh("nft", "delete", "table", "inet", "cut")
    gone = lambda: head.status()["actors"]["alive"] == 0 and all(job["state"] == "ended" for job in head.rayo("list", "jobs", "--json", code=0).json()["jobs"])
    head.wait_for(gone, "its job has ended", 20)
    state = lambda: next(one["state"] for one in head.status()["nodes"] if one["id"] == joined["node"])
    head.wait_for(lambda: state() == "alive", "the node is there again")
    assert not [event for event in head.status()["events"] if event["severity"] == "error"], "it was never dead to the head"


def test_a_large_result_does_not_wait_for_its_makers_node_to_reach_the_callers(two_machines):
    """The caller knows where it was sealed: its node fetches it from there, and where that node is lost the wait ends."""
    head, other = two_machines
    started, token = start_and_token(head)
    joined = other.rayo("start", "--address", started["address"], "--num-cpus", "1", "--json", env=token, code=0).json()
    program = Program(head, "cluster_deaths", "large", joined["node"], wrap=head.inside())
    program.line_that("ready", 60)
    port = head.status()["nodes"][0]["address"].rpartition(":")[2]
    drop = lambda rule: other.sh("nft", f"add table inet cut; add chain inet cut out {{ type filter hook output priority 0; }}; "
                                        f"add chain inet cut in {{ type filter hook input priority 0; }}; {rule}")
    drop(f"add rule inet cut out ip daddr {head.address} tcp dport {port} drop")
    program.tell("go")
    assert program.line(20) == f"size {1 << 20}"
    # Nor can the caller's node reach the maker's: what is under way there goes on, and no new connection is made.
    drop("add rule inet cut in tcp dport 6380 tcp flags & (fin | syn | rst | ack) == syn drop")
    program.tell("go")
    told = json.loads(program.line_that("{", 60))
    assert told["error_kind"] == 4 and "could not be fetched" in told["error"], told  # ObjectLost
    other.sh("nft", "delete", "table", "inet", "cut")
    assert program.end() == 0
