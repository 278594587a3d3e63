"""ActorPool: hands work to whichever of some actors is free."""

import rayo


class ActorPool:
    """Work for a fixed set of actors, one piece each at a time.

        pool = ActorPool([Worker.remote(), Worker.remote()])
        print(list(pool.map(lambda actor, value: actor.double.remote(value), [1, 2, 3, 4])))   # [2, 4, 6, 8]

    `fn(actor, value)` starts one piece and answers its ObjectRef.
    """

    def __init__(self, actors):
        self._idle = list(actors)
        self._busy = {}  # ref: (number of the piece, actor)
        self._refs = {}  # number: ref
        self._next_number = 0
        self._next_answer = 0
        self._waiting = []

    def map(self, fn, values):
        """Answers of fn over values, in their order."""
        for value in values:
            self.submit(fn, value)
        while self.has_next():
            yield self.get_next()

    def map_unordered(self, fn, values):
        """Answers of fn over values, as they come."""
        for value in values:
            self.submit(fn, value)
        while self.has_next():
            yield self.get_next_unordered()

    def submit(self, fn, value):
        """Starts a piece where an actor is idle, else keeps it."""
        if not self._idle:
            self._waiting.append((fn, value))
            return
        actor = self._idle.pop()
        ref = fn(actor, value)
        self._busy[ref] = (self._next_number, actor)
        self._refs[self._next_number] = ref
        self._next_number += 1

    def has_next(self):
        return bool(self._refs)

    def has_free(self):
        return bool(self._idle) and not self._waiting

    def get_next(self, timeout=None, ignore_if_timedout=False):
        """The next answer in order of submission; StopIteration where nothing is under way, TimeoutError in time's name."""
        if not self.has_next():
            raise StopIteration("nothing is under way")
        while self._next_answer not in self._refs:  # taken by get_next_unordered
            self._next_answer += 1
        ref = self._refs[self._next_answer]
        if timeout is not None and not rayo.wait([ref], timeout=timeout)[0]:
            if not ignore_if_timedout:
                raise TimeoutError("the next answer is not there in time")
            self._take(ref)
            return None
        self._take(ref)
        return rayo.get(ref)

    def get_next_unordered(self, timeout=None, ignore_if_timedout=False):
        """Whichever answer comes first."""
        if not self.has_next():
            raise StopIteration("nothing is under way")
        ready, _ = rayo.wait(list(self._busy), timeout=timeout)
        if not ready:
            if ignore_if_timedout:
                return None
            raise TimeoutError("no answer is there in time")
        self._take(ready[0])
        return rayo.get(ready[0])

    def _take(self, ref):
        number, actor = self._busy.pop(ref)
        del self._refs[number]
        self.push(actor)

    def push(self, actor):
        """Gives the pool one more idle actor; ValueError where it has it."""
        if actor in self._idle or any(actor == busy for _, busy in self._busy.values()):
            raise ValueError("Actor already belongs to current ActorPool")
        self._idle.append(actor)
        if self._waiting:
            self.submit(*self._waiting.pop(0))

    def pop_idle(self):
        """Takes an idle actor out of the pool; None where none is."""
        return self._idle.pop() if self.has_free() else None
