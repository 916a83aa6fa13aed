"""Errors of releases by their formulae, and that a broken method is told."""

from __future__ import annotations

import numpy as np
import pytest

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.evaluation import data
from ldp_kafka.evaluation.claims import at_most
from ldp_kafka.evaluation.delay import all_methods, clipping, compared, parameters, streams
from ldp_kafka.evaluation.delay.compared import MIDPOINT, NAMES, OURS, errors, made, midpoint
from ldp_kafka.evaluation.delay.streams import STREAMS, Stream
from tests import needs
from tests.cases import cases

SHORT = Stream("short", np.array([[0.0, 4.0, 8.0], [8.0, 4.0, 2.0]]), (0.0, 8.0), 2.0)


class Fixed:
    """Releases what it is told, one after another."""

    def __init__(self, *releases):
        self._releases = np.array(releases)

    def release(self, streams_, randomness):
        del randomness
        assert streams_.shape == self._releases.shape
        return self._releases


@pytest.fixture
def waves(monkeypatch):
    """Every stream is a made up one: slow waves, and no file is read."""
    slots = np.arange(240)
    value = 500 + 300 * np.sin(slots / 40)

    def made_up(name):
        return Stream(name, value[None], (0.0, 1000.0), 100.0)

    for room in (all_methods, clipping, parameters):
        monkeypatch.setattr(room, "stream", made_up)


def test_errors_are_those_of_the_formulae():
    """Two repeats of two pieces: the mean of each repeat's, with its spread over repeats."""
    found = errors(
        Fixed([1.0, 4.0, 8.0], [8.0, 4.0, 2.0], [0.0, 4.0, 5.0], [8.0, 2.0, 2.0]), SHORT, repeats=2
    )
    one, two = 1 / 6, (3 + 2) / 6
    assert found["mae"] == pytest.approx((one + two) / 2)
    assert found["mae_error"] == pytest.approx((two - one) / 2)  # std / sqrt(2), of two
    one, two = (1 / 0.08) / 6, (3 / 8 + 2 / 4) / 6  # a true 0 counts as a hundredth of the domain
    assert found["mre"] == pytest.approx((one + two) / 2)
    assert found["mre_error"] == pytest.approx((one - two) / 2)


def test_the_midpoint_is_released_in_every_slot():
    found = midpoint(SHORT)
    assert found["mae"] == pytest.approx((4 + 0 + 4 + 4 + 0 + 2) / 6)
    assert found["mae_error"] == found["mre_error"] == 0
    assert errors(Fixed(*[[4.0] * 3] * 2), SHORT, repeats=1)["mae"] == found["mae"]


def test_repeats_have_noise_of_their_own():
    """And unclipped naive noise the error length / epsilon, clipped at most what there is room
    for: within five standard errors.
    """
    on = Stream("level", np.full((1, 50), 5.0), (0.0, 10.0), 1.0)
    how = {"epsilon": 0.5, "delay": 5}
    free = errors(made("naive", on, clipped=False, **how), on, repeats=80)
    held = errors(made("naive", on, **how), on, repeats=80)
    assert 0 < free["mae_error"] < 2
    assert free["mae"] == pytest.approx(10 / 0.5, abs=5 * free["mae_error"])
    # E min(|X|, 5) of Laplace noise X of scale 20
    assert held["mae"] == pytest.approx(20 * -np.expm1(-5 / 20), abs=5 * held["mae_error"])


def test_published_has_the_authors_parameters():
    on = Stream("wide", np.zeros((1, 3)), (0.0, 3e6), 10_000.0)
    how = {"epsilon": 1.0, "delay": 10}
    assert made("buc_order", on, calibration="published", **how).buckets == 300
    assert made("buc_order point", on, calibration="published", **how).noise == "point"
    assert made("contin_group", on, calibration="published", **how).theta == pytest.approx(1e-6)
    assert made("buc_order", on, **how).buckets == 2


@pytest.mark.parametrize("name", STREAMS)
def test_streams_lie_in_their_public_domains(name):
    with needs.data():
        found = streams.stream(name)
    lo, hi = found.domain
    assert lo <= found.values.min() <= found.values.max() < hi
    shapes = {"unemployment": (1, 622), "covid19_death": (1, 216), "outpatient": (1, 1364)}
    assert found.values.shape == shapes.get(name, (18, 1000))
    assert (found.values.ravel() == data.series(name)[: found.values.size]).all()


def test_unknown_streams_are_refused():
    with pytest.raises(ConfigurationError, match="known: unemployment"):
        streams.stream("employment")


