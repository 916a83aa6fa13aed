"""A crowd that moves as fast as its clipped values can: its releases state no error, after every
crash as before it.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from ldp_kafka.methods.estimates import Slot
from ldp_kafka.methods.noisy_mean import LOOKED_BACK
from ldp_kafka.methods.unstated import CLIPPED
from ldp_kafka.records import Partial
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.stages.merge import make_merge
from ldp_kafka.runtime.wire.records import encode_json
from ldp_kafka.topology import loads
from tests.cases import cases

TEXT = """
topology: weights
input: {{slot: 7d, partitions: 1}}
privacy: {{level: user, method: {method}, epsilon: 5.0, delta: 1.0e-6, horizon: 40,
           domain: [40.0, 140.0]{more}}}
output: {{statistics: [mean]}}
"""
STEP = 0.02  # C: two kilograms a week
REPORTS = 40_000


def topology(method="cgm", more=f", differential_bound: {STEP}"):
    return loads(TEXT.format(method=method, more=more), "t.yaml")


def support(method, mean, error, reports=REPORTS):
    """Of so many reports with this mean (a share of the domain) and this error of it."""
    cells = method.mechanism.cells
    square = mean * mean + error * error * reports
    return [reports, round(reports * mean * cells), round(reports * square * cells * cells)]


def error_of(method, report=20):
    """Of the mean of `REPORTS`, a share of the domain."""
    return (method.variance(report) / REPORTS) ** 0.5


def released(made, means, *, crash_at=(), reports=None):
    """(value, standard_error, error_reason) of each slot; before some slots the state is written
    down and read anew.
    """
    stage, found = make_merge(made), []
    state = stage.fresh()
    for slot, mean in enumerate(means):
        if slot in crash_at:
            meta = json.loads(json.dumps(stage.meta(state)))
            shards = stage.dump(state, stage.shards_of(state))
            state = stage.load(meta, {name: (slot - 1, each) for name, each in shards.items()})
        n = REPORTS if reports is None else reports[slot]
        noisy = np.random.default_rng(slot).normal(mean, error_of(made.method))
        sums = tuple(support(made.method, noisy, error_of(made.method), n)) if n else None
        partial = Partial(0, slot, 0, sums)
        for record in stage.fold(state, [Message(slot, -1, encode_json(partial))]).records:
            said = json.loads(record.value)
            found.append((said["value"], said["standard_error"], said.get("error_reason")))
    return found


def jump(after, slots, size, step=STEP):
    """The mean of clipped values of users who all jump by ``size`` at once."""
    gone = np.clip((np.arange(slots) - after + 1) * step, 0, size)
    return 0.3 + gone


def clipped(method, sums):
    """Whether the last of these supports, one a slot, is told to be clipped."""
    *before, last = sums
    slot = len(before)
    return method.crowd_of_slot(last, Slot(slot, dict(enumerate(before)))).reason == CLIPPED


def flags(found):
    return [reason == CLIPPED for _, _, reason in found]


def test_a_crowd_that_jumps_has_no_error_until_it_has_come():
    """From where k steps are six errors of a difference on, whose noise is independent here: within
    k slots of the jump, until as long after it has come. Full speed lies two errors or more from
    what is seen in one slot of 40.
    """
    made = topology()
    means = jump(10, 40, 0.4)
    found = released(made, means)
    noise = 2**0.5 * error_of(made.method)
    assert next(k for k in range(1, LOOKED_BACK) if 6 * noise <= k * STEP) == 5
    flagged = flags(found)
    assert sum(flagged[14:30]) >= 13
    assert not any(flagged[:11] + flagged[35:])
    for (value, error, reason), mean in zip(found, means, strict=True):
        assert value == pytest.approx(40 + 100 * mean, abs=500 * error_of(made.method))
        assert (error is None) == (reason is not None)


def test_the_same_users_are_seen_sooner():
    """Their noise carries on: neighbouring slots have nearly the same."""
    method, dice = topology().method, np.random.default_rng(5)
    error, r, slots = error_of(method), 0.96, 40
    late, false = [], 0
    for _ in range(100):
        noise = [dice.normal(0, error)]
        for _ in range(slots - 1):
            noise.append(r * noise[-1] + dice.normal(0, error * (1 - r * r) ** 0.5))
        means = jump(25, slots, 0.4) + np.array(noise)
        sums = [np.array(support(method, mean, error)) for mean in means]
        seen = [clipped(method, sums[max(at - LOOKED_BACK, 0) : at + 1]) for at in range(slots)]
        false += sum(seen[:25])
        late.append(seen[25:].index(True))
    assert np.mean(late) < 2.5
    assert false < 0.01 * 25 * 100


@cases(
    "means",
    [
        np.full(40, 0.3),
        0.3 + 0.2 * STEP * np.arange(40),  # a fifth as fast as it can
        np.where(np.arange(40) < 20, 0.3, 0.8),  # others report: no user's value moves so fast
    ],
)
def test_others_have_one(means):
    assert sum(flags(released(topology(), means))) <= 1


def test_what_does_not_clip_has_one():
    made = topology("gaussian_direct", "")
    assert not any(flags(released(made, jump(10, 40, 0.4))))
    assert make_merge(made).destination.looks_back == 0


def test_as_published_it_is_not_told():
    """Values are clipped around the last raw ones: a jump is there a slot later, not step by
    step.
    """
    made = topology(more=f", differential_bound: {STEP}, calibration: published")
    assert make_merge(made).destination.looks_back == 0
    assert not any(flags(released(made, jump(10, 40, 0.4))))
    assert "off by the rest" in made.method.clipping
    assert "followed at that speed" in topology().method.clipping


def test_noise_alone_is_no_movement():
    """300 streams at rest, their noise independent: six errors apart is rare, whatever is
    compared.
    """
    made = topology()
    method, dice = made.method, np.random.default_rng(2)
    past = LOOKED_BACK + 1
    for _ in range(300):
        means = dice.normal(0.5, error_of(method), past)
        sums = [np.array(support(method, mean, error_of(method))) for mean in means]
        assert not clipped(method, sums)


def test_it_is_seen_through_noise():
    """So fast in nine of ten slots or more."""
    method, dice = topology().method, np.random.default_rng(3)
    seen = 0
    for _ in range(300):
        means = dice.normal(0.3 + STEP * np.arange(LOOKED_BACK + 1), error_of(method))
        sums = [np.array(support(method, mean, error_of(method))) for mean in means]
        seen += clipped(method, sums)
    assert seen > 0.9 * 300


def test_a_crash_changes_nothing():
    """Wherever it comes."""
    made = topology()
    means = jump(4, 24, 0.3)
    reports = [0 if slot in (7, 8) else REPORTS for slot in range(24)]
    whole = released(made, means, reports=reports)
    assert 5 < sum(flags(whole)) < 20
    for at in range(1, 24):
        assert released(made, means, crash_at=(at,), reports=reports) == whole
    assert released(made, means, crash_at=range(1, 24), reports=reports) == whole


def test_what_is_kept_has_an_end():
    """The slots that are looked at, and what else is in their slot shards."""
    made = topology()
    stage = make_merge(made)
    state = stage.fresh()
    size = state.phases[0].sums.size
    for slot in range(3 * size):
        sums = tuple(support(made.method, 0.5, error_of(made.method)))
        stage.fold(state, [Message(slot, -1, encode_json(Partial(0, slot, 0, sums)))])
    assert LOOKED_BACK <= len(state.phases[0].sums.kept) < LOOKED_BACK + size
