"""The check of when a stream must be stepped, where a method releases windows."""

from __future__ import annotations

import numpy as np

from ldp_kafka.checks.delay.trial import DelayTrial
from ldp_kafka.checks.failure import require
from ldp_kafka.checks.method.refusals import no_step
from ldp_kafka.checks.sources import KEY, Recorder
from ldp_kafka.methods.batch import Batch
from ldp_kafka.randomness import keyed

__all__ = ["no_stream_is_left_waiting"]


def no_stream_is_left_waiting(trial: DelayTrial) -> None:
    """A stream that has values waiting must be stepped in the next slot: a later one is refused,
    and nothing is drawn or changed for anyone. Where nothing waits, any later slot is taken.
    """
    method, source = trial.real(), Recorder(keyed(KEY))
    hop, rows = method.windows.hop, np.arange(2)
    values = method.bound(trial.streams(hop, 2))
    there, nobody = np.ones((hop, 2), np.bool_), np.zeros((hop, 2), np.bool_)
    state = method.state(source.digests(["a", "b"]))
    require(not method.waiting(state, rows).any(), "a new stream must not wait")
    slot = 5 * hop
    there[:, 1] = False
    method.step(state, Batch(rows, slot, values, source, there))
    require(
        method.waiting(state, rows).tolist() == [method.windows.behind > 0, False],
        "a stream must wait as long as it has values that are not released",
    )
    while method.waiting(state, rows).any():
        no_step(method, state, source, [0, 1], slot + 2 * hop, values)
        slot += hop
        method.step(state, Batch(rows, slot, values, source, nobody))
        require(slot <= (5 + 3 * method.delay) * hop, "a stream must not wait for ever")
    method.step(state, Batch(rows, slot + 7 * hop, values, source, there))
