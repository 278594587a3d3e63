"""A script as one writes it for Ray, over all nodes of a cluster: tasks, an actor, a generator, shared arrays, an error.

    python3 examples/python/three_nodes.py          # on a cluster: `rayo start --head`
"""

import asyncio
import collections
import random

import numpy

import rayo as ray


@ray.remote
def inside(samples, seed):
    """How many of so many points of the unit square lie in the circle, and where that was counted."""
    points = numpy.random.default_rng(seed).random((samples, 2))
    return int((points**2).sum(axis=1).__le__(1).sum()), ray.get_runtime_context().get_node_id()


@ray.remote
class Scores:
    """Keeps the best of what it is told; its methods run side by side."""

    def __init__(self):
        self.best = {}

    async def report(self, name, score):
        self.best[name] = max(score, self.best.get(name, 0))

    async def table(self):
        await asyncio.sleep(0)
        return sorted(self.best.items(), key=lambda item: -item[1])


@ray.remote
def lines_of(path):
    with open(path) as file:
        for line in file:
            if words := line.split():
                yield words


@ray.remote
def climb(landscape, scores, name, seed):
    """Looks for the highest place of a shared array, and tells the actor how high it came."""
    dice, at = random.Random(seed), 0
    for _ in range(2000):
        step = (at + dice.randrange(-500, 501)) % len(landscape)
        at = step if landscape[step] > landscape[at] else at
    ray.get(scores.report.remote(name, round(float(landscape[at]), 3)))


@ray.remote
def wrong(x):
    return 1 / x


def main():
    ray.init()
    print(f"{len(ray.nodes())} nodes, {ray.cluster_resources()['CPU']:g} CPUs")

    counted = ray.get([inside.remote(500_000, seed) for seed in range(48)])
    nodes = collections.Counter(node[:8] for _, node in counted)
    print(f"pi is about {4 * sum(hits for hits, _ in counted) / (48 * 500_000):.3f}; counted on {dict(nodes)}")

    landscape = ray.put(numpy.random.default_rng(7).random(1_000_000))
    scores = Scores.remote()
    ray.get([climb.remote(landscape, scores, f"climber {i}", i) for i in range(6)])
    print("best:", ray.get(scores.table.remote())[:2])

    words = collections.Counter()
    for ref in lines_of.remote("/usr/share/common-licenses/GPL-3"):
        words.update(word.strip(".,;()\"'").lower() for word in ray.get(ref))
    print("most used:", words.most_common(4))

    try:
        ray.get(wrong.remote(0))
    except ZeroDivisionError as error:
        print("an error of a task is of its own type:", str(error).splitlines()[0])


if __name__ == "__main__":
    main()
