"""What the paper's "30 times" is made of (its section I and Table III): error of each method over
that of naive noise that may lie anywhere, and over that of naive noise clipped to the domain.

A domain is public, so clipping is free. Naive noise on a value x has the error length / epsilon;
clipped, never more than the domain has room for. At a small epsilon nearly all of what a method
wins over unclipped noise is won by any release inside the domain, the constant one included.
``buc_order`` clips by itself, each mean to its bucket; that is why it alone has the figure.

Measured at epsilon 0.1: clipping makes the error of naive noise 21 times smaller on all four
streams, ``buc_order`` as published 26 to 41 times, the midpoint 28 to 71 times. ``comp_order`` does
not come down to what Table III prints: 0.30 of naive noise where 0.19 and 0.20 are printed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isnan, log
from typing import NamedTuple

from ldp_kafka.accounting import words
from ldp_kafka.evaluation.claims import Claim, claim
from ldp_kafka.evaluation.delay.compared import (
    MIDPOINT,
    OURS,
    PAPER,
    REPEATS,
    Errors,
    errors,
    made,
    midpoint,
)
from ldp_kafka.evaluation.delay.limits import at_most
from ldp_kafka.evaluation.delay.streams import STREAMS, stream
from ldp_kafka.evaluation.plots import Line, Panel

__all__ = ["PRINTED", "Row", "claims", "panels", "rows"]

EPSILONS = (0.1, 0.5, 1.0)  # of Table III
METHODS = ("naive", *(name for name in PAPER if not name.endswith("point")), OURS)
DELAY = 10
SMALL = 0.1  # the epsilon of the "30 times"
TIMES = 15.0  # that clipping makes naive noise's error smaller, at least
HALF = 0.5
NEAR = 0.05  # of the printed ratios, which have two digits
# (stream, method): error over that of naive noise at epsilon 0.1, 0.5, 1, as printed in Table III;
# its "Discontin" does not say where the noise is
PRINTED = {
    ("unemployment", "naive"): (1.0, 1.0, 1.0),
    ("unemployment", "discontin_group"): (0.41, 0.41, 0.41),
    ("unemployment", "comp_order"): (0.19, 0.28, 0.40),
    ("unemployment", "buc_order"): (0.03, 0.17, 0.35),
    ("outpatient", "naive"): (1.0, 1.0, 1.0),
    ("outpatient", "discontin_group"): (0.41, 0.41, 0.41),
    ("outpatient", "comp_order"): (0.20, 0.39, 0.56),
    ("outpatient", "buc_order"): (0.03, 0.15, 0.29),
}


class Row(NamedTuple):
    """One method at one epsilon, in batches; the paper's as published and not smoothed, ours
    smoothed.
    """

    stream: str
    epsilon: float
    method: str
    unclipped: float
    """Mean absolute error where releases may lie outside the domain ..."""
    clipped: float
    """... and where they are clipped to it."""
    clipped_error: float
    """Standard error of ``clipped`` over repeats."""
    printed: float
    """Error over that of unclipped naive noise, as printed in Table III; or NaN ..."""
    unclipped_over_naive: float
    """... of unclipped releases ..."""
    clipped_over_naive: float
    """... and of clipped ones."""
    over_clipped_naive: float
    """Error of clipped releases over that of clipped naive noise."""
    by_clipping: float
    """Share of the gain over unclipped naive noise, in logarithms, that clipping that noise gives:
    1 for all of it, more where the method is worse than clipped naive noise.
    """
    repeats: int


def rows(
    streams: Sequence[str] = STREAMS,
    *,
    epsilons: Iterable[float] = EPSILONS,
    methods: Sequence[str] = METHODS,
    repeats: int = REPEATS,
    seed: int = 0,
) -> list[Row]:
    """Table III's settings: a delay of 10, in batches; and the midpoint."""
    return [
        row
        for name in streams
        for epsilon in epsilons
        for row in _cell(name, epsilon, methods, repeats, seed)
    ]


