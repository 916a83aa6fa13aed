"""Figures 4 to 6 and 8: errors and communication of the seven protocols against epsilon, the
window, the number of users, and how fast the stream moves. The axes are ours where the paper's text
does not name them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ldp_kafka.evaluation.ldp_ids import comparison
from ldp_kafka.evaluation.ldp_ids.comparison import FLOOR, NAMES
from ldp_kafka.evaluation.ldp_ids.crowds import STREAMS, WALKS, Stream, stream
from ldp_kafka.evaluation.plots import Line, Panel

__all__ = ["Row", "by_data", "by_epsilon", "by_window", "panels"]

EPSILONS = (0.5, 1.0, 1.5, 2.0, 2.5)
WINDOWS = (10, 20, 30, 40, 50)
CROWDS = (10_000, 50_000, 200_000, 800_000)
STEPS = (0.001, 0.002, 0.004, 0.008)  # sqrt(Q) of LNS; the first two are named in section 7.3
SPEEDS = (0.005, 0.01, 0.02, 0.04, 0.08)  # b of Sin


class Row(NamedTuple):
    """One protocol in one setting."""

    stream: str
    varied: str
    """What the axis is: epsilon, window, users, sqrt_q or b ..."""
    value: float
    """... and where on it."""
    epsilon: float
    window: int
    users: int
    method: str
    mre: float
    """Mean relative error over slots and categories, and its standard error over runs."""
    mre_error: float
    mse: float
    mse_error: float
    cfpu: float
    """Reports of a user in a slot."""
    cfpu_error: float
    floor: float
    """True frequencies below it count as this one in ``mre``."""
    runs: int


def by_epsilon(
    epsilons: Iterable[float] = EPSILONS,
    *,
    streams: Sequence[str] = STREAMS,
    window: int = 20,
    repetitions: int = 5,
    seed: int = 0,
) -> list[Row]:
    """Figures 4 and 8(c)."""
    return [
        row
        for each in [stream(name) for name in streams]
        for epsilon in epsilons
        for row in _cell(each, "epsilon", epsilon, epsilon, window, repetitions, seed)
    ]


def by_window(
    windows: Iterable[int] = WINDOWS,
    *,
    streams: Sequence[str] = STREAMS,
    epsilon: float = 1.0,
    repetitions: int = 5,
    seed: int = 0,
) -> list[Row]:
    """Figures 5 and 8(d)."""
    return [
        row
        for each in [stream(name) for name in streams]
        for window in windows
        for row in _cell(each, "window", window, epsilon, window, repetitions, seed)
    ]


def by_data(
    *,
    crowds: Iterable[int] = CROWDS,
    steps: Iterable[float] = STEPS,
    speeds: Iterable[float] = SPEEDS,
    walks: Sequence[str] = WALKS,
    epsilon: float = 1.0,
    window: int = 30,
    repetitions: int = 5,
    seed: int = 0,
) -> list[Row]:
    """Figures 6, 8(a) and 8(b): the number of users, and how fast a stream moves (LNS and Sin)."""
    settings = [
        ("users", float(users), each)
        for users in crowds
        for each in (*(stream(walk, users=users) for walk in walks), stream("sin", users=users))
    ]
    settings += [("sqrt_q", q, stream(walk, sqrt_q=q)) for q in steps for walk in walks]
    settings += [("b", b, stream("sin", b=b)) for b in speeds]
    return [
        row
        for varied, value, each in settings
        for row in _cell(each, varied, value, epsilon, window, repetitions, seed)
    ]


def _cell(
    crowd: Stream,
    varied: str,
    value: float,
    epsilon: float,
    window: int,
    repetitions: int,
    seed: int,
) -> list[Row]:
    """All protocols in one setting, each with noise of its own."""
    rows = []
    for at, method in enumerate(NAMES):
        protocol = comparison.made(method, epsilon, window, crowd.counts.shape[1])
        # the same seed along an axis: neighbours on it differ by what is varied
        found = comparison.runs(protocol, [crowd] * repetitions, seed=(seed, at))
        figures = [comparison.mean_of(each) for each in zip(*found, strict=True)]
        rows.append(
            Row(
                crowd.name,
                varied,
                value,
                epsilon,
                window,
                crowd.users,
                method,
                *figures[0],
                *figures[1],
                *figures[2],
                FLOOR,
                repetitions,
            )
        )
    return rows


LABELS: Mapping[str, str] = {
    "epsilon": "epsilon",
    "window": "window (slots)",
    "users": "users",
    "sqrt_q": "step of the walk, sqrt(Q)",
    "b": "speed of the sine, b",
}


def panels(rows: Sequence[Row], figure: str = "mre") -> list[Panel]:
    """One panel for each stream and axis: ``mre``, ``mse`` or ``cfpu`` of every protocol."""
    names = {"mre": f"MRE (floor {FLOOR:g})", "mse": "MSE", "cfpu": "reports of a user in a slot"}
    found = []
    for name, varied in dict.fromkeys((row.stream, row.varied) for row in rows):
        lines = {}
        for method in NAMES:
            part = [row for row in rows if row[:2] == (name, varied) and row.method == method]
            lines[method] = Line(
                [row.value for row in part],
                [getattr(row, figure) for row in part],
                [getattr(row, f"{figure}_error") for row in part] if part[0].runs > 1 else None,
            )
        scale = "log" if varied in ("users", "sqrt_q", "b") else "linear"
        found.append(Panel(name, lines, LABELS[varied], names[figure], scale))
    return found
