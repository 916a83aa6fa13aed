"""All cells: which there are, by several processes, and what is said of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any, NamedTuple

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.evaluation.claims import Claim
from ldp_kafka.evaluation.coverage.cells import Row, claims
from ldp_kafka.evaluation.coverage.page import page
from ldp_kafka.evaluation.coverage.streams import STREAMS
from ldp_kafka.evaluation.tables import as_plain
from ldp_kafka.runtime.coverage.released import cells
from ldp_kafka.runtime.coverage.subjects import SUBJECTS, Subject

__all__ = ["RUNS", "Evaluated", "Extent", "evaluated", "extent", "left_out", "measure"]

RUNS, QUICK_RUNS = 600, 24
"""Of a cell. Bounds of .92 in all cells together need about 500 where .95 is covered, and less than
300 where .99 is.
"""
QUICK_STREAMS, QUICK_USERS = ("jump", "all in one"), (1, 30, 300)

Progress = Callable[[int], None]
"""Is told how many groups of cells are done."""


class Extent(NamedTuple):
    """Which cells are made."""

    subjects: tuple[Subject, ...]
    streams: tuple[str, ...]
    users: tuple[int, ...] | None
    """None: all that a subject is judged with."""
    runs: int

    @property
    def groups(self) -> Iterator[tuple[Subject, str, int]]:
        """The subject, the stream and the users of cells that are made together."""
        for subject in self.subjects:
            for stream in self.streams:
                crowds = [
                    each for each in subject.crowds if self.users is None or each in self.users
                ]
                for users in crowds or subject.crowds[-1:]:
                    yield subject, stream, users


def extent(only: Sequence[str] = (), *, quick: bool = False, runs: int | None = None) -> Extent:
    """What is asked for.

    Parameters
    ----------
    only : names of methods, or METHOD/STATISTIC; none: all
    quick : two streams, no large crowds, and so few runs that bounds prove little
    runs : of each cell, at least 2

    Raises
    ------
    ConfigurationError : a name of ``only`` is none of these
    """
    subjects = tuple(chosen(only))
    if quick:
        plain = tuple(each for each in subjects if only or each.method == each.base)
        return Extent(plain, QUICK_STREAMS, QUICK_USERS, runs or QUICK_RUNS)
    return Extent(subjects, tuple(STREAMS), None, runs or RUNS)


def chosen(only: Sequence[str]) -> Iterator[Subject]:
    """The subjects of these names, in their order."""
    names = {name for each in SUBJECTS for name in _names(each)}
    for name in only:
        if name not in names:
            known = ", ".join(sorted({each.base for each in SUBJECTS}))
            raise ConfigurationError(
                f"--only: unknown method {name!r}; known, alone or as METHOD/STATISTIC: {known}"
            )
    return (each for each in SUBJECTS if not only or not _names(each).isdisjoint(only))


def _names(subject: Subject) -> set[str]:
    return {
        f"{method}{of}"
        for method in (subject.base, subject.method)
        for of in ("", f"/{subject.statistic}")
    }


def measure(
    asked: Extent, *, seed: int = 1, jobs: int = 1, progress: Progress | None = None
) -> list[Row]:
    """The rows of what is asked for; whatever ``jobs``, the same.

    Parameters
    ----------
    seed : of streams and noise
    jobs : processes
    """
    make = partial(_cells, runs=asked.runs, seed=seed)
    found: list[Row] = []
    with _Pool(jobs) as run:
        for done, each in enumerate(run(make, asked.groups), 1):
            found += each
            if progress is not None:
                progress(done)
    return found


class _Pool:
    """Gives a ``map`` over processes, whose results come in order."""

    def __init__(self, jobs: int) -> None:
        context = get_context("spawn")
        self._pool = ProcessPoolExecutor(jobs, mp_context=context) if jobs > 1 else None

    def __enter__(self) -> Callable[..., Iterator[list[Row]]]:
        return map if self._pool is None else self._pool.map

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def _cells(group: tuple[Subject, str, int], *, runs: int, seed: int) -> list[Row]:
    return cells(*group, runs, seed)


def left_out(asked: Extent, seconds: float) -> list[str]:
    """What the rows do not say, and how long they took."""
    said = [f"{asked.runs} runs a cell, {seconds:,.0f} s"]
    full = extent()
    if asked.runs < full.runs:
        said.append(
            f"fewer than {full.runs} runs: verdicts are those of estimates, and the bounds, which"
            " hold in all cells together, prove few of them"
        )
    streams = [each for each in full.streams if each not in asked.streams]
    if streams:
        said.append(f"streams left out: {', '.join(streams)}")
    if asked.users is not None:
        said.append(f"users: {', '.join(map(str, asked.users))} only")
    missing = [each for each in full.subjects if each not in asked.subjects]
    if missing:
        said.append(f"methods left out, with a statistic or a mechanism: {len(missing)}")
    return said


class Evaluated(NamedTuple):
    """What all of it has come to."""

    rows: list[dict[str, Any]]
    """Infinities and NaN as None."""
    claims: list[Claim]
    notes: list[str]
    page: str


def evaluated(
    asked: Extent, *, seed: int = 1, jobs: int = 1, progress: Progress | None = None
) -> Evaluated:
    """The cells that are asked for, as `measure` has it."""
    start = time.monotonic()
    rows = measure(asked, seed=seed, jobs=jobs, progress=progress)
    notes = left_out(asked, time.monotonic() - start)
    return Evaluated(
        as_plain(rows), claims(rows, estimates=asked.runs < RUNS), notes, page(rows, notes)
    )
