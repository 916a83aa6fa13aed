"""The contract of any streaming method: one that reports slot by slot, or that releases windows.

It rests on exact enumeration. Methods that report slot by slot run over a mechanism of a few
outputs (`ldp_kafka.checks.enumeration`), methods of windows with each of their noise sources
replaced (`ldp_kafka.checks.delay.outcomes`). So the law of all draws of a short stream is known,
and the guarantee is compared with an exact loss and not with samples. There are two such
replacements, since the first stands for one mechanism that a method is given, the other for the
five kinds of parts that a method of windows makes for itself. The rest of the contract runs over
the real method with keyed noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any

from ldp_kafka.checks.delay.guarantee import (
    moves_are_as_proved,
    parts_keep_their_shares,
    released_follows_from_draws,
)
from ldp_kafka.checks.delay.refusals import no_stream_is_left_waiting
from ldp_kafka.checks.delay.releases import (
    every_slot_is_released_once,
    nothing_after_the_window_matters,
)
from ldp_kafka.checks.delay.trial import DelayTrial
from ldp_kafka.checks.failure import Told, run_all
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
from ldp_kafka.checks.method.trial import MethodTrial, Trial

__all__ = ["METHOD_CHECKS", "check_method", "fit"]

ALPHABET = (0.0, 0.5, 1.0)
BY_PLACE = (
    Parameter.POSITIONAL_ONLY,
    Parameter.POSITIONAL_OR_KEYWORD,
    Parameter.VAR_POSITIONAL,
)
METHOD_CHECKS: dict[str, Callable[[Any], None]] = {
    check.__name__: check
    for check in (
        loss_within_epsilon,
        parts_keep_their_shares,
        moves_are_as_proved,
        guarantee_is_true,
        input_reaches_output,
        influence_is_true,
        released_follows_from_draws,
        one_context_one_input,
        every_slot_is_released_once,
        nothing_after_the_window_matters,
        release_is_step,
        users_are_apart,
        noise_is_keyed,
        noise_is_its_own,
        ledger_holds,
        own_reports_are_allowed,
        slots_must_increase,
        no_stream_is_left_waiting,
        values_are_checked,
    )
}
"""All checks, each of which a kind of method may be excused from: `Trial.unfit` says why."""


def fit(kind: Trial | type[Trial]) -> Mapping[str, Callable[[Any], None]]:
    """The checks that are for a kind of method."""
    return {name: check for name, check in METHOD_CHECKS.items() if name not in kind.unfit}


def check_method(
    make: Callable[..., Any],
    window: int = 1,
    *,
    length: int | None = None,
    alphabet: Sequence[Any] | None = None,
    draws: int | None = None,
    told: Told | None = None,
) -> None:
    """Run every check of `METHOD_CHECKS` that is for a method of its kind.

    Parameters
    ----------
    make : mechanism factory -> a fresh method, its own parameters fixed; without an argument for a
        method with noise of its own (`Method.own_noise`)
    window : slots in its privacy window; a method with noise of its own says it itself
    length : slots of the streams that are enumerated. Give more than the window and what the
        method remembers after it. Default: 5, or the window and 1; 5 with noise of its own
    alphabet : values of those streams; default: the ends of the domain, or all categories (few); of
        windows shares of the domain, 0, 1/2 and 1
    draws : the most draws of one stream; default: one a slot; of windows see `DelayTrial`
    told : called after each check with its name and, where it failed, the reason

    Raises
    ------
    CheckFailure : with the names of all the checks that failed in ``checks``
    TypeError : ``make`` takes no mechanism, and its method draws through one
    ValueError : ``length`` is not above the window of a method that takes a mechanism

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> settings = {"epsilon": 1.0, "delay": 2, "domain": (0.0, 1.0)}
    >>> check_method(lambda: lk.method("naive", **settings), length=3)
    """
    trial: Trial
    if any(each.kind in BY_PLACE for each in signature(make).parameters.values()):
        trial = MethodTrial(make, window, slots := length or max(5, window + 1), alphabet, draws)
        if slots <= window:
            raise ValueError("length must be above the window: else no report is outside of it")
    else:
        if not (made := make()).own_noise:
            raise TypeError(f"make must take a mechanism factory: {made.name} draws through one")
        trial = DelayTrial(make, length or 5, alphabet or ALPHABET, draws)
    run_all(fit(trial), trial, told)
