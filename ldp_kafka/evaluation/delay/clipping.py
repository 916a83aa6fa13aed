"""What the paper's "30 times" is made of (its section I and Table III): error of each method over
that of naive noise that may lie anywhere, and over that of naive noise clipped to the domain.

A domain is public, so clipping is free. Naive noise on a value x has the error length / epsilon;
clipped, never more than the domain has room for. At a small epsilon nearly all of what a method
wins over unclipped noise is won by any release inside the domain, the constant one included.
``buc_order`` clips by itself, each mean to its bucket; that is why it alone has the figure.

Measured at epsilon 0.1: clipping makes the error of naive noise 21 times smaller on all four
streams, ``buc_order`` as published 26 to 41 times, the midpoint 28 to 71 times.

Table III itself is reproduced in the authors' setting (the column ``theirs``): the domain ends with
the greatest value, and ``comp_order`` is what their artefact runs, `AsRun`. But the table has its
two streams exchanged: what it prints of one is what we find on the other, in 28 or 29 of 30 cells;
as it is headed in 23 or 24 (of the 18 that naive noise, AdaPub and groups have, all). The one left
is BucOrder on Unemployment at epsilon 1, 0.22 for 0.29: the artefact flips to *other* buckets, as
the text has it and ``published``, after the pseudo-code, has not; so simulated it is 0.28.

AdaPub's figures are those of naive noise at four fifths of epsilon, 1.25 of it: in a public
re-implementation a line keeps every value out of groups. DPI's are no function of epsilon: 0.76 to
0.80 of the domain on Unemployment as headed, 0.48 to 0.50 on Outpatient; `dpi` is another method,
so it has no row.

CompOrder as the text has it is not in the table. In batches it has 0.30 of naive noise at epsilon
0.1, since the first values of a batch have no bounds; sliding (its type in Table II) 0.04, since
its bounds are held inside the domain.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import hypot, isnan, log, nan, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import words
from ldp_kafka.evaluation.claims import Claim, at_most, claim
from ldp_kafka.evaluation.delay.compared import (
    MIDPOINT,
    OURS,
    PAPER,
    REPEATS,
    errors,
    made,
    midpoint,
)
from ldp_kafka.evaluation.delay.streams import DATA, STREAMS, Stream, stream
from ldp_kafka.evaluation.experiment import Experiment, Row, Rows, by, points, values_of, where
from ldp_kafka.evaluation.plots import Panel

__all__ = ["EXPERIMENTS", "PRINTED", "AsRun", "claims", "panels", "rows"]

EPSILONS = (0.1, 0.5, 1.0)  # of Table III
METHODS = ("naive", "adapub", *(name for name in PAPER if not name.endswith("point")), OURS)
DELAY = 10
SMALL = 0.1  # the epsilon of the "30 times"
TIMES = 15.0  # that clipping makes naive noise's error smaller, at least
HALF = 0.5
VALUES = 0.8  # of AdaPub's epsilon; the rest is for groups, which no value joins where it was run
NEAR, RUNS = 0.05, 20  # of the printed ratios, which have two digits; runs behind each
EXCHANGED = {"unemployment": "outpatient", "outpatient": "unemployment"}
# (stream, method): error over that of naive noise at epsilon 0.1, 0.5, 1, as printed in Table III;
# its "Discontin" does not say where the noise is
PRINTED = {
    cell: dict(zip(EPSILONS, printed, strict=True))
    for cell, printed in {
        ("unemployment", "naive"): (1.0, 1.0, 1.0),
        ("unemployment", "adapub"): (1.26, 1.24, 1.26),
        ("unemployment", "discontin_group"): (0.41, 0.41, 0.41),
        ("unemployment", "comp_order"): (0.19, 0.28, 0.40),
        ("unemployment", "buc_order"): (0.03, 0.17, 0.35),
        ("outpatient", "naive"): (1.0, 1.0, 1.0),
        ("outpatient", "adapub"): (1.23, 1.25, 1.23),
        ("outpatient", "discontin_group"): (0.41, 0.41, 0.41),
        ("outpatient", "comp_order"): (0.20, 0.39, 0.56),
        ("outpatient", "buc_order"): (0.03, 0.15, 0.29),
    }.items()
}


class AsRun(NamedTuple):
    """CompOrder as the authors' artefact runs it, which is Algorithms 3 and 4 to the letter: the
    lower bound is taken from values that were said to be *larger*, and the upper one from smaller
    ones. So bounds nearly always cross, and their middle is released. It slides, clips nothing, and
    leaves out the value just before.
    """

    end: float
    """Of the domain, which begins with 0."""
    epsilon: float
    seed: int

    def release(self, streams: NDArray[np.float64], randomness: object) -> NDArray[np.float64]:
        """Of streams (n, slots)."""
        del randomness
        draw, told = np.random.default_rng(self.seed).laplace, self.epsilon / 4
        rho = draw(0, 4 * self.end / told, (len(streams), 1))
        out = streams + draw(0, self.end / (3 * told), streams.shape)
        for at in range(streams.shape[1]):
            near = slice(max(at - DELAY + 1, 0), max(at - 1, 0))
            apart = streams[:, near] - streams[:, at, None]
            larger = apart + draw(0, 4 * (2 * DELAY - 1) * self.end / told, apart.shape) > rho
            low = np.where(larger, out[:, near], 0.0).max(axis=1, initial=0.0)
            high = np.where(larger, np.inf, out[:, near]).min(axis=1, initial=np.inf)
            out[:, at] = np.where(low > high, (low + high) / 2, out[:, at])
        return out


def rows(
    streams: Sequence[str] = STREAMS,
    *,
    epsilons: Sequence[float] = EPSILONS,
    methods: Sequence[str] = METHODS,
    repeats: int = REPEATS,
    seed: int = 0,
) -> list[Row]:
    """Table III's settings, a delay of 10 in batches, and the midpoint; the paper's methods as
    published and not smoothed, ours smoothed.
    """
    return [
        row
        for on, epsilon in product(map(stream, streams), epsilons)
        for row in _cell(on, epsilon, methods, repeats, seed)
    ]


def _cell(on: Stream, epsilon: float, methods: Sequence[str], repeats: int, seed: int) -> list[Row]:
    def found(of: str, *, clipped: bool) -> Row:
        calibration = "published" if of in (*PAPER, "adapub") else "sound"
        how: Row = {"calibration": calibration, "epsilon": epsilon, "delay": DELAY}
        return errors(made(of, on, clipped=clipped, **how), on, repeats=repeats, seed=seed)

    both = {MIDPOINT: (midpoint(on), midpoint(on))}
    for each in ("naive", *(other for other in methods if other != "naive")):
        both[each] = (found(each, clipped=False), found(each, clipped=True))
    free, naive = (one["mae"] for one in both["naive"])
    theirs = _theirs(on, epsilon, repeats, seed)
    return [
        (
            {"stream": on.name, "epsilon": epsilon, "method": each, "unclipped": raw["mae"]}
            | {"clipped": held["mae"], "clipped_error": held["mae_error"]}
            | {"printed": PRINTED.get((on.name, each), {}).get(epsilon, nan)}
            | theirs.get(each, {"theirs": nan, "theirs_error": nan})
            | {
                "unclipped_over_naive": raw["mae"] / free,
                "clipped_over_naive": held["mae"] / free,
                "over_clipped_naive": held["mae"] / naive,
                "by_clipping": log(free / naive) / log(free / held["mae"])
                if held["mae"] != free
                else nan,
                "repeats": repeats,
            }
        )
        for each, (raw, held) in both.items()
    ]


def _theirs(on: Stream, epsilon: float, repeats: int, seed: int) -> dict[str, Row]:
    """Errors over that of naive noise in the authors' setting, on the streams of Table III."""
    end = float(on.values.max())
    own = on._replace(domain=(0.0, end))
    how: Row = {"calibration": "published", "delay": DELAY}
    ran = {
        "comp_order": AsRun(end, epsilon, seed),
        "adapub": made("naive", own, clipped=False, epsilon=VALUES * epsilon, **how),
    }
    found = {
        name: errors(
            ran.get(name) or made(name, own, clipped=False, epsilon=epsilon, **how),
            own,
            repeats=repeats,
            seed=seed,
        )
        for stream, name in PRINTED
        if stream == on.name
    }
    return {
        name: {
            "theirs": row["mae"] / found["naive"]["mae"],
            "theirs_error": row["mae_error"] / found["naive"]["mae"],
        }
        for name, row in found.items()
    }


