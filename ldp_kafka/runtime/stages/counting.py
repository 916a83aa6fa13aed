"""What both collect stages do with the reports of one source: check them, sum them, release what is
asked for per user, and hand a slot to the merger when it closes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import BadRecord, Reason
from ldp_kafka.methods import Method
from ldp_kafka.records import KEPT, Partial, Reports, hexadecimal
from ldp_kafka.runtime.log import Output, Record
from ldp_kafka.runtime.stages.slot_sums import At, SlotSums, slots_in_a_shard
from ldp_kafka.runtime.wire.records import encode_json

__all__ = ["COUNTS", "Counting", "SourceState"]

COUNTS = ("reports", "repeated", "partials", "second_reports")


@dataclass
class SourceState:
    """What is known of one source."""

    sums: SlotSums
    first: int | None = None
    """The first slot with a report."""
    closed: int | None = None
    """Last slot that is closed."""
    crowd: tuple[int, ...] = (0, 0, 0)
    """Of all reports that have counted, where they are released per user: their number, their sum,
    the sum of their squares, in units of the scale.
    """

    def meta(self) -> dict[str, Any]:
        """All but the sums, as JSON."""
        return {"first": self.first, "closed": self.closed, "crowd": list(self.crowd)}

    @classmethod
    def load(cls, meta: Mapping[str, Any], sums: SlotSums) -> SourceState:
        """What `meta` wrote."""
        return cls(sums, meta["first"], meta["closed"], tuple(meta["crowd"]))


@dataclass(frozen=True)
class Counting:
    """How the reports of one source count.

    Parameters
    ----------
    source : its number for the merger
    per_user : makes the releases of single reports from them, their pseudonyms and the sums of all
        that have counted, or None where the topology does not ask for them
    """

    method: Method
    partials_topic: str
    source: int
    per_user: Callable[[Reports, list[str], Sequence[int]], list[Record]] | None = None

    @property
    def slots_in_a_shard(self) -> int:
        """Of the sums."""
        return slots_in_a_shard(len(self.method.support(self.method.blank(0))), KEPT)

    def supports(self, state: SourceState, batch: Reports) -> list[tuple[At, list[int]]]:
        """The sums of each slot of a batch, which may be refused by BadRecord: before anything is
        changed.
        """
        if not len(batch):
            return []
        blank = self.method.blank(0)
        if not (
            batch.scale == self.method.scale
            and (self.per_user is None or batch.series is not None)
            and (batch.values.shape[1:], batch.values.dtype) == (blank.shape[1:], blank.dtype)
            and self.method.in_phase(batch.slots, batch.phase).all()
        ):
            raise BadRecord(Reason.WRONG_FIELDS)
        low, high = self.method.index_range
        if not (batch.values.min() >= low and batch.values.max() <= high):
            raise BadRecord(Reason.RANGE)
        if state.closed is not None and int(batch.slots.min()) <= state.closed:
            raise BadRecord(Reason.CLOSED)
        slots = (
            np.unique(batch.slots) if batch.slots.min() != batch.slots.max() else batch.slots[:1]
        )
        values: NDArray[Any] = batch.values if batch.scale == 1 else batch.values * batch.scale
        try:
            return [
                (
                    At(slot, batch.phase),
                    self.method.support(
                        values if len(slots) == 1 else values[batch.slots == slot], batch.phase
                    ).tolist(),
                )
                for slot in slots.tolist()
            ]
        except ValueError:  # packed bits that no report has
            raise BadRecord(Reason.RANGE) from None

    def release(self, state: SourceState, batch: Reports, output: Output) -> None:
        """What is released per user of reports that have counted."""
        if self.per_user is None or not len(batch) or batch.series is None:
            return
        state.crowd = tuple(
            a + b for a, b in zip(state.crowd, _power_sums(batch.values), strict=True)
        )
        made = self.per_user(batch, hexadecimal(batch.series), state.crowd)
        output.count("releases", len(made))
        output.send(*made)

    def close(self, state: SourceState, through: int, output: Output) -> None:
        """Partials through this slot, if it is not closed: one for each phase of a slot with
        reports, one before it for the empty slots that lie between, one for those after the last.
        """
        done = state.closed
        if done is not None and through <= done:
            return
        for slot in state.sums.waiting(through):
            if done is None or done < slot - 1:
                self._empty(state, slot - 1, output)
            found = state.sums.close(slot)
            for phase, (sums, ids) in found.items():
                last = phase == max(found)
                self._send(
                    Partial(
                        self.source, slot, state.first, tuple(sums), tuple(ids), phase, last=last
                    ),
                    output,
                )
            done = slot
        if done is None or done < through:
            self._empty(state, through, output)
        state.closed = through
        state.sums.end(through)

    def _empty(self, state: SourceState, slot: int, output: Output) -> None:
        self._send(Partial(self.source, slot, state.first, None), output)

    def _send(self, partial: Partial, output: Output) -> None:
        output.count("partials")
        key = str(self.source).encode()
        output.send(Record(self.partials_topic, 0, key, encode_json(partial)))


def _power_sums(values: NDArray[np.int64]) -> tuple[int, int, int]:
    """Number, sum and sum of squares; in Python integers where 64 bits would not hold it."""
    most = max(-int(values.min()), int(values.max()))
    if most * most * values.size < 2**63:
        return len(values), int(values.sum()), int((values * values).sum())
    whole = values.ravel().tolist()
    return len(values), sum(whole), sum(value * value for value in whole)