def test_what_is_above_a_limit_is_said_with_how_far():
    found = at_most("a", 0.5, {"one": 0.4, "two": 0.55, "three": 0.75})
    assert (found.settings, found.held, found.reproduced) == (3, 1, False)
    assert found.statement == (
        "a is at most 0.5 (measured 0.4 to 0.75; above by 50 %: three, 10 %: two)"
    )
    assert at_most("a", 0.5, {"one": 0.5}).reproduced
    assert not at_most("a", 0.5, {}).reproduced
    assert not at_most("a", 0.5, {"one": float("nan")}).reproduced
    many = at_most("a", 0.5, {str(at): 1.0 for at in range(6)})
    assert "and 2 more" in many.statement


def _methods(**how):
    return all_methods.rows(
        ("unemployment",),
        **{"epsilons": (1.0,), "delays": (10,), "settings": ("batch",), "repeats": 3, **how},
    )


def test_all_methods_are_in_the_table(waves):
    del waves
    rows = _methods()
    published = {row["method"] for row in rows if row["calibration"] == "published"}
    assert {row["method"] for row in rows} == {MIDPOINT, *NAMES}
    assert published == set(compared.PAPER)
    assert all(
        row["smoothed_mae"] == row["smoothed_mae"] for row in rows if row["method"] != MIDPOINT
    )
    near, far, middle = all_methods.claims(rows)
    assert near.reproduced, near
    assert far.settings == 0
    assert middle.reproduced, middle
    (experiment,) = all_methods.EXPERIMENTS
    assert experiment.figures.keys() == {"published", "sound", "smoothed"}
    for panels in experiment.figures.values():
        (panel,) = panels(rows)
        assert len(panel.lines) == 2 + len(compared.PAPER) + 1


def test_long_sliding_windows_are_smoothed_for_segments_only(waves):
    del waves
    rows = _methods(
        delays=(4, 6), settings=("sliding",), methods=("naive", OURS), smoothed_to=4, repeats=2
    )
    smoothed = {(row["delay"], row["method"]) for row in rows if not np.isnan(row["smoothed_mae"])}
    assert smoothed == {(4, "naive"), (4, OURS), (6, OURS)}


def test_limits_can_be_missed(waves):
    """Each claim by a row that is off by little; the words say by how much."""
    del waves
    rows = _methods(methods=("buc_order", OURS))
    ours = next(row for row in rows if row["method"] == OURS)
    best = next(row["mae"] for row in rows if row["calibration"] == "published")
    middle = next(row["mae"] for row in rows if row["method"] == MIDPOINT)

    def told(mae):
        off = [row if row is not ours else dict(row, smoothed_mae=mae) for row in rows]
        return [each.reproduced for each in all_methods.claims(off)]

    assert told(0.69 * best)[0]
    assert not told(0.71 * best)[0]
    assert told(1.19 * middle)[2]
    assert not told(1.21 * middle)[2]
    low = [dict(row, epsilon=0.2) for row in rows]
    assert all_methods.claims(low)[0].settings == 0, "below epsilon 0.5 nothing is said"
    ids = [dict(row, stream="foodmart") for row in rows]
    assert all_methods.claims(ids)[0].settings == 0, "ids have no trend"


def test_a_broken_method_misses_its_limit(waves, monkeypatch):
    """Segments with a tenth of their budget are not far below the paper's best."""
    del waves
    kind = compared.METHODS[OURS]

    def starved(epsilon, **how):
        return kind(epsilon=epsilon / 10, **how)

    monkeypatch.setattr(compared, "METHODS", {**compared.METHODS, OURS: starved})
    near, _, _ = all_methods.claims(_methods(methods=("discontin_group", OURS), repeats=8))
    assert not near.reproduced, near
    assert "above by" in near.statement


def test_clipping_is_told_apart(waves):
    """Shares by their formula; a release that is not clipped any less is no gain of clipping."""
    del waves
    rows = clipping.rows(
        ("unemployment",), epsilons=(0.1,), methods=("naive", "buc_order", OURS), repeats=4
    )
    by = {row["method"]: row for row in rows}
    naive, buckets = by["naive"], by["buc_order"]
    assert naive["unclipped_over_naive"] == naive["over_clipped_naive"] == 1
    assert naive["by_clipping"] == pytest.approx(1)
    assert buckets["printed"] == 0.03
    assert buckets["by_clipping"] == pytest.approx(
        np.log(naive["unclipped"] / naive["clipped"])
        / np.log(naive["unclipped"] / buckets["clipped"])
    )
    assert by[MIDPOINT]["unclipped"] == by[MIDPOINT]["clipped"]
    assert naive["unclipped"] == pytest.approx(10_000, rel=0.3)
    found = clipping.claims(rows)
    assert [each.settings for each in found] == [1, 1, 1, 2, 2]
    assert found[0].reproduced
    assert found[1].reproduced
    free = [dict(row, clipped_over_naive=0.1, by_clipping=0.4) for row in rows]
    assert [each.reproduced for each in clipping.claims(free)[:2]] == [False, False]
    turned = [dict(row, clipped=1 / row["clipped"]) for row in rows]
    assert clipping.claims(turned)[2].reproduced is not found[2].reproduced
    (panel,) = clipping.panels(rows)
    assert panel.lines["as printed in Table III"].y == [1.0, 0.03]


