"""Waiting for what reaches the other side by itself."""

import time


def until(condition, timeout=20.0):
    """Waits for what no call tells."""
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.01)
