"""Whether every (user, slot, phase) was ever told one thing only: read from a topology's own
reports, by whoever can read them.

With the edge's key and the raw log all reports are made once more, and those that lie in the topic
must be they: none missing, none different, none besides. And no user may be in several partitions,
each of which has a budget for it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ldp_kafka.errors import BadRecord, ConfigurationError, StateError
from ldp_kafka.runtime import roles
from ldp_kafka.runtime.kafka import admin
from ldp_kafka.runtime.kafka.deployment import read_deployment
from ldp_kafka.runtime.kafka.reader import Kept, Spans, read_records, spans
from ldp_kafka.runtime.kafka.setup import client_config
from ldp_kafka.runtime.keys import EdgeNoise, Keyring, edge_randomness
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.stages.perturb import PerturbState
from ldp_kafka.runtime.tools.report_index import Compared, ReportIndex, compare
from ldp_kafka.runtime.wire.reports import numbered_by_offset, read_reports
from ldp_kafka.topology import Topology

__all__ = ["Due", "Proof", "Recomputed", "prove", "read_held", "recompute"]

TOGETHER = 256  # raw messages that are folded at a time
Progress = Callable[[int], None]


@dataclass(frozen=True)
class Proof:
    """What was found; second, scattered, missing, different, unexpected and scattered_users are
    zero, or a promise was broken.
    """

    reports: int
    """In the topic, repeats included."""
    ids: int
    """Distinct (user, slot, phase)."""
    repeats: int
    """Reports that were there before, the same in every byte: what a replay writes. In another
    partition they are ``scattered``, too.
    """
    second: int
    """Ids with two different reports, or more."""
    unreadable: int
    """Records of the topic that are no reports."""
    begins: dict[int, int]
    """Of the partitions whose first records have expired, where they begin: nothing is said of what
    was before.
    """
    recomputed: bool = False
    expected: int = 0
    """Reports that the raw log gives."""
    missing: int = 0
    """Of those whose messages were acknowledged, and which the topic would still hold."""
    different: int = 0
    unexpected: int = 0
    """Ids that the raw log does not give."""
    scattered: int = 0
    """Ids that are in several partitions of the topic."""
    scattered_users: int = 0
    """Users who are in several partitions of the raw log, whether they ever report twice in a slot
    or not: each partition has a budget for them.
    """

    @property
    def clean(self) -> bool:
        """Whether everything is as promised."""
        return not (
            self.second
            or self.scattered
            or self.missing
            or self.different
            or self.unexpected
            or self.scattered_users
        )

    def as_json(self) -> dict[str, Any]:
        """The same for machines."""
        return {"clean": self.clean, **asdict(self)}

    def lines(self) -> list[str]:
        """The same in words."""
        out = [
            (
                f"{self.reports:,} reports with {self.ids:,} ids, {self.repeats:,} of them repeated"
                f" as they were: {self.second:,} ids have a second report, {self.scattered:,} are"
                " in several partitions"
            )
        ]
        out += (
            [f"{self.unreadable:,} records of the topic are no reports"] if self.unreadable else []
        )
        out += [
            f"partition {number} begins at offset {at:,}: nothing is said of what has expired"
            for number, at in self.begins.items()
        ]
        if self.recomputed:
            out.append(
                f"recomputed from the raw log: {self.expected:,} reports; {self.missing:,} missing,"
                f" {self.different:,} different, {self.unexpected:,} unexpected"
            )
            out.append(
                f"{self.scattered_users:,} users are in several partitions of the raw topic"
                + ", with a budget in each: mend its partitioning" * (self.scattered_users > 0)
            )
            if self.ids and self.unexpected == self.ids:
                out.append("none of the ids comes from this key: it is another's")
        return out


class Recomputed(NamedTuple):
    """What a raw log gives."""

    reports: ReportIndex
    scattered_users: int
    """Users with events in several partitions."""


@dataclass(frozen=True)
class Due:
    """Which batches of a raw partition must be held: all up to what was acknowledged or is held,
    since batches go out in order; from what the topic still holds.

    Parameters
    ----------
    acknowledged : the first raw offset that was not
    first, last : bounds of the batches that are held; None where none is, or their numbers are
        offsets, as an older version sent them
    whole : whether the topic still holds the partition's first batch
    """

    acknowledged: int = 0
    first: int | None = None
    last: int | None = None
    whole: bool = True

    def take(self, bound: int) -> Due:
        """With one more that is held."""
        first = bound if self.first is None else min(self.first, bound)
        last = bound if self.last is None else max(self.last, bound)
        return replace(self, first=first, last=last)

    def holds(self, bound: int, offset: int) -> bool:
        """Whether a batch must be held, of which no part comes of messages after ``offset``."""
        begun = self.whole or (self.first is not None and bound > self.first)
        sent = offset < self.acknowledged or (self.last is not None and bound < self.last)
        return begun and sent


def read_held(
    records: Iterable[Kept], folder: Path | None = None
) -> tuple[ReportIndex, int, dict[int, Due]]:
    """The reports of a topic, how many of its records are none, and by partition which batches it
    holds; ``folder``: of the `ReportIndex`.
    """
    held, unreadable = ReportIndex(folder=folder), 0
    found: dict[int, Due] = {}
    older = set()
    for record in records:
        try:
            batch = read_reports(record.value or b"")
        except BadRecord:
            unreadable += 1
            continue
        if batch is not None:
            if numbered_by_offset(record.value or b""):
                older.add(record.partition)
            found[record.partition] = found.get(record.partition, Due()).take(batch.bound)
            held.add(batch, partition=record.partition)
    return held, unreadable, {at: Due() if at in older else each for at, each in found.items()}


def recompute(
    topology: Topology,
    randomness: EdgeNoise,
    records: Iterable[Kept],
    due: Mapping[int, Due],
    seed: int,
    folder: Path | None = None,
) -> Recomputed:
    """All reports that a raw log gives, and who is in it twice.

    Parameters
    ----------
    records : of the raw topic, in the order of each partition
    due : of each partition
    seed, folder : of the `ReportIndex` that they are compared with
    """
    made = ReportIndex(seed, folder)
    _, agent = topology.reader(topology.raw_topic)
    stages = {
        number: roles.make(topology, agent, number, randomness)
        for number in range(topology.input.partitions)
    }
    states = {number: stage.fresh() for number, stage in stages.items()}
    for number, run in _runs(records, due):
        for record in stages[number].fold(states[number], run).records:
            batch = read_reports(record.value) if record.topic == topology.reports_topic else None
            if batch is not None:
                is_due = due[number].holds(batch.bound, run[-1].offset)
                made.add(batch, partition=number, due=is_due)
    return Recomputed(made, _scattered_users(states.values()))


def _runs(records: Iterable[Kept], due: Mapping[int, Due]) -> Iterator[tuple[int, list[Message]]]:
    """Messages that are folded together, with their partition: what was acknowledged, or what was
    not.
    """
    waiting: dict[int, list[Message]] = {number: [] for number in due}
    for each in records:
        number, run = each.partition, waiting[each.partition]
        if run and (
            len(run) >= TOGETHER or run[-1].offset < due[number].acknowledged <= each.offset
        ):
            yield number, run
            run = waiting[number] = []
        run.append(Message(each.offset, each.timestamp, each.value))
    yield from ((number, run) for number, run in waiting.items() if run)


def _scattered_users(states: Iterable[PerturbState]) -> int:
    """How many users have events in several of the partitions whose states these are."""
    known = [each.users.state.users[: each.users.state.count] for each in states]
    digests = np.ascontiguousarray(np.concatenate(known)).view("V16").ravel()
    return int(np.count_nonzero(np.unique(digests, return_counts=True)[1] > 1))


def prove(
    topology: Topology,
    key: bytes | Keyring | None = None,
    *,
    progress: Callable[[str, int], Progress] | None = None,
) -> Proof:
    """Read a topology's reports topic, and with the edge's key its raw topic too.

    Parameters
    ----------
    key : the edge's master key; None: reports are compared with each other only
    progress : is told what is read and how many records there are, and gives what is to be told how
        far it is

    Raises
    ------
    StateError : the raw log no longer holds all that the reports were made of
    ConfigurationError, BrokerError : no such topic, no answer; no room for what does not fit into
        memory: 27 bytes a report, in the folder for temporary files
    """
    with tempfile.TemporaryDirectory(prefix="ldp-kafka-") as folder:
        try:
            return _prove(topology, key, Path(folder), progress)
        except OSError as error:
            raise ConfigurationError(
                f"{folder}: {error.strerror}: set TMPDIR to a folder with room for 27 bytes a"
                " report"
            ) from None


def _prove(
    topology: Topology,
    key: bytes | Keyring | None,
    folder: Path,
    progress: Callable[[str, int], Progress] | None,
) -> Proof:
    if topology.flow.raw is None and key is not None:
        raise ConfigurationError(
            f"{topology.name} has no raw topic, and each of its devices a key of its own: its"
            " reports can be compared with each other only"
        )
    collector = client_config(topology, "collector")
    edge = {} if key is None else client_config(topology, "edge")
    # In this order: what is acknowledged has been reported, and what is reported is in the raw log
    committed = (
        {}
        if key is None
        else admin.committed(
            edge,
            topology.reader(topology.raw_topic)[0].group,
            topology.raw_topic,
            range(topology.input.partitions),
        )
    )
    topic = topology.reports_topic
    extent = spans(collector, topic)
    held, unreadable, batches = read_held(
        _counted(read_records(collector, topic, extent), "reports", extent, progress), folder
    )
    begins = {number: first for number, (first, _) in extent.items() if first > 0}
    if key is None:
        found = compare(held)
        return _proof(held, found, unreadable, begins)
    raw = spans(edge, topology.raw_topic)
    _check_begin(topology, raw, begins)
    due = {
        number: replace(
            batches.get(number, Due()),
            acknowledged=committed.get(number) or 0,
            whole=number not in begins,
        )
        for number in raw
    }
    randomness = edge_randomness(topology, key, read_deployment(topology, edge))
    records = _counted(read_records(edge, topology.raw_topic, raw), "raw records", raw, progress)
    expected = recompute(topology, randomness, records, due, held.seed, folder)
    found = compare(held, expected.reports)
    if found.missing or found.different or found.unexpected:
        _check_begin(topology, raw, raw)
    return _proof(held, found, unreadable, begins, expected)


def _check_begin(topology: Topology, raw: Spans, partitions: Iterable[int]) -> None:
    """Raise StateError where one of these partitions of the raw topic has lost its beginning."""
    for number in partitions:
        first, _ = raw[number]
        if first > 0:
            raise StateError(
                f"{topology.raw_topic} partition {number} begins at offset {first}: what was before"
                " it is needed to make its reports once more"
            )


def _proof(
    held: ReportIndex,
    found: Compared,
    unreadable: int,
    begins: dict[int, int],
    made: Recomputed | None = None,
) -> Proof:
    return Proof(
        reports=held.reports,
        ids=found.ids,
        repeats=held.repeats,
        second=found.second,
        unreadable=unreadable,
        begins=begins,
        recomputed=made is not None,
        expected=0 if made is None else made.reports.reports,
        missing=found.missing,
        different=found.different,
        unexpected=found.unexpected,
        scattered=found.scattered,
        scattered_users=0 if made is None else made.scattered_users,
    )


def _counted(
    records: Iterator[Kept],
    what: str,
    extent: Spans,
    progress: Callable[[str, int], Progress] | None,
) -> Iterator[Kept]:
    total = sum(end - first for first, end in extent.values())
    tell = None if progress is None else progress(what, total)
    for at, record in enumerate(records, 1):
        if tell is not None and at % 1000 == 0:
            tell(min(at, total))
        yield record
    if tell is not None:
        tell(total)
