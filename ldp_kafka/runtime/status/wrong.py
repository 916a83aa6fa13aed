"""What is wrong with the input though releases go on: each in a line, with its cure."""

from __future__ import annotations

from ldp_kafka.accounting.words import moment, span
from ldp_kafka.errors import Reason
from ldp_kafka.runtime import partitioning
from ldp_kafka.runtime.recovery.rules import GAPS
from ldp_kafka.runtime.recovery.start import no_record
from ldp_kafka.runtime.stages import clocks
from ldp_kafka.runtime.status.facts import Facts
from ldp_kafka.runtime.status.words import slot_name, some

__all__ = ["fast_clock", "in_several_partitions", "lacks_offsets", "open_transaction", "twice"]


def lacks_offsets(facts: Facts) -> str | None:
    """That the topic has offsets without records, or soon will; None where it has not, or where the
    topology allows it.
    """
    if facts.compacted:
        return f"{facts.given} is compacted: {GAPS}"
    return None if facts.hole is None else str(no_record(facts.given, *facts.hole))


def open_transaction(facts: Facts) -> str | None:
    """That one keeps from readers what comes behind it; None where none does."""
    if not facts.open:
        return None
    first = facts.open[0]
    also = f" (also in partition {some(str(o.partition) for o in facts.open[1:])})"
    since = "" if first.since < 0 else f" since {moment(first.since - first.since % 1000)}"
    return (
        f"waits for a transaction that is open{since}, in partition {first.partition} of"
        f" {facts.given} at offset {first.offset}{also * (len(facts.open) > 1)}: nothing behind it"
        f" is given to readers, {first.behind:,} offsets by now. Its producer has to end it, or the"
        " broker does after transaction.timeout.ms (`kafka-transactions.sh find-hanging` finds one"
        " that nobody ends)"
    )


def fast_clock(facts: Facts) -> str | None:
    """That an event far ahead of its record's timestamp closed the slots of all others; None where
    none did.
    """
    present = facts.present
    by = [
        each
        for each in facts.input
        if each.clocks
        or (present is not None and each.closed is not None and each.closed > present)
    ]
    if not by:
        return None
    late, events = sum(each.clocks for each in by), sum(each.events for each in by)
    told = f" ({late:,} of the {events:,} events read there are late by it alone)" * bool(late)
    return (
        "an event far ahead of its record's timestamp, yet not by more than input.max_ahead"
        f" ({span(facts.max_ahead_ms)}), closed the slots of all others in partition"
        f"{'s' * (len(by) > 1)} {some(str(each.number) for each in by)} of {facts.log}{told}:"
        f" {clocks.CURE}"
    )


def in_several_partitions(facts: Facts) -> str | None:
    """That users are, or that events lie where their users do not belong; None where none do."""
    if facts.split:
        many = facts.split > 1
        return (
            f"{facts.split:,} user{'s' * many} of the events read {'are' if many else 'is'} in"
            f" several partitions of {facts.log}, with a budget in each of them:"
            f" {partitioning.CURE}"
        )
    elsewhere = facts.bad.get(Reason.PARTITION.value, 0)
    if not elsewhere or facts.devices:
        return None
    return (
        f"of the events read in {facts.log} {elsewhere:,} {'are' if elsewhere > 1 else 'is'} no"
        f" good: {Reason.PARTITION.sentence}"
    )


def twice(facts: Facts) -> str | None:
    """That users reported twice in a slot; None where the collector has seen none who did."""
    number, slot = facts.second
    if not number:
        return None
    times = f"{number:,} time{'s' * (number > 1)}"
    last = "" if slot is None else f", last in slot {slot_name(slot, facts.closing.slot_ms)}"
    cause = (
        "a device's database was copied"
        if facts.devices
        else f"they are in several partitions of {facts.log} (`ldp-kafka validate --from-topic`"
        f" counts them; {partitioning.CURE}), or an edge lost its state"
    )
    return (
        f"users reported twice in a slot, at least {times}{last}: what is guaranteed does not hold"
        f" for them: {cause}; mend that, and give the topology a new name"
    )
