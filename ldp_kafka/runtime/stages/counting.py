"""What both collect stages do with the reports of one source: check them, sum them, release what is
asked for of single reports, and hand a slot to the merger when it closes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldp_kafka.errors import BadRecord, Reason
from ldp_kafka.methods import Method
from ldp_kafka.methods.protocols.request import SECOND
from ldp_kafka.records import KEPT, Partial, Reports, hexadecimal
from ldp_kafka.runtime.log import Output, Record
from ldp_kafka.runtime.stages.latest import Latest
from ldp_kafka.runtime.stages.releases import Publisher
from ldp_kafka.runtime.stages.slot_sums import At, SlotSums, slots_in_a_shard
from ldp_kafka.runtime.wire.records import encode_json
from ldp_kafka.statistics import Singles

__all__ = ["COUNTS", "Counting", "CountingSecond", "SourceState", "meta_of", "of_phases", "told_of"]

COUNTS = ("reports", "repeated", "partials", "second_reports")


@dataclass
class SourceState:
    """What is known of one source."""

    sums: SlotSums
    first: int | None = None
    """The first slot with a report."""
    closed: int | None = None
    """Last slot that is closed."""
    crowd: tuple[int, ...] = ()
    """Of all reports that have counted: what statistics of single reports need of them."""
    latest: Latest = field(default_factory=lambda: Latest(1, 1, 1))
    """What users released last, where it is averaged."""

    def closes(self, through: int | None) -> bool:
        """Whether more is closed once slots are through this one; None: no slot is."""
        return through is not None and (self.closed is None or through > self.closed)

    def meta(self) -> dict[str, Any]:
        """All but the sums, as JSON."""
        told = {"first": self.first, "closed": self.closed, "crowd": list(self.crowd)}
        return {**told, **self.sums.meta()}

    @property
    def ahead(self) -> int:
        """The last offset that any loaded shard has seen; -1: none is ahead of the rest."""
        return max(self.sums.ahead, self.latest.ahead)

    @classmethod
    def load(
        cls, meta: Mapping[str, Any], sums: SlotSums, latest: Latest | None = None
    ) -> SourceState:
        """What `meta` wrote."""
        sums.hear(meta)
        made = cls(sums, meta["first"], meta["closed"], tuple(meta["crowd"]))
        return made if latest is None else replace(made, latest=latest)


@dataclass(frozen=True)
class Counting:
    """How the reports of one source count.

    Parameters
    ----------
    source : its number for the merger
    publisher : has the topology's statistics, and makes the releases of single reports
    """

    method: Method
    partials_topic: str
    source: int
    publisher: Publisher

    @property
    def slots_in_a_shard(self) -> int:
        """Of the sums."""
        return slots_in_a_shard(self.publisher.statistics.width, KEPT)

    def fresh(self, sums: SlotSums) -> SourceState:
        """What is known before the first report."""
        return SourceState(sums, crowd=self.publisher.statistics.start, latest=self.latest())

    def latest(self) -> Latest:
        """What users released last, before the first report."""
        length = self.publisher.statistics.moving_average
        return Latest(length, self.method.stride, self.publisher.shards)

    def supports(
        self, state: SourceState, batch: Reports, *, singles: bool = False
    ) -> list[tuple[At, list[int]]]:
        """The sums of each slot of a batch, which may be refused by BadRecord: before anything is
        changed. Slots are in order, or (``singles``) as they come.
        """
        if not len(batch):
            return []
        form = self.method.form(batch.phase, batch.cost)
        if form is None or not self.method.in_phase(batch.slots, batch.phase).all():
            raise BadRecord(Reason.WRONG_FIELDS)
        blank = form.blank(0)
        if not (
            batch.scale == form.scale
            and (not self.publisher.statistics.linkable or batch.series is not None)
            and (batch.values.shape[1:], batch.values.dtype) == (blank.shape[1:], blank.dtype)
        ):
            raise BadRecord(Reason.WRONG_FIELDS)
        low, high = form.index_range
        if not (batch.values.min() >= low and batch.values.max() <= high):
            raise BadRecord(Reason.RANGE)
        if state.closed is not None and int(batch.slots.min()) <= state.closed:
            raise BadRecord(Reason.CLOSED)
        slots = batch.slots[:1].tolist()
        if batch.slots.min() != batch.slots.max():
            slots = list(dict.fromkeys(batch.slots.tolist()))
            if not singles:
                slots.sort()
        values: NDArray[Any] = batch.values if batch.scale == 1 else batch.values * batch.scale
        try:
            return [
                (
                    self._at(slot, batch),
                    self._sums(values if len(slots) == 1 else values[batch.slots == slot], batch),
                )
                for slot in slots
            ]
        except ValueError:  # packed bits that no report has
            raise BadRecord(Reason.RANGE) from None

    def _at(self, slot: int, batch: Reports) -> At:
        """What reports of a slot are summed as."""
        return At(slot, batch.phase)

    def _sums(self, values: NDArray[Any], batch: Reports) -> list[int]:
        """Of reports of one slot."""
        return self.publisher.statistics.sums(values, batch.phase)

    def release(
        self,
        state: SourceState,
        batch: Reports,
        offsets: ArrayLike,
        output: Output,
        *,
        singles: bool = False,
    ) -> None:
        """What is released of single reports that have counted, beside all that have counted so
        far: with those of the same message, or (``singles``) of the messages before. ``offsets``:
        of the message, or of each.
        """
        if not len(batch):
            return
        before = state.crowd
        state.crowd = self.publisher.statistics.count(before, batch.values)
        series = [None] * len(batch) if batch.series is None else hexadecimal(batch.series)
        totals = before if singles else state.crowd
        average = None
        if state.latest.length > 1:
            order = np.arange(len(batch)) if singles else np.argsort(batch.slots, kind="stable")
            places = np.broadcast_to(offsets, len(batch))
            average = partial(self._averaged, state.latest, batch, places, order)
        made = self.publisher.of_reports(batch, series, totals, singles=singles, average=average)
        if made:
            output.count("releases", len(made))
            output.send(*made)

    def _averaged(
        self,
        latest: Latest,
        batch: Reports,
        offsets: NDArray[np.int64],
        order: NDArray[np.intp],
        found: Singles,
    ) -> tuple[Singles, NDArray[np.bool_]]:
        """The moving averages of releases that come in this order, and which of them are sent."""
        assert batch.series is not None, "reports without a pseudonym were refused"
        values, sent = np.empty(len(batch)), np.empty(len(batch), np.bool_)
        values[order], sent[order] = latest.averaged(
            batch.series[order], batch.slots[order], found.values[order], offsets[order]
        )
        return found.around(values, self.method.domain), sent

    def close(self, state: SourceState, through: int, output: Output) -> None:
        """Partials through this slot, if it is not closed: one for each phase of a slot with
        reports, one before it for the empty slots that lie between, one for those after the last.
        """
        done = state.closed
        if not state.closes(through):
            return
        for slot in state.sums.waiting(through):
            if done is None or done < slot - 1:
                self._empty(state, slot - 1, output)
            found = state.sums.close(slot)
            for phase, (sums, ids, _) in found.items():
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


class CountingSecond(Counting):
    """How reports of the second phase count: in its sums, what they cost stands for the phase."""

    def _at(self, slot: int, batch: Reports) -> At:
        return At(slot, batch.cost)

    def _sums(self, values: NDArray[Any], batch: Reports) -> list[int]:
        form = self.method.form(SECOND, batch.cost)
        assert form is not None, "what there is no form for was refused"
        found: list[int] = form.support(values, SECOND).tolist()
        return found

    def _send(self, partial: Partial, output: Output) -> None:
        super()._send(replace(partial, phase=SECOND, cost=partial.phase), output)


def of_phases(
    method: Method, partials_topic: str, source: int, publisher: Publisher
) -> tuple[Counting, ...]:
    """How reports of each phase of a slot count; where nobody is asked, all together."""
    kinds = (Counting, CountingSecond)[: max(1, method.phases)]
    return tuple(kind(method, partials_topic, source, publisher) for kind in kinds)


def meta_of(phases: Sequence[SourceState]) -> dict[str, Any]:
    """What is known of all phases but their sums, as JSON."""
    told = [each.meta() for each in phases]
    return {**told[0], "second": told[1]} if len(told) > 1 else told[0]


def told_of(meta: Mapping[str, Any], phases: int) -> list[Mapping[str, Any]]:
    """Of each phase what `meta_of` wrote."""
    return [meta, meta["second"]] if phases > 1 else [meta]
