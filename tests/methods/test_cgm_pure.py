"""CGM over Laplace noise: pure epsilon for a user's whole life, what it gains, and what less noise
would do; the README of methods has the figures.

The mechanism's inputs are x~_i - r_i x~_(i-1), functions of the stream alone, and a far output of
Laplace noise of scale b tells two inputs apart by exactly their distance over b. So what a pair of
streams loses is the sum of |D_i - r_i D_(i-1)| / b_i, where D_i is how far they lie apart in report
i: -1..1, and from one report to the next by 2 C at most. The sum is convex in D, and for 1 / 2C
whole all corners of these D are multiples of 2 C: the largest sum over *all* pairs is found on that
grid, report by report.
"""

from __future__ import annotations

from itertools import pairwise, product
from math import log
from pathlib import Path

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.mechanisms.base import Law
from ldp_kafka.methods.base import FIXED
from ldp_kafka.methods.cgm import reuse_ratios
from ldp_kafka.methods.chain import RATIO, Chain
from tests.cases import cases

BOUNDS = (0.25, 0.05, 0.025, 0.01)
REPORTS = (2, 5, 20, 100)
UNIT = {"domain": (0.0, 1.0)}


def pure(**parameters):
    return lk.method("cgm_pure", **{"epsilon": 1.0, "horizon": 20, **UNIT, **parameters})


def ratios(bound, reports):
    found = reuse_ratios(bound)
    return np.array([found[min(at, len(found) - 1)] for at in range(reports)]) / RATIO


def worst(bound, reuse, scales, *, fine=1, steps=1):
    """The most that any two streams lose; ``fine``: points between corners; ``steps``: of 2 C, by
    which streams come apart in a report.
    """
    half = round(fine / (2 * bound))
    apart = np.arange(-half, half + 1) / half
    near = np.abs(np.subtract.outer(apart, apart)) <= 2 * bound * steps + 1e-12
    most = np.abs(apart) / scales[0]
    for ratio, scale in zip(reuse[1:], scales[1:], strict=True):
        lost = np.abs(np.subtract.outer(apart, ratio * apart)) / scale
        most = np.where(near, lost + most, -np.inf).max(axis=1)
    return most.max()


def variances(reuse, scales):
    """Of each report."""
    found = []
    for ratio, scale in zip(reuse, scales, strict=True):
        found.append(ratio**2 * (found[-1] if found else 0.0) + 2 * scale**2)
    return np.array(found)


@cases("bound", BOUNDS)
@cases("reports", REPORTS)
def test_the_printed_chain_is_sound_and_as_much_quieter_as_with_normal_noise(bound, reports):
    """With epsilon / l a report, Laplace noise of scale V l / epsilon in place of normal noise: no
    pair loses more than epsilon, and variances are those of noise that does not carry on times
    equation 15's. Other points than corners lose less, as convexity has it.
    """
    reuse = ratios(bound, reports)
    scales = ((1 - reuse) + 2 * bound * reuse) * reports
    assert worst(bound, reuse, scales) <= 1 + 1e-12
    assert worst(bound, reuse, scales, fine=3) == pytest.approx(worst(bound, reuse, scales))
    alone = 2 * reports**2
    of_report = np.arange(1, reports + 1)
    equation = (4 * bound - 4 * bound**2) / (1 - (1 - 2 * bound) ** (2 * of_report))
    assert variances(reuse, scales) / alone == pytest.approx(equation, rel=1e-4)


@cases("bound", BOUNDS)
@cases("reports", REPORTS)
def test_half_of_that_noise_would_do(bound, reports):
    """Two streams cannot come apart in every report: (1 - r) l / epsilon is enough, and no less,
    since those that lie at either end of the domain lose all of epsilon. In the long run a variance
    is C / (1 - C) of that of noise that does not carry on.
    """
    reuse = ratios(bound, reports)
    scales = (1 - reuse) * reports
    assert worst(bound, reuse, scales) == pytest.approx(1, abs=1e-9)
    long = ratios(bound, 2000)
    found = variances(long, 1 - long)[-1] / 2
    assert found == pytest.approx(bound / (1 - bound), rel=1e-3)


