"""Corners of Ray's API that scripts lean on. If one fails, a script that was written for Ray stops or goes astray here."""

import time

import pytest


# ---- pools ----


def test_what_imap_answers_goes_on_after_an_error_and_after_close(ray):
    from rayo.util.multiprocessing import Pool, TimeoutError

    def inverse(n):
        return 1 / n

    def slow(n):
        time.sleep(60)

    with Pool(processes=2) as pool:
        answers = pool.imap(inverse, [1, 0, 2, 4])
        assert next(answers) == 1
        with pytest.raises(ZeroDivisionError):
            next(answers)
        assert list(answers) == [0.5, 0.25]
        with pytest.raises(TimeoutError):
            pool.imap_unordered(slow, [1]).next(timeout=0.1)
        with pytest.raises(ValueError, match="Chunksize"):
            pool.imap(inverse, [1], chunksize=0)
        nothing = pool.map_async(inverse, [])
        nothing.wait(timeout=5)
        assert nothing.ready() and nothing.successful() and nothing.get() == []
    pool = Pool(processes=2)
    answers = pool.imap(inverse, range(1, 20))
    pool.close()
    pool.join()
    assert list(answers) == [1 / n for n in range(1, 20)]
    with pytest.raises(ValueError, match="not running"):
        pool.imap(inverse, [1])
    pool.terminate()


def test_an_actor_belongs_to_a_pool_once(ray):
    @ray.remote
    class Worker:
        def double(self, n):
            return 2 * n

    first, second = Worker.remote(), Worker.remote()
    pool = ray.util.ActorPool([first])
    with pytest.raises(ValueError, match="already belongs"):
        pool.push(first)
    pool.push(second)
    assert sorted(pool.map_unordered(lambda actor, n: actor.double.remote(n), range(5))) == [0, 2, 4, 6, 8]
