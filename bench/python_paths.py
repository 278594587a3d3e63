"""The paths of the Python API that are measured, with Rayo or with Ray: python_bench.py runs them in both, in one run.

    PYTHONPATH=build/release/python /usr/bin/python3 bench/python_paths.py rayo      # prints {path: figure} as JSON
    $(bench/peers/ray.sh) bench/python_paths.py ray
"""

import json
import statistics
import sys
import time

import numpy


def p50_us(run, count, warm=20):
    for _ in range(warm):
        run()
    spans = []
    for _ in range(count):
        begin = time.perf_counter_ns()
        run()
        spans.append(time.perf_counter_ns() - begin)
    return statistics.median(spans) / 1000


def rate(make, get, count):
    begin = time.perf_counter()
    get([make() for _ in range(count)])
    return count / (time.perf_counter() - begin)


def copy_rates(ray, size, rounds):
    """(bytes/s of put into pages that were used before, of numpy.copyto into such): in turn, the best of each."""
    array, target = numpy.ones(size, dtype=numpy.uint8), numpy.ones(size, dtype=numpy.uint8)
    puts, copies = [], []
    for _ in range(rounds):
        begin = time.perf_counter()
        ref = ray.put(array)
        puts.append(size / (time.perf_counter() - begin))
        del ref
        time.sleep(2.5)  # its room is free again after 2 s (object_store/directory.h), and its pages are used once more
        begin = time.perf_counter()
        numpy.copyto(target, array)
        copies.append(size / (time.perf_counter() - begin))
    return max(puts), max(copies)


def measure(ray, scale=1.0):
    """`scale`: of the number of calls, for the slower peer."""

    @ray.remote
    class Echo:
        def same(self, x):
            return x

    @ray.remote
    def same(x):
        return x

    found = {}
    echo = Echo.remote()
    ray.get(echo.same.remote(1))
    found["call_us"] = p50_us(lambda: ray.get(echo.same.remote(1)), int(4000 * scale))
    found["calls_1000_per_s"] = max(rate(lambda: echo.same.remote(1), ray.get, 1000) for _ in range(5))
    ray.get([same.remote(1) for _ in range(10)])
    found["task_us"] = p50_us(lambda: ray.get(same.remote(1)), int(2000 * scale))
    small = b"x" * 100
    found["put_100_us"] = p50_us(lambda: ray.put(small), int(4000 * scale))
    ref = ray.put(small)
    found["get_100_us"] = p50_us(lambda: ray.get(ref), int(4000 * scale))

    def create():
        ray.get(Echo.remote().same.remote(1))

    found["create_ms"] = p50_us(create, max(4, int(20 * scale)), warm=2) / 1000
    found["put_400_mib"], found["copyto_400_mib"] = copy_rates(ray, 400 << 20, 6)
    big = ray.put(numpy.ones(400 << 20, dtype=numpy.uint8))
    found["get_400_mib_us"] = p50_us(lambda: ray.get(big), 50, warm=3)
    return found


if __name__ == "__main__":
    if sys.argv[1] == "ray":
        import ray

        ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="error")
    else:
        import rayo as ray

        ray.init(num_cpus=4)
    print(json.dumps(measure(ray, 0.1 if sys.argv[1] == "ray" else 1.0)))