def claims(found: Rows) -> list[Claim]:
    """That clipping makes most of the paper's gain, and a constant more than all of it."""
    small = where(found, epsilon=SMALL)
    middle = by(where(found, method=MIDPOINT), "stream", "epsilon")
    shares = [row["by_clipping"] for row in where(small, method="buc_order")]
    seen = f" (measured {min(shares):.0%} to {max(shares):.0%})" if shares else ""
    return [
        at_most(
            f"at epsilon {SMALL}: naive noise clipped over unclipped",
            1 / TIMES,
            {row["stream"]: row["clipped_over_naive"] for row in where(small, method="naive")},
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
                _cell_of(row): middle[row["stream"], row["epsilon"]]["clipped"] / row["clipped"]
                for row in where(found, method="buc_order")
            },
        ),
        _as_printed(found, "as it is headed", {name: name for name in EXCHANGED}),
        _as_printed(found, "with its two streams exchanged", EXCHANGED),
    ]


def _as_printed(found: Rows, how: str, headed: dict[str, str]) -> Claim:
    """Whether the authors' setting gives what Table III prints under the headings of the streams.

    A printed figure is the mean of 20 runs; so is two standard errors of that away.
    """

    def holds(row: Row) -> bool:
        printed = PRINTED[headed[row["stream"]], row["method"]][row["epsilon"]]
        spread = hypot(1, sqrt(row["repeats"] / RUNS)) * row["theirs_error"]
        return bool(abs(row["theirs"] - printed) <= max(NEAR, 2 * spread))

    return claim(
        f"Table III, {how}: error over that of naive noise in the authors' setting is within"
        f" {NEAR} of what is printed, or within two standard errors of {RUNS} runs",
        (holds(row) for row in found if not isnan(row["theirs"])),
    )


