"""Deviation feedback: what the contract does not say."""

from __future__ import annotations

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.checks.enumeration import enumerate_outcomes
from ldp_kafka.checks.tiny import narrow, wide
from ldp_kafka.methods.base import SENT
from ldp_kafka.methods.batch import Batch
from tests.cases import cases

UNIT = (0.0, 1.0)


@pytest.mark.parametrize("name", ["app", "capp"])
def test_published_never_forgets(name):
    """At window 1 each slot adds to the loss, and the guarantee says that there is none."""
    losses = []
    for length in (1, 2, 3, 4):
        outcomes = enumerate_outcomes(
            lambda mechanism: lk.method(
                name,
                epsilon=1.0,
                window=1,
                domain=UNIT,
                calibration="published",
                mechanism=mechanism,
            ),
            length,
            mechanism=narrow,
        )
        losses.append(outcomes.loss(1))
    assert losses[0] <= 1 + 1e-9
    assert losses[1] > 1.3
    assert losses[3] > losses[1]
    assert lk.method(
        name, epsilon=1.0, window=1, domain=UNIT, calibration="published"
    ).guarantee.epsilon == float("inf")


@cases(
    ("name", "own"),
    [
        ("app_s", {"segment": 2}),
        ("capp_s", {"segment": 2}),
        ("ipp_s", {"segment": 2}),
        ("sampling", {"segment": 2}),
        ("ipp", {}),
    ],
)
def test_published_says_what_it_keeps(name, own):
    """The exact loss of the paper's spending is above the paper's promise, and never above what the
    guarantee states.
    """
    make = lambda mechanism: lk.method(  # noqa: E731
        name,
        epsilon=1.0,
        window=2,
        domain=UNIT,
        calibration="published",
        mechanism=mechanism,
        **own,
    )
    outcomes = enumerate_outcomes(make, 8 if own else 5, mechanism=wide, draws=4 if own else None)
    worst = outcomes.loss(2)
    assert 1.1 < worst <= make(wide).guarantee.epsilon + 1e-9


def test_ipp_drops_a_deviation_that_is_a_slot_old():
    """A user who misses a slot: what the slot before leaked must not go on."""
    method = lk.method("ipp", epsilon=1.0, window=3, domain=UNIT)
    source = lk.randomness.seeded(1)
    users = source.digests([str(i) for i in range(50)])
    after, fresh = method.state(users), method.state(users)
    rows, values = np.arange(50), method.bound(np.full(50, 0.3))
    method.step(after, Batch(rows, 4, method.bound(np.linspace(0, 1, 50)), source))
    assert np.array_equal(
        method.step(after, Batch(rows, 6, values, source)).answers,
        method.step(fresh, Batch(rows, 6, values, source)).answers,
    )
    assert not np.array_equal(
        method.step(after, Batch(rows, 7, values, source)).answers,
        method.step(method.state(users), Batch(rows, 7, values, source)).answers,
    )


@cases("name", ["laplace", "duchi", "piecewise", "hybrid", "square_wave"])
@cases("epsilon", [0.1, 1.0, 10.0])
def test_the_clip_range_is_the_recommended_one_for_any_mechanism(name, epsilon):
    """An unbiased mechanism at a small epsilon would ask for a range of nothing but noise."""
    method = lk.method("capp", epsilon=epsilon, window=10, domain=UNIT, mechanism=name)
    low, high = method._ends()
    assert -0.25 <= low <= 0.25
    assert high == 1 - low


def test_margins_of_the_papers_code():
    """METHODS: T by the epsilon of a report, to the digits given (our law is a discrete one)."""
    for epsilon, margin in {
        0.05: 0.0607,
        0.1: 0.0506,
        0.2: 0.0322,
        0.3: 0.0158,
        0.5: -0.0121,
        1.0: -0.0603,
        2.0: -0.1074,
        3.0: -0.1260,
    }.items():
        method = lk.method("capp", epsilon=epsilon, window=1, block=1, domain=UNIT)
        assert method._ends()[0] == pytest.approx(margin, abs=1.5e-3)


@pytest.mark.parametrize("clip", [-0.49, 0.1, 1.0])
def test_a_clip_range_that_is_given(clip):
    """Reports lie in it but for the noise, and the guarantee is that of the automatic one."""
    settings = {"epsilon": 400.0, "window": 1, "domain": (10.0, 30.0), "block": 4}
    given, automatic = (lk.method("capp", **settings, **own) for own in ({"clip": clip}, {}))
    assert given.guarantee == automatic.guarantee
    assert given.tables() != automatic.tables()
    released = given.release(np.repeat([[10.0], [30.0]], 8, axis=1), lk.randomness.seeded(1))
    ends = [max(10.0, 10 - 20 * clip), min(30.0, 30 + 20 * clip)]
    assert released[:, 0] == pytest.approx(ends, abs=0.1)


def test_no_two_clip_ranges_share_a_word():
    """Nor one that is given and the automatic one where both are the same."""
    settings = {"epsilon": 1.0, "window": 3, "domain": UNIT, "block": 2}
    automatic = lk.method("capp", **settings)
    same = -automatic._ends()[0]
    made = [automatic, *(lk.method("capp", **settings, clip=clip) for clip in (same, 0.1, 0.2))]
    assert made[1].ends == automatic.ends
    assert len({each.use for each in made}) == len(made)


def test_only_what_clips_takes_a_clip_range():
    for name, kind in lk.METHODS.items():
        if "clip" not in kind.parameters:
            with pytest.raises(TypeError, match="takes no clip"):
                lk.method(name, clip=0.1)
    assert {"capp", "capp_s"} == {
        name for name in lk.METHODS if "clip" in lk.METHODS[name].parameters
    }


def test_segments_report_their_mean_in_their_last_slot():
    """At a budget where the noise is small; an unfinished segment says nothing."""
    method = lk.method("sampling", epsilon=120.0, window=4, segment=4, domain=(0.0, 8.0))
    source = lk.randomness.seeded(3)
    state = method.state(source.digests(["a", "b"]))
    values = {
        0: (1.0, 8.0),
        1: (3.0, 0.0),
        2: (3.0, None),
        3: (5.0, 4.0),
        4: (2.0, 2.0),
        5: (2.0, 2.0),
        6: (2.0, 2.0),
        7: (2.0, None),
    }
    sent = {}
    for slot, pair in values.items():
        rows = np.array([i for i, value in enumerate(pair) if value is not None])
        step = method.step(
            state,
            Batch(
                rows,
                slot,
                method.bound(np.array([value for value in pair if value is not None])),
                source,
            ),
        )
        for row, answer, status in zip(
            rows.tolist(), method.released(step.answers).tolist(), step.status.tolist(), strict=True
        ):
            if status == SENT:
                sent[slot, row] = answer
    assert sent.keys() == {(3, 0), (3, 1), (7, 0)}
    assert sent[3, 0] == pytest.approx(3.0, abs=0.2)
    assert sent[3, 1] == pytest.approx(4.0, abs=0.2)
    assert sent[7, 0] == pytest.approx(2.0, abs=0.2)


@cases(
    ("wrong", "error"),
    [
        ({"segment": 0}, ValueError),
        ({"segment": 2.0}, TypeError),
        ({"segment": True}, TypeError),
        ({"segment": 3, "position": 3}, ValueError),
        ({"position": True}, TypeError),
    ],
)
def test_wrong_segments(wrong, error):
    with pytest.raises(error, match=r"segment|position"):
        lk.method("sampling", epsilon=1.0, window=3, domain=UNIT, **wrong)
