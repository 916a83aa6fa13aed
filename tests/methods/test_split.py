"""Vectors, split: what a window reaches is what is stated, coordinate by coordinate, and nothing
less would do.
"""

from __future__ import annotations

from math import comb, inf, nan

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.checks import CheckFailure
from ldp_kafka.checks.enumeration import enumerate_outcomes
from ldp_kafka.checks.method.trial import MethodTrial
from ldp_kafka.checks.methods import METHOD_CHECKS
from ldp_kafka.checks.sources import KEY, Recorder
from ldp_kafka.checks.tiny import narrow, wide
from ldp_kafka.mechanisms.base import Law
from ldp_kafka.mechanisms.square_wave import SquareWave
from ldp_kafka.methods.base import SENT, SILENT
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.estimates import Slot
from ldp_kafka.randomness import keyed, seeded
from tests.cases import cases

LASTING = {"app": 1, "capp": 1, "ipp": 1, "sw_direct": 0}  # in blocks of two
SEGMENTED = {"app_s": 1, "capp_s": 1, "ipp_s": 1, "sampling": 0}
SPLITS = ("budget_split", "sample_split")


def own(inner, segment=2):
    block = {"block": 2} if inner.startswith(("app", "capp")) else {}
    return block | ({"segment": segment} if inner in SEGMENTED else {})


def maker(name, window, inner, dimension=2, **parameters):
    return lambda mechanism: lk.method(
        name,
        **({"epsilon": 1.0, "domain": (0.0, 1.0)} | own(inner) | parameters),
        window=window,
        dimension=dimension,
        inner=inner,
        mechanism=mechanism,
    )


def exact(make, window, length, draws, dimension=2, kinds=(narrow, wide)):
    """(loss, reports reached), the worst over all streams whose vectors are at one corner or at the
    opposite one.
    """
    losses, reached = [], []
    for kind in kinds:
        outcomes = enumerate_outcomes(
            make,
            length,
            mechanism=kind,
            alphabet=((0.0,) * dimension, (1.0,) * dimension),
            draws=draws,
        )
        losses.append(outcomes.loss(window))
        reached.append(outcomes.reached(window))
    return max(losses), max(reached)


@pytest.mark.parametrize("inner", LASTING)
@pytest.mark.parametrize("window", [1, 2, 3])
def test_budget_split_spends_to_the_last_micro(window, inner):
    """The stated influence is reached and the whole epsilon lost, so that no smaller one would be
    sound.
    """
    loss, reached = exact(maker("budget_split", window, inner), window, 4, 8)
    assert (
        reached
        == lk.method(
            "budget_split",
            epsilon=1.0,
            window=window,
            dimension=2,
            domain=(0, 1),
            inner=inner,
            **own(inner),
        ).influence
        == 2 * (window + LASTING[inner])
    )
    assert 0.95 <= loss <= 1 + 1e-9


@pytest.mark.parametrize(
    ("window", "dimension", "inner", "length"),
    [
        (1, 2, "ipp", 4),
        (2, 2, "ipp", 6),
        (3, 2, "ipp", 6),
        (2, 3, "ipp", 6),
        (1, 2, "app", 4),
        (2, 2, "capp", 6),
        (1, 3, "capp", 5),
        (2, 3, "app", 6),
        (3, 2, "sw_direct", 5),
    ],
)
def test_sample_split_spends_to_the_last_micro(window, dimension, inner, length):
    """The same where the deviation of every coordinate that a window touches lasts a report of its
    own.
    """
    loss, reached = exact(
        maker("sample_split", window, inner, dimension), window, length, length, dimension
    )
    assert reached == window + min(dimension, window) * LASTING[inner]
    assert 0.95 <= loss <= 1 + 1e-9


@pytest.mark.long  # half a minute of enumeration; what is beside it reaches as far in fewer slots
def test_sample_split_of_app_reaches_the_rest_of_two_blocks():
    """Window 3 of 2 coordinates: slots 3, 4 and 5, of which the last two begin blocks that end with
    slots 6 and 7.
    """
    loss, reached = exact(maker("sample_split", 3, "app"), 3, 8, 8, kinds=(wide,))
    assert reached == 5
    assert 0.95 <= loss <= 1 + 1e-9


