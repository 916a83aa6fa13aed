"""Every streaming method against the contract."""

from __future__ import annotations

import itertools

import pytest

import ldp_kafka as lk
from ldp_kafka.checks import CheckFailure, worst_loss
from ldp_kafka.checks.failure import run_all
from ldp_kafka.checks.method.trial import MethodTrial
from ldp_kafka.checks.methods import METHOD_CHECKS
from ldp_kafka.checks.methods import fit as method_checks
from tests.cases import cases
from tests.depth import depth
from tests.specimens import PUBLISHED as FINITE
from tests.specimens import STREAM_METHODS as SPECIMENS
from tests.specimens import UNIT, WINDOWS, method

LIFE = (
    "its neighbours are whole streams and its noise may be normal: tests/methods holds it to checks"
    " of its own"
)
EXCLUSIONS: dict[str, str] = {
    name: LIFE for name, kind in lk.METHODS.items() if kind.level == "user"
}
_TIME = (
    "it hides when a value was taken, not what it is: its neighbours hold the same values;"
    " tests/methods has its checks"
)
EXCLUSIONS |= {"etm": _TIME, "sppa": _TIME, "swp": _TIME}
EXCLUSIONS["matrix"] = "its noise is normal: tests/methods/delay/test_matrix.py has its checks"
EXCLUSIONS |= {
    name: "its neighbours differ in one value and it releases windows: test_delay.py has its checks"
    for name, kind in lk.METHODS.items()
    if issubclass(kind, lk.DelayMethod)
}


def maker(name, window, **parameters):
    """mechanism factory -> method."""
    return lambda mechanism: method(name, mechanism, window=window, **parameters)


def windows_of(name, parameters):
    """All of them, but for what is looked at once beside the long run: other domains than the unit
    interval, and budget_split, whose exact loss tests/methods/test_split.py has at each.
    """
    elsewhere = name == "budget_split" or parameters.get("domain", (0.0, 1.0)) != (0.0, 1.0)
    return depth((2,), WINDOWS) if elsewhere else WINDOWS


TRIALS = [
    pytest.param(
        MethodTrial(maker(name, window, **parameters), window, **how),
        id=f"{name}-{parameters}-w{window}",
    )
    for name, shapes in SPECIMENS.items()
    for parameters, how in shapes
    for window in windows_of(name, parameters)
]


UNFIT = {
    (
        "ba_sw",
        "ledger_holds",
    ): "its reports have several prices: tests/methods/test_absorption.py looks at its ledger",
    ("ba_sw", "influence_is_true"): "two draws a slot: influence counts slots",
}
# what the window decides; the others look at one window, and at all of them in the long run
OF_WINDOWS = {
    "loss_within_epsilon",
    "guarantee_is_true",
    "input_reaches_output",
    "influence_is_true",
    "one_context_one_input",
    "ledger_holds",
}
ENUMERATED = {
    "loss_within_epsilon",
    "guarantee_is_true",
    "input_reaches_output",
    "influence_is_true",
    "one_context_one_input",
}


def fit(trial, *, enumerated):
    """The checks that are for it; either those that rest on all outcomes or the others."""
    return {
        name: check
        for name, check in method_checks(trial).items()
        if (name in ENUMERATED) == enumerated
        and (trial.small.name, name) not in UNFIT
        and (name in OF_WINDOWS or trial.window in depth((2,), WINDOWS))
    }


@pytest.mark.parametrize("trial", TRIALS)
def test_contract_of_all_outcomes(trial):
    """What was enumerated is let go afterwards, since all of it together fills gigabytes."""
    try:
        run_all(fit(trial, enumerated=True), trial)
    finally:
        for name in ("outcomes", "worst"):
            trial.__dict__.pop(name, None)


@pytest.mark.parametrize("trial", TRIALS)
def test_contract(trial):
    """The checks that enumerate nothing, or little of their own."""
    run_all(fit(trial, enumerated=False), trial)


def test_every_method_is_a_specimen():
    """A new method is under contract, or excluded for a reason."""
    assert set(lk.METHODS) == SPECIMENS.keys() | EXCLUSIONS.keys()
    assert not SPECIMENS.keys() & EXCLUSIONS.keys()
    assert all(EXCLUSIONS.values())


@cases("window", WINDOWS)
@cases(("name", "parameters"), [("sw_direct", UNIT), ("lpu", {"categories": 2})])
def test_without_memory_the_budget_is_spent_to_the_last_micro(name, parameters, window):
    """The guarantee is not only kept but tight."""
    assert 1 - 3e-6 <= worst_loss(maker(name, window, **parameters), window) <= 1 + 1e-9


@pytest.mark.parametrize("block", [1, 2, 3])
@cases("window", WINDOWS)
def test_capp_needs_its_influence(block, window):
    """With room for the last block after the window, the sound budget is spent to the last micro
    (but for what clipping hides): nothing less than window + block - 1 would be sound.
    """
    trial = MethodTrial(maker("capp", window, block=block, **UNIT), window, length=6)
    assert 0.96 <= trial.worst <= 1 + 1e-9
    assert max(outcomes.reached(window) for outcomes in trial.outcomes) == window + block - 1


@pytest.mark.parametrize("window", WINDOWS)
def test_published_capp_is_caught(window):
    """Theorem 3 of the CAPP paper fails for streams longer than the window, and the guarantee says
    so.
    """
    make = maker("capp", window, calibration="published", **UNIT)
    trial = MethodTrial(make, window)
    assert trial.worst > 1.1
    with pytest.raises(CheckFailure, match="exact loss"):
        METHOD_CHECKS["loss_within_epsilon"](trial)
    assert trial.small.guarantee.epsilon == float("inf")
    for name in method_checks(trial).keys() - {"loss_within_epsilon"}:
        METHOD_CHECKS[name](trial)


@pytest.mark.parametrize("name", FINITE)
@cases("window", [1, 2])
def test_what_published_spending_truly_loses_is_stated(name, window):
    """And no more than twice as much is stated: more would be a guarantee that says nothing."""
    parameters, how = FINITE[name]
    trial = MethodTrial(maker(name, window, calibration="published", **parameters), window, **how)
    METHOD_CHECKS["guarantee_is_true"](trial)
    assert trial.small.guarantee.epsilon <= 2 * trial.worst


def test_every_published_method_states_its_loss():
    """A new method is among those that are enumerated, or has no guarantee there."""
    for name in SPECIMENS.keys() - FINITE.keys():
        parameters, _ = SPECIMENS[name][0]
        assert MethodTrial(
            maker(name, 2, calibration="published", **parameters), 2
        ).real().guarantee.epsilon == float("inf"), name


def test_published_capp_loses_more_the_longer_the_stream():
    """The deviation never forgets: at window 1 each slot adds to the loss."""
    losses = [
        worst_loss(maker("capp", 1, calibration="published", **UNIT), 1, length)
        for length in (1, 2, 3, 4, 5)
    ]
    assert all(later > earlier + 0.3 for earlier, later in itertools.pairwise(losses))
