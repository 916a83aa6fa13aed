"""What is tried of somebody else's mechanism or method before a topology runs it: the checks that
take a moment, with the topology's own parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ldp_kafka.checks.delay.trial import DelayTrial
from ldp_kafka.checks.failure import run_all
from ldp_kafka.checks.mechanism import MECHANISM_CHECKS
from ldp_kafka.checks.method.trial import MethodTrial, Trial
from ldp_kafka.checks.methods import METHOD_CHECKS
from ldp_kafka.checks.trial import MechanismTrial

__all__ = ["try_mechanism", "try_method"]

OF_MECHANISMS = (
    "has_every_member",
    "law_is_exact",
    "sampler_follows_law",
    "certificate_is_true",
    "reports_are_float_safe",
    "randomness_has_one_door",
    "bad_values_are_refused",
    "tables_tell_mechanisms_apart",
)
OF_METHODS = ("release_is_step", "noise_is_keyed", "slots_must_increase", "values_are_checked")
OF_SHORT = ("loss_within_epsilon", "one_context_one_input")  # by enumeration, of short streams
SHORT, FEW = 4, 2**17  # slots; reports that the sampler is tried on


def try_mechanism(factory: Callable[[float], Any], epsilon: float) -> None:
    """The certificate is at most epsilon, reports follow the law and lie on their grid, seeds
    repeat, and what is refused is not shown. CheckFailure otherwise.
    """
    checks = {name: MECHANISM_CHECKS[name] for name in OF_MECHANISMS}
    trial = MechanismTrial(factory, epsilon, FEW)
    run_all({"has_every_member": checks["has_every_member"]}, trial)
    run_all(checks, trial)


def try_method(make: Callable[..., Any], window: int, *, own_noise: bool) -> None:
    """Two folds of one stream release the same, whatever is in a batch; short streams lose no more
    than epsilon, where the method reports slot by slot. CheckFailure otherwise.

    Parameters
    ----------
    make : as `ldp_kafka.checks.check_method` takes it
    """
    trial: Trial = DelayTrial(make) if own_noise else MethodTrial(make, window, SHORT)
    names = OF_METHODS if own_noise else OF_METHODS + OF_SHORT
    run_all({name: METHOD_CHECKS[name] for name in names}, trial)
