"""That a twin is found by the check that is meant for it."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ldp_kafka import Client
from ldp_kafka.accounting import Ledger
from ldp_kafka.checks import CheckFailure
from ldp_kafka.checks.client import CLIENT_CHECKS, ClientTrial
from ldp_kafka.checks.delay.trial import DelayTrial
from ldp_kafka.checks.failure import run_all
from ldp_kafka.checks.mechanism import MECHANISM_CHECKS, MechanismTrial
from ldp_kafka.checks.method.trial import MethodTrial
from ldp_kafka.checks.methods import fit
from ldp_kafka.checks.trial import SAMPLES
from ldp_kafka.methods import DelayMethod, Matrix
from ldp_kafka.methods.base import Method
from ldp_kafka.methods.user_level import UserLevel
from tests import mutants, specimens
from tests.accounting.orders import LEDGER_CHECKS
from tests.contract.approximate import APPROXIMATE, VECTORS
from tests.depth import LONG
from tests.methods.lifelong import LIFE_CHECKS, Life
from tests.methods.matrices import MATRIX_CHECKS, Sums

__all__ = ["CONTRACTS", "found", "twins"]

for _room in pkgutil.iter_modules(mutants.__path__, "tests.mutants."):
    if _room.name != __name__:
        import_module(_room.name)

TRIED = {"length", "draws", "alphabet"}
"""Settings that say how a method is tried; the others say how it is built."""


class Contract(NamedTuple):
    """Of a kind of thing: its checks, and what they look at of a twin, one after the other until
    one is found out.
    """

    checks: Mapping[str, Callable[[Any], None]]
    trials: Callable[..., list[Any]]


def mechanism_trials(kind):
    """Few reports do for what is algebra on its law, and for what is far from it."""
    return [MechanismTrial(kind, 1.0, samples) for samples in (2**14, 2**17, SAMPLES)]


def method_trials(kind, **settings):
    """Built with the first of the specimens."""
    built, tried = specimens.STREAM_METHODS[kind.name][0]
    given = {"window": 2, **built, **tried, **settings}
    how = {name: given.pop(name) for name in TRIED & given.keys()}
    return [
        MethodTrial(
            lambda mechanism: specimens.method(kind, mechanism, **given), given["window"], **how
        )
    ]


def delay_trials(kind, **settings):
    """With a delay of three slots where the twin has no other."""
    given = {"epsilon": 1.0, **specimens.UNIT, "delay": 3, **settings}
    return [DelayTrial(lambda: kind(**given), alphabet=(0.0, 0.5, 1.0), length=4)]


def matrix_trials(kind, **settings):
    """Of running sums."""
    given = {"epsilon": 1.0, "delta": 1e-5, "bands": 3, **specimens.UNIT, **settings}
    return [Sums(lambda **others: kind(**given | others))]


def life_trials(kind, mechanism="gaussian", **settings):
    """Of twelve reports."""
    normal = {"epsilon": 1.0, "delta": 1e-5} if mechanism == "gaussian" else {}
    given = {**specimens.UNIT, "horizon": 12, **normal, **settings}
    return [Life(lambda factory: kind(mechanism=factory, **given), mechanism)]


def client_trials(kind):
    """Each check makes a folder of its own."""
    return [ClientTrial(kind, Path("nowhere"))]


def ledger_trials(kind):
    """Where the lag makes room for a fault."""
    return [kind(run, 2, lag) for run, lag in ((3, 2), (2, 3))]


CONTRACTS = {
    Client: Contract(CLIENT_CHECKS, client_trials),
    Ledger: Contract(LEDGER_CHECKS, ledger_trials),
    UserLevel: Contract(LIFE_CHECKS, life_trials),
    Matrix: Contract(MATRIX_CHECKS, matrix_trials),
    DelayMethod: Contract(fit(DelayTrial), delay_trials),
    Method: Contract(fit(MethodTrial), method_trials),
    object: Contract({**MECHANISM_CHECKS, **APPROXIMATE, **VECTORS}, mechanism_trials),
}
"""By the class that all of a kind derive from."""


def contract_of(kind):
    return next(CONTRACTS[base] for base in kind.__mro__ if base in CONTRACTS)


def twins(of):
    """Those of a kind."""
    return [twin for twin in mutants.TWINS.values() if contract_of(twin.of) is CONTRACTS[of]]


def found(twin):
    """It is refused, by the check that it breaks and by what that looks at: it does not just break
    down. In the long run the whole contract looks at it.
    """
    checks, trials = contract_of(twin.of)
    settings = dict(twin.settings)
    error, refused = settings.pop("error", CheckFailure), False
    for trial in trials(twin.kind, **settings):
        with suppress(error):
            checks[twin.check](trial)
            continue
        refused = True
        break
    assert refused, f"{twin.check} does not find {twin.kind}"
    if LONG:
        with pytest.raises(CheckFailure) as caught:
            run_all(checks, trial)
        assert twin.check in caught.value.checks
