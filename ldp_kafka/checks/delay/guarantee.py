"""The checks of a delay method's guarantee, against the exact law of all that it draws."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting.words import at_most
from ldp_kafka.checks.delay.trial import DelayTrial
from ldp_kafka.checks.failure import require

__all__ = [
    "guarantee_is_true",
    "influence_is_true",
    "input_reaches_output",
    "loss_within_epsilon",
    "moves_are_as_proved",
    "one_context_one_input",
    "parts_keep_their_shares",
    "released_follows_from_draws",
]

SLACK = 1e-9  # of chances in floating point


def loss_within_epsilon(trial: DelayTrial) -> None:
    """No outcome is more than e^epsilon times likelier under one stream than under a neighbour."""
    worst = max(outcomes.loss() for outcomes in trial.outcomes)
    require(
        worst <= trial.method.epsilon + SLACK,
        "the exact loss over neighbouring streams must not exceed epsilon (it is"
        f" {at_most(worst)})",
    )


def parts_keep_their_shares(trial: DelayTrial) -> None:
    """Groups, orders and buckets lose no more than their share of epsilon, and noisy sums no more
    than the rest: each step's proof by itself.
    """
    shape, values = trial.method.parts
    for outcomes in trial.outcomes:
        answers, sums = outcomes.answers_loss(), outcomes.sums_loss()
        require(
            answers <= shape + SLACK,
            "answers must not lose more than their share of epsilon (they lose"
            f" {at_most(answers)})",
        )
        require(
            sums <= values + SLACK,
            f"noisy sums must not lose more than the rest of epsilon (they lose {at_most(sums)})",
        )


def moves_are_as_proved(trial: DelayTrial) -> None:
    """One changed value moves nothing further than the part that it is given to was made for, of
    one outcome: what the proofs of the parts begin with.
    """
    for outcomes in trial.outcomes:
        compared, summed = outcomes.moves()
        for name in ("test", "vector", "choice"):
            part = getattr(outcomes.method, name, None)
            require(
                part is None or compared <= part.reach,
                "a changed value must not move a compared number by more than its part's reach",
            )
        choice = getattr(outcomes.method, "choice", None)
        require(
            choice is None or not choice.monotone or outcomes.one_way(),
            "a changed value must move all scores of a monotone choice the same way",
        )
        require(
            all(
                moved <= getattr(outcomes.method, name).reach
                for name, moved in zip(outcomes.parts, summed, strict=True)
            ),
            "a changed value must not move a sum by more than its part's reach",
        )


def guarantee_is_true(trial: DelayTrial) -> None:
    """The guarantee states level, calibration and an epsilon that the exact loss keeps; sound
    calibration promises what was asked for.
    """
    stated, window = trial.method.guarantee, trial.method.window
    require(
        (stated.level, stated.window) == ("event" if window == 1 else "w-event", window),
        "the guarantee must be about the slots of one window",
    )
    require(
        (stated.protects, stated.subject) == ("values", "stream"),
        "the guarantee must be about the values of a stream",
    )
    require(
        stated.calibration == trial.method.calibration, "the guarantee must state the calibration"
    )
    worst = max(outcomes.loss() for outcomes in trial.outcomes)
    require(
        worst <= stated.epsilon + SLACK,
        "the exact loss must not exceed the guarantee's epsilon",
    )
    require(
        stated.calibration != "sound" or stated.epsilon <= trial.method.epsilon,
        "a sound method must guarantee the epsilon it was given",
    )


def influence_is_true(trial: DelayTrial) -> None:
    """A window of changed values reaches no more draws than ``influence``."""
    for outcomes in trial.outcomes:
        require(
            outcomes.reached() <= trial.method.influence,
            "changed values must not reach more draws than the influence says",
        )


def input_reaches_output(trial: DelayTrial) -> None:
    """The draws depend on the values at all: a tenth of epsilon is lost at least."""
    worst = max(outcomes.loss() for outcomes in trial.outcomes)
    require(worst >= 0.1 * trial.method.epsilon, "some value must show in some draw")


def released_follows_from_draws(trial: DelayTrial) -> None:
    """Neighbours with the same answers and the same noisy sums release the same."""
    require(
        all(outcomes.follows for outcomes in trial.outcomes),
        "all that is released must follow from answers, noisy sums and public parameters",
    )


def one_context_one_input(trial: DelayTrial) -> None:
    """Noise is bound to the input: no two draws of one part have one context and different
    inputs, and no stream draws twice under one slot and phase.
    """
    for outcomes in trial.outcomes:
        drawn: dict[int, list[NDArray[np.int64]]] = {}
        seen: dict[tuple[str, int, int], list[NDArray[np.int64]]] = {}
        for asked in outcomes.asked:
            drawn.setdefault(asked.phase, []).append(np.column_stack([asked.rows, asked.slots]))
            given = asked.inputs.reshape(len(asked.rows), -1)
            both = np.column_stack([given, asked.slots, asked.bound])
            key = (asked.part, asked.phase, given.shape[1])
            seen.setdefault(key, []).append(both)
        for parts in drawn.values():
            every = np.concatenate(parts)
            require(
                len(_distinct(every)) == len(every),
                "a stream's draws in one slot must differ in phase",
            )
        for (_, _, width), tables in seen.items():
            table = _distinct(np.concatenate(tables))
            require(
                len(_distinct(table[:, width:])) == len(table),
                "noise must be bound to a part's input: one context had several",
            )


def _distinct(table: NDArray[np.int64]) -> NDArray[np.int64]:
    """The different rows: ten times as fast as numpy's unique over an axis."""
    ordered = table[np.lexsort(table.T)]
    new = np.ones(len(ordered), np.bool_)
    new[1:] = (ordered[1:] != ordered[:-1]).any(1)
    return ordered[new]