def _cell_of(row: Row) -> str:
    return f"{row['stream']}, epsilon {words.at_most(row['epsilon'])}"


def panels(found: Rows) -> list[Panel]:
    """One panel a stream, at the least epsilon: errors of the methods, clipped and not, over that
    of unclipped naive noise.
    """
    least = min(row["epsilon"] for row in found)
    lines = {
        "unclipped": "unclipped_over_naive",
        "clipped to the domain": "clipped_over_naive",
        "as printed in Table III": "printed",
    }
    drawn = []
    for name in values_of(found, "stream"):
        part = where(found, stream=name, epsilon=least)
        drawn.append(
            Panel(
                f"{name}, epsilon {least:g}, delay {DELAY}",
                {label: points(part, column) for label, column in lines.items()},
                "",
                "MAE over that of unclipped naive noise",
                names=[row["method"] for row in part],
            )
        )
    return drawn


EXPERIMENTS = (
    Experiment(
        "delay-clipping",
        "delay windows",
        "Table III",
        'what clipping to the domain gives of the "30 times"',
        rows,
        {
            "streams": tuple(EXCHANGED),
            "epsilons": (0.1, 1.0),
            "methods": (*dict.fromkeys(method for _, method in PRINTED), OURS),
            "repeats": 4,
        },
        claims,
        {"": panels},
        DATA,
    ),
)
