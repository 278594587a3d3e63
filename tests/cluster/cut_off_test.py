"""What a user loses if these fail: a machine whose cable is cut is waited for without end, or what ran there is thought to live.

The machines are network namespaces (machines.py).
"""
import json
import time

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
    assert 0.5 < states["suspect"] < 3 and 9 < states["dead"] < 12, states  # design.md section 4: 1 s and 10 s
    told = json.loads(program.line_that("{", 10))
    assert (told["kind"], told["node"]) == ("node_lost", joined["node"]), told
    dead = state()
    assert (dead["workers"], dead["drivers"], dead["death"]["kind"]) == (0, 0, "node_lost")
    other.sh("nft", "delete", "table", "inet", "cut")
    back = lambda: any(one["state"] == "alive" and one["address"] == joined["node_address"] for one in head.status()["nodes"])
    head.wait_for(back, "the machine is back", 30)
    assert program.end() == 0


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