@pytest.mark.parametrize(
    ("name", "window", "inner", "length"),
    [
        *(("budget_split", window, "sampling", 6) for window in (1, 2, 3)),
        ("budget_split", 2, "ipp_s", 6),
        *(("budget_split", 1, inner, 4) for inner in ("app_s", "capp_s")),
        *(("sample_split", window, "sampling", 8) for window in (1, 2, 3, 5)),
        *(("sample_split", 2, inner, 8) for inner in ("ipp_s", "capp_s")),
    ],
)
def test_splits_of_segments_spend_to_the_last_micro(name, window, inner, length):
    """Segments of two values, of two coordinates: the same holds."""
    draws = length if name == "budget_split" else length // 2
    loss, reached = exact(maker(name, window, inner), window, length, draws)
    assert reached == maker(name, window, inner)(wide).influence
    assert 0.95 <= loss <= 1 + 1e-9


@cases("name", SPLITS)
@cases("window", range(1, 14))
@cases("dimension", [1, 2, 3, 5])
@cases("segment", [1, 2, 3])
def test_what_a_window_touches_is_counted(name, window, dimension, segment):
    """From what a segment is, wherever a window begins: those of all values inside it. As many
    reports as are paid for, and no more, lie in any run of the ledger; ``published`` counts those
    that lie in a window.
    """
    given = {"epsilon": 1.0, "window": window, "dimension": dimension, "domain": (0.0, 1.0)}
    sound, published = (
        lk.method(name, inner="sampling", segment=segment, calibration=how, **given)
        for how in ("sound", "published")
    )
    whole = name == "budget_split"
    period = segment * (1 if whole else dimension)

    def of(slots):
        """(coordinate, segment) of all values in these slots."""
        places = range(dimension)
        return {
            (at, slot // period)
            for slot in slots
            for at in places
            if whole or slot % dimension == at
        }

    def reports(first, length):
        due = [
            slot for slot in range(first, first + length) if _due(slot, segment, dimension, whole)
        ]
        return len(due) * (dimension if whole else 1)

    starts = range(period)
    assert sound.influence == max(len(of(range(at, at + window))) for at in starts)
    assert max(reports(at, sound.run) for at in starts) == sound.influence
    counted = max(reports(at, window) for at in starts)
    assert published.spend == 1_000_000 // counted
    assert max(reports(at, published.run) for at in starts) == counted


def _due(slot, segment, dimension, whole):
    turn = slot if whole else slot // dimension
    return turn % segment == segment - 1


class Plain(SquareWave):
    """Its answers are the mean of its law, rounded: nothing is drawn."""

    def perturb(self, values, randomness):
        del randomness
        means = np.array([Law.of(self.law(float(value))).mean() for value in values])
        return np.round(means / self.scale) * self.scale


@pytest.mark.parametrize("name", SPLITS)
@cases("inner", SEGMENTED)
def test_a_coordinate_is_the_method_over_its_own_values(name, inner):
    """Without noise, to the last bit: of all its values, or of those whose turn it is. So what is
    perturbed is the mean of each segment's, corrected for the earlier reports of the coordinate.
    """
    rng, d, slots, segment = np.random.default_rng(3), 3, 36, 2
    streams = rng.random((4, slots, d))
    split = maker(name, 4, inner, d)
    each = split(Plain).each
    released = split(Plain).release(streams, seeded(3))
    for at in range(d):
        mine = streams[:, :, at] if name == "budget_split" else streams[:, at::d, at]
        alone = lk.method(
            inner,
            epsilon=each.epsilon,
            window=each.window,
            domain=(0.0, 1.0),
            mechanism=Plain,
            **own(inner, segment),
        ).release(mine, seeded(3))
        seen = released[:, :, at] if name == "budget_split" else released[:, at::d, at]
        assert np.array_equal(seen, alone)
        if inner == "sampling":
            means = mine.reshape(4, -1, segment).mean(axis=2)
            law = [
                [Law.of(each.mechanism.law(one)).mean() for one in row] for row in means.tolist()
            ]
            assert np.abs(seen[:, 1::2] - law).max() <= each.scale


@pytest.mark.parametrize("name", SPLITS)
def test_published_is_caught(name):
    """Theorem 3 of the paper fails here as it does for numbers; the guarantee says so."""
    draws = {"length": 3, "draws": 6} if name == "budget_split" else {"length": 5}
    trial = MethodTrial(
        maker(name, 1, "app", calibration="published"),
        1,
        alphabet=((0.0, 0.0), (1.0, 1.0)),
        **draws,
    )
    assert trial.worst > 1.5
    assert trial.small.guarantee.epsilon == inf
    with pytest.raises(CheckFailure, match="exact loss"):
        METHOD_CHECKS["loss_within_epsilon"](trial)


@cases("name", SPLITS)
@cases("inner", [*LASTING, *SEGMENTED])
@cases("calibration", ["sound", "published"])
def test_one_coordinate_is_the_method_itself(name, inner, calibration):
    """With one coordinate nothing is split: the same reports to the last bit, whatever
    the streams.
    """
    same = {
        "epsilon": 2.0,
        "window": 5,
        "domain": (-1.0, 3.0),
        "calibration": calibration,
        **own(inner),
    }
    streams = np.random.default_rng(3).uniform(-1, 3, (20, 30))
    plain = lk.method(inner, **same)
    split = lk.method(name, dimension=1, inner=inner, **same)
    assert split.spend == plain.spend
    assert split.guarantee == plain.guarantee
    assert split.block == getattr(plain, "block", None)
    assert split.segment == getattr(plain, "segment", None)
    # under a key the two would not share their words
    released = split.release(streams[..., None], seeded(3), first_slot=7)
    assert np.array_equal(released[..., 0], plain.release(streams, seeded(3), first_slot=7))


@cases("inner", [*LASTING, *SEGMENTED])
def test_coordinates_are_streams_of_their_own(inner):
    """What is released of a coordinate does not depend on the others: not on their values, and not
    on how many there are.
    """
    rng = np.random.default_rng(3)
    streams = rng.random((10, 20, 3))
    other = streams.copy()
    other[..., 1] = rng.random((10, 20))
    for name in ("budget_split", "sample_split"):
        method = lk.method(
            name, epsilon=3.0, window=4, dimension=3, domain=(0.0, 1.0), inner=inner, **own(inner)
        )
        ids = [str(i) for i in range(10)]
        first, second = (
            method.release(given, keyed(KEY), users=ids, first_slot=0) for given in (streams, other)
        )
        assert np.array_equal(first[..., [0, 2]], second[..., [0, 2]])
        assert not np.array_equal(first[..., 1], second[..., 1])


def test_equal_coordinates_get_noise_of_their_own():
    method = lk.method("budget_split", epsilon=1.0, window=3, dimension=4, domain=(0.0, 1.0))
    released = method.release(np.full((50, 10, 4), 0.5), seeded(3))
    assert np.isclose(released[..., 1:], released[..., :1]).mean() < 0.05  # a report has few digits


def test_sample_split_is_round_robin_by_slot_number():
    """Whoever is absent, and whenever a stream begins: slot t is of coordinate t mod d. Before its
    first report a coordinate stands at the midpoint.
    """
    method = lk.method("sample_split", epsilon=30.0, window=3, dimension=3, domain=(0.0, 10.0))
    source = Recorder(keyed(KEY))
    state = method.state(source.digests(["a", "b"]))
    for slot in (5, 6, 8, 9, 12, 100):
        step = method.step(
            state, Batch(np.arange(2), slot, method.bound(np.full((2, 3), 5.0)), source)
        )
        assert step.phase == slot % 3
        assert [
            method.in_phase(np.array([slot]), phase).tolist() == [True] for phase in range(3)
        ] == [phase == step.phase for phase in range(3)]
        assert (
            np.isfinite(method.published(step)).tolist()
            == [[at == slot % 3 for at in range(3)]] * 2
        )
    assert [phase for _, _, phase, _ in source.draws[::2]] == [2, 0, 2, 0, 0, 1]
    held = method.release(np.full((4, 3), 8.0), seeded(3), first_slot=1)
    assert held[0, 0] == held[0, 2] == held[1, 0] == 5.0
    assert held[0, 1] == held[1, 1] == held[2, 1] != 5.0


@pytest.mark.parametrize("inner", [*LASTING, *SEGMENTED])
@cases("window", [1, 2, 5])
@cases("dimension", [1, 2, 7])
def test_what_a_window_can_reach_costs_the_budget_at_most(inner, window, dimension):
    """Counted from what was drawn, with absences: all coordinates of one window of slots, or their
    segments, and of each of those touched the next `lasting` turns, in any run of the stream.
    """
    lasting = (LASTING | SEGMENTED)[inner]
    for name in ("budget_split", "sample_split"):
        method = lk.method(
            name,
            epsilon=1.0,
            window=window,
            dimension=dimension,
            domain=(0.0, 1.0),
            inner=inner,
            **own(inner),
        )
        source, slots = Recorder(keyed(KEY)), 60
        state = method.state(source.digests(["a"]))
        for slot in np.flatnonzero(np.random.default_rng(3).random(slots) < 0.8):
            values = method.bound(np.full((1, dimension), 0.5))
            step = method.step(state, Batch(np.array([0]), int(slot), values, source))
            assert step.status[0] in ([SENT] if inner in LASTING else [SENT, SILENT])
        drawn = {(slot, phase) for _, slot, phase, _ in source.draws}
        assert len(drawn) == len(source.draws)
        apart = dimension if name == "sample_split" else 1
        for first in range(slots):
            length = 1 if inner in LASTING else 2
            changed = {
                (slot // (apart * length), phase)
                for slot in range(first, first + window)
                for phase in range(dimension)
                if name == "budget_split" or slot % dimension == phase
            }
            reached = {
                (slot, phase)
                for slot, phase in drawn
                if {(slot // (apart * length) - back, phase) for back in range(lasting + 1)}
                & changed
            }
            assert len(reached) * method.spend <= 1_000_000
        assert method.spend * (method.influence + 1) > 1_000_000 - method.influence


def test_crowd_means():
    """One support of both kinds of split: the mean of each coordinate within its error, which is
    told; nothing where nothing was reported.
    """
    rng = np.random.default_rng(3)
    values = np.stack([rng.uniform(0, 4, 20_000), rng.uniform(6, 10, 20_000)], axis=1)
    for name in ("budget_split", "sample_split"):
        method = lk.method(name, epsilon=8.0, window=2, dimension=2, domain=(0.0, 10.0))
        state = method.state(np.stack([np.arange(20_000, dtype=np.uint64)] * 2, axis=1))
        totals = []
        for slot in (0, 1):
            step = method.step(
                state, Batch(np.arange(20_000), slot, method.bound(values), seeded(5))
            )
            totals.append(method.support(step.answers, step.phase))
        both, first = method.crowd(totals[0] + totals[1]), method.crowd(totals[0])
        assert both.reports == 40_000
        assert (np.abs(both.value - values.mean(0)) < 5 * both.standard_error).all()
        assert (both.standard_error < 0.1).all()
        assert np.isfinite(first.value).tolist() == [True, name == "budget_split"]
        assert len(method.support(method.blank(0))) == len(totals[0])


HOLDS, ALARM = 0.95, 1e-6


@cases("name", SPLITS)
@cases("inner", ["sampling", "capp_s", "ipp_s"])
def test_crowd_means_of_segments(name, inner):
    """Of every segment and coordinate the mean of the segments' means, computed here, lies in its
    interval as often as is said, or more: by an exact binomial test, at a false alarm of 1e-6. The
    intervals say something: the midpoint's error is many times as large.
    """
    users, slots, d, segment = 300, 96, 2, 2
    rng = np.random.default_rng(3)
    level = rng.uniform(0.1, 0.9, (users, 1, d)) * np.array([0.5, 1.0])
    values = np.clip(level + rng.uniform(-0.1, 0.1, (users, slots, d)), 0, 1)
    method = lk.method(
        name,
        epsilon=24.0,
        window=4,
        dimension=d,
        domain=(0.0, 1.0),
        inner=inner,
        **own(inner, segment),
    )
    source, held, widths = seeded(3), [], []
    state = method.state(source.digests([str(i) for i in range(users)]))
    apart = 1 if name == "budget_split" else d
    sums = {}
    for slot in range(slots):
        step = method.step(
            state, Batch(np.arange(users), slot, method.bound(values[:, slot]), source)
        )
        turn = slot // apart
        assert (step.status == (SENT if turn % segment == segment - 1 else SILENT)).all()
        if step.status[0] != SENT:
            continue
        sums[slot] = method.support(step.answers, step.phase)
        earlier = {at: one for at, one in sums.items() if slot - method.looks_back <= at < slot}
        found = method.crowd_of_slot(sums[slot], Slot(slot, earlier))
        low, high = found.interval()
        for at in range(d) if apart == 1 else (step.phase,):
            own_slots = [slot - apart * back for back in range(segment)]
            truth = values[:, own_slots, at].mean()
            held.append(low[at] <= truth <= high[at])
            widths.append(high[at] - low[at])
    assert len(held) == (slots // segment * d if apart == 1 else slots // segment)
    assert binomial_below(sum(held), len(held), HOLDS) > ALARM
    assert np.mean(widths) < 0.4


def binomial_below(hits, trials, share):
    """The chance of so few of them or fewer."""
    return sum(comb(trials, k) * share**k * (1 - share) ** (trials - k) for k in range(hits + 1))


@cases("name", SPLITS)
@cases(
    ("changed", "error"),
    [
        ({"dimension": 0}, lk.ConfigurationError),
        ({"dimension": 1025}, lk.ConfigurationError),
        ({"dimension": 2.0}, TypeError),
        ({"dimension": True}, TypeError),
        ({"inner": "topl"}, lk.ConfigurationError),
        ({"inner": "capp", "segment": 2}, lk.ConfigurationError),
        ({"inner": "sampling", "block": 2}, lk.ConfigurationError),
        ({"inner": "sampling", "segment": 0}, lk.ConfigurationError),
        ({"inner": "sampling", "segment": 2.0}, TypeError),
        ({"inner": "sampling", "segment": "auto", "window": 4000}, lk.ConfigurationError),
        ({"inner": None}, lk.ConfigurationError),
        ({"inner": "ipp", "block": 2}, lk.ConfigurationError),
        ({"inner": "app", "block": 0}, lk.ConfigurationError),
        ({"inner": "app", "block": True}, TypeError),
        ({"epsilon": 1e-6}, lk.ConfigurationError),
        ({"epsilon": nan}, lk.ConfigurationError),
        ({"epsilon": -1.0, "inner": "app"}, lk.ConfigurationError),
        ({"window": 0, "inner": "app"}, lk.ConfigurationError),
        ({"domain": None}, lk.ConfigurationError),
        ({"categories": 3}, lk.ConfigurationError),
        ({"window": 60_000, "inner": "app", "block": 60_000}, lk.ConfigurationError),
    ],
)
def test_wrong_parameters_are_refused(name, changed, error):
    with pytest.raises(error):
        lk.method(
            name, **({"epsilon": 1.0, "window": 10, "dimension": 2, "domain": (0.0, 1.0)} | changed)
        )


@cases("name", SPLITS)
@cases("shape", [(4,), (4, 3), (2, 4, 3), (1, 2, 4, 2), (2, 0)])
def test_streams_of_another_shape_are_refused(name, shape):
    method = lk.method(name, epsilon=1.0, window=10, dimension=2, domain=(0.0, 1.0))
    with pytest.raises(ValueError, match="dimension"):
        method.release(np.zeros(shape), seeded(1))


@pytest.mark.parametrize("name", SPLITS)
def test_empty_streams(name):
    method = lk.method(name, epsilon=1.0, window=10, dimension=2, domain=(0.0, 1.0))
    assert method.release(np.zeros((3, 0, 2)), seeded(1)).shape == (3, 0, 2)
    assert method.release(np.zeros((0, 2)), seeded(1)).shape == (0, 2)
