"""The checks of the steps in the proof of a method that releases windows, against the exact law of
all that it draws.
"""

from __future__ import annotations

from math import inf
from operator import attrgetter

from ldp_kafka.accounting.words import at_most
from ldp_kafka.checks.delay.trial import DelayTrial
from ldp_kafka.checks.failure import require
from ldp_kafka.checks.method.guarantee import SLACK

__all__ = [
    "moves_are_as_proved",
    "parts_keep_their_shares",
    "released_follows_from_draws",
]


def parts_keep_their_shares(trial: DelayTrial) -> None:
    """Groups, orders and buckets lose no more than their share of epsilon, and noisy sums no more
    than the rest: each step's proof by itself.
    """
    shape, values = trial.small.parts
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
        given, summed = outcomes.moves()
        for name, moved in given.items():
            part = attrgetter(name)(outcomes.method)
            require(
                moved <= getattr(part, "reach", inf),
                "a changed value must not move a compared number by more than its part's reach",
            )
            require(
                not getattr(part, "monotone", False) or outcomes.one_way(name),
                "a changed value must move all scores of a monotone choice the same way",
            )
        require(
            all(
                moved <= attrgetter(name)(outcomes.method).reach
                for name, moved in zip(outcomes.parts, summed, strict=True)
            ),
            "a changed value must not move a sum by more than its part's reach",
        )


def released_follows_from_draws(trial: DelayTrial) -> None:
    """Neighbours with the same answers and the same noisy sums release the same."""
    require(
        all(outcomes.follows for outcomes in trial.outcomes),
        "all that is released must follow from answers, noisy sums and public parameters",
    )
