"""The last messages of a log, as many as are cheap to read, and what they say of its partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ldp_kafka.accounting import NEVER
from ldp_kafka.errors import BadRecord, Reason
from ldp_kafka.records import DeadLetter, Release, Reports, Tick
from ldp_kafka.runtime.kafka.admin import Config
from ldp_kafka.runtime.kafka.reader import Kept, Spans, read_records
from ldp_kafka.runtime.log import Message, Output
from ldp_kafka.runtime.runs import Run
from ldp_kafka.runtime.stages.clocks import Timely, late_by_clocks
from ldp_kafka.runtime.stages.raw import raw_partition
from ldp_kafka.runtime.stages.requests import is_request
from ldp_kafka.runtime.stages.sources import Sources, read_new
from ldp_kafka.runtime.status.facts import InputPartition
from ldp_kafka.runtime.wire.arrow import check_size
from ldp_kafka.runtime.wire.codec import decode
from ldp_kafka.runtime.wire.dead_letters import DeadLetters
from ldp_kafka.runtime.wire.parsing import parse_json
from ldp_kafka.runtime.wire.records import decode_json, header_of
from ldp_kafka.runtime.wire.reports import read_reports
from ldp_kafka.topology import Topology

__all__ = [
    "SAMPLE",
    "Tails",
    "closed_by_reports",
    "latest_release",
    "of_devices",
    "of_raw",
    "read_heads",
    "reasons_of",
    "tails",
]

SAMPLE = 500  # messages of a partition
ROOM = 8 * 2**20  # bytes of all partitions together
_FIRST = 2  # messages of a partition that tell how large others are


class Tails(NamedTuple):
    """The last messages of a topic."""

    records: dict[int, list[Kept]]
    """Of each partition, oldest first; one that has none is not there."""
    most: int = SAMPLE
    """So many offsets of each partition were read, at most."""

    def __repr__(self) -> str:
        return f"Tails({len(self)})"  # never a message

    def __len__(self) -> int:
        return sum(map(len, self.records.values()))


def tails(config: Config, topic: str, within: Spans) -> Tails:
    """The last messages of each partition: up to `SAMPLE`, and fewer where they are large.

    Raises
    ------
    ConfigurationError : this login may not read the topic
    BrokerError : the broker did not answer
    """
    filled = {number: span for number, span in within.items() if span[1] > span[0]}
    if not filled:
        return Tails({})
    few = list(read_records(config, topic, _last(filled, _FIRST)))
    size = sum(len(each.value or b"") for each in few) // max(1, len(few))
    most = max(_FIRST, min(SAMPLE, ROOM // (max(1, size) * len(filled))))
    found: dict[int, list[Kept]] = {}
    for each in read_records(config, topic, _last(filled, most)):
        found.setdefault(each.partition, []).append(each)
    return Tails(found, most)


def read_heads(
    config: Config, topic: str, within: Spans, held: Mapping[int, Sequence[Kept]]
) -> dict[int, list[Kept]]:
    """The first messages of each partition of which ``held`` has the last ones only."""
    spans = {
        number: (first, min(held[number][0].offset, first + 1 + _FIRST))
        for number, (first, _) in within.items()
        if held.get(number) and held[number][0].offset > first
    }
    found: dict[int, list[Kept]] = {}
    for each in read_records(config, topic, spans) if spans else ():
        found.setdefault(each.partition, []).append(each)
    return found


def _last(within: Spans, most: int) -> Spans:
    return {number: (max(first, end - most), end) for number, (first, end) in within.items()}


def of_raw(
    topology: Topology, number: int, held: Sequence[Kept], users: set[str] | None = None
) -> InputPartition:
    """What the last messages of a raw partition say: read as its worker reads them.

    Parameters
    ----------
    users : takes in the ids of all events
    """
    messages = [
        Message(each.offset, each.timestamp, each.value) for each in held if not _is_header(each)
    ]
    events = [each for each in messages if not is_request(each.value)]
    letters = DeadLetters(topology.dead_letters_topic, topology.raw_topic, number)
    output = Output(letters)
    made = InputPartition(number, sampled=len(messages))
    if not events:
        return made
    sources = Sources(topology.input.sources) if topology.input.sources else None
    raw = raw_partition(topology, number)
    run, rows, latest = read_new(raw, sources, Run.of(events), output)
    bad = _bad(output)
    newest = int(latest.max(initial=-1))
    made = replace(made, bad=bad, newest=None if newest < 0 else topology.slot_of(newest))
    if users is not None:
        users.update(rows.users.texts())
    source, message = topology.input, rows.message
    # how far the log had come before each message; before the first of them it is not known
    before = np.maximum.accumulate(np.concatenate([(-1,), latest[:-1]]))
    timely = Timely(slot_ms=source.slot_ms, lateness=source.lateness, ticked=raw.ticked)
    stamps = run.timestamps
    come = timely.before(NEVER, rows.slots, message, latest, stamps)[:-1]
    if source.by_ticks:  # an event is late by its own record, too
        before = np.maximum(before, stamps)
        come = np.maximum(come, stamps // source.slot_ms)
    open_from = np.maximum(before // source.slot_ms - source.lateness, source.before_start + 1)
    late = rows.slots < open_from[message]
    clocks = late_by_clocks(rows.slots, come[message], late, source.lateness)
    made = replace(made, late=int(np.count_nonzero(late)), clocks=int(np.count_nonzero(clocks)))
    return _with_events(made, rows.slots.tolist())


def of_devices(topology: Topology, number: int, held: Sequence[Kept]) -> InputPartition:
    """What the last reports of devices in a partition say. No report brings a partition further
    than its record's own timestamp.
    """
    bad: Counter[str] = Counter()
    slots: list[int] = []
    come: list[int] = []
    for each in held:
        try:
            check_size(each.value)
            found = decode_json(parse_json(each.value or b""))
            if isinstance(found, Tick):
                told = [topology.slot_of(found.time)]
            elif not isinstance(found, Reports):
                if found is not None:
                    raise BadRecord(Reason.NOT_A_REPORT)
                continue  # a header
            else:
                if found.fingerprint != topology.fingerprint:
                    raise BadRecord(Reason.FINGERPRINT)
                slots += (told := found.slots.tolist())
            most = each.timestamp // topology.input.slot_ms if each.timestamp >= 0 else max(told)
            come.append(min(max(told), most))
        except BadRecord as error:
            bad[error.reason.value] += 1
    made = InputPartition(
        number,
        sampled=sum(not _is_header(each) for each in held),
        bad=dict(bad),
        newest=max(come, default=None),
    )
    return _with_events(made, slots)


def _with_events(made: InputPartition, slots: Sequence[int]) -> InputPartition:
    if not slots:
        return made
    return replace(made, events=len(slots), oldest=min(slots), event=max(slots))


def _bad(output: Output) -> dict[str, int]:
    """Bad rows by reason: a fold counts them so."""
    head = "dead_letters:"
    return {
        name.removeprefix(head): int(number)
        for name, number in output.counts.items()
        if name.startswith(head)
    }


def _is_header(record: Kept) -> bool:
    return record.offset == 0 and header_of(record.value or b"") is not None


def closed_by_reports(held: Sequence[Kept], *, asked: bool) -> int | None:
    """The last slot that the edge says it has closed, in the last reports of a partition.

    Parameters
    ----------
    asked : whether a coordinator asks for a second phase: until that is settled, a slot is open
    """
    found: list[int] = []
    for each in held:
        try:
            batch = read_reports(each.value or b"")
        except BadRecord:
            continue
        told = None if batch is None else batch.settled if asked else batch.closed
        if told is not None:
            found.append(told)
    return max(found, default=None)


def reasons_of(held: Tails) -> dict[str, int]:
    """Dead letters by reason, the most frequent first."""
    letters = (each for _, each in _records(held) if isinstance(each, DeadLetter))
    return dict(Counter(letter.reason.value for letter in letters).most_common())


def latest_release(held: Tails) -> tuple[int, int, str] | None:
    """Of the last records of a topic of releases: the latest slot, and of the release of it that
    was written last when that was (milliseconds), and its statistic. None where there is none.
    """
    found = (
        (each.slot, record.timestamp, each.statistic)
        for record, each in _records(held)
        if isinstance(each, Release)
    )
    return max(found, default=None)


def _records(held: Tails) -> Iterator[tuple[Kept, Any]]:
    """What each of these holds; what is none of ours is left out."""
    for record in (each for records in held.records.values() for each in records):
        try:
            for found in decode(record.value or b""):
                yield record, found
        except BadRecord:
            continue
