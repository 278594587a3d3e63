"""If these fail: a detached actor dies with its program or is never got rid of, or an actor that may be restarted is not."""
import os
import re
import resource
import signal
import subprocess

from conftest import BIN


def lives(home, what):
    process = subprocess.run([str(BIN / "cluster_lives"), what], env=home.env, text=True, capture_output=True, timeout=100)
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout.strip()


def test_a_detached_actor_outlives_its_program_until_it_is_killed(home):
    home.start_head("--num-cpus", "4")
    assert lives(home, "detach") == "1"
    named = home.status()["actors"]["named"]
    assert [(actor["name"], actor["namespace"], actor["state"]) for actor in named] == [("keeper", "lives", "alive")]
    assert lives(home, "use") == "2"
    assert lives(home, "use") == "3"
    lives(home, "kill")
    assert home.status()["actors"]["named"] == []
    home.wait_for(lambda: all(job["state"] == "ended" for job in home.rayo("list", "jobs", "--json", code=0).json()["jobs"]), "its job's end")


def test_a_detached_actor_made_with_refs_comes_back_when_their_program_is_gone(home):
    home.start_head("--num-cpus", "4")
    assert lives(home, "detach-with-refs") == "41"
    home.wait_for(lambda: [job["state"] for job in home.rayo("list", "jobs", "--json", code=0).json()["jobs"]].count("ended") == 1, "its program's end")
    pid, count = map(int, lives(home, "use-phoenix").split())
    assert count == 42
    os.kill(pid, signal.SIGKILL)
    other, count = map(int, lives(home, "use-phoenix").split())
    assert (other != pid, count) == (True, 41), "it begins again with its arguments"
    assert re.match(r"argument ref 1 of the detached actor 'phoenix' has 2000\d\d bytes, which end with this program", lives(home, "detach-large"))


def test_an_actor_comes_back_after_kill_9_as_often_as_it_may(home):
    home.start_head("--num-cpus", "4")
    lives(home, "restart")


def test_an_actor_comes_back_after_a_kill_that_means_one_life_as_often_as_it_may(home):
    home.start_head("--num-cpus", "4")
    lives(home, "kill-lives")
    told = [event["text"] for event in home.status()["events"] if "killed by rayo::kill" in event["text"]]
    assert ["started again" in text for text in told] == [True, True], told


def test_daemons_open_as_many_files_as_they_may_and_workers_as_many_as_the_user_said(home):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert hard > 256
    home.start_head(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard)))
    assert lives(home, "detach") == "1"
    limits = {os.path.basename(command.split()[0]): resource.prlimit(pid, resource.RLIMIT_NOFILE) for pid, command in home.processes().items()}
    lives(home, "kill")
    assert limits["rayo-raylet"] == limits["rayo-head"] == (hard, hard), limits
    assert limits["cluster_lives"] == (256, hard), limits


def test_a_program_that_joins_and_leaves_many_times_leaves_nothing_behind(home):
    home.start_head("--num-cpus", "4")
    lives(home, "cycles")


def test_calls_under_way_at_a_death_are_sent_to_the_next_life(home):
    home.start_head("--num-cpus", "4")
    lives(home, "retry")


def test_an_overflow_of_a_calls_stack_is_named(home):
    home.start_head("--num-cpus", "4")
    assert "the stack of a concurrent call overflowed (give the actor a larger stack_size)" in lives(home, "overflow")


def test_a_detached_actors_program_reaches_a_node_that_joins_when_its_maker_is_gone(home):
    """The program of an actor that waits for a node is gone with its driver."""
    address = home.start_head("--num-cpus", "1")["address"]
    assert lives(home, "detach-elsewhere") == ""
    home.start_node(address, "--num-cpus", "1", "--resources", '{"elsewhere": 1}')
    home.wait_for(lambda: home.status()["actors"]["alive"] == 1, "the detached actor's start on the new node")
    assert lives(home, "use") == "1"
    lives(home, "kill")


def test_an_actor_comes_back_on_another_node(home):
    address = home.start_head("--num-cpus", "4")["address"]
    before = set(home.processes())
    home.start_node(address, "--num-cpus", "4")
    node = [pid for pid, command in home.processes().items() if pid not in before and "rayo-" in command]
    program = subprocess.Popen([str(BIN / "cluster_lives"), "move"], env=home.env, text=True, stdout=subprocess.PIPE)
    try:
        first = program.stdout.readline().strip()
        (away,) = [node for node in home.status()["nodes"] if not node["head"]]
        assert first == away["id"]
        for pid in node:  # its keeper too, like a machine that goes dark
            os.kill(pid, signal.SIGKILL)
        second = program.stdout.readline().strip()
        assert second and second != first
        assert program.wait(timeout=30) == 0
    finally:
        program.kill()
        program.wait()