def _cell(name: str, epsilon: float, methods: Sequence[str], repeats: int, seed: int) -> list[Row]:
    on = stream(name)

    def mae(of: str, *, clipped: bool) -> Errors:
        calibration = "published" if of in PAPER else "sound"
        method = made(
            of, on, calibration=calibration, clipped=clipped, epsilon=epsilon, delay=DELAY
        )
        return errors(method, on, repeats=repeats, seed=seed)

    middle = midpoint(on)
    found = {MIDPOINT: (middle, middle)}
    for each in ("naive", *(other for other in methods if other != "naive")):
        found[each] = (mae(each, clipped=False), mae(each, clipped=True))
    free, naive = (one.mae for one in found["naive"])
    made_rows = []
    for each, (raw, held) in found.items():
        printed = dict(zip(EPSILONS, PRINTED.get((name, each), ()), strict=False))
        made_rows.append(
            Row(
                name,
                epsilon,
                each,
                raw.mae,
                held.mae,
                held.mae_error,
                printed.get(epsilon, float("nan")),
                raw.mae / free,
                held.mae / free,
                held.mae / naive,
                log(free / naive) / log(free / held.mae) if held.mae != free else float("nan"),
                repeats,
            )
        )
    return made_rows


def claims(found: Sequence[Row]) -> list[Claim]:
    """That clipping makes most of the paper's gain, and a constant more than all of it."""
    by = {(row.stream, row.epsilon, row.method): row for row in found}
    small = [row for row in found if row.epsilon == SMALL]
    shares = [row.by_clipping for row in small if row.method == "buc_order"]
    seen = f" (measured {min(shares):.0%} to {max(shares):.0%})" if shares else ""
    return [
        at_most(
            f"at epsilon {SMALL}: naive noise clipped over unclipped",
            1 / TIMES,
            {row.stream: row.clipped_over_naive for row in small if row.method == "naive"},
        ),
        claim(
            f"at epsilon {SMALL}: clipping alone gives more than half of what buc_order as"
            f" published gains over unclipped naive noise, in logarithms{seen}",
            (share > HALF for share in shares),
        ),
        at_most(
            "the midpoint over buc_order as published",
            1.0,
            {
                f"{name}, epsilon {words.at_most(epsilon)}": by[name, epsilon, MIDPOINT].clipped
                / row.clipped
                for (name, epsilon, method), row in by.items()
                if method == "buc_order"
            },
        ),
        at_most(
            "unclipped error over that of naive noise, away from what Table III prints",
            NEAR,
            {
                f"{row.stream}, epsilon {words.at_most(row.epsilon)}, {row.method}": abs(
                    row.unclipped_over_naive - row.printed
                )
                for row in found
                if not isnan(row.printed)
            },
        ),
    ]


def panels(found: Sequence[Row]) -> list[Panel]:
    """One panel a stream, at the least epsilon: errors of the methods, clipped and not, over that
    of unclipped naive noise.
    """
    least = min(row.epsilon for row in found)
    drawn = []
    for name in dict.fromkeys(row.stream for row in found):
        part = [row for row in found if (row.stream, row.epsilon) == (name, least)]
        x = list(range(len(part)))
        there = [at for at, row in enumerate(part) if not isnan(row.printed)]
        lines = {
            "unclipped": Line(x, [row.unclipped_over_naive for row in part], joined=False),
            "clipped to the domain": Line(
                x, [row.clipped_over_naive for row in part], joined=False
            ),
            "as printed in Table III": Line(
                there, [part[at].printed for at in there], joined=False
            ),
        }
        drawn.append(
            Panel(
                f"{name}, epsilon {least:g}, delay {DELAY}",
                lines,
                "",
                "MAE over that of unclipped naive noise",
                names=[row.method for row in part],
            )
        )
    return drawn
