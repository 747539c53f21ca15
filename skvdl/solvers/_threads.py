"""Rows in threads, each on a core of its own.

When torch shares an operation among cores, they wait for each other, and for some milliseconds
after it they wait for the next one and do nothing else. A method that brings threads of its own
keeps torch to one core meanwhile.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from threading import Lock, Semaphore
from time import perf_counter

import torch

# Rows that a thread takes at a time, at least and at most, and pieces for each thread in between.
_FEWEST, _MOST, _PIECES = 64, 512, 4
# Seconds of work for which threads are worth being started.
_WORTHWHILE = 0.005


@contextmanager
def one_core() -> Iterator[int]:
    """Keep operations of torch to one core, and tell how many it had."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield n_threads
    finally:
        torch.set_num_threads(n_threads)


def in_threads(solve: Callable[[slice], None], n_rows: int, n_threads: int) -> None:
    """Call a function for pieces of rows, in threads that use one core each.

    The first few rows tell whether the others are work enough for more than one thread.

    Parameters
    ----------
    solve : callable
        Takes a slice of rows.
    n_rows : int
        Number of rows.
    n_threads : int
        Number of threads. The caller should be kept to one core by `one_core`.
    """
    # the same pieces whether or not there are threads, so that nothing is rounded differently
    size = max(_FEWEST, min(_MOST, -(-n_rows // (n_threads * _PIECES))))
    edges = [0, *range(min(_FEWEST, n_rows), n_rows, size), n_rows]
    first, *parts = [slice(start, end) for start, end in pairwise(edges)]
    start = perf_counter()
    solve(first)
    seconds_left = (perf_counter() - start) / _FEWEST * (n_rows - first.stop)
    if n_threads == 1 or len(parts) < 2 or seconds_left < _WORTHWHILE:
        for part in parts:
            solve(part)
    else:
        share(solve, parts, n_threads)


def share(solve: Callable[[slice], None], parts: Iterable[slice], n_threads: int) -> None:
    """Call a function for each slice, in threads that use one core each.

    Parameters
    ----------
    solve : callable
        Takes a slice of rows.
    parts : iterable of slice
        The slices. After an error, those that were not begun are left out.
    n_threads : int
        Number of threads. The caller should be kept to one core by `one_core`.
    """
    pieces = iter(parts)
    lock, ready = Lock(), Semaphore(0)
    inference = torch.is_inference_mode_enabled()

    def work() -> None:
        torch.set_num_threads(1)
        ready.release()
        with torch.inference_mode(inference):
            while True:
                with lock:
                    piece = next(pieces, None)
                if piece is None:
                    return
                solve(piece)

    mine = torch.get_num_threads()
    with ThreadPoolExecutor(n_threads) as pool:
        workers = [pool.submit(work) for _ in range(n_threads)]
        try:
            for _ in workers:
                ready.acquire()
            # a number counts for the thread that sets it, and for all that start later
            torch.set_num_threads(mine)
            for worker in workers:
                worker.result()
        finally:
            with lock:
                # leaving the pool waits for its threads
                pieces = iter(())
