"""The checks that every one-value mechanism must pass.

They rest on ``law(value)``, the exact distribution of a report. Privacy, bias and error are algebra
on it; a statistical test with a fixed false-alarm rate ties ``perturb`` to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ldp_kafka.checks.failure import Told, run_all
from ldp_kafka.checks.mechanism.certificate import certificate_is_true, law_is_exact
from ldp_kafka.checks.mechanism.estimates import (
    error_is_stated,
    estimator_is_unbiased,
    support_is_additive,
)
from ldp_kafka.checks.mechanism.members import has_every_member, tables_tell_mechanisms_apart
from ldp_kafka.checks.mechanism.randomness import (
    noise_is_its_own,
    pieces_do_not_matter,
    randomness_has_one_door,
)
from ldp_kafka.checks.mechanism.refusals import bad_epsilon_is_refused, bad_values_are_refused
from ldp_kafka.checks.mechanism.reports import reports_are_float_safe, sampler_follows_law
from ldp_kafka.checks.trial import MechanismTrial

__all__ = ["MECHANISM_CHECKS", "MechanismTrial", "check_mechanism"]


def check_mechanism(
    factory: Callable[[Any], Any],
    *,
    epsilon: float = 1.0,
    inputs: Sequence[Any] | None = None,
    samples: int | None = None,
    told: Told | None = None,
) -> None:
    """Run every check of `MECHANISM_CHECKS`. What the members must do is in the docstring of
    `ldp_kafka.Mechanism`; a whole example in that of `ldp_kafka.checks`.

    A mechanism of numbers has ``domain`` (lo, hi), one of categories has ``categories`` (int)
    instead. Either has ``epsilon``, ``scale``, ``index_range``, ``perturb``, ``law``,
    ``certificate``, ``support``, ``estimate``, ``estimate_support`` and ``tables``. Where one is
    missing nothing else is tried, and the failure says what. Two more are optional: ``width``,
    above 0 where reports are packed bits, and ``hides_spread``, True where reports cannot tell how
    far the values behind them lie apart.

    Parameters
    ----------
    factory : epsilon -> Mechanism, anything else fixed. It must refuse what is no positive finite
        number with a ValueError or TypeError
    epsilon : the one it is tested at, nats
    inputs : values to probe with; they should include a pair at which the certificate's ratio is
        nearly reached. Default: a spread that does for monotone laws
    samples : reports a probe for the test of the sampler. Default: 10 million, or what can be drawn
        and counted in a second, but not fewer than 2**19
    told : called after each check with its name and, where it failed, the reason

    Raises
    ------
    CheckFailure : with the names of all the checks that failed in ``checks``

    Notes
    -----
    The sampler's test accuses a true mechanism once in a million runs. In 10 million reports it
    finds what is 3 % off, more or less, with probability above 1 - 1e-9 where that has a
    probability of 0.016 or more (outputs of equal weight count together); in 2**19 reports, of a
    quarter or more. Everything else is algebra on ``law``.
    """
    trial = MechanismTrial(factory, epsilon, samples, inputs)
    # without one, the others could only stumble
    run_all({"has_every_member": has_every_member}, trial)
    run_all(MECHANISM_CHECKS, trial, told)


MECHANISM_CHECKS: dict[str, Callable[[MechanismTrial], None]] = {
    "has_every_member": has_every_member,
    "law_is_exact": law_is_exact,
    "certificate_is_true": certificate_is_true,
    "sampler_follows_law": sampler_follows_law,
    "reports_are_float_safe": reports_are_float_safe,
    "randomness_has_one_door": randomness_has_one_door,
    "pieces_do_not_matter": pieces_do_not_matter,
    "noise_is_its_own": noise_is_its_own,
    "estimator_is_unbiased": estimator_is_unbiased,
    "error_is_stated": error_is_stated,
    "support_is_additive": support_is_additive,
    "bad_values_are_refused": bad_values_are_refused,
    "bad_epsilon_is_refused": bad_epsilon_is_refused,
    "tables_tell_mechanisms_apart": tables_tell_mechanisms_apart,
}
