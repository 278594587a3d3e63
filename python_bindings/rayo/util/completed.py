"""Results in the order in which they come."""

import rayo


def as_completed(refs, *, chunk_size=10, yield_obj_refs=False):
    """Iterates over the values of refs as they come, or over the refs themselves. What a call raised is raised in its place.
    `chunk_size` is Ray's and changes nothing.

        for value in ray.util.as_completed([half.remote(i) for i in range(100)]):
            print(value)
    """
    pending = list(refs)
    while pending:
        ready, pending = rayo.wait(pending)
        if pending:
            more, pending = rayo.wait(pending, num_returns=len(pending), timeout=0)
            ready += more
        for ref in ready:
            yield ref if yield_obj_refs else rayo.get(ref)


def map_unordered(fn, items, *, backpressure_size=100, chunk_size=10, yield_obj_refs=False):
    """Iterates over the values of fn.remote(item), as they come; at most `backpressure_size` calls are under way, and items
    are taken as there is room. `chunk_size` is Ray's and changes nothing.

        print(sum(ray.util.map_unordered(half, range(1000))))
    """
    if backpressure_size < 1:
        raise ValueError(f"backpressure_size is {backpressure_size}: a number from 1")
    pending = []
    for item in items:
        if len(pending) == backpressure_size:
            ready, pending = rayo.wait(pending)
            yield ready[0] if yield_obj_refs else rayo.get(ready[0])
        pending.append(fn.remote(item))
    yield from as_completed(pending, yield_obj_refs=yield_obj_refs)
