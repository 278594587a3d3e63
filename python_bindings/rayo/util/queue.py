"""Queue: a first-in, first-out queue in an actor, shared by whoever holds it."""

import queue as _queue
import time

import rayo

Empty = _queue.Empty
Full = _queue.Full


class _Items:
    def __init__(self, maxsize):
        self.maxsize = maxsize
        self.items = []

    def put(self, items):
        """True where all of them fit."""
        if self.maxsize > 0 and len(self.items) + len(items) > self.maxsize:
            return False
        self.items.extend(items)
        return True

    def take(self, count):
        """`count` items, or None where there are fewer."""
        if len(self.items) < count:
            return None
        taken, self.items = self.items[:count], self.items[count:]
        return taken

    def size(self):
        return len(self.items)


class Queue:
    """queue.Queue's methods over an actor; maxsize 0 is without limit.

        queue = Queue(maxsize=10)
        queue.put(1)
        print(queue.get())
    """

    # A waiting put or get asks again after this many seconds, then after twice as many, up to the last.
    _FIRST_WAIT, _LAST_WAIT = 0.001, 0.05

    def __init__(self, maxsize=0, actor_options=None):
        self.maxsize = maxsize
        self.actor = rayo.remote(_Items).options(**(actor_options or {})).remote(maxsize)

    def __len__(self):
        return self.size()

    def size(self):
        return rayo.get(self.actor.size.remote())

    qsize = size

    def empty(self):
        return self.size() == 0

    def full(self):
        return self.maxsize > 0 and self.size() >= self.maxsize

    def put(self, item, block=True, timeout=None):
        """Raises Full where there is no room (in time)."""
        self._until(lambda: rayo.get(self.actor.put.remote([item])), block, timeout, Full)

    def get(self, block=True, timeout=None):
        """Raises Empty where there is nothing (in time)."""
        return self._until(lambda: rayo.get(self.actor.take.remote(1)), block, timeout, Empty)[0]

    def put_nowait(self, item):
        self.put(item, block=False)

    def get_nowait(self):
        return self.get(block=False)

    def put_nowait_batch(self, items):
        """All of them, or Full and none."""
        if not rayo.get(self.actor.put.remote(list(items))):
            raise Full()

    def get_nowait_batch(self, num_items):
        """So many, or Empty and none."""
        taken = rayo.get(self.actor.take.remote(num_items))
        if taken is None:
            raise Empty()
        return taken

    def _until(self, attempt, block, timeout, error):
        for wait in self._waits(timeout):
            answer = attempt()
            if answer:
                return answer
            if not block or wait is None:
                raise error()
            time.sleep(wait)

    def _waits(self, timeout):
        """How long to wait before the next attempt; None when the time is over."""
        if timeout is not None and timeout < 0:
            raise ValueError("a timeout is not negative")
        end = None if timeout is None else time.monotonic() + timeout
        wait = self._FIRST_WAIT
        while True:
            left = None if end is None else end - time.monotonic()
            yield wait if left is None else min(wait, left) if left > 0 else None
            wait = min(wait * 2, self._LAST_WAIT)

    async def put_async(self, item, block=True, timeout=None):
        """put() for coroutines."""
        await self._until_async(lambda: self.actor.put.remote([item]), block, timeout, Full)

    async def get_async(self, block=True, timeout=None):
        """get() for coroutines."""
        return (await self._until_async(lambda: self.actor.take.remote(1), block, timeout, Empty))[0]

    async def _until_async(self, attempt, block, timeout, error):
        import asyncio

        for wait in self._waits(timeout):
            answer = await attempt()
            if answer:
                return answer
            if not block or wait is None:
                raise error()
            await asyncio.sleep(wait)

    def shutdown(self, force=False, grace_period_s=5):
        """Ends the queue's actor: after the calls that are under way (at most so many seconds), or with `force` at once."""
        if not force:
            rayo.wait([self.actor.size.remote()], timeout=grace_period_s)
        rayo.kill(self.actor)
