"""Pool: multiprocessing.Pool's methods over actors of the whole cluster."""

import collections
import itertools
import multiprocessing

import rayo

TimeoutError = multiprocessing.TimeoutError


class _Worker:
    def __init__(self, initializer, initargs):
        if initializer is not None:
            initializer(*initargs)

    def run(self, function, calls):
        """[(True, value) or (False, exception)] of function over calls, each (args, kwargs)."""
        answers = []
        for args, kwargs in calls:
            try:
                answers.append((True, function(*args, **kwargs)))
            except Exception as error:
                answers.append((False, error))
        return answers

    def ready(self):
        return True


class AsyncResult:
    """What the _async methods answer; as multiprocessing's."""

    def __init__(self, refs, single, callback, error_callback):
        self._refs = refs
        self._single = single
        if callback is not None or error_callback is not None:
            self._call_back(callback, error_callback)

    def _call_back(self, callback, error_callback):
        import threading

        def tell():
            try:
                value = self.get()
            except BaseException as error:
                if error_callback is not None:
                    error_callback(error)
            else:
                if callback is not None:
                    callback(value)

        threading.Thread(target=tell, name="rayo-pool-callback", daemon=True).start()

    def get(self, timeout=None):
        try:
            chunks = rayo.get(self._refs, timeout=timeout)
        except rayo.exceptions.GetTimeoutError:
            raise TimeoutError from None
        values = []
        for good, value in itertools.chain.from_iterable(chunks):
            if not good:
                raise value
            values.append(value)
        return values[0] if self._single else values

    def wait(self, timeout=None):
        rayo.wait(self._refs, num_returns=len(self._refs), timeout=timeout)

    def ready(self):
        return len(rayo.wait(self._refs, num_returns=len(self._refs), timeout=0)[0]) == len(self._refs)

    def successful(self):
        if not self.ready():
            raise ValueError(f"{self!r} is not ready")
        try:
            self.get()
        except Exception:
            return False
        return True


class _Answers:
    """What imap answers. An error is raised in the place of its answer, and the answers behind it are there still."""

    def __init__(self, pool, function, iterable, chunksize, ordered):
        pool._check_running()
        if chunksize < 1:
            raise ValueError(f"Chunksize must be 1+, not {chunksize}")
        self._pool = pool
        self._function = function
        self._items = iter(iterable)
        self._chunksize = chunksize
        self._ordered = ordered
        self._more = True
        self._waiting = []
        self._answers = collections.deque()
        self._fill()

    def __iter__(self):
        return self

    def __next__(self):
        return self.next()

    def next(self, timeout=None):
        """The next answer; TimeoutError where it is not there in so many seconds."""
        while not self._answers:
            self._fill()
            if not self._waiting:
                raise StopIteration
            ready, _ = rayo.wait(self._waiting[:1] if self._ordered else self._waiting, timeout=timeout)
            if not ready:
                raise TimeoutError
            self._waiting.remove(ready[0])
            self._answers.extend(rayo.get(ready[0]))
        good, value = self._answers.popleft()
        if not good:
            raise value
        return value

    def _fill(self):
        while self._more and len(self._waiting) < self._pool._ahead():
            chunk = [((item,), {}) for item in itertools.islice(self._items, self._chunksize)]
            self._more = len(chunk) == self._chunksize
            if chunk:
                self._waiting.append(self._pool._submit(self._function, chunk))


class Pool:
    """Processes of the cluster that work through calls, each an actor.

        with Pool(processes=4) as pool:
            print(pool.map(len, ["a", "bb", "ccc"]))     # [1, 2, 3]

    `processes`: how many; None: a process for each CPU of the cluster. `initializer(*initargs)` runs once in each.
    `maxtasksperchild`: calls after which a process is replaced. `ray_remote_args`: options of the actors.
    """

    def __init__(self, processes=None, initializer=None, initargs=None, maxtasksperchild=None, context=None,
                 ray_address=None, ray_remote_args=None):
        if not rayo.is_initialized():
            rayo.init(ray_address)
        if processes is None:
            processes = max(1, int(rayo.cluster_resources().get("CPU", 1)))
        if processes < 1:
            raise ValueError("a pool has at least one process")
        self._made = (initializer, tuple(initargs or ()))
        self._options = dict(ray_remote_args or {})
        self._most = maxtasksperchild
        self._actors = [self._make() for _ in range(processes)]
        self._calls = [0] * processes
        self._pending = [collections.deque() for _ in range(processes)]
        self._closed = False
        rayo.get([actor.ready.remote() for actor in self._actors])

    def _make(self):
        return rayo.remote(_Worker).options(**self._options).remote(*self._made)

    def _check_running(self):
        if self._closed:
            raise ValueError("Pool not running")

    def _ahead(self):
        """Chunks that an iterator has under way."""
        return 2 * len(self._actors)

    def _submit(self, function, calls):
        """A ref for the answers to these calls, by the process that has the least to do."""
        for pending in self._pending:
            while pending and rayo.wait([pending[0]], timeout=0)[0]:
                pending.popleft()
        index = min(range(len(self._actors)), key=lambda i: len(self._pending[i]))
        if self._most is not None and self._calls[index] >= self._most:
            self._actors[index] = self._make()  # the old one ends after its calls
            self._calls[index] = 0
        self._calls[index] += len(calls)
        ref = self._actors[index].run.remote(function, calls)
        self._pending[index].append(ref)
        return ref

    def _chunks(self, function, iterable, chunksize, star=False):
        self._check_running()
        calls = [(tuple(item) if star else (item,), {}) for item in iterable]
        size = chunksize or max(1, -(-len(calls) // (4 * len(self._actors))))
        return [self._submit(function, calls[i : i + size]) for i in range(0, len(calls), size)]

    def apply(self, func, args=None, kwargs=None):
        return self.apply_async(func, args, kwargs).get()

    def apply_async(self, func, args=None, kwargs=None, callback=None, error_callback=None):
        self._check_running()
        return AsyncResult([self._submit(func, [(tuple(args or ()), dict(kwargs or {}))])], True, callback, error_callback)

    def map(self, func, iterable, chunksize=None):
        return self.map_async(func, iterable, chunksize).get()

    def map_async(self, func, iterable, chunksize=None, callback=None, error_callback=None):
        return AsyncResult(self._chunks(func, iterable, chunksize), False, callback, error_callback)

    def starmap(self, func, iterable, chunksize=None):
        return AsyncResult(self._chunks(func, iterable, chunksize, True), False, None, None).get()

    def starmap_async(self, func, iterable, callback=None, error_callback=None):
        return AsyncResult(self._chunks(func, iterable, None, True), False, callback, error_callback)

    def imap(self, func, iterable, chunksize=1):
        """An iterator over the answers in order; `iterable` is read as they are taken, a few chunks a process ahead."""
        return _Answers(self, func, iterable, chunksize, ordered=True)

    def imap_unordered(self, func, iterable, chunksize=1):
        """The same, as they come."""
        return _Answers(self, func, iterable, chunksize, ordered=False)

    def close(self):
        """No more calls; those under way end."""
        self._closed = True

    def terminate(self):
        """Ends the processes now."""
        self.close()
        for actor in self._actors:
            rayo.kill(actor)

    def join(self):
        """After close() or terminate(): waits until everything has ended."""
        if not self._closed:
            raise ValueError("Pool is still running")
        refs = [ref for pending in self._pending for ref in pending]
        if refs:
            rayo.wait(refs, num_returns=len(refs))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.terminate()

    def __reduce__(self):
        raise NotImplementedError("pool objects cannot be passed between processes or pickled")

