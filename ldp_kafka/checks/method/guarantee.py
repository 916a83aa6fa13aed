"""The checks of a method's guarantee against the exact law of all that it publishes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import PRESENCE
from ldp_kafka.accounting.words import at_most
from ldp_kafka.checks.failure import require
from ldp_kafka.checks.method.trial import Trial

__all__ = [
    "SLACK",
    "guarantee_is_true",
    "influence_is_true",
    "input_reaches_output",
    "loss_within_epsilon",
    "one_context_one_input",
]

SLACK = 1e-9  # of probabilities in floating point


def loss_within_epsilon(trial: Trial) -> None:
    """No outcome is more than e^epsilon times likelier under one stream than under a neighbour, and
    all that is published follows from what was drawn.
    """
    require(
        trial.worst <= trial.small.epsilon + SLACK,
        "the exact loss over neighbouring streams must not exceed epsilon (it is"
        f" {at_most(trial.worst)})",
    )


def guarantee_is_true(trial: Trial) -> None:
    """The guarantee states level, window, calibration and an epsilon that the exact loss keeps;
    sound calibration promises what was asked for.
    """
    method = trial.real()
    stated = method.guarantee
    of_a_slot = method.level == "event" and trial.window == 1
    require(
        stated.level == ("event" if of_a_slot else "w-event"), "the guarantee must state the level"
    )
    require(stated.window == trial.window, "the guarantee must state the window")
    require(
        (stated.protects, stated.subject)
        == (
            PRESENCE if method.cover else "values",
            "stream" if method.level == "event" else "user",
        ),
        "the guarantee must be about the values of a user, or of a stream, and with cover about"
        " presence",
    )
    require(stated.calibration == method.calibration, "the guarantee must state the calibration")
    require(
        trial.worst <= stated.epsilon + SLACK,
        "the exact loss must not exceed the guarantee's epsilon",
    )
    require(
        stated.calibration != "sound" or stated.epsilon <= method.epsilon,
        "a sound method must guarantee the epsilon it was given",
    )


def input_reaches_output(trial: Trial) -> None:
    """The reports depend on the values at all: a tenth of one report's budget is lost at least."""
    require(trial.worst >= 0.1 * trial.real().price, "some input must show in some output")


def influence_is_true(trial: Trial) -> None:
    """No more draws than ``influence`` change their law, given those before them, when values
    change inside one window.
    """
    require(
        trial.reached <= trial.real().guarantee.influence,
        "a window of changed values must not reach more reports than the influence says",
    )


def one_context_one_input(trial: Trial) -> None:
    """Noise is bound to the input: no two draws of a user have one context and different inputs,
    and no user draws twice from one slot and phase.
    """
    for found in trial.drawn():
        together: dict[tuple[int, ...], list[NDArray[np.int64]]] = {}
        for each in found:
            together.setdefault(each.noise, []).append(each.users)
            tied = each.bound.shape[1]
            both = _distinct(np.column_stack([each.bound, each.inputs]))
            require(
                len(_distinct(both[:, :tied])) == len(both),
                "noise must be bound to what is perturbed: one context had several inputs",
            )
        for parts in together.values():
            every = np.concatenate(parts)
            require(
                len(_distinct(every)) == len(every),
                "a user's draws in one slot must differ in phase",
            )


def _distinct(table: NDArray[np.int64]) -> NDArray[np.int64]:
    """The different rows: ten times as fast as numpy's unique over an axis."""
    if not table.shape[1]:
        return table[:1]
    ordered = table[np.lexsort(table.T)]
    new = np.ones(len(ordered), np.bool_)
    new[1:] = (ordered[1:] != ordered[:-1]).any(1)
    return ordered[new]
