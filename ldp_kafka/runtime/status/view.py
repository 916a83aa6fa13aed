"""The facts of a topology for people: lines, and rows of tables."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ldp_kafka.accounting.words import span
from ldp_kafka.errors import Reason
from ldp_kafka.runtime.status.facts import Facts, Group, InputPartition, Letters, Side
from ldp_kafka.runtime.status.words import slot_name
from ldp_kafka.runtime.status.wrong import fast_clock, in_several_partitions, twice

__all__ = ["Part", "age", "parts_of"]

_AGES = (86_400_000, 3_600_000, 60_000, 1000)  # milliseconds


class Part(NamedTuple):
    """Lines, and a table below them."""

    lines: Sequence[str]
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()


def parts_of(facts: Facts, now_ms: int | None = None) -> Iterator[Part]:
    """All parts in their order.

    Parameters
    ----------
    now_ms : milliseconds since 1970; default: the clock's
    """
    yield Part([_side(each) for each in facts.sides] + list(_topics(facts)))
    if facts.groups:
        head = ("group", "state", "members", "unread", "most of them in")
        yield Part(list(_unknown(facts.groups)), head, [_group(each) for each in facts.groups])
    yield _input(facts)
    now = int(time.time() * 1000) if now_ms is None else now_ms
    yield Part(
        [
            *(line for each in facts.letters for line in _letters(each)),
            *filter(None, [twice(facts)]),
            _released(facts, now),
        ]
    )


def _side(side: Side) -> str:
    if side.not_asked is not None:
        return f"{side.name}: not asked: {side.not_asked}"
    if side.away is not None:
        return f"{side.name}: no broker answers: {side.away}"
    kind = "an embedded broker" if side.embedded else _many(side.brokers or 0, "broker")
    return f"{side.name}: {kind}, cluster {side.cluster}"


def _topics(facts: Facts) -> Iterator[str]:
    for each in facts.topics:
        if each.found is None:
            yield f"topic {each.name} ({each.side}) is not there"
        elif not each.fits:
            yield (
                f"topic {each.name} ({each.side}) has {_many(each.found, 'partition')}, and must"
                f" have {each.partitions}"
            )
    if facts.topics and all(each.fits for each in facts.topics):
        yield f"topics: all {len(facts.topics)} are there with their partitions"


def _unknown(groups: Sequence[Group]) -> Iterator[str]:
    for each in groups:
        if each.why is not None:
            yield f"group {each.name}: not known: {each.why}"


def _group(group: Group) -> list[str]:
    most = group.most if group.lags and group.lag else None
    return [
        group.name,
        group.state or "not known here",
        "-" if group.members is None else str(group.members),
        f"{group.lag:,}" if group.lags else "-",
        ""
        if most is None
        else f"{most.topic} partition {most.worst}: {most.partitions[most.worst]:,}",
    ]


def _input(facts: Facts) -> Part:
    log = facts.log
    lines = [f"input: {facts.given}" + ("" if log == facts.given else f", copied into {log}")]
    if facts.input_why is not None:
        lines.append(f"its messages were not read: {facts.input_why}")
    if any(each.sampled < (each.messages or 0) for each in facts.input):
        lines.append("of each partition its last messages were read, not all: figures are theirs")
    if fast := fast_clock(facts):
        lines.append(fast)
    if late := sum(each.late - each.clocks for each in facts.input):
        lines.append(
            f"{late:,} of the {sum(each.events for each in facts.input):,} events read come when"
            " their slot is closed, and are not reported: a greater input.lateness takes them"
            " (ldp-kafka validate --from-topic says which)"
        )
    if scattered := in_several_partitions(facts):
        lines.append(scattered)
    head = (
        "partition",
        "messages",
        "read",
        "reports" if facts.devices else "events",
        "bad rows",
        "latest event of",
        "event or tick of",
        "closes through",
    )
    return Part(lines, head, [_partition(facts, each) for each in facts.input])


def _partition(facts: Facts, each: InputPartition) -> list[str]:
    def slot(number: int | None) -> str:
        return "-" if number is None else slot_name(number, facts.closing.slot_ms)

    asked = each.messages is not None
    return [
        str(each.number),
        f"{each.messages:,}" if asked else "not asked",
        f"{each.sampled:,}" if asked else "-",
        f"{each.events:,}" if asked else "-",
        f"{sum(each.bad.values()):,}" if asked else "-",
        slot(each.event),
        slot(each.newest),
        slot(each.through(facts.closing)) if facts.closing.waits != "none" else "as they come",
    ]


def _letters(letters: Letters) -> Iterator[str]:
    if letters.total is not None:
        part = f", the last {letters.sampled:,} of which were read" * (
            letters.sampled < letters.total
        )
        yield f"{letters.topic}: {_many(letters.total, 'dead letter')}{part}"
    if letters.why is not None:
        yield f"{letters.topic}: not read: {letters.why}"
    for code, number in letters.reasons.items():
        yield f"  {number:,} x {Reason(code).sentence}"


def _released(facts: Facts, now: int) -> str:
    found = facts.releases
    if found.total is None:
        return f"{found.topic}: not read: {found.why}"
    if not found.total:
        return f"{found.topic}: no release yet"
    held = f"{found.topic}: {_many(found.total, 'record')}"
    if found.slot is None:
        return f"{held}; not read: {found.why}" if found.why else f"{held}, none of them a release"
    when = found.written
    ago = "" if when is None or when < 0 else f", written {age(now - when)} ago"
    slot = slot_name(found.slot, facts.closing.slot_ms)
    return f"{held}; latest: {found.statistic} of slot {slot}{ago}"


def age(milliseconds: int) -> str:
    """A duration, in whole units of the largest kind.

    Examples
    --------
    >>> age(5_400_000), age(61_000), age(40)
    ('1h', '1m', '0s')
    """
    unit = next((each for each in _AGES if milliseconds >= each), 1000)
    return span(milliseconds // unit * unit) if milliseconds >= unit else "0s"


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"
