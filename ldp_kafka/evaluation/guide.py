"""The page that says which mechanism to use when: notation, exact variances and plots,
all computed from the mechanisms themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from math import isnan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.mechanisms import MECHANISMS

__all__ = ["CATEGORICAL", "NUMERIC", "Noise", "categorical", "numeric", "page", "plots"]


class Entry(NamedTuple):
    """One mechanism of the page."""

    reports: str
    source: str


NUMERIC = {
    "laplace": Entry(
        "a grid point around the value, geometric noise",
        "Dwork et al., TCC 2006; Ghosh et al., STOC 2009",
    ),
    "duchi": Entry("one of two points (one bit)", "Duchi et al., JASA 2018"),
    "piecewise": Entry("a point of a range wider than the domain", "Wang et al., ICDE 2019"),
    "hybrid": Entry("as piecewise or as duchi", "Wang et al., ICDE 2019"),
    "square_wave": Entry(
        "a point in or near the domain; also for distributions", "Li et al., SIGMOD 2020"
    ),
}
CATEGORICAL = {
    "grr": Entry("a category", "Warner 1965; Kairouz et al., NeurIPS 2014"),
    "sue": Entry("a bit a category", "Erlingsson et al., CCS 2014 (RAPPOR)"),
    "oue": Entry("a bit a category", "Wang et al., USENIX Security 2017"),
    "olh": Entry("a hash function and a hashed category", "Wang et al., USENIX Security 2017"),
    "subset_selection": Entry("a set of categories, as bits", "Ye and Barg, IEEE TIT 2018"),
    "hadamard": Entry("a row and a sign", "Acharya et al., AISTATS 2019"),
}
NOTATION = {
    "ε": ("`epsilon`", "privacy budget of one report, in nats"),
    "δ": ("`delta`", "failure probability (`gaussian` only)"),
    "[lo, hi]": ("`domain`", "public range of a value; values outside are clamped to it"),
    "d": ("`categories`", "how many categories"),
    "n": ("`reports`", "reports in one estimate"),
    "p, q": (
        "`law`",
        "probability of an output where the input is, and is not, its own: p / q is at most e^ε",
    ),
    "f": ("`frequency`", "share of users in a category"),
    "Var": ("`standard_error`² · n", "variance of an estimate from one report, given the value"),
}
EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
SIZES = (2, 4, 16, 100, 1000)


class Noise(NamedTuple):
    """Variance of the unbiased estimate from one report, in squared lengths of the domain."""

    worst: float
    """At the value where it is largest."""
    average: float
    """Over values spread evenly over the domain."""


@cache
def numeric(name: str, epsilon: float) -> Noise:
    """The exact noise of a mechanism for numbers, from its law at nine values."""
    m = MECHANISMS[name](epsilon=epsilon, domain=(0.0, 1.0))
    laws = [m.law(x) for x in np.linspace(0, 1, 9)]
    slope = laws[-1].mean() - laws[0].mean()  # the mean of a report is affine in the value
    variance = np.array([law.variance() for law in laws]) / slope**2
    return Noise(float(variance.max()), float(_simpson(variance)))


def _simpson(values: NDArray[np.float64]) -> float:
    """The mean of a smooth function over an interval, from an odd number of evenly
    spaced values.
    """
    weights = np.full(len(values), 2.0)
    weights[1::2] = 4.0
    weights[[0, -1]] = 1.0
    return float(weights @ values / weights.sum())


@cache
def categorical(name: str, epsilon: float, categories: int) -> float:
    """The exact variance of a rare category's estimated frequency from one report; NaN where the
    mechanism does not take these parameters.
    """
    try:
        m = MECHANISMS[name](epsilon=epsilon, categories=categories)
    except ValueError:
        return float("nan")
    return float(m.variance(0.0))


def page() -> str:
    """The page, as Markdown."""
    best = [
        (
            e,
            min(NUMERIC, key=lambda name: numeric(name, e).worst),
            min(NUMERIC, key=lambda name: numeric(name, e).average),
        )
        for e in EPSILONS
    ]
    lines = [
        "# Mechanisms: notation, variance, and which one when",
        "",
        (
            "Written by `ldp-kafka mechanisms --out DIRECTORY`, which also draws the plots. Every"
            " figure is computed from the exact law of the mechanism, not simulated."
        ),
        "",
        "## Notation",
        "",
        *_table(
            ("symbol", "in code", "meaning"),
            ((symbol, name, meaning) for symbol, (name, meaning) in NOTATION.items()),
        ),
        "",
        "## Numbers",
        "",
        *_table(
            ("mechanism", "a report is", "from"),
            ((f"`{name}`", entry.reports, entry.source) for name, entry in NUMERIC.items()),
        ),
        "",
        (
            "Variance of the mean's estimate from one report on the domain [0, 1], at the worst"
            " value (and on average over the domain). With n reports divide by n."
        ),
        "",
        *_table(
            ("mechanism", *(f"ε = {e:g}" for e in EPSILONS)),
            ((f"`{name}`", *(_both(numeric(name, e)) for e in EPSILONS)) for name in NUMERIC),
        ),
        "",
        "Least at the worst value, and on average: "
        + "; ".join(f"ε = {e:g}: `{worst}`, `{average}`" for e, worst, average in best)
        + ".",
        "",
        (
            "- Means of a crowd: the least of the table. `square_wave` pays for reports that stay"
            " near the domain; take it where single reports or distributions are published."
        ),
        (
            "- Distributions: `square_wave`, whose reports are turned into a distribution by EM or"
            " EMS (`mechanism.distribution`)."
        ),
        (
            "- Least bytes: `duchi` needs one bit of information; on the wire every number takes"
            " four bytes."
        ),
        (
            "- `gaussian` (and `gaussian_vector`) give (ε, δ), for sums over many dimensions or"
            " slots that are composed; a pure ε mechanism is better for one number."
        ),
        "",
        "## Categories",
        "",
        *_table(
            ("mechanism", "a report is", "from"),
            ((f"`{name}`", entry.reports, entry.source) for name, entry in CATEGORICAL.items()),
        ),
        "",
    ]
    for e in (0.5, 1.0, 2.0, 4.0):
        lines += [
            f"Variance of a rare category's frequency from one report, ε = {e:g}:",
            "",
            *_table(
                ("mechanism", *(f"d = {k:,}" for k in SIZES)),
                (
                    (f"`{name}`", *(_digits(categorical(name, e, k)) for k in SIZES))
                    for name in CATEGORICAL
                ),
            ),
            "",
            "Least: " + "; ".join(f"d = {k:,}: `{_least(e, k)}`" for k in SIZES) + ".",
            "",
        ]
    lines += [
        (
            "- Few categories or a large ε: `grr`. Many: `oue`, `olh` and `subset_selection` do not"
            " grow with d; `olh` has the shortest reports, `oue` the cheapest aggregation."
        ),
        (
            "- `adaptive` takes the least of `grr`, `oue`, `olh` and `subset_selection` for your"
            " (ε, d), or the one with the fewest bytes."
        ),
        (
            "- `sue` is there to reproduce RAPPOR; `oue` is at least as good. `hadamard` has short"
            " reports and fast decoding, and is best at small ε."
        ),
        "",
        (
            "Plots: `variance-numbers.png` (against ε), `variance-epsilon.png` (categories, against"
            " ε, d = 100), `variance-categories.png` (against d, ε = 1)."
        ),
    ]
    return "\n".join(lines) + "\n"


def _least(epsilon: float, categories: int) -> str:
    """The first in the table among those as good as the best."""
    known = {
        name: np.nan_to_num(categorical(name, epsilon, categories), nan=np.inf)
        for name in CATEGORICAL
    }
    return next(name for name, variance in known.items() if variance <= min(known.values()) * 1.001)


def _both(noise: Noise) -> str:
    return f"{_digits(noise.worst)} ({_digits(noise.average)})"


def _digits(value: float) -> str:
    return "-" if isnan(value) else f"{value:.3g}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def plots(directory: Path) -> list[Path]:
    """Draw the three plots as PNG; none without matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        return []
    epsilons = np.round(np.geomspace(0.1, 8, 25), 3)
    sizes = np.unique(np.round(np.geomspace(2, 1000, 22)).astype(int))

    def draw(
        name: str,
        title: str,
        x: NDArray[Any],
        label: str,
        lines: dict[str, Callable[[Any], float]],
        unit: str,
    ) -> Path:
        figure = Figure(figsize=(8, 5), dpi=120, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        for at, (line, value) in enumerate(lines.items()):
            axes.plot(
                x,
                [value(each) for each in x.tolist()],
                label=line,
                color=f"C{at}",
                linestyle=("-", "--", "-.", ":")[at % 4],
                linewidth=1.8,
            )
        axes.set(xscale="log", yscale="log", xlabel=label, ylabel=unit)
        axes.set_title(title, loc="left", fontsize=12, fontweight="bold")
        axes.grid(which="both", alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
        path = directory / name
        figure.savefig(path)
        return path

    def number(name: str) -> Callable[[Any], float]:
        return lambda e: numeric(name, e).worst

    def share(name: str) -> Callable[[Any], float]:
        return lambda e: categorical(name, e, 100)

    def size(name: str) -> Callable[[Any], float]:
        return lambda k: categorical(name, 1.0, k)

    return [
        draw(
            "variance-numbers.png",
            "Noise of a mean, one report, worst value",
            epsilons,
            "epsilon",
            {n: number(n) for n in NUMERIC},
            "variance (domain [0, 1])",
        ),
        draw(
            "variance-epsilon.png",
            "Noise of a frequency, one report, 100 categories",
            epsilons,
            "epsilon",
            {n: share(n) for n in CATEGORICAL},
            "variance",
        ),
        draw(
            "variance-categories.png",
            "Noise of a frequency, one report, epsilon = 1",
            sizes,
            "categories",
            {n: size(n) for n in CATEGORICAL},
            "variance",
        ),
    ]
