"""What topologies lose together: against everything that can be enumerated, and every rule left out
once.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ldp_kafka as lk
from ldp_kafka.accounting import Guarantee, admission, micro
from ldp_kafka.accounting.admission import Limit, Loss, Spender, judge
from ldp_kafka.errors import ConfigurationError
from tests.cases import cases

NONE = Fraction(0)


def w_event(name, epsilon, window, slot, last=None):
    """A topology of windows."""
    return Spender(
        name, Guarantee("w-event", epsilon, 0.0, window, window, "values", "sound"), slot, last
    )


def whole(name, epsilon, delta, last=None):
    """One of level user."""
    return Spender(name, Guarantee("user", epsilon, delta, 10, 10, "values", "sound"), 1, last)


def limit(epsilon, run=1, delta=0.0, kept=None):
    """In nats."""
    return Limit(Loss(micro(epsilon), Fraction(repr(delta))), run, kept)


def needed(slots, window):
    """Windows that cover these slots, one by one from the left."""
    count, covered = 0, -math.inf
    for slot in sorted(slots):
        if slot > covered:
            count, covered = count + 1, slot + window - 1
    return count


def sums():
    """The loss of a run of any length, with slots and windows of any length, wherever the run
    begins.
    """
    for run, slot, window in product(range(1, 14), range(1, 7), range(1, 5)):
        worst = max(
            needed({time // slot for time in range(begin, begin + run + 1)}, window)
            for begin in range(slot)
        )
        assert admission.loss(w_event("a", 0.25, window, slot), limit(1, run)) == (
            250_000 * worst,
            0,
        ), (run, slot, window)


def claims_of_two():
    """A second topology may begin at T exactly if no run holds values that it reads and values that
    the retired one read.
    """
    for run, kept, last, begin in product(range(1, 4), range(1, 4), range(5, 8), range(16)):
        read = [set(range(last + 1)), set(range(max(begin - kept, 0), 20))]
        clash = any(all(times & set(range(at, at + run + 1)) for times in read) for at in range(20))
        claim = judge(
            limit(3.0, run, kept=kept),
            [w_event("a", 2.0, 20, 1, last)],
            w_event("b", 2.0, 20, 1),
            begin,
        )
        assert claim.allowed == (not clash), (run, kept, last, begin)
        assert claim.frees_ms == (last + kept + run if clash else None)


def thirds():
    """What is spent is rounded up, what may be spent down."""
    before = [w_event(name, 1 / 3, 9, 1) for name in "ab"]
    for epsilon, fits in ((1.0, False), (1.000001, False), (1.000002, True), (1.0000019, False)):
        assert judge(limit(epsilon), before, w_event("c", 1 / 3, 9, 1), 0).allowed == fits


def everybody():
    """Each of those before counts, in whatever place."""
    for place in range(3):
        before = [w_event(str(i), 1.0 if i == place else 0.5, 9, 1) for i in range(3)]
        assert judge(limit(2.5), before, w_event("x", 0.5, 9, 1), 0).allowed
        assert not judge(limit(2.5), before, w_event("x", 0.500001, 9, 1), 0).allowed


def deltas():
    """They add up like epsilon does, as they were written: 0.1 + 0.2 is 0.3."""
    for delta, fits in ((0.3, True), (0.29999999999999993, False)):
        assert (
            judge(limit(9.0, None, delta), [whole("a", 1.0, 0.1)], whole("b", 1.0, 0.2), 0).allowed
            == fits
        )
        assert (
            judge(limit(9.0, 1, delta), [whole("a", 1.0, 0.1)], whole("b", 1.0, 0.2), 0).allowed
            == fits
        )


RULES = [sums, claims_of_two, thirds, everybody, deltas]
KEPT = admission.loss
MUTANTS = {
    "no slot more": ("slots_touched", lambda run, slot: -(-run // slot), sums),
    "windows rounded down": (
        "windows_touched",
        lambda run, slot, window: max(admission.slots_touched(run, slot) // window, 1),
        sums,
    ),
    "spend rounded down": ("micro_up", micro, thirds),
    "one entry ignored": (
        "_sum",
        lambda losses: Loss(
            sum(each.epsilon for each in losses[1:]), sum((each.delta for each in losses[1:]), NONE)
        ),
        everybody,
    ),
    "delta ignored": (
        "loss",
        lambda spender, against: KEPT(spender, against)._replace(delta=NONE),
        deltas,
    ),
    "retired is free at once": ("frees", lambda spender, _: spender.last_ms, claims_of_two),
    "kept forgotten": (
        "frees",
        lambda spender, against: spender.last_ms + against.run_ms,
        claims_of_two,
    ),
    "run forgotten": (
        "frees",
        lambda spender, against: spender.last_ms + against.kept_ms,
        claims_of_two,
    ),
    "a moment early": (
        "frees",
        lambda spender, against: spender.last_ms + against.kept_ms + against.run_ms - 1,
        claims_of_two,
    ),
    "never free": ("frees", lambda *_: None, claims_of_two),
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rules(rule):
    """As it is, each holds."""
    rule()


@pytest.mark.parametrize(("name", "broken", "rule"), MUTANTS.values(), ids=MUTANTS)
def test_mutants_are_found(name, broken, rule, monkeypatch):
    """By the rule that is theirs."""
    monkeypatch.setattr(admission, name, broken)
    with pytest.raises(AssertionError):
        rule()


TOPOLOGIES = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.integers(1, 3),
        st.integers(1, 3),
        st.integers(0, 12),
        st.integers(1, 9) | st.none(),
    ),
    min_size=1,
    max_size=5,
)


@given(TOPOLOGIES, st.integers(1, 5), st.integers(1, 4), st.integers(1, 6))
def test_no_run_ever_loses_more(given_, run, kept, most):
    """Topologies begin and are retired at any time, each asking before it begins: however they
    fall, no run loses more than the limit, by counting windows one by one.
    """
    bound, end = limit(float(most), run, kept=kept), 24
    spenders = [
        w_event(str(at), float(epsilon), window, slot, None if runs is None else begin + runs)
        for at, (epsilon, window, slot, begin, runs) in enumerate(given_)
    ]
    read = []
    for at, (epsilon, window, slot, begin, runs) in enumerate(given_):
        # when this one begins, those retired later are not yet: what is not known of them cannot
        # count for less
        known = [
            (
                each
                if each.last_ms is not None and each.last_ms < begin
                else Spender(each.name, each.guarantee, each.slot_ms)
            )
            for each in spenders[:at]
        ]
        if judge(bound, known, spenders[at], begin).allowed:
            read.append(
                (
                    epsilon,
                    window,
                    slot,
                    range(begin - kept, end if runs is None else begin + runs + 1),
                )
            )
    for start in range(-4, end):
        inside = range(start, start + run + 1)
        assert (
            sum(
                epsilon * needed({time // slot for time in inside if time in times}, window)
                for epsilon, window, slot, times in read
            )
            <= most
        )


@cases(("window", "run"), [(1, 3), (2, 2), (2, 3), (3, 2), (3, 3), (4, 9)])
def test_lpu_loses_exactly_that(window, run):
    """Slots of one millisecond: the reports in a run are counted, and each loses what its
    mechanism's law says: the bound is reached, so nothing less would be true.
    """
    method = lk.method("lpu", epsilon=1.0, window=window, categories=4)
    reports = method.release(np.zeros((64, run + 1), int), lk.randomness.seeded(5))
    most = int((reports >= 0).sum(axis=1).max())
    ratio = max(
        math.log(
            a * method.mechanism.law(1).denominator / (b * method.mechanism.law(0).denominator)
        )
        for a, b in zip(
            method.mechanism.law(0).weights, method.mechanism.law(1).weights, strict=True
        )
    )
    bound = admission.loss(Spender("a", method.guarantee, 1), limit(1, run)).epsilon / 1e6
    assert bound - 1e-5 < most * ratio <= bound


def test_what_is_lost_is_what_truly_holds():
    """Of a published calibration not what it was given: ipp keeps (window + 1) / window of it, app
    nothing.
    """
    method = lk.method("ipp", epsilon=1.0, window=10, domain=(0.0, 1.0), calibration="published")
    assert admission.loss(Spender("a", method.guarantee, 1), limit(9, 9)) == (1_100_000, 0)
    for name in ("app", "capp"):
        nothing = lk.method(
            name, epsilon=1.0, window=10, domain=(0.0, 1.0), calibration="published"
        )
        with pytest.raises(ConfigurationError, match="guarantees nothing that could be counted"):
            Spender("a", nothing.guarantee, 1)


@pytest.mark.parametrize("name", ["swp", "sppa", "etm"])
def test_what_protects_times_reports_values(name):
    """So it has no place beside a limit on them."""
    method = lk.method(name, epsilon=1.0, window=4, domain=(0.0, 1.0))
    with pytest.raises(ConfigurationError, match="reports values as they are"):
        Spender("a", method.guarantee, 1)


def test_a_delta_in_each_window_is_not_counted():
    """None has one; were there one, it would be refused rather than forgotten. Nor does NaN pass
    for a guarantee.
    """
    for epsilon, delta in ((1.0, 1e-6), (math.nan, 0.0)):
        with pytest.raises(ConfigurationError):
            Spender("a", Guarantee("w-event", epsilon, delta, 2, 2, "values", "sound"), 1)


def test_a_life():
    """Only level user is asked, only it counts, and nothing that is retired comes back; in a run it
    counts whole, and does come back.
    """
    with pytest.raises(ConfigurationError, match="no limit for life"):
        judge(limit(9.0, None), [], w_event("a", 1.0, 1, 1), 0)
    life = judge(
        limit(3.0, None, 1e-6, kept=1),
        [w_event("a", 2.0, 1, 1), whole("b", 2.0, 1e-6, last=0)],
        whole("c", 2.0, 0.0),
        10**9,
    )
    assert (life.spent, life.allowed, life.frees_ms) == (
        (2_000_000, Fraction(1, 10**6)),
        False,
        None,
    )
    assert life.arithmetic.endswith(
        "room for it: never, since what is lost for life does not come back"
    )
    run = limit(3.0, 5, 1e-6, kept=1)
    assert not judge(run, [whole("b", 2.0, 1e-6, last=0)], whole("c", 2.0, 0.0), 6).allowed
    assert judge(run, [whole("b", 2.0, 1e-6, last=0)], whole("c", 2.0, 0.0), 7).allowed


def test_when_it_frees():
    """The first moment at which enough does; or why none is known."""

    def asked(epsilon, *before, most=4.0, kept=10):
        return judge(limit(most, 5, kept=kept), before, w_event("x", epsilon, 9, 1), 0)

    a, b, c = w_event("a", 1.0, 9, 1, 100), w_event("b", 2.0, 9, 1, 50), w_event("c", 1.0, 9, 1)
    assert asked(2.0, a, b, c).frees_ms == 50 + 15
    assert asked(3.0, a, b, c).frees_ms == 100 + 15
    assert asked(3.0, a, b, c).arithmetic.endswith(
        "3 too much; room for it: after 1970-01-01T00:00:00.115000Z"
    )
    assert asked(3.1, a, b, c).arithmetic.endswith("never, as long as nothing more is retired")
    assert asked(4.1, a, b, c).arithmetic.endswith(
        "never, since the request alone is more than the limit"
    )
    assert asked(3.0, a, b, c, kept=None).arithmetic.endswith(
        "how long the raw topic keeps values (kept): a topology that begins reads them all"
    )
    assert asked(1.0, b, c).left == (0, 0)


WEEK = 7 * 86_400_000


def test_a_week_is_more_than_a_window_of_seven_days():
    """It touches eight; and both cures are said."""
    asked = judge(limit(1.0, WEEK), [], w_event("x", 1.0, 7, 86_400_000), 0)
    assert asked.arithmetic.endswith(
        "1 too much; room for it: never, since the request alone is more than the limit. A run of"
        " 7d touches 8 slots of 1d, nothing lines it up with them, and there is room for 1 window"
        " of 7 slots: set limit.window to 6d, or privacy.window of x to 8 (with a new name, if it"
        " has run)"
    )


@given(st.integers(1, 40), st.integers(1, 5), st.integers(1, 6), st.integers(0, 6))
def test_each_cure_is_one(run, slot, window, others):
    """What is said to be allowed is, and nothing longer or smaller; where nothing helps, nothing is
    said.
    """
    before = [w_event("a", others / 2, 10**6, 10**6)] if others else []

    def asked(run, window):
        return judge(limit(3.0, run), before, w_event("x", 1.0, window, slot), 0)

    refused = asked(run, window)
    found = re.search(
        r"set (?:limit\.window to (\d+)ms, or )?privacy\.window of x to (\d+) ", refused.arithmetic
    )
    if refused.allowed or found is None:
        assert refused.allowed or not asked(1, 10**6).allowed
        return
    shorter, larger = int(found[1] or 0), int(found[2])
    assert not shorter or asked(shorter, window).allowed
    assert not asked(shorter + 1, window).allowed
    assert asked(run, larger).allowed and not asked(run, larger - 1).allowed


def test_as_json():
    """Plain data, with the same numbers."""
    found = judge(
        limit(2.0, 5, kept=10), [w_event("a", 1.5, 9, 1, 0)], w_event("x", 1.0, 9, 1), 0
    ).as_json()
    assert (
        found.items()
        >= {
            "run_ms": 5,
            "left": None,
            "allowed": False,
            "frees": "1970-01-01T00:00:00.015000Z",
        }.items()
    )
    assert (found["by"], found["requested"]) == (
        {"a": {"epsilon": 1.5, "delta": 0.0}},
        {"epsilon": 1.0, "delta": 0.0},
    )
