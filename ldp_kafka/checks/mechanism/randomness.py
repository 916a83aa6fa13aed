"""The checks of where a mechanism's randomness comes from, and to which report it goes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.checks.failure import CheckFailure, require
from ldp_kafka.checks.sources import KEY, Constant, Listener
from ldp_kafka.checks.trial import MechanismTrial
from ldp_kafka.mechanisms.base import CHUNK
from ldp_kafka.randomness import keyed, seeded, system

__all__ = ["noise_is_its_own", "pieces_do_not_matter", "randomness_has_one_door"]


def randomness_has_one_door(trial: MechanismTrial) -> None:
    """All that varies comes from the source: seeds repeat, equal words give equal reports, unbound
    keyed noise is refused, and what is asked of the source does not depend on the value.
    """
    m, values = trial.mechanism, trial.spread(2**15)
    first = m.perturb(values, seeded(7))
    require(
        np.array_equal(first, m.perturb(values, seeded(7))),
        "the same seed must give the same reports: some randomness does not come from the source",
    )
    # else two honest batches could be the same by chance
    if len(values) * min(1 - float((law.probabilities() ** 2).sum()) for law in trial.laws) > 100:
        require(
            not np.array_equal(first, m.perturb(values, seeded(8))),
            "different seeds must give different reports",
        )
        require(
            not np.array_equal(m.perturb(values, system()), m.perturb(values, system())),
            "system randomness must not repeat",
        )
    patterns = [(0,), (2**32 - 1,), (2**31,), (0x9E3779B9, 0x12345678, 0xDEADBEEF)]
    for value in trial.inputs:
        asked = []
        for pattern in patterns:
            source = Constant(pattern)
            reports = np.asarray(m.perturb(trial.column([value]).repeat(64), source)).reshape(
                64, -1
            )
            require(
                (reports == reports[0]).all(),
                "equal values with equal words must get equal reports: some randomness does not"
                " come from the source",
            )
            asked.append(source.asked)
        like = Constant((0,))
        m.perturb(trial.column([trial.inputs[0]]).repeat(64), like)
        require(
            all(what == like.asked for what in asked),
            "how many words are asked for must not depend on value or words",
        )
    try:
        m.perturb(values, keyed(KEY))
    except (ValueError, TypeError, RuntimeError):
        return
    raise CheckFailure("keyed noise without a context must be refused")


def pieces_do_not_matter(trial: MechanismTrial) -> None:
    """From one keyed source, a batch, its halves and its single rows get the same reports; the
    values are left as they were.
    """
    n, m = 2 * CHUNK + 3, trial.mechanism
    rows, values = np.arange(n), trial.spread(n)
    users, bound = (
        np.column_stack([rows, rows]).astype(np.uint64),
        rows.reshape(-1, 1).astype(np.int64),
    )
    values.flags.writeable = False
    kept = values.copy()

    def reports(part: slice) -> NDArray[Any]:
        return np.asarray(m.perturb(values[part], keyed(KEY).at(users[part], 3, 0, bound[part])))

    whole = reports(slice(0, n))
    require(np.array_equal(values, kept), "the values given must not be changed")
    for part in [
        slice(0, n // 2),
        slice(n // 2, n),
        *(
            slice(i, i + 1)
            for edge in (0, CHUNK, 2 * CHUNK)
            for i in (edge, max(edge - 1, 0), edge + 1, edge + 2)
        ),
    ]:
        require(
            np.array_equal(reports(part), whole[part]),
            "a value's report must not depend on the batch it comes in",
        )


def noise_is_its_own(trial: MechanismTrial) -> None:
    """Under one key, for the same users, slot and integers, another budget draws other words: two
    reports of one value on the same words tell far more of it than their budgets say.
    """
    rows, values = np.arange(64), trial.spread(64)
    users = np.column_stack([rows, rows]).astype(np.uint64)
    heard = []
    for epsilon in (trial.epsilon, trial.epsilon / 2):
        ear = Listener(keyed(KEY).at(users, 3, 0, np.zeros((64, 0), np.int64)))
        trial.factory(epsilon).perturb(values, ear)
        heard.append(ear.heard)
    require(all(heard), "noise must be made of the words of the source")
    require(
        heard[0].isdisjoint(heard[1]),
        "noise must be drawn within a use of its own, which its budget is a part of: another budget"
        " drew the same words under the same key",
    )