@cases("other", [False, True])
def test_table_three_is_told_from_its_streams_exchanged(other):
    """Figures as they are printed, of this stream or of the other; a spread of 20 runs is let."""
    rows = []
    for (stream, method), printed in clipping.PRINTED.items():
        shown = clipping.PRINTED[clipping.EXCHANGED[stream] if other else stream, method]
        place = {"stream": stream, "method": method, "repeats": 20, "printed": printed[1.0]}
        rows.append({**place, "epsilon": 1.0, "theirs": shown[1.0] + 0.049, "theirs_error": 0.01})

    def told(found):
        *_, headed, exchanged = (
            clipping._as_printed(found, "", how)
            for how in ({each: each for each in clipping.EXCHANGED}, clipping.EXCHANGED)
        )
        return headed.reproduced, exchanged.reproduced

    assert told(rows) == (not other, other)
    assert told([dict(row, theirs=row["theirs"] + 0.002) for row in rows]) == (False, False)
    wide = [dict(row, theirs=row["theirs"] + 0.002, theirs_error=0.02) for row in rows]
    assert told(wide) == (not other, other)


def test_comp_order_as_it_is_run_takes_bounds_the_wrong_way_round():
    """Without noise: the middle of the largest larger and the smallest smaller value before the
    last; a value beyond all of them is released as it is.
    """
    run = clipping.AsRun(10.0, 1e9, 1)
    streams = np.array([[5.0, 1.0, 9.0, 4.0], [5.0, 6.0, 9.0, 4.0]])
    assert run.release(streams, None) == pytest.approx(
        np.array([[5.0, 1.0, 9.0, 3.0], [5.0, 6.0, 9.0, 4.0]]), abs=1e-4
    )


@cases("better", [0.9, 1.1])
def test_parameters_beside_segments(waves, better):
    """Whether a tried parameter that is so many times as good is told."""
    del waves
    rows = parameters.rows(
        ("unemployment",),
        epsilons=(1.0,),
        delays=(100,),
        settings=("batch",),
        thetas=(1.0,),
        buckets=(1, 2),
        repeats=2,
    )
    assert {(row["method"], row["source"]) for row in rows} == {
        *((name, of) for name in (*parameters.GROUPS, "buc_order") for of in
          ("tried", "authors", "default")),
        (OURS, "default"),
        (MIDPOINT, "default"),
    }  # fmt: skip
    ours = next(row for row in rows if row["method"] == OURS)["smoothed_mae"]
    # all are as good as segments, one theta and one bucket excepted
    level = [
        dict(row, mae=ours, smoothed_mae=ours) if row["method"] != OURS else row for row in rows
    ]

    def with_(name, value):
        return [
            dict(row, mae=better * ours)
            if (row["method"], row["source"], row["value"]) == (name, "tried", value)
            else row
            for row in level
        ]

    def told(changed):
        return [each.reproduced for each in parameters.claims(changed)]

    near = better > 1
    assert told(with_("contin_group", 1.0))[:3] == [near, True, near]
    assert told(with_("buc_order", 1.0))[:3] == [near, True, True]
    groups = parameters.claims(rows)[3]
    assert groups.settings == 2
    limit = 80.0 / better
    at = [dict(row, mae=limit) if row["method"] == "discontin_group" else row for row in rows]
    assert told(at)[3] == near
    assert len(parameters.panels(rows)[0].lines) == 5


def test_what_is_asked_of_a_theta_says_where(waves):
    """Streams without a trend are not held against the limits."""
    del waves
    rows = parameters.rows(
        ("foodmart",),
        epsilons=(1.0,),
        delays=(10,),
        settings=("batch",),
        thetas=(1.0,),
        buckets=(2,),
        repeats=2,
    )
    assert [each.settings for each in parameters.claims(rows)] == [0, 0, 0, 0]


@pytest.mark.parametrize("theta", parameters.THETAS)
@pytest.mark.parametrize("epsilon", all_methods.EPSILONS)
def test_methods_take_every_theta_that_is_tried(theta, epsilon):
    for name in parameters.GROUPS:
        for delay in all_methods.DELAYS:
            for setting in all_methods.SETTINGS:
                how = {"epsilon": epsilon, "delay": delay, "setting": setting}
                assert made(name, SHORT, theta=theta, **how).theta == theta
