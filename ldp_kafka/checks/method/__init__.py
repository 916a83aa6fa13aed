"""The checks that every streaming method must pass.

They rest on exact enumeration (`ldp_kafka.checks.enumeration`): over a mechanism of three outputs
the law of everything that a short stream publishes is known, so the guarantee is compared with the
true loss and not with samples. The rest of the contract runs over the real mechanism with keyed
noise.
"""

from __future__ import annotations

from collections.abc import Callable

from ldp_kafka.checks.method.guarantee import (
    guarantee_is_true,
    influence_is_true,
    input_reaches_output,
    loss_within_epsilon,
    one_context_one_input,
)
from ldp_kafka.checks.method.ledger import ledger_holds, own_reports_are_allowed
from ldp_kafka.checks.method.refusals import slots_must_increase, values_are_checked
from ldp_kafka.checks.method.releases import (
    noise_is_its_own,
    noise_is_keyed,
    release_is_step,
    users_are_apart,
)
from ldp_kafka.checks.method.trial import MethodTrial

__all__ = ["METHOD_CHECKS", "MethodTrial"]


METHOD_CHECKS: dict[str, Callable[[MethodTrial], None]] = {
    "loss_within_epsilon": loss_within_epsilon,
    "guarantee_is_true": guarantee_is_true,
    "input_reaches_output": input_reaches_output,
    "influence_is_true": influence_is_true,
    "one_context_one_input": one_context_one_input,
    "release_is_step": release_is_step,
    "users_are_apart": users_are_apart,
    "noise_is_keyed": noise_is_keyed,
    "noise_is_its_own": noise_is_its_own,
    "ledger_holds": ledger_holds,
    "own_reports_are_allowed": own_reports_are_allowed,
    "slots_must_increase": slots_must_increase,
    "values_are_checked": values_are_checked,
}
