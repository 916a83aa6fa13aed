"""What the CAPP paper claims, and what this library claims beyond it, on the two open series.
Claims are of means over repetitions, with margins of their standard errors.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from math import hypot

import numpy as np
import pytest

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.evaluation import data
from ldp_kafka.evaluation.capp import beyond, compared, order, table_one
from ldp_kafka.evaluation.experiment import by, values_of
from ldp_kafka.evaluation.metrics import mean_error
from ldp_kafka.methods import feedback
from ldp_kafka.methods.shrinkage import debias
from ldp_kafka.randomness import seeded
from tests import needs
from tests.depth import depth

SETTINGS = [(name, window) for name in ("volume", "c6h6") for window in (10, 30)]
REPETITIONS = {"volume": 16, "c6h6": 40}  # C6H6 has a fifth of the windows


@pytest.fixture(autouse=True, scope="module")
def _there():
    """The data are not part of this package."""
    for name in ("volume", "c6h6"):
        with needs.data():
            data.find(data.SERIES[name].file)


def lead(worse, better, field="mse"):
    """By how many standard errors one row is worse than another."""
    error = hypot(worse[f"{field}_error"], better[f"{field}_error"])
    return (worse[field] - better[field]) / error


@pytest.fixture(autouse=True, scope="module")
def _read_once():
    """Every experiment reads its series anew; here they read it once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compared, "series", cache(compared.series))
        yield


@pytest.fixture(scope="module")
def orders():
    """Settings of figures 4 and 5, once: those of Volume, and in the long run all."""
    return [
        row
        for name, window in depth(SETTINGS[:2], SETTINGS)
        for row in order.order(
            name,
            window,
            (0.5, 1.0, 2.0, 3.0),
            names=("sw_direct", "ipp", "app", "capp"),
            repetitions=REPETITIONS[name],
        )
    ]


def test_the_order_of_mean_errors(orders):
    """SW-direct > IPP >= APP > CAPP: no cell turns a pair round significantly, the ends are apart
    everywhere, and neighbours over all cells of Volume together.
    """
    rows = by(orders, "series", "window", "epsilon", "method")
    names = ("sw_direct", "ipp", "app", "capp")
    cells = values_of(orders, "series", "window", "epsilon")
    for pair in pairwise(names):
        leads = {cell: lead(rows[*cell, pair[0]], rows[*cell, pair[1]]) for cell in cells}
        assert min(leads.values()) > -4, pair
        together = [found for cell, found in leads.items() if cell[0] == "volume"]
        # each standard normal, were they alike
        assert sum(together) > 3 * len(together) ** 0.5, pair
    ends = [lead(rows[*cell, "sw_direct"], rows[*cell, "capp"]) for cell in cells]
    assert min(ends) > 0 and sum(ends) > 8 * len(ends) ** 0.5


def test_the_order_of_directions(orders):
    """CAPP is nearest in direction for epsilon up to 2, and IPP not worse than APP; that APP beats
    SW-direct does not hold once both are smoothed alike.
    """
    rows = by(orders, "series", "window", "epsilon", "method")
    against = []
    for cell in values_of(orders, "series", "window", "epsilon"):
        if cell[2] <= 2:
            assert all(
                lead(rows[*cell, name], rows[*cell, "capp"], "cosine") > 3
                for name in ("sw_direct", "ipp", "app")
            )
        assert lead(rows[*cell, "app"], rows[*cell, "ipp"], "cosine") > -4
        against.append(lead(rows[*cell, "app"], rows[*cell, "sw_direct"], "cosine"))
    assert sum(against) > 4 * len(against) ** 0.5


def test_constants_stand_beside_every_figure(orders):
    """And for epsilon up to 3 the midpoint beats every method on Volume: means and directions."""
    for row in orders:
        values = compared.streams(row["series"], row["window"])
        assert row["constant"] == pytest.approx(values.mean(axis=1).var())
        assert row["midpoint"] == pytest.approx(mean_error(np.full_like(values, 0.5), values))
        assert row["constant"] <= row["midpoint"]
        assert row["constant_cosine"] < row["cosine"]
        if row["series"] == "volume":
            assert row["midpoint"] < row["mse"]


def test_table_one():
    """Each figure within 4 standard errors of ours and the paper's together (its own: 50
    subsequences, 100 times), or half of its last digit.
    """
    rows = by(table_one.table_one(repetitions=20), "window", "method")
    assert rows.keys() == table_one.TABLE_I.keys()
    for cell, printed in table_one.TABLE_I.items():
        ours = rows[cell]
        assert (ours["printed"], ours["ratio"]) == (printed, ours["mse"] / printed)
        noise = max(printed - ours["midpoint"], 0.0) if cell[1] != "pm_direct" else printed
        theirs = hypot((2 / 5000) ** 0.5 * noise, spread(*cell) / 5000**0.5)
        assert abs(ours["mse"] - printed) < 4 * hypot(ours["mse_error"], theirs) + 0.0005, cell


def spread(window, name):
    """Standard deviation of the squared error of one subsequence."""
    values = compared.streams("c6h6", window)
    released = compared.method(name, 1.0, window).release(values, seeded(1))
    return float(((released.mean(axis=1) - values.mean(axis=1)) ** 2).std())


@pytest.mark.parametrize("window", [10, 30])
def test_at_one_true_epsilon_capp_beats_direct(window):
    """Means on Volume, epsilon up to 1, by more than 4 standard errors."""
    rows = by(order.equal_epsilon("volume", window), "epsilon", "method")
    for epsilon in (0.5, 1.0):
        assert (
            compared.method("capp", epsilon, window, "sound").guarantee.epsilon
            == compared.method("sw_direct", epsilon, window, "sound").guarantee.epsilon
            == epsilon
        )
        assert lead(rows[epsilon, "sw_direct"], rows[epsilon, "capp"]) > 4


