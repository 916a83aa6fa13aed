"""Work that is done by several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import TypeVar

__all__ = ["mapped"]

T = TypeVar("T")
R = TypeVar("R")


def mapped(make: Callable[[T], R], of: Sequence[T], jobs: int) -> Iterator[tuple[T, R]]:
    """Each with what is made of it, as it is done; in their order by one process, this one.

    Parameters
    ----------
    make : for more than one process: of a module, or a `functools.partial` of such a function
    jobs : processes at most

    Examples
    --------
    >>> list(mapped(abs, [-1, 2], 1))
    [(-1, 1), (2, 2)]
    """
    if min(jobs, len(of)) <= 1:
        yield from ((each, make(each)) for each in of)
        return
    with ProcessPoolExecutor(min(jobs, len(of)), mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(make, each): each for each in of}
        try:
            yield from ((waiting[done], done.result()) for done in as_completed(waiting))
        finally:
            pool.shutdown(cancel_futures=True)
