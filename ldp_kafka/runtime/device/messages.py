"""The reports of a step of one user as messages: as a device sends them, one report each."""

from __future__ import annotations

import numpy as np

from ldp_kafka.accounting import NEVER
from ldp_kafka.errors import InvariantError
from ldp_kafka.methods.base import SENT, Step
from ldp_kafka.randomness import Digests, Keyed
from ldp_kafka.records import Reports
from ldp_kafka.runtime.wire.reports import write_reports
from ldp_kafka.topology import Topology

__all__ = ["messages_of"]


def messages_of(
    topology: Topology, randomness: Keyed, digests: Digests, slot: int, step: Step, cost: int = 0
) -> list[tuple[bytes, bytes]]:
    """(id, message) of each report of a step that one user took at a slot; ``cost`` is what a
    request said that a report costs, 0 where there was none.
    """
    if step.status[0] != SENT:
        return []
    form = topology.method.form(step.phase, cost) if cost else topology.method
    if form is None:
        raise InvariantError("there is no form for a report that was drawn")
    scale, series = form.scale, randomness.series(digests) if topology.per_user else None
    if step.slots is None:
        slots, answers = np.array([slot]), step.answers
    else:
        there = step.slots[0] != NEVER
        slots, answers = step.slots[0][there], step.answers[0][there]
    values = form.blank(len(slots))
    values[...] = answers if scale == 1 else answers * (1 / scale)
    found = []
    for at in (slice(i, i + 1) for i in range(len(slots))):
        ids = randomness.report_ids(digests, slots[at], step.phase)
        # as a device sends it: with no source offset, and nothing that it closes
        one = Reports(
            ids,
            slots[at],
            values[at],
            scale,
            topology.fingerprint,
            -1,
            None,
            0,
            step.phase,
            series,
            cost,
        )
        found.append((ids.tobytes(), write_reports(one)))
    return found
