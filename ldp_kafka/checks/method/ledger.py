"""The checks of what a method spends: all that its budget allows, and no more."""

from __future__ import annotations

from decimal import Decimal

import numpy as np

from ldp_kafka.checks.failure import require
from ldp_kafka.checks.method.trial import MethodTrial, taken
from ldp_kafka.checks.sources import KEY, Recorder
from ldp_kafka.methods.base import REFUSED, SENT
from ldp_kafka.methods.batch import Batch
from ldp_kafka.randomness import keyed, seeded

__all__ = ["ledger_holds", "own_reports_are_allowed"]


def ledger_holds(trial: MethodTrial) -> None:
    """Whatever one report costs and whichever slots a user reports in, no run of window + memory
    slots exceeds the budget; nothing that would fit is refused; only what is sent is drawn.
    """
    budget = int(Decimal(repr(float(trial.real().epsilon))) * 1_000_000)
    for share in (1, 2, 3):
        method, users = trial.real(), 20
        slots = 3 * method.run + 20
        method.spend = max(1, budget // share)
        run = method.run
        streams, present = (
            trial.streams(users, slots),
            np.random.default_rng(share).random((users, slots)) < 0.7,
        )
        source = Recorder(keyed(KEY))
        state = method.state(source.digests([str(i) for i in range(users)]))
        cost, sent, seen = np.zeros((users, slots), np.int64), 0, 0
        drawn: set[tuple[int, int]] = set()
        for t in range(slots):
            rows, there = taken(method, present[:, t])
            status = np.asarray(
                method.step(
                    state, Batch(rows, t, method.bound(streams[rows, t]), source, there)
                ).status
            )
            cost[rows[status == SENT], t] = method.cost
            sent += int((status == SENT).sum())
            drawn |= {(user, at) for user, at, *_ in source.draws[seen:]}
            seen = len(source.draws)
            held = cost[:, max(0, t - run + 1) : t + 1].sum(1)
            require(
                (held <= budget).all(),
                "no run of window + memory slots may spend more than the budget",
            )
            require(
                (held[rows[status == REFUSED]] + method.cost > budget).all(),
                "nothing may be refused that the budget would allow",
            )
            require(
                len(drawn) == sent,
                "noise must be drawn for reports that are sent, and for no other: a draw that is"
                " thrown away is still a draw",
            )


def own_reports_are_allowed(trial: MethodTrial) -> None:
    """At its own cost a report, a method that reports in every slot is never refused."""
    method, source = trial.real(), seeded(1)
    streams = trial.streams(8, 40)
    state = method.state(source.digests([str(i) for i in range(8)]))
    for t in range(40):
        status = np.asarray(
            method.step(state, Batch(np.arange(8), t, method.bound(streams[:, t]), source)).status
        )
        require((status != REFUSED).all(), "a method must not be refused what it plans to spend")
