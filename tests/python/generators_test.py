"""Generators of tasks and actors. If one fails, items are lost, doubled, late, or made for nobody."""

import asyncio
import os
import time

import pytest

from waiting import until


def test_items_of_a_generator_arrive_while_it_runs(ray, tmp_path):
    @ray.remote
    def count(gate):
        yield 0
        while not os.path.exists(gate):
            time.sleep(0.01)
        yield 1
        yield {"array": bytes(300_000)}

    gate = str(tmp_path / "gate")
    items = count.remote(gate)
    assert isinstance(items, ray.ObjectRefGenerator)
    assert ray.get(next(items)) == 0
    open(gate, "w").close()
    assert ray.get(next(items)) == 1
    assert len(ray.get(next(items))["array"]) == 300_000
    with pytest.raises(StopIteration):
        next(items)


def test_what_a_generator_raises_comes_after_its_items(ray):
    @ray.remote
    def fails():
        yield 1
        raise ValueError("no more")

    refs = list(fails.remote())
    assert ray.get(refs[0]) == 1
    with pytest.raises(ValueError, match="no more"):
        ray.get(refs[1])
    assert len(refs) == 2


def test_an_item_of_a_generator_is_an_argument(ray):
    @ray.remote
    def numbers():
        yield from range(5)

    @ray.remote
    def double(x):
        return 2 * x

    assert ray.get([double.remote(ref) for ref in numbers.remote()]) == [0, 2, 4, 6, 8]


def test_a_generator_method_keeps_the_order_of_its_actor(ray):
    @ray.remote
    class Maker:
        def __init__(self):
            self.log = []

        def make(self, n):
            for i in range(n):
                self.log.append(i)
                yield i

        def lines(self):
            return self.log

    maker = Maker.remote()
    items = maker.make.remote(3)
    lines = maker.lines.remote()
    assert [ray.get(ref) for ref in items] == [0, 1, 2]
    assert ray.get(lines) == [0, 1, 2]
    assert [ray.get(ref) for ref in Maker.remote().make.remote(2)] == [0, 1]  # nobody else holds the handle


def test_async_generators_run_beside_each_other(ray):
    @ray.remote
    class Ticker:
        async def tick(self, n):
            for i in range(n):
                await asyncio.sleep(0.01)
                yield i

    ticker = Ticker.remote()

    async def read():
        async def all_of(items):
            return [await ref async for ref in items]

        return await asyncio.gather(all_of(ticker.tick.remote(3)), all_of(ticker.tick.remote(2)))

    assert asyncio.run(read()) == [[0, 1, 2], [0, 1]]


def test_a_generator_ends_when_nobody_reads_it(ray, tmp_path):
    @ray.remote
    def endless(path):
        try:
            open(path + ".started", "w").close()
            i = 0
            while True:
                yield i
                i += 1
        finally:
            open(path, "w").close()

    one, two, three = (str(tmp_path / name) for name in ("dropped", "cancelled", "unread"))
    items = endless.remote(one)
    assert ray.get(next(items)) == 0
    del items
    items = endless.remote(two)
    assert ray.get(next(items)) == 0
    ray.cancel(items)
    with pytest.raises(StopIteration):
        next(items)
    items = endless.remote(three)
    until(lambda: os.path.exists(three + ".started"))
    del items
    for path in (one, two, three):
        until(lambda: os.path.exists(path))


def test_the_death_of_a_generators_worker_is_its_last_item(ray):
    @ray.remote
    def dies():
        yield 1
        time.sleep(0.2)  # so that the item is out
        os._exit(5)

    items = dies.remote()
    assert ray.get(next(items)) == 1
    with pytest.raises(ray.exceptions.RayError) as caught:
        ray.get(next(items))
    assert caught.value.death is None or caught.value.death["exit_code"] == 5
    with pytest.raises(StopIteration):
        next(items)
