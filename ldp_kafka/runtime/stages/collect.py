"""The collector's fold: report batches in, partials and releases per user out. Nobody needs to
trust it.

A batch counts iff its (offset, chunk) comes after the last one of its source; ``closed`` is the
edge's and is followed, never decided here. When it passes a slot, what the source has of the slot
goes to the merger; runs of slots without reports go as one partial.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import BadRecord
from ldp_kafka.methods import Method
from ldp_kafka.records import Partial, Reports, hexadecimal
from ldp_kafka.runtime.log import Folded, Message, Record
from ldp_kafka.runtime.stages.releases import Publisher
from ldp_kafka.runtime.stages.sample import KEPT, keep
from ldp_kafka.runtime.stages.slot_shards import Blocked, Blocks, slots_in_a_block
from ldp_kafka.runtime.wire.dead_letters import dead_letter
from ldp_kafka.runtime.wire.records import encode_json, read_reports

__all__ = ["Collect", "CollectState"]


@dataclass
class CollectState(Blocks):
    """What the collector knows of one source."""

    last: tuple[int, int] = (-1, -1)
    """(offset, chunk) of the last batch that counted."""
    first: int | None = None
    """The first slot with a report."""
    closed: int | None = None
    """Last slot that the edge has closed."""
    crowd: tuple[int, ...] = ()
    """Of all reports that have counted: what statistics of single reports need of them."""


@dataclass(frozen=True)
class Collect(Blocked[CollectState]):
    """The collect stage of one source.

    Parameters
    ----------
    method : whose reports they are
    publisher : has the topology's statistics, and makes the releases of single reports
    """

    method: Method
    topic: str
    partials_topic: str
    dead_letters_topic: str
    partition: int
    fingerprint: str
    layout: str
    publisher: Publisher

    @cached_property
    def size(self) -> int:
        """Slots in a block of the state."""
        return slots_in_a_block(self.publisher.statistics.width, KEPT)

    def fresh(self) -> CollectState:
        return CollectState(crowd=self.publisher.statistics.start)

    def fold(self, state: CollectState, messages: Sequence[Message]) -> Folded:
        """Partials of consecutive messages."""
        records: list[Record] = []
        counts: dict[str, float] = {"reports": 0, "repeated": 0, "partials": 0, "second_reports": 0}
        for message in messages:
            try:
                batch = read_reports(message.value or b"")
                if batch is not None:
                    self._count(state, batch, message.offset, records, counts)
            except BadRecord as bad:
                records.append(
                    dead_letter(
                        self.dead_letters_topic,
                        self.topic,
                        self.partition,
                        message.offset,
                        0,
                        bad.reason,
                    )
                )
                counts[f"dead_letters:{bad.reason}"] = (
                    counts.get(f"dead_letters:{bad.reason}", 0) + 1
                )
        if state.closed is not None:
            counts["closed"] = state.closed
        return Folded(records, counts)

    def _count(
        self,
        state: CollectState,
        batch: Reports,
        offset: int,
        records: list[Record],
        counts: dict[str, float],
    ) -> None:
        if batch.fingerprint != self.fingerprint:
            raise BadRecord("fingerprint")
        if (batch.offset, batch.chunk) <= state.last:
            if (
                batch.offset < state.last[0]
                and batch.closed is not None
                and (state.closed is None or batch.closed > state.closed)
            ):
                raise BadRecord(
                    "restarted"
                )  # a replay closes nothing new: the raw log was begun anew under the same name
            counts["repeated"] += 1
            return
        sums = self._sums(state, batch)  # may refuse the batch: before anything is changed
        state.last = (batch.offset, batch.chunk)
        for slot, support in sums:
            state.first = slot if state.first is None else min(state.first, slot)
            if not self.takes(state, slot, offset):
                continue
            held = state.open.get(slot)
            state.open[slot] = (
                support if held is None else [a + b for a, b in zip(held, support, strict=True)]
            )
            mine = batch.ids if len(sums) == 1 else batch.ids[batch.slots == slot]
            state.sample[slot], second = keep(
                state.sample.get(slot, []), hexadecimal(mine[:KEPT])
            )  # a batch's rows come in the order of their ids
            counts["second_reports"] += second
        counts["reports"] += len(batch)
        self._release(state, batch, records, counts)
        if batch.closed is not None and (state.closed is None or batch.closed > state.closed):
            self._close(state, batch.closed, records, counts)

    def _release(
        self, state: CollectState, batch: Reports, records: list[Record], counts: dict[str, float]
    ) -> None:
        """The releases of single reports."""
        state.crowd = self.publisher.statistics.count(state.crowd, batch.values)
        series = [None] * len(batch) if batch.series is None else hexadecimal(batch.series)
        made = self.publisher.of_reports(batch, series, state.crowd)
        if made:
            counts["releases"] = counts.get("releases", 0) + len(made)
        records += made

    def _sums(self, state: CollectState, batch: Reports) -> list[tuple[int, list[int]]]:
        if not len(batch):
            return []
        if batch.scale != self.method.scale:
            raise BadRecord("wrong_fields")
        if self.publisher.statistics.linkable and batch.series is None:
            raise BadRecord("wrong_fields")
        blank = self.method.blank(0)
        if (batch.values.shape[1:], batch.values.dtype) != (blank.shape[1:], blank.dtype) or (
            batch.slots % self.method.phases != batch.phase
        ).any():
            raise BadRecord("wrong_fields")
        low, high = self.method.index_range
        if not (batch.values.min() >= low and batch.values.max() <= high):
            raise BadRecord("range")
        if state.closed is not None and int(batch.slots.min()) <= state.closed:
            raise BadRecord("closed")
        slots = (
            np.unique(batch.slots) if batch.slots.min() != batch.slots.max() else batch.slots[:1]
        )
        whole = len(slots) == 1
        values: NDArray[Any] = batch.values if batch.scale == 1 else batch.values * batch.scale
        try:
            return [
                (
                    int(slot),
                    self.publisher.statistics.sums(
                        values if whole else values[batch.slots == slot], batch.phase
                    ),
                )
                for slot in slots
            ]
        except ValueError:  # packed bits that no report has
            raise BadRecord("range") from None

    def _close(
        self, state: CollectState, closed: int, records: list[Record], counts: dict[str, float]
    ) -> None:
        """Partials through ``closed``: one for each slot with reports, one before it for the empty
        slots that lie between, one for those after the last.
        """
        done = state.closed
        for slot in sorted(slot for slot in state.open if slot <= closed):
            if done is None or done < slot - 1:
                self._partial(records, counts, Partial(self.partition, slot - 1, state.first, None))
            sums, ids = self.close(state, slot)
            self._partial(
                records, counts, Partial(self.partition, slot, state.first, tuple(sums), tuple(ids))
            )
            done = slot
        if done is None or done < closed:
            self._partial(records, counts, Partial(self.partition, closed, state.first, None))
        state.closed = closed
        self.end(state, closed)

    def _partial(self, records: list[Record], counts: dict[str, float], partial: Partial) -> None:
        counts["partials"] += 1
        records.append(
            Record(self.partials_topic, 0, str(partial.source).encode(), encode_json(partial))
        )

    def meta(self, state: CollectState) -> dict[str, Any]:
        return {
            "last": list(state.last),
            "first": state.first,
            "closed": state.closed,
            "block": self.size,
            "crowd": list(state.crowd),
        }

    def load(
        self, meta: Mapping[str, Any], shards: Mapping[str, tuple[int, bytes]]
    ) -> CollectState:
        state = CollectState(
            last=tuple(meta["last"]),
            first=meta["first"],
            closed=meta["closed"],
            crowd=tuple(meta["crowd"]),
        )
        return self.fill(state, state.closed, meta.get("block"), shards)
