"""The checks of what a mechanism refuses: values outside its law, and an epsilon that is none."""

from __future__ import annotations

from functools import partial
from math import inf, nan

import numpy as np

from ldp_kafka.checks.failure import refused, require
from ldp_kafka.checks.sources import LOUD
from ldp_kafka.checks.trial import MechanismTrial
from ldp_kafka.randomness import seeded, system

__all__ = ["bad_epsilon_is_refused", "bad_values_are_refused"]


def bad_values_are_refused(trial: MechanismTrial) -> None:
    """NaN and infinities, or what is no category, is refused by perturb and law without being
    shown; numbers outside the domain are clamped.
    """
    m = trial.mechanism
    if not trial.numeric:
        for bad in (-LOUD, -1, int(m.categories), LOUD):
            refused(
                partial(m.perturb, np.array([0, bad]), system()),
                "a number that is no category",
                hidden=[str(LOUD)],
            )
            refused(
                partial(m.law, bad), "the law of a number that is no category", hidden=[str(LOUD)]
            )
        refused(
            lambda: m.perturb(np.array([0.0, 1.0]), system()),
            "categories that are not whole numbers",
        )
        return
    lo, hi = m.domain
    inside = lo + 0.3141592653 * (hi - lo)
    for endless in (nan, inf, -inf):
        refused(
            partial(m.perturb, np.array([inside, endless]), system()),
            "a value that is not finite",
            hidden=[str(inside)[:8]],
        )
        refused(partial(m.law, endless), "the law of a value that is not finite")
    outside, ends = (
        np.array([lo - 3.0 * (hi - lo), hi + 5.0 * (hi - lo)] * 100),
        np.array([lo, hi] * 100),
    )
    require(
        np.array_equal(m.perturb(outside, seeded(3)), m.perturb(ends, seeded(3))),
        "values outside the domain must be clamped to it",
    )


def bad_epsilon_is_refused(trial: MechanismTrial) -> None:
    """Epsilon must be a positive finite number when the mechanism is built."""
    for bad in (0, -1.0, nan, inf, "1", None, True):
        refused(partial(trial.factory, bad), f"epsilon = {bad!r}")
