"""Where an owner of a partition begins, or why it must not: facts in, one decision out.

The facts are read first: where the group and the log stand, and what is known of earlier answers.
Then `decide` looks at them and at the changelog's checkpoints. It asks nobody, so every rule can be
tried without Kafka. Workers, `ldp-kafka state` and `ldp-kafka key rotate` all ask it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ldp_kafka.errors import ConfigurationError, StateError
from ldp_kafka.runtime.log import Stage
from ldp_kafka.runtime.recovery.checkpoints import Checkpoint, latest
from ldp_kafka.runtime.recovery.keys import Key
from ldp_kafka.runtime.recovery.rules import (
    BINDINGS,
    RULES,
    Case,
    Facts,
    PartitionOffsets,
    bindings_of,
)

__all__ = [
    "Facts",
    "PartitionOffsets",
    "Refusal",
    "Start",
    "check_deployment",
    "check_newest",
    "check_partitions",
    "decide",
    "no_record",
    "refusals",
    "rewound",
    "skipped",
    "skips",
]


class Start(NamedTuple):
    """Where an epoch begins."""

    partition: int
    checkpoint: Checkpoint | None
    """What its state is loaded from; None: it begins with an empty one."""
    next_offset: int
    """The first offset that is taken; those up to the checkpoint's are acknowledged only."""
    gaps: bool
    """Whether offsets may be missing."""
    wait_for_first: bool
    """With ``gaps``: whether the log has ``next_offset``. Until it comes, any other offset that is
    delivered is of an earlier assignment, and ignored."""
    obsolete: Sequence[Key]
    """Keys of the table that go once the new epoch has written its first checkpoint."""
    skipped: Sequence[Sequence[int]] = ()
    """See `skips`."""


@dataclass(frozen=True)
class Refusal:
    """Why no epoch may begin: the rule that is broken, and the way out."""

    rule: str
    """Its name in `rules.RULES`."""
    where: str
    text: str
    way_out: str

    def __str__(self) -> str:
        return f"{self.where}: {self.text}; {self.way_out}"

    def exception(self) -> ConfigurationError | StateError:
        """It, to be raised."""
        return (ConfigurationError if RULES[self.rule].wrong else StateError)(str(self))


def decide(facts: Facts, found: Sequence[Checkpoint]) -> Start | Refusal:
    """Where the owner of a partition begins.

    Parameters
    ----------
    facts : of the group and the log
    found : what the changelog holds, see `checkpoints`

    Returns
    -------
    The start, or the first of `rules.RULES` that is broken
    """
    for refusal in refusals(facts, found):
        return refusal
    first = facts.next_offset
    if facts.gaps and facts.first is not None:
        first = max(first, facts.first)
    return Start(
        facts.partition,
        latest(found),
        first,
        facts.gaps,
        facts.gaps and facts.first is not None,
        [key for each in found for key in each.keys],
        skips(facts, latest(found)),
    )


def skips(facts: Facts, chosen: Checkpoint | None) -> list[list[int]]:
    """The first and the last offset of each gap that a partition's state was told to leave out."""
    committed, skipped = facts.position.committed, facts.position.skipped
    found = [] if chosen is None else list(chosen.meta.get("skipped", []))
    if committed is None or skipped is None or (chosen is not None and chosen.offset >= committed):
        return found
    return [*found, [skipped, committed - 1]]


def refusals(
    facts: Facts, found: Sequence[Checkpoint], rules: Collection[str] | None = None
) -> list[Refusal]:
    """All rules that are broken, in their order; ``rules``: only these."""
    case = Case(facts, found, latest(found))
    return [
        Refusal(name, facts.where, *rule.says(case))
        for name, rule in RULES.items()
        if (rules is None or name in rules) and rule.broken(case)
    ]


BOUND = ("version", *BINDINGS)
"""Rules that the newest ``meta`` alone can break."""