@cases("bound", BOUNDS[1:])
def test_broken_twins_are_found(bound):
    """Less noise; and the clipping of equation 23, after which clipped values move by nearly
    1 - 2 C from report to report: at C = 0.25 the noise of the printed chain covers that.
    """
    reuse = ratios(bound, 20)
    assert worst(bound, reuse, (1 - reuse) * 20 * 0.99) > 1.005
    scales = ((1 - reuse) + 2 * bound * reuse) * 20
    assert worst(bound, reuse, scales, steps=(1 - 2 * bound) / bound) > 1.2


def test_it_is_what_the_chain_and_the_mechanism_do():
    """Of two reports, with `Chain`'s own inputs and the mechanism's exact law: all streams of a
    grid against all others, all outputs.
    """
    bound, epsilon = 0.25, 2.0
    chain = Chain(reuse_ratios(bound), int(bound * FIXED), "sound", 1)
    laplace = lk.mechanism("laplace", epsilon=epsilon / 2, domain=(0.0, 1.0))
    reuse = ratios(bound, 2)
    spans = (1 - reuse) + 2 * bound * reuse
    assert chain.lengths[:2] == pytest.approx(spans)
    grid = np.arange(5) / 4
    streams = [pair for pair in product(grid, grid) if abs(pair[1] - pair[0]) <= bound]

    def laws(stream):
        inputs = stream[0], (stream[1] - reuse[1] * (stream[0] - bound)) / spans[1]
        return [Law.of(laplace.law(one)).probabilities() for one in inputs]

    found = {stream: laws(stream) for stream in streams}
    lost = max(
        sum(log((one / other).max()) for one, other in zip(found[mine], found[others], strict=True))
        for mine, others in product(streams, streams)
    )
    expected = epsilon * worst(bound, reuse, spans * 2)
    assert lost <= epsilon + 1e-9
    assert lost == pytest.approx(expected, abs=0.01)


def test_the_table_of_the_readme():
    """To half of its last digit, computed here and by the methods; and up to how many reports the
    pure one is the quieter.
    """
    text = (Path(lk.__file__).parent / "methods" / "README.md").read_text(encoding="utf-8")
    rows = text.partition("`cgm_pure`: b = V l |")[2].partition("\n\n")[0].splitlines()[2:]
    assert len(rows) == 3
    for row in rows:
        reports, *said = (float(each.replace(",", "")) for each in row.strip("| ").split("|"))
        count = int(reports)
        reuse = ratios(0.05, count)
        normal = lk.method("cgm", delta=1e-5, epsilon=1.0, horizon=count, **UNIT)
        found = [
            2.0 * count**2,
            pure(horizon=count).variance(count),
            variances(reuse, (1 - reuse) * count)[-1],
            normal.variance(count),
        ]
        assert said == pytest.approx(found, rel=0.005)
    for epsilon, last in ((1.0, 6), (4.0, 9)):
        assert f"{last} reports" in text or f"up to {last})" in text
        quieter = [
            pure(epsilon=epsilon, horizon=count).variance(count)
            < lk.method("cgm", delta=1e-5, epsilon=epsilon, horizon=count, **UNIT).variance(count)
            for count in (last, last + 1)
        ]
        assert quieter == [True, False]


@cases("bound", BOUNDS)
def test_no_pair_that_is_drawn_loses_more(bound):
    """Of 2,000 random pairs of streams that are clipped here."""
    rng, reports = np.random.default_rng(1), 20
    reuse = ratios(bound, reports)
    scales = (1 - reuse) * reports
    values = rng.beta(0.2, 0.2, (4000, reports))
    for before, now in pairwise(range(reports)):
        low, high = values[:, before] - bound, values[:, before] + bound
        values[:, now] = np.clip(values[:, now], low, high)
    apart = values[::2] - values[1::2]
    carried = np.column_stack([np.zeros(len(apart)), reuse[1:] * apart[:, :-1]])
    lost = (np.abs(apart - carried) / scales).sum(axis=1)
    assert 0.3 < lost.max() <= 1 + 1e-12
