"""What is particular to methods that release windows: gaps, contributions, the paper's parameters,
words and refusals.
"""

from __future__ import annotations

import typing
from fractions import Fraction

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.checks.sources import Recorder
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.delay import DelayName
from ldp_kafka.methods.unstated import UNSTATED
from ldp_kafka.randomness import keyed, seeded
from tests.cases import cases
from tests.keys import KEY

UNIT = {"epsilon": 1.0, "delay": 4, "domain": (0.0, 1.0)}
NAMES = [name for name, kind in lk.METHODS.items() if issubclass(kind, lk.DelayMethod)]
SETTINGS = ("batch", "sliding")


def test_type_checkers_know_all_names():
    assert list(typing.get_args(DelayName)) == sorted(NAMES)


@cases("name", [name for name in NAMES if name != "dpi"])
@cases("setting", SETTINGS)
def test_a_contribution_makes_all_noise_smaller(name, setting):
    """A tenth of the noise, where everything else is the same: of values, thresholds and tests."""
    near = np.tile(0.5 + 0.004 * np.sin(np.arange(40)), (200, 1))
    own = {"theta": 0.0} if "theta" in lk.METHODS[name].parameters else {}
    own |= {"smooth": False, "epsilon": 20.0, "setting": setting}
    whole, part = (lk.method(name, **(UNIT | own | given)) for given in ({}, {"contribution": 0.1}))
    ratio = whole.adder.variance / part.adder.variance
    if name not in ("buc_order", "truncate"):  # whose noise is one of its own units
        assert ratio == pytest.approx(100, rel=0.01)
    wide, narrow = (np.abs(m.release(near, seeded(1)) - near).mean() for m in (whole, part))
    assert narrow < 0.4 * wide or name in ("buc_order", "comp_order")
    assert "whole value" in whole.guarantee.describe()
    assert "what one person adds to a slot's value, at most 0.1" in part.guarantee.describe()


@pytest.mark.parametrize("domain", [(0.0, 1600.0), (-3.0, 7.1), (1e9, 1e9 + 1), (0.0, 2.0**480)])
def test_values_a_contribution_apart_are_bound_within_its_reach(domain):
    """Whatever rounding does to either: they are compared as the fractions that they are."""
    lo, hi = domain
    rng, farthest = np.random.default_rng(5), 0
    for share in (1e-12, 1e-6, 0.025, 0.3, 1.0):
        method = lk.method(
            "naive", epsilon=1.0, delay=1, domain=domain, contribution=share * (hi - lo)
        )
        most = Fraction(method.contribution)
        one = lo + (hi - lo) * rng.random(2000)
        other = one + method.contribution * rng.choice([-1, 1, 0.999], 2000)
        near = np.array(
            [abs(Fraction(a) - Fraction(b)) <= most for a, b in zip(one, other, strict=True)]
        )
        moved = np.abs(method.bound(other[near]) - method.bound(one[near]))
        assert len(moved) and moved.max() <= method.reach
        farthest = max(farthest, moved.max() / method.reach)
    assert farthest > 0.9


@cases("name", NAMES)
def test_a_window_gives_each_slot_its_part(name):
    """Of epsilon, to the last micro-epsilon: what is drawn is that of one slot with as much."""
    given = UNIT | {"epsilon": 7.0}
    one, many = lk.method(name, **given), lk.method(name, **given | {"epsilon": 21.0}, window=3)
    assert one.spend == many.spend
    assert many.tables() == one.tables()
    assert many.use != one.use
    assert many.parts == pytest.approx([3 * each for each in one.parts])
    assert many.influence == 3 * one.influence
    assert (many.guarantee.level, many.guarantee.window) == ("w-event", 3)
    assert (one.guarantee.level, one.guarantee.window) == ("event", 1)
    line = many.guarantee.describe()
    assert "w-event, epsilon 21 over all that is released of a stream, for any 3 cons" in line
    assert "protects values, each slot's whole value, not one person's part of it" in line
    part = lk.method(name, **given, window=3, contribution=0.1).guarantee.describe()
    assert "what one person adds to each slot's value, at most 0.1" in part
    published = lk.method(name, **given | {"epsilon": 21.0}, window=3, calibration="published")
    single = lk.method(name, **given, calibration="published")
    assert published.guarantee.epsilon == pytest.approx(3 * single.guarantee.epsilon)