def check_newest(topic: str, stage: Stage[Any], newest: Mapping[int, Checkpoint]) -> None:
    """StateError where a state was written under other bindings than this stage's. Asked before a
    worker joins its group: another key should be said at once, and not when the first message
    comes.

    Parameters
    ----------
    newest : of each partition of the log, the ``meta`` that was written last
    """
    for number, found in newest.items():
        facts = replace(_nowhere(topic, number), bindings=bindings_of(stage))
        case = Case(facts, [found], found)
        for name in BOUND:
            if found.meta and RULES[name].broken(case):
                raise Refusal(name, facts.where, *RULES[name].says(case)).exception()


def check_partitions(topic: str, expected: int, found: int) -> None:
    """StateError where a topic has other partitions than its topology says."""
    facts = replace(_nowhere(topic, 0), partitions=expected, partitions_found=found)
    for refusal in refusals(facts, [], ("partitions",)):
        raise refusal.exception()


def check_deployment(topic: str, expected: str, found: str) -> None:
    """StateError where a raw topic is not the one that a worker has begun with."""
    facts = replace(_nowhere(topic, 0), replaced=expected != found)
    for refusal in refusals(facts, [], ("deployment",)):
        raise refusal.exception()


def no_record(topic: str, partition: int, offset: int) -> Refusal:
    """What to say of a raw topic without a record at this offset."""
    [refusal] = refusals(replace(_nowhere(topic, partition), hole=offset), [], ("gaps",))
    return refusal


def _nowhere(topic: str, partition: int) -> Facts:
    """Of a partition of which nothing was asked."""
    return Facts(topic, partition, PartitionOffsets(None, 0, 0, begun=False), header=False)


SKIPPABLE = frozenset({"unread", "log_start"})
"""Rules that a gap breaks, of which the group may be told that it is one."""


def skipped(facts: Facts, found: Sequence[Checkpoint]) -> PartitionOffsets | Refusal | None:
    """Where a group has to go on, so that a worker can begin behind what its log has lost.

    It is sound where all that was reported is in the state: users then have their ledgers and last
    slots, and nothing of what is lost is drawn a second time. That has to be known beside.

    Returns
    -------
    What to commit; None where nothing is lost; why not, where a worker would still be refused
    """
    if not refusals(facts, found, SKIPPABLE):
        return None
    chosen, start = latest(found), facts.position.start
    position = facts.position._replace(committed=start, begun=True)
    if chosen is not None:
        position = position._replace(begun=False, skipped=chosen.offset + 1)
    elif facts.folded_before or facts.acknowledged is not None:
        return Refusal(
            "complete",
            facts.where,
            "there is no complete state of what was reported before the gap",
            "bring the changelog back",
        )
    then = decide(replace(facts, position=position), found)
    return then if isinstance(then, Refusal) else position


REWINDABLE = frozenset({"complete", "current"})
"""Rules that a group can be set back for: what it has acknowledged is more than a state has."""


def rewound(facts: Facts, found: Sequence[Checkpoint], first: int) -> int | Refusal | None:
    """Where a group has to be set back to, so that a worker can begin.

    It is sound where the log still has all that follows the state: noise is keyed, so what is read
    again gives the same reports, byte for byte, and the collector counts them once.

    Parameters
    ----------
    first : the first offset that a stage folds where it begins with an empty state

    Returns
    -------
    The offset to commit; None where the group is not ahead of its state; why not, where a worker
    would still be refused
    """
    if not refusals(facts, found, REWINDABLE):
        return None
    chosen = latest(found)
    to = first if chosen is None else chosen.offset + 1
    # Where nothing depends on a key it is empty; one that is not known might be another one
    if chosen is None and facts.bindings.get("key") != "":
        return Refusal(
            "complete",
            facts.where,
            "there is no complete state that would tell whether the key is still the same",
            "bring the changelog back",
        )
    for refusal in refusals(facts, found):
        if refusal.rule not in REWINDABLE:
            return refusal
    if chosen is not None and chosen.sealed:
        return Refusal(
            "sealed",
            facts.where,
            "the state is sealed, and cannot be looked at",
            "give the key that it was written under",
        )
    moved = replace(facts, position=facts.position._replace(committed=to, begun=False))
    then = decide(moved, found)
    return then if isinstance(then, Refusal) else to
