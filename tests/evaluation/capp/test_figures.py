"""What the CAPP paper says of its figures, and what is left of it, in settings of seconds."""

from __future__ import annotations

import numpy as np
import pytest

from ldp_kafka.evaluation import data
from ldp_kafka.evaluation.capp import (
    clip_range,
    compared,
    crowds,
    dimensions,
    mechanisms,
    order,
    sampling,
    table_one,
)
from ldp_kafka.evaluation.claims import Claim
from ldp_kafka.evaluation.experiment import by, where
from ldp_kafka.randomness import seeded
from tests import needs


@pytest.fixture
def volume():
    """The data are not part of this package."""
    with needs.data():
        data.find(data.SERIES["volume"].file)


def reproduced(claims: list[Claim]):
    """Whether each is, by what it says up to its figures."""
    return {each.statement.partition(" (")[0]: each.reproduced for each in claims}


def turned(rows, figure):
    """Rows in which what was the least is the most."""
    return [row | {figure: 1 / row[figure], f"{figure}_error": 0.0} for row in rows]


ROW = {"series": "s", "window": 10, "epsilon": 1.0, "mse_error": 0.01}


@pytest.mark.parametrize(("second", "found"), [(1.0, True), (0.1, False), (0.52, None)])
def test_two_that_are_not_told_apart_say_nothing(second, found):
    rows = [ROW | {"method": "a", "mse": 0.5}, ROW | {"method": "b", "mse": second}]
    assert compared.less(rows, "mse", "a is better", ["a"], ["b"]).reproduced is found


def test_releases_stand_for_the_slots_that_they_are_of():
    """Next to no noise: a coordinate's value until its next, a segment's mean over its slots."""
    values = np.arange(12.0).reshape(1, 6, 2) / 12
    split = compared.method("sample_split", 900.0, 1, dimension=2)
    held = compared.laid_out(split, split.release(values, seeded(1)))[0]
    assert held * 12 == pytest.approx(
        np.array([[0, 0, 4, 4, 8, 8], [3, 3, 3, 7, 7, 11.0]]), abs=0.1
    )
    whole = compared.method("budget_split", 900.0, 1, dimension=2)
    every = compared.laid_out(whole, whole.release(values, seeded(1)))
    assert every == pytest.approx(np.moveaxis(values, 1, 2), abs=0.01)


def test_sampling_wins_by_what_the_authors_code_spends_and_not_as_published(volume):
    """Figures 6 and 7 on Volume."""
    rows = sampling.rows((("volume", 30, 10),), (0.5, 3.0), repetitions=5)
    spent = by(rows, "calibration", "method", "epsilon")
    assert spent[sampling.CODED, "app_s", 3.0]["spent"] == pytest.approx(45.0)
    assert all(
        row["spent"] <= row["epsilon"] for row in rows if row["calibration"] != sampling.CODED
    )
    found = reproduced(sampling.claims(rows))
    wins = "MSE of the mean: {}, APP-S and CAPP-S outperform those without sampling"
    assert found[wins.format(sampling.CODED)]
    assert found[wins.format("published")] is found[wins.format("sound")] is False
    assert found["MSE of the mean: published, falls as epsilon grows"]
    assert not reproduced(sampling.claims(turned(rows, "mse")))[wins.format(sampling.CODED)]


def test_orders_of_figures_4_and_5_as_the_paper_compares_them(volume):
    """Smoothed alike, APP is not nearer in direction than SW-direct."""
    rows = order.order("volume", 10, (1.0, 3.0), repetitions=10)
    found = reproduced(order.claims(rows))
    beside = "cosine distance: SW-direct is the worst beside IPP, APP and CAPP"
    sure = [
        "MSE of the mean: in most subfigures BA-SW is the worst",
        "MSE of the mean: CAPP is the best",
        f"{beside}, which alone are smoothed",
    ]
    assert all(found[each] for each in sure)
    assert found[f"{beside}, all of them smoothed"] is False
    other = turned(turned(rows, "mse"), "cosine")
    assert not any(reproduced(order.claims(other))[each] for each in sure)