def test_noise_is_spread_over_the_values_that_are_there():
    """A segment of n present values has the noise of one over n; an empty one is null, and its
    other slots get the mean.
    """
    method = lk.method(
        "segment_mean", epsilon=1.0, delay=4, segment=4, domain=(0.0, 1.0), smooth=False
    )
    streams = np.full((20_000, 12), 0.5)
    present = np.zeros(streams.shape, np.bool_)
    present[:, :4], present[:, 5] = True, True
    method.adder.most = 10**12  # so that nothing is held back
    released = method.trace(streams, seeded(1), present=present).values.T
    assert np.isnan(released[:, 8:]).all()
    assert (released[:, 4:8] == released[:, 4:5]).all()
    clipped = np.random.default_rng(1).laplace(0, [[1.0], [0.25]], (2, 10**6)) + 0.5
    want = np.abs(np.clip(clipped, 0, 1) - 0.5).mean(axis=1)
    for slot, target in ((5, want[0]), (0, want[1])):
        assert np.abs(released[:, slot] - 0.5).mean() == pytest.approx(target, rel=0.02)


@cases("setting", SETTINGS)
def test_a_stream_that_ends_is_released_to_its_last_slot(setting):
    """The last window is partial."""
    for name in NAMES:
        for slots in (1, 3, 4, 5, 9):
            method = lk.method(name, **UNIT, setting=setting)
            found = method.release(np.full((2, slots), 0.5), seeded(1))
            assert found.shape == (2, slots)
            assert np.isfinite(found).all()
        assert lk.method(name, **UNIT).release(np.empty((2, 0)), seeded(1)).shape == (2, 0)


def test_an_error_is_stated_where_a_slot_has_noise_of_its_own():
    """Elsewhere a word says why it cannot be."""
    for name in NAMES:
        for smooth in (False, True):
            method = lk.method(name, **UNIT, smooth=smooth)
            told = method.trace(np.full((3, 20), 0.5), seeded(1))
            unstated = np.isnan([told.standard_error, told.low, told.high])
            assert unstated.all() == unstated.any() == (name != "naive")
            assert (told.reason in UNSTATED) == (name != "naive")
            assert told.reason == method.reason


@cases(
    ("name", "attribute", "want"),
    [
        ("contin_group", "theta", 3 / 700),
        ("pegasus", "theta", 3 / 700),
        ("discontin_group", "theta", 3 / 700),
        ("buc_order", "buckets", 7),
    ],
)
def test_the_authors_numbers_are_those_of_the_published_calibration(name, attribute, want):
    """In units of the domain: there they have a meaning for some streams only."""
    given = {"epsilon": 1.0, "delay": 10, "domain": (0.0, 700.0)}
    published = lk.method(name, **given, calibration="published")
    assert getattr(published, attribute) == pytest.approx(want)
    sound = lk.method(name, **given)
    assert getattr(sound, attribute) != pytest.approx(want)
    elsewhere = lk.method(name, **given | {"domain": (0.0, 7e6)})
    assert getattr(elsewhere, attribute) == getattr(sound, attribute), "relative to the domain"
    whole = lk.method("buc_order", epsilon=1.0, delay=3, domain=(0.0, 1.0), calibration="published")
    assert whole.buckets == 1


def test_what_published_guarantees():
    """What is truly lost at most: more than epsilon where the paper counts too little, less where
    it counts too much.
    """
    given = {"epsilon": 1.0, "delay": 10, "domain": (0.0, 700.0), "calibration": "published"}
    stated = {name: lk.method(name, **given).guarantee.epsilon for name in NAMES}
    assert stated["contin_group"] == stated["pegasus"] == pytest.approx(1.2)
    assert stated["buc_order"] == pytest.approx(0.75 + np.log(1 + 7 * np.exp(0.25) / 6))
    assert stated["discontin_group"] == pytest.approx(0.8 + 9 * 0.2 / 38, abs=1e-4)
    assert stated["comp_order"] == pytest.approx(0.75 + 9 * 0.25 / 80, abs=1e-4)
    assert stated["adapub"] == pytest.approx(0.8 + 9 * 0.2)
    assert all(stated[name] == 1.0 for name in ("dpi", "naive", "segment_mean", "truncate"))
    assert {lk.method(name, **UNIT).guarantee.epsilon for name in NAMES} == {1.0}


def test_a_mechanism_is_refused():
    with pytest.raises(ConfigurationError, match="takes no mechanism"):
        lk.method("naive", mechanism="laplace", **UNIT)


