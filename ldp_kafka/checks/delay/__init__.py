"""The checks that every delay method must pass.

They rest on exact enumeration (`ldp_kafka.checks.delay.outcomes`): every answer that a short stream
can get is tried, with its exact chance, and the noise of every sum is compared as it is sampled. So
the guarantee is compared with the true loss and not with samples.
"""

from __future__ import annotations

from collections.abc import Callable

from ldp_kafka.checks.delay.guarantee import (
    guarantee_is_true,
    influence_is_true,
    input_reaches_output,
    loss_within_epsilon,
    moves_are_as_proved,
    one_context_one_input,
    parts_keep_their_shares,
    released_follows_from_draws,
)
from ldp_kafka.checks.delay.refusals import (
    no_stream_is_left_waiting,
    slots_must_increase,
    values_are_checked,
)
from ldp_kafka.checks.delay.releases import (
    every_slot_is_released_once,
    noise_is_its_own,
    noise_is_keyed,
    nothing_after_the_window_matters,
    release_is_step,
    streams_are_apart,
)
from ldp_kafka.checks.delay.trial import DelayTrial

__all__ = ["DELAY_CHECKS", "DelayTrial"]


DELAY_CHECKS: dict[str, Callable[[DelayTrial], None]] = {
    "loss_within_epsilon": loss_within_epsilon,
    "parts_keep_their_shares": parts_keep_their_shares,
    "moves_are_as_proved": moves_are_as_proved,
    "guarantee_is_true": guarantee_is_true,
    "influence_is_true": influence_is_true,
    "input_reaches_output": input_reaches_output,
    "released_follows_from_draws": released_follows_from_draws,
    "one_context_one_input": one_context_one_input,
    "every_slot_is_released_once": every_slot_is_released_once,
    "nothing_after_the_window_matters": nothing_after_the_window_matters,
    "release_is_step": release_is_step,
    "streams_are_apart": streams_are_apart,
    "noise_is_keyed": noise_is_keyed,
    "noise_is_its_own": noise_is_its_own,
    "slots_must_increase": slots_must_increase,
    "no_stream_is_left_waiting": no_stream_is_left_waiting,
    "values_are_checked": values_are_checked,
}