@pytest.mark.parametrize("epsilon", depth([3.0], [0.5, 1.0, 2.0, 3.0]))
@pytest.mark.parametrize(("name", "window"), SETTINGS)
def test_the_default_block_is_near_the_best(name, window, epsilon):
    """Within 5 % of the best, and four standard errors."""
    choices = (
        range(1, 11)
        if window == 10
        else sorted({1, 2, 3, 5, 8, 12, 20, 30, feedback.default_block(epsilon, window)})
    )
    rows = beyond.blocks(name, window, epsilon, choices, repetitions=REPETITIONS[name] // 2)
    best = min(rows, key=lambda row: row["mse"])
    (chosen,) = (row for row in rows if row["default"])
    assert chosen["mse"] < 1.05 * best["mse"] + 4 * hypot(chosen["mse_error"], best["mse_error"])


def test_a_block_of_a_whole_window_is_not():
    """So the closed form earns its place: C6H6, epsilon 3."""
    one, whole = beyond.blocks("c6h6", 10, 3.0, (1, 10), repetitions=40)
    assert whole["mse"] > 1.05 * one["mse"] + 3 * hypot(one["mse_error"], whole["mse_error"])


@pytest.mark.parametrize(
    ("name", "window", "epsilon"),
    depth(
        [*((*setting, 0.5) for setting in SETTINGS), ("volume", 30, 30.0)],
        [(*setting, eps) for setting in SETTINGS for eps in (0.5, 1.0, 3.0, 10.0, 30.0)],
    ),
)
def test_shrunk_means_are_never_worse_than_the_midpoint(name, window, epsilon):
    """At most 5 % above it, and at most .8 of published CAPP's error for epsilon up to 3 at window
    10, but for three standard errors; nor 5 % above the raw means.
    """
    for row in beyond.shrinking(
        name,
        window,
        (epsilon,),
        repetitions=REPETITIONS[name] * depth(1, 2) * (2 if epsilon < 3 else 1),
    ):
        above = row["mse"] - 3 * row["mse_error"]
        assert above < 1.05 * row["midpoint"], row
        assert row["mse"] < 1.05 * row["raw"], row
        assert row["mse"] < 1.05 * row["stated"], row
        assert 0 <= row["reliability"] <= 1
        if window == 10 and epsilon <= 3:
            assert above < 0.8 * row["published"], row
        if row["raw"] < row["constant"]:
            assert row["mse"] < 0.95 * row["constant"], (
                row
            )  # all of the method's gain where it has one


@pytest.mark.long  # the same claim, less exactly, is among those above
def test_no_crowd_is_led_astray_on_average():
    """Where reports say least (Volume, 30 slots), the mean ratio to the midpoint's error over many
    repetitions: at most 5 % above, but for three standard errors of 2 %.
    """
    rows = beyond.shrinking("volume", 30, (0.5, 1.0), repetitions=40, seed=1000)
    ratio = np.mean([row["mse"] / row["midpoint"] for row in rows])
    error = np.sqrt(np.sum([(row["mse_error"] / row["midpoint"]) ** 2 for row in rows])) / len(rows)
    assert error < 0.025
    assert ratio - 3 * error < 1.05


def test_moments_alone_would_not_do():
    """A twin that takes the debiased moments as they are: several times the midpoint's error
    (Volume, 30 slots, epsilon .5).
    """
    values = compared.streams("volume", 30)
    used, found = compared.method("sw_direct", 0.5, 30, "sound"), []
    for seed in range(10):
        plain = debias(used, used.release(values, seeded(seed))).mean(axis=1)
        noise = (plain - values.mean(axis=1)).var()  # better than it can know
        share = max(plain.var() - noise, 0.0) / plain.var()
        found.append(
            mean_error(
                (plain.mean() + share * (plain - plain.mean()))[:, None],
                values.mean(axis=1)[:, None],
            )
        )
    assert np.mean(found) > 2 * mean_error(np.full_like(values, 0.5), values)


@pytest.mark.parametrize("mechanism", ["laplace", "piecewise", "duchi", "hybrid"])
def test_capp_over_unbiased_mechanisms(mechanism):
    """T is clipped to [-.25, .25] and the range is public; shrunk, their means are not worse than
    the midpoint either.
    """
    used = compared.method("capp", 1.0, 10, mechanism=mechanism)
    low, high = used.released(np.array([0.0, 1.0]))
    assert -0.25 <= low <= 0.25
    assert low + high == pytest.approx(1)
    rows = beyond.shrinking(
        "volume",
        10,
        (1.0, 30.0),
        names=(("capp", "sound"),),
        repetitions=depth(8, 20),
        mechanism=mechanism,
    )
    for row in rows:
        assert row["mse"] - 3 * row["mse_error"] < 1.05 * row["midpoint"]


def test_windows_are_consecutive_pieces_of_the_unit_interval():
    """Of the public domain, never of what the data happen to be."""
    values = compared.streams("c6h6", 30)
    assert values.shape == (299, 30)
    assert values.ravel()[:50].tolist() == pytest.approx((data.series("c6h6")[:50] / 63.7).tolist())
    with pytest.raises(ConfigurationError):
        compared.streams("c6h6", 10_000)
    with pytest.raises(ConfigurationError, match="known"):
        compared.method("cap", 1.0, 10)
