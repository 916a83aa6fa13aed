"""The checks of a method's guarantee against the exact law of all that it publishes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting.words import at_most
from ldp_kafka.checks.failure import require
from ldp_kafka.checks.method.trial import MethodTrial

__all__ = [
    "SLACK",
    "guarantee_is_true",
    "influence_is_true",
    "input_reaches_output",
    "loss_within_epsilon",
    "one_context_one_input",
]

SLACK = 1e-9  # of probabilities in floating point


def loss_within_epsilon(trial: MethodTrial) -> None:
    """No outcome is more than e^epsilon times likelier under one stream than under a neighbour, and
    all that is published follows from the mechanism's outputs.
    """
    require(
        trial.worst <= trial.small.epsilon + SLACK,
        "the exact loss over neighbouring streams must not exceed epsilon (it is"
        f" {at_most(trial.worst)})",
    )


def guarantee_is_true(trial: MethodTrial) -> None:
    """The guarantee states window, calibration and an epsilon that the exact loss keeps; sound
    calibration promises what was asked for.
    """
    method = trial.real()
    stated = method.guarantee
    require(stated.window == trial.window, "the guarantee must state the window")
    require(stated.calibration == method.calibration, "the guarantee must state the calibration")
    require(
        trial.worst <= stated.epsilon + SLACK,
        "the exact loss must not exceed the guarantee's epsilon",
    )
    require(
        stated.calibration != "sound" or stated.epsilon <= method.epsilon,
        "a sound method must guarantee the epsilon it was given",
    )


def input_reaches_output(trial: MethodTrial) -> None:
    """The reports depend on the values at all: a tenth of one report's budget is lost at least."""
    method = trial.real()
    require(trial.worst >= 0.1 * method.spend / 1e6, "some input must show in some output")


def influence_is_true(trial: MethodTrial) -> None:
    """No more reports than ``influence`` change their law, given the reports before them, when
    values change inside one window.
    """
    stated = trial.real().guarantee.influence
    for outcomes in trial.outcomes:
        require(
            outcomes.reached(trial.window) <= stated,
            "a window of changed values must not reach more reports than the influence says",
        )


def one_context_one_input(trial: MethodTrial) -> None:
    """Noise is bound to the input: no two draws of a user have one context and different inputs,
    and no user draws twice from one slot and phase.
    """
    for outcomes in trial.outcomes:
        seen: dict[tuple[int, int], list[tuple[NDArray[np.int64], NDArray[Any]]]] = {}
        drawn: dict[tuple[int, int], list[NDArray[np.intp]]] = {}
        for draw in outcomes.draws:
            seen.setdefault((draw.slot, draw.phase), []).append((draw.bound, draw.inputs))
            drawn.setdefault((draw.slot, draw.phase), []).append(draw.rows)
        for rows in drawn.values():
            every = np.concatenate(rows)
            require(
                np.bincount(every).max(initial=0) <= 1,
                "a user's draws in one slot must differ in phase",
            )
        for parts in seen.values():
            bound, inputs = (
                np.concatenate([b for b, _ in parts]),
                np.concatenate([x for _, x in parts]),
            )
            both = np.column_stack([bound, np.asarray(inputs, np.float64).view(np.int64)])
            require(
                _distinct(bound) == _distinct(both),
                "noise must be bound to the mechanism's input: one context had several",
            )


def _distinct(table: NDArray[np.int64]) -> int:
    """Number of different rows."""
    if not table.shape[1]:
        return 1
    ordered = table[np.lexsort(table.T)]
    return 1 + int((ordered[1:] != ordered[:-1]).any(1).sum())
