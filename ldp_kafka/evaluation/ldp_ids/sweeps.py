"""Figures 4 to 6 and 8: errors and communication of the seven protocols against epsilon, the
window, the number of users, and how fast the stream moves. The axes are ours where the paper's text
does not name them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from ldp_kafka.evaluation.claims import Claim
from ldp_kafka.evaluation.experiment import Experiment, Row, Rows, drawn, measured, values_of
from ldp_kafka.evaluation.ldp_ids import comparison, orders
from ldp_kafka.evaluation.ldp_ids.comparison import NAMES
from ldp_kafka.evaluation.ldp_ids.crowds import MADE_AND_TAXI, STREAMS, WALKS, Stream, stream
from ldp_kafka.evaluation.metrics import FLOOR
from ldp_kafka.evaluation.plots import Panel

__all__ = ["EXPERIMENTS", "by_data", "by_epsilon", "by_window", "panels"]

EPSILONS = (0.5, 1.0, 1.5, 2.0, 2.5)
WINDOWS = (10, 20, 30, 40, 50)
CROWDS = (10_000, 50_000, 200_000, 800_000)
STEPS = (0.001, 0.002, 0.004, 0.008)  # sqrt(Q) of LNS; the first two are named in section 7.3
SPEEDS = (0.005, 0.01, 0.02, 0.04, 0.08)  # b of Sin


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
        rows.append(
            {"stream": crowd.name, "varied": varied, "value": value}
            | {"epsilon": epsilon, "window": window, "users": crowd.users, "method": method}
            | measured(**{name: [run[name] for run in found] for name in found[0]})
            | {"floor": FLOOR, "runs": repetitions}
        )
    return rows


LABELS = {
    "epsilon": "epsilon",
    "window": "window (slots)",
    "users": "users",
    "sqrt_q": "step of the walk, sqrt(Q)",
    "b": "speed of the sine, b",
}
FIGURES = {"mre": f"MRE (floor {FLOOR:g})", "mse": "MSE", "cfpu": "reports of a user in a slot"}


def panels(figure: str, rows: Rows) -> list[Panel]:
    """One panel for each axis and stream: ``mre``, ``mse`` or ``cfpu`` of every protocol."""
    made = []
    for varied in values_of(rows, "varied"):
        scale = "log" if varied in ("users", "sqrt_q", "b") else "linear"
        how = {"xlabel": LABELS[varied], "xscale": scale, "varied": varied}
        made += drawn("value", figure, FIGURES[figure], each=("stream",), **how)(rows)
    return made


def _experiment(
    name: str,
    shows: str,
    about: str,
    rows: Callable[..., list[Row]],
    quick: dict[str, Any],
    claims: Callable[[Rows], list[Claim]],
    data: str = MADE_AND_TAXI,
) -> Experiment:
    figures = {figure: partial(panels, figure) for figure in FIGURES}
    return Experiment(name, "LDP-IDS", shows, about, rows, quick, claims, figures, data)


EXPERIMENTS = (
    _experiment(
        "ldp-ids-epsilon",
        "figures 4 and 8",
        "errors and reports against epsilon, window 20",
        by_epsilon,
        {"epsilons": (0.5, 2.5), "streams": ("lns 1",), "repetitions": 2},
        orders.of_epsilon,
    ),
    _experiment(
        "ldp-ids-window",
        "figures 5 and 8",
        "errors and reports against the window, epsilon 1",
        by_window,
        {"windows": (10, 50), "streams": ("lns 1",), "repetitions": 2},
        orders.of_window,
    ),
    _experiment(
        "ldp-ids-data",
        "figures 6 and 8",
        "errors and reports against users and how fast a stream moves, epsilon 1, window 30",
        by_data,
        {
            "crowds": (10_000, 200_000),
            "steps": (0.001, 0.008),
            "speeds": (0.005, 0.08),
            "walks": ("lns 1",),
            "repetitions": 2,
        },
        orders.of_data,
        "LNS (three walks) and Sin as the paper makes them, 10,000 to 800,000 users and 800 slots",
    ),
)