def test_raw_means_on_volume_are_spread_as_noise_is(volume):
    """Figure 8: what needs no data is within a tenth of it, up to epsilon 1."""
    rows = crowds.rows(("volume",), ((10, 10),), (0.5,), calibrations=("published",))
    assert {row["users"] for row in rows} == {4820}
    for row in rows:
        assert row["raw"] == pytest.approx(row["noise"], rel=0.1), row
        assert np.isnan(row["spread"]) or row["spread"] <= 1.001 * row["raw"], row
        assert (row["method"] == "ba_sw") == np.isnan(row["shrunk"])
    found = by(rows, "method")
    assert found["capp"]["raw"] < 0.07 < 0.15 < found["capp"]["shrunk"]
    assert found["capp"]["constant"] <= found["capp"]["midpoint"]


def test_distances_of_a_crowd_that_reports_tell():
    """At a large epsilon all three are near the truth, and noise alone is not."""
    values = np.repeat(np.random.default_rng(1).uniform(0.1, 0.4, (2000, 1)), 4, axis=1)
    used, _ = sampling.made("capp_s", 200.0, 4, 4, "published")
    curve = crowds._curve("capp_s", 200.0, 4, 4, "published")
    found = crowds.distances(used, values, curve, seed=1)
    assert max(found[kind] for kind in crowds.RELEASES) < 0.02 < 0.2 < found["noise"]


def test_square_wave_is_the_best_below_app(volume):
    """Figure 9, by means and by directions."""
    rows = mechanisms.rows(("volume",), (1.0, 3.0), repetitions=5)
    found = reproduced(mechanisms.claims(rows))
    assert found["MSE of the mean: SW is the best with APP"]
    assert found["cosine distance: SW is the best with APP"]
    assert found["MSE of the mean: APP enhances SR"]
    assert not reproduced(mechanisms.claims(turned(rows, "mse")))[
        "MSE of the mean: APP enhances SR"
    ]


def test_a_split_of_the_budget_beats_one_of_the_slots():
    """Figure 10, by means; more so for more dimensions."""
    rows = dimensions.rows((5, 12), (0.5, 3.0), repetitions=5, calibrations=("published",))
    name = "MSE of the mean: published, BS outperforms SS"
    assert reproduced(dimensions.claims(rows))[name]
    assert not reproduced(dimensions.claims(turned(rows, "mse")))[name]
    gap = {
        d: np.mean([row["mse"] for row in where(rows, dimension=d, method="SW-SS")])
        for d in (5, 12)
    }
    assert gap[5] < gap[12]


def test_the_clip_range_that_is_best_narrows_with_the_budget():
    """Figure 11, with the sign of the authors' code; the narrowest range is the midpoint."""
    rows = clip_range.rows(("constant", "sinusoidal"), (0.5, 3.0), repetitions=5)
    found = reproduced(clip_range.claims(rows))
    narrows = "a smaller epsilon has the larger optimal delta, or the same"
    assert found[narrows] and found["MSE of the mean: falls as epsilon grows"]
    assert found["MSE follows a U in delta: it is least between the ends, and clearly"] is False
    for row in where(rows, delta=0.49):
        assert row["mse"] == pytest.approx(row["midpoint"], rel=0.03)
    for row in where(rows, recommended=True):
        assert row["clip"] == pytest.approx(-row["delta"])
        used = compared.method("capp", row["epsilon"], 10, clip=row["clip"])
        assert used.ends == compared.method("capp", row["epsilon"], 10).ends
    mirrored = [row | {"delta": -row["delta"]} for row in where(rows, recommended=False)]
    stars = where(rows, recommended=True)
    assert reproduced(clip_range.claims(mirrored + stars))[narrows] is False
    assert [panel.title for panel in clip_range.drawn(rows)] == ["constant", "sinusoidal"]


def test_table_one_has_what_is_printed():
    """Whatever our figures are, a row that is 6 % off is told."""
    rows = [
        {"series": "c6h6", "window": window, "method": method, "mse": mse, "ratio": 1.0}
        for (window, method), mse in table_one.TABLE_I.items()
    ]
    assert all(each.reproduced for each in table_one.claims(rows))
    off = [rows[0] | {"ratio": 1.06}, *rows[1:]]
    assert [each.reproduced for each in table_one.claims(off)] == [False, True]