@cases(
    ("name", "wrong"),
    [
        ("segment_mean", {"segment": 5}),
        ("segment_mean", {"noise": "point"}),
        ("pegasus", {"noise": "sum"}),
        ("naive", {"epsilon": 1e-5}),
        ("discontin_group", {"epsilon": 2e-5}),
        ("comp_order", {"epsilon": 1e-5, "delay": 1024}),
        ("truncate", {"thresholds": 1}),
        ("truncate", {"thresholds": 1025}),
        ("truncate", {"interval": 0}),
        ("truncate", {"noise": "sum"}),
        ("truncate", {"epsilon": 1e-3}),
        ("dpi", {"synopses": 1}),
        ("dpi", {"epsilon": 1e-4}),
        ("naive", {"window": 0}),
        ("naive", {"window": 2**16, "epsilon": 0.05}),
    ],
)
def test_what_does_not_fit_is_refused(name, wrong):
    with pytest.raises(ConfigurationError):
        lk.method(name, **(UNIT | wrong))


@cases(
    ("name", "wrong"),
    [
        ("truncate", {"thresholds": 2.5}),
        ("truncate", {"thresholds": True}),
        ("truncate", {"interval": 1.5}),
        ("dpi", {"synopses": "8"}),
        ("adapub", {"theta": 1.0}),
    ],
)
def test_what_is_of_another_type_is_refused(name, wrong):
    with pytest.raises(TypeError):
        lk.method(name, **(UNIT | wrong))


def test_presence_must_fit():
    method = lk.method("naive", **UNIT)
    streams = np.full((2, 8), 0.5)
    for wrong in (np.ones((2, 7), np.bool_), np.ones(8, np.bool_)):
        with pytest.raises(ValueError, match="present"):
            method.release(streams, seeded(1), present=wrong)
    with pytest.raises(TypeError):
        method.release(streams, seeded(1), present=np.ones((2, 8)))
    state = method.state(seeded(1).digests(["a"]))
    with pytest.raises(ValueError, match="present"):
        method.step(
            state, Batch(np.arange(1), 0, np.zeros((4, 1), int), seeded(1), np.ones((3, 1), bool))
        )


def test_what_is_not_there_is_not_looked_at():
    """Not even whether it is finite."""
    method = lk.method("naive", **UNIT)
    streams, present = np.full((2, 8), 0.5), np.ones((2, 8), np.bool_)
    present[0, 3] = False
    want = method.release(streams, seeded(1), present=present)
    streams[0, 3] = np.nan
    assert np.array_equal(want, method.release(streams, seeded(1), present=present), equal_nan=True)
    streams[0, 2] = np.inf
    with pytest.raises(ValueError, match="finite"):
        method.release(streams, seeded(1), present=present)


def drawn(method, slots, present=None):
    """(stream, slot, phase) of each draw of a keyed call over these slots."""
    source = Recorder(keyed(KEY))
    streams = np.random.default_rng(slots.start).random((3, len(slots)))
    present = None if present is None else np.broadcast_to(present, streams.shape)
    method.release(streams, source, users=["a", "b", "c"], first_slot=slots.start, present=present)
    return {draw[:3] for draw in source.draws}


SHARED = {"segment_mean": {"segment": 3}, "dpi": {}, "truncate": {}}
"""The methods that draw one noise for slots that two calls could split."""


@cases("name", NAMES)
@cases("setting", SETTINGS)
@cases("calibration", ("sound", "published"))
def test_two_calls_over_other_slots_share_no_draw(name, setting, calibration):
    """Wherever the second may begin that the first has left: where a segment or block does, and at
    every slot where no noise is for several.
    """
    starts = {("segment_mean", "batch"): [15, 16, 19, 20], ("segment_mean", "sliding"): [15, 18]}
    starts |= {(each, how): [16, 20] for each in ("dpi", "truncate") for how in SETTINGS}
    how = {"setting": setting, "calibration": calibration, **SHARED.get(name, {})}
    method = lk.method(name, **(UNIT | how))
    for cut in range(13, 21):
        if cut in starts.get((name, setting), range(13, 21)):
            before, after = drawn(method, range(12, cut)), drawn(method, range(cut, 22))
            assert before and after and before.isdisjoint(after), cut
            continue
        with pytest.raises(ValueError, match=f"first_slot {cut} lies inside .* Begin with slot"):
            drawn(method, range(cut, 22))
        opens = method.drawn_from(cut)
        assert drawn(method, range(opens, 22), np.arange(opens, 22) >= cut)


@cases("name", list(SHARED))
def test_fresh_and_public_words_may_begin_anywhere(name):
    method = lk.method(name, **(UNIT | SHARED[name]))
    for source in (seeded(1), lk.randomness.system()):
        found = method.release(np.full((2, 5), 0.5), source, users=["a", "b"], first_slot=5)
        assert np.isfinite(found).all()
