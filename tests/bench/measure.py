"""Rounds, figures and cores: how everything here is measured."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from statistics import median

import numpy as np


@dataclass(frozen=True)
class Figure:
    """One line of the table: the median of its rounds, the least and the greatest."""

    part: str
    name: str
    unit: str
    rounds: tuple[float, ...]
    target: str = ""
    note: str = ""

    @property
    def median(self) -> float:
        return median(self.rounds)

    def as_json(self) -> dict:
        return {**asdict(self), "median": self.median}


def ratio(
    part: str,
    name: str,
    over: Sequence[float],
    under: Sequence[float],
    target: str = "",
    note: str = "",
) -> Figure:
    """Of two things measured side by side, round by round."""
    return Figure(
        part, name, "x", tuple(a / b for a, b in zip(over, under, strict=True)), target, note
    )


def line(counts: Sequence[int], found: Sequence[float]) -> tuple[float, float]:
    """The slope of the least-squares line through these points, and how far the furthest is off, in
    percent of the largest.
    """
    x, y = np.array(counts, float), np.array(found, float)
    slope, start = np.polyfit(x, y, 1)
    return float(slope), float(100 * np.abs(slope * x + start - y).max() / y.max())


def table(figures: Sequence[Figure]) -> str:
    rows = [("", "median", "least .. most", "", "target", "")]
    rows += [
        (
            f"{f.part}: {f.name}",
            digits(f.median),
            f"{digits(min(f.rounds))} .. {digits(max(f.rounds))}",
            f.unit,
            f.target,
            f.note,
        )
        for f in figures
    ]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    aligned = [
        (
            row[0].ljust(widths[0]),
            row[1].rjust(widths[1]),
            row[2].rjust(widths[2]),
            *(cell.ljust(width) for cell, width in zip(row[3:], widths[3:], strict=True)),
        )
        for row in rows
    ]
    return "\n".join("  ".join(row).rstrip() for row in aligned)


def digits(value: float) -> str:
    """Three significant ones, no exponent."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def say(text: str) -> None:
    """Progress."""
    print(text, file=sys.stderr, flush=True)


@cache
def cores() -> tuple[int, int]:
    """The core of what is measured, and that of the broker and everything else; the same where
    there is but one. Asked once: `pin` changes the answer.
    """
    mine = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
    return mine[0], mine[min(1, len(mine) - 1)]


def pin(core: int, pid: int = 0) -> None:
    """Every thread of a process (default: this one) to one core; nothing where the
    system cannot.
    """
    if not hasattr(os, "sched_setaffinity"):
        return
    tasks = Path(f"/proc/{pid or os.getpid()}/task")
    for thread in [int(task.name) for task in tasks.iterdir()] if tasks.exists() else [pid]:
        try:
            os.sched_setaffinity(thread, {core})
        except (ProcessLookupError, PermissionError):
            continue


def interleave(
    work: Mapping[str, Callable[[], object]], rounds: int, least: float
) -> dict[str, list[float]]:
    """CPU seconds of one call, for each round: A B C A B C ..., each called until it has taken
    ``least`` seconds. CPU and not wall, since the machine may have other things to do.
    """
    for call in work.values():
        call()  # warm
    found: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(rounds):
        for name, call in work.items():
            calls, begin = 0, time.process_time()
            while not calls or time.process_time() - begin < least:
                call()
                calls += 1
            found[name].append((time.process_time() - begin) / calls)
    return found
