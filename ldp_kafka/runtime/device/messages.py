"""The reports of a step of one user as messages: as a device sends them, one report each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import NEVER
from ldp_kafka.methods.base import SENT, Step
from ldp_kafka.randomness import Digests, Keyed
from ldp_kafka.records import Reports
from ldp_kafka.runtime.wire.reports import write_reports
from ldp_kafka.topology import Topology

__all__ = ["messages_of"]


def messages_of(
    topology: Topology, randomness: Keyed, digests: Digests, slot: int, step: Step
) -> list[tuple[bytes, bytes]]:
    """(id, message) of each report of a step that one user took at a slot."""
    if step.status[0] != SENT:
        return []
    method = topology.method
    scale, series = method.scale, randomness.series(digests) if topology.per_user else None
    if step.slots is None:
        slots, answers = np.array([slot]), step.answers
    else:
        there = step.slots[0] != NEVER
        slots, answers = step.slots[0][there], step.answers[0][there]
    values = method.blank(len(slots))
    values[...] = answers if scale == 1 else answers * (1 / scale)
    return [
        _message(
            topology, randomness, digests, slots[i : i + 1], values[i : i + 1], step.phase, series
        )
        for i in range(len(slots))
    ]


def _message(
    topology: Topology,
    randomness: Keyed,
    digests: Digests,
    slots: NDArray[np.int64],
    values: NDArray[Any],
    phase: int,
    series: Digests | None,
) -> tuple[bytes, bytes]:
    """(id, message) of one report as a device sends it: with no source offset, and nothing that it
    closes.
    """
    ids = randomness.report_ids(digests, slots, phase)
    return ids.tobytes(), write_reports(
        Reports(
            ids,
            slots,
            values,
            topology.method.scale,
            topology.fingerprint,
            -1,
            None,
            0,
            phase,
            series,
        )
    )
