"""The rules of a start, as data: what must hold, what is said where it does not, and the way out.

This is their only home; the table in this folder's README.md is made from it
(``python -m ldp_kafka.runtime.recovery.rules_page``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ldp_kafka.runtime.log import Stage
from ldp_kafka.runtime.recovery.checkpoints import READ, VERSION, Checkpoint
from ldp_kafka.runtime.sealing import Seal

__all__ = ["BINDINGS", "RULES", "Case", "Facts", "PartitionOffsets", "Rule", "bindings_of"]

BINDINGS = ("fingerprint", "layout", "deployment", "key")
"""What a state is bound to: attributes of its stage."""


def bindings_of(stage: Stage[Any]) -> dict[str, str]:
    """What a state of this stage is bound to."""
    return {name: getattr(stage, name) for name in BINDINGS}


class PartitionOffsets(NamedTuple):
    """A group's committed offset in a partition, and the log's start and end offset."""

    committed: int | None
    """The group's committed offset; None if it has none."""
    start: int
    """The log's first offset."""
    end: int
    """The log end offset: one after the last record."""
    begun: bool
    """Whether ``committed`` is where the group was told to begin, before anything was folded."""
    skipped: int | None = None
    """Where the group was told to leave out what lies before ``committed`` (``ldp-kafka state
    skip``): the first offset that it leaves out."""


@dataclass(frozen=True)
class Facts:
    """What is known of a partition before its state is looked at."""

    topic: str
    partition: int
    position: PartitionOffsets
    header: bool
    """Whether offset 0 is a header record of ours."""
    gaps: bool = False
    """Whether offsets may be missing: a foreign log that is compacted or transactional."""
    first: int | None = None
    """With ``gaps``: the first existing offset at or after ``next_offset``; None: there is none
    yet."""
    folded_before: bool = False
    """Whether somebody has folded this partition before, as far as one can tell without a state: a
    log of our own always, a raw log if there are reports of it. It matters only where the log's
    first records are gone."""
    bindings: Mapping[str, str] = field(default_factory=dict)
    """What a state must be bound to, by the names of `BINDINGS`; what is not here is not
    compared."""
    seal: Seal | None = None
    """What opens the state where it is sealed."""
    partitions: int = 1
    """Of the topic, as the topology says."""
    partitions_found: int = 1
    """Of the topic, as the broker says."""
    hole: int | None = None
    """An offset of which the log has no record, where it must have all; None: none is known."""
    replaced: bool = False
    """Whether the raw topic was made anew since the worker has begun."""

    @property
    def where(self) -> str:
        """For people."""
        return f"{self.topic} partition {self.partition}"

    @property
    def acknowledged(self) -> int | None:
        """The last offset that the group has acknowledged; None if none: where the group was only
        told to begin, it has acknowledged nothing.
        """
        committed, _, _, begun, skipped = self.position
        done = committed if skipped is None else skipped
        if done is None or begun or done <= (1 if self.header else 0):
            return None
        return done - 1

    @property
    def next_offset(self) -> int:
        """The offset from which the group reads on. If ``begun``, records before the log's start
        offset may have expired: they came before the topology's first start, and are no loss.
        """
        committed, start, _, begun, _ = self.position
        if committed is None:
            return start
        return max(start, committed) if begun else committed


class Case(NamedTuple):
    """What a rule looks at."""

    facts: Facts
    found: Sequence[Checkpoint]
    chosen: Checkpoint | None
    """The complete checkpoint that has folded most."""

    @property
    def offset(self) -> int:
        """Its offset; -1 without one."""
        return -1 if self.chosen is None else self.chosen.offset

    @property
    def needed(self) -> int:
        """The offset after the state."""
        return self.offset + 1

    @property
    def version(self) -> int:
        """Of the state that would be loaded."""
        return VERSION if self.chosen is None else int(self.chosen.meta.get("version", 1))

    @property
    def highest(self) -> int:
        """The last offset that must be in the log: of the state, or acknowledged."""
        return max(self.offset, (self.facts.position.committed or 0) - 1)

    @property
    def unopened(self) -> str:
        """Why the state cannot be believed, or not be read; empty where it can."""
        for each in self.found:
            if each.altered:
                return each.altered
        ours = "key" in self.facts.bindings and self.version in READ and not self.other("key")
        if ours and self.chosen is not None and self.chosen.sealed:
            return "the state is sealed, and not by this topology's edge"
        return ""

    def other(self, binding: str) -> bool:
        """Whether the state is bound to another one."""
        wanted = self.facts.bindings.get(binding)
        if wanted is None or self.chosen is None:
            return False
        return bool(self.chosen.meta.get(binding) != wanted)


class Rule(NamedTuple):
    """One thing that must hold before an epoch may begin."""

    holds: str
    broken: Callable[[Case], bool]
    error: str
    """What is wrong; ``case`` and ``facts`` are put in."""
    way_out: str
    """What to do; the same are put in."""
    wrong: bool = False
    """Whether it is the topology that has to be changed: no ConfigurationError else."""

    def says(self, case: Case) -> tuple[str, str]:
        """The error and the way out."""
        error, way_out = (
            text.format(case=case, facts=case.facts) for text in (self.error, self.way_out)
        )
        return error, way_out


SHOWS = "`ldp-kafka state inspect` shows what the state has"
SKIP = (
    "the edge goes on behind the gap with `ldp-kafka state skip`, where its state has all that was"
    " reported"
)
NEW_NAME = f"give the topology a new name ({SHOWS})"
GAPS = (
    "set input.gaps: allow, which goes on without what is not there; where the topic is compacted,"
    " input.relay as well"
)
_READ = f"versions {' and '.join(map(str, READ))}"
_OTHER = "the state was written under another {}"


