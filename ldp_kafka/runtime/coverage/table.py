"""All cells: which there are, by several processes, and what is said of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.evaluation.claims import Claim
from ldp_kafka.evaluation.coverage.cells import Row, claims
from ldp_kafka.evaluation.coverage.page import page
from ldp_kafka.evaluation.coverage.streams import STREAMS
from ldp_kafka.evaluation.experiments import as_plain
from ldp_kafka.evaluation.pool import mapped
from ldp_kafka.runtime.coverage import kept
from ldp_kafka.runtime.coverage.kept import Group
from ldp_kafka.runtime.coverage.released import cells
from ldp_kafka.runtime.coverage.subjects import SUBJECTS, Subject

__all__ = ["RUNS", "Evaluated", "Extent", "evaluated", "extent", "left_out", "measure", "so_far"]

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
    asked: Extent,
    *,
    seed: int = 1,
    jobs: int = 1,
    progress: Progress | None = None,
    keep: Path | None = None,
) -> list[Row]:
    """The rows of what is asked for; whatever ``jobs``, the same.

    Parameters
    ----------
    seed : of streams and noise
    jobs : processes
    keep : a file: what it has is not made again, and what is made is added

    Raises
    ------
    ConfigurationError : the file has rows of other runs or another seed
    """
    names = [_group(each) for each in asked.groups]
    found = {} if keep is None else _begun(keep, asked.runs, seed)
    missing = [each for each in asked.groups if _group(each) not in found]
    if progress is not None and found:
        progress(len(names) - len(missing))
    make = partial(_cells, runs=asked.runs, seed=seed)
    for done, (each, rows) in enumerate(mapped(make, missing, jobs), 1):
        found[_group(each)] = rows
        if keep is not None:
            kept.add(keep, _group(each), rows)
        if progress is not None:
            progress(len(names) - len(missing) + done)
    return [row for name in names for row in found[name]]


def _group(made: tuple[Subject, str, int]) -> Group:
    subject, stream, users = made
    return Group(subject.method, subject.statistic, stream, users)


def _begun(keep: Path, runs: int, seed: int) -> dict[Group, list[Row]]:
    """What a file has."""
    had = kept.read(keep)
    if had is None:
        kept.start(keep, runs, seed)
        return {}
    if (had.runs, had.seed) != (runs, seed):
        raise ConfigurationError(
            f"{keep} has rows of {had.runs} runs and seed {had.seed}, not of {runs} and {seed}:"
            " ask for these, or move the file away"
        )
    return had.rows


def _cells(group: tuple[Subject, str, int], *, runs: int, seed: int) -> list[Row]:
    return [_rounded(row) for row in cells(*group, runs, seed)]


def _rounded(row: Row) -> Row:
    """To six digits, which is more than Monte-Carlo errors leave."""
    return row.floats(lambda value: float(f"{value:.6g}"))


def so_far(keep: Path) -> str:
    """The page of what a file has of all cells.

    Raises
    ------
    ConfigurationError : there is no such file
    """
    had = kept.read(keep)
    if had is None:
        raise ConfigurationError(f"there is no {keep}")
    groups = [name for name in map(_group, extent().groups) if name in had.rows]
    of = sum(1 for _ in extent().groups)
    notes = [f"{had.runs} runs a cell"]
    if len(groups) < of:
        notes.append(
            f"so far {len(groups):,} of {of:,} groups, each of a method with a statistic, a stream"
            " and a number of users"
        )
    return page([row for name in groups for row in had.rows[name]], notes)


def left_out(asked: Extent) -> list[str]:
    """What the rows do not say."""
    said = [f"{asked.runs} runs a cell"]
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
    asked: Extent,
    *,
    seed: int = 1,
    jobs: int = 1,
    progress: Progress | None = None,
    keep: Path | None = None,
) -> Evaluated:
    """The cells that are asked for, as `measure` has it."""
    rows = measure(asked, seed=seed, jobs=jobs, progress=progress, keep=keep)
    notes = left_out(asked)
    return Evaluated(
        as_plain([row._asdict() for row in rows]),
        claims(rows, estimates=asked.runs < RUNS),
        notes,
        page(rows, notes),
    )