def _acknowledged_without_state(case: Case) -> bool:
    return case.facts.acknowledged is not None and case.chosen is None


def _older_than_acknowledged(case: Case) -> bool:
    done = case.facts.acknowledged
    return done is not None and case.chosen is not None and case.offset < done


def _expired_unread(case: Case) -> bool:
    committed, start, _, begun, _ = case.facts.position
    return committed is not None and start > committed and not begun


def _expired_behind_state(case: Case) -> bool:
    committed, start, _, _, skipped = case.facts.position
    if start <= case.needed or (skipped is not None and skipped <= case.needed):
        return False
    return case.offset >= 0 or (committed != start and case.facts.folded_before)


RULES: dict[str, Rule] = {
    "partitions": Rule(
        "the topic has as many partitions as the topology says",
        lambda case: case.facts.partitions != case.facts.partitions_found,
        "the topic must have {facts.partitions} partitions, found {facts.partitions_found}: users"
        " have moved to partitions that do not know what they spent",
        "give the topology a new name, with input.partitions: {facts.partitions_found} (its budgets"
        " are new: an edge file, edge.budget_file, adds up both)",
    ),
    "gaps": Rule(
        "every offset of the raw topic has its record, or the topology says input.gaps: allow",
        lambda case: case.facts.hole is not None,
        "no record is at offset {facts.hole}: the topic is written by transactions, whose ends have"
        " offsets and are not read, or it is compacted; such an offset cannot be told from a record"
        " that is lost",
        GAPS,
        wrong=True,
    ),
    "unread": Rule(
        "no record expired before the group has read it",
        _expired_unread,
        "the log begins at offset {facts.position.start}, after the committed"
        " {facts.position.committed}: records were lost before they were read",
        f"{SKIP}: else {NEW_NAME}",
    ),
    "readable": Rule(
        "every record of the state can be read",
        lambda case: any(each.damaged for each in case.found),
        "a record of the state is damaged, or not ours",
        "bring the changelog back",
    ),
    "sealed": Rule(
        "every record of the edge's state is as the edge sealed it, and where",
        lambda case: bool(case.unopened),
        "{case.unopened}",
        "somebody else wrote to the changelog, or it was copied wrongly: bring it back as the edge"
        " wrote it",
    ),
    "complete": Rule(
        "offsets that were acknowledged have a complete state",
        _acknowledged_without_state,
        "offset {facts.acknowledged} was acknowledged, but the changelog holds no complete state"
        " for it",
        f"{SHOWS}: bring it back; where it is an old one, `ldp-kafka state rewind` sets the group"
        " back to it",
    ),
    "current": Rule(
        "the state has folded all that was acknowledged",
        _older_than_acknowledged,
        "the changelog's state ends at offset {case.offset}, but offset {facts.acknowledged} was"
        " acknowledged: it is an old one",
        "bring the newer one back, or let `ldp-kafka state rewind` set the group back to what it"
        " has",
    ),
    "version": Rule(
        "the state was written by a version that this one reads",
        lambda case: case.version not in READ,
        f"the state is of version {{case.version}}, this program reads {_READ}",
        "run the program that wrote it, or give the topology a new name (its budgets are new: an"
        " edge file, edge.budget_file, adds up both)",
    ),
    "fingerprint": Rule(
        "the state was written under this topology's privacy parameters",
        lambda case: case.other("fingerprint"),
        f"{_OTHER.format('fingerprint')}: a privacy parameter or the slot of the topology, or"
        " the noise version of a plug-in, changed",
        "give the topology a new name, or its old parameters (`ldp-kafka state verify` looks at all"
        " of it)",
    ),
    "layout": Rule(
        "the state was written under this topology's raw topic, fields, partitions and shards",
        lambda case: case.other("layout"),
        f"{_OTHER.format('layout')}: the raw topic, its fields, partitions or partitioning, the"
        " lateness, max_ahead, the shards, report_rows or per_user, or the release of a plug-in,"
        " changed",
        "give the topology a new name, or its old parameters (`ldp-kafka state verify` looks at all"
        " of it)",
    ),
    "deployment": Rule(
        "the state was written for this raw topic, and no other of its name",
        lambda case: case.facts.replaced or case.other("deployment"),
        f"{_OTHER.format('deployment')}: the raw topic was made anew, or edge.deployment changed;"
        " values that come again would be drawn again",
        "give the topology a new name (its budgets are new: an edge file, edge.budget_file, adds up"
        " both), or bring the topic or edge.deployment back",
    ),
    "key": Rule(
        "the state was written under this edge's key",
        lambda case: case.other("key"),
        f"{_OTHER.format('key')}: the edge's key changed, or its rotations did",
        "bring back the key file that it was written under (`ldp-kafka key rotate` is the way to a"
        " new one): else every user's budget would look unspent",
    ),
    "log_end": Rule(
        "the log has all that was folded or acknowledged",
        lambda case: case.highest >= case.facts.position.end,
        "offset {case.highest} was folded or acknowledged, but the log ends before"
        " {facts.position.end}: the topic was made anew",
        NEW_NAME,
    ),
    "log_start": Rule(
        "the log has all that follows the state",
        _expired_behind_state,
        "the log begins at offset {facts.position.start}, but no state has what was before it",
        f"bring the changelog back; {SKIP}: else {NEW_NAME}",
    ),
}
"""By name, in the order in which they are looked at."""
