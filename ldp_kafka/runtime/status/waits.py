"""What the next release waits for: one decision over the facts, by rules in their order."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ldp_kafka.accounting.words import span
from ldp_kafka.errors import Reason
from ldp_kafka.runtime.status.closing import ALL, NONE
from ldp_kafka.runtime.status.facts import Facts, InputPartition
from ldp_kafka.runtime.status.words import slot_name, some
from ldp_kafka.runtime.status.wrong import (
    fast_clock,
    in_several_partitions,
    lacks_offsets,
    open_transaction,
    twice,
)

__all__ = ["BROKEN", "RULES", "RUNS", "WAITS", "Verdict", "waits_for"]

RUNS, WAITS, BROKEN = "runs", "waits", "broken"
"""All is as it should be; something has to come by itself; somebody has to do something."""


class Verdict(NamedTuple):
    """What the next release waits for."""

    rule: str
    """Its name in `RULES`."""
    state: str
    """`RUNS`, `WAITS` or `BROKEN`."""
    line: str


def waits_for(facts: Facts) -> Verdict:
    """The first of `RULES` that has something to say; the last one always has."""
    for name, (state, rule) in RULES.items():
        line = rule(facts)
        if line is not None:
            return Verdict(name, state, line)
    raise AssertionError("the last rule is for all that is left")


def _brokers(facts: Facts) -> str | None:
    away = [each for each in facts.sides if each.away is not None]
    if not away:
        return None
    said = "; ".join(f"{each.name}: {each.away}" for each in away)
    return f"waits for brokers that do not answer: {said}"


def _topics(facts: Facts) -> str | None:
    missing = [each for each in facts.topics if each.found is None]
    if not missing:
        return None
    if not all(each.ours for each in missing):
        name = next(each.name for each in missing if not each.ours)
        return f"waits for topic {name}, which is not there: its owner has to create it"
    names = some(each.name for each in missing)
    return f"waits for topics that are not there: {names}: `ldp-kafka topics` makes them"


def _partitions(facts: Facts) -> str | None:
    for each in facts.topics:
        if not each.fits:
            key = facts.given_by if each.name == facts.given else "input.partitions"
            return (
                f"waits for topic {each.name} as it must be: with {each.partitions} partitions, and"
                f" it has {each.found} ({key})"
            )
    return None


def _workers(facts: Facts) -> str | None:
    own = [each for each in facts.groups if not each.copies]
    without = [each for each in own if each.members == 0]
    if not without:
        return None
    roles = ", ".join(f"--role {each.role}" for each in without)
    start = "`ldp-kafka run`" + (f" with {roles}" if len(without) < len(own) else "")
    return (
        f"waits for workers: no member in group {some(each.name for each in without)}: start them,"
        f" {start}"
    )


def _empty(facts: Facts) -> str | None:
    whole = facts.input and all(_is_whole(each) for each in facts.input)
    nothing = whole and not any(each.events or each.bad for each in facts.input)
    # of a topic that is relayed, what is not copied yet is no event yet
    if not (facts.given_messages == 0 or (nothing and facts.given == facts.log)):
        return None
    what = "reports of devices" if facts.devices else "events"
    held = "is empty" if facts.given_messages == 0 else "has none, but ticks or requests"
    return f"waits for {what}: {facts.given} {held}"


def _letters(facts: Facts) -> str | None:
    bad, sampled = facts.bad, sum(each.sampled for each in facts.input)
    if not bad or any(each.events for each in facts.input):
        return None
    of = f"the {sampled:,} messages of {facts.log}"
    if not all(_is_whole(each) for each in facts.input):
        of = f"the last {sampled:,} messages of {facts.log}"
    first, *others = bad
    more = f" (also {', '.join(others)})" if others else ""
    rows = sum(bad.values())
    said = f"all of {of} are dead letters"
    if rows != sampled:
        what = "report" if facts.devices else "event"
        said = f"no {what} is in {of}, but {rows:,} dead letter{'s' * (rows > 1)}"
    return f"{said}: {Reason(first).sentence}{more}"


def _current(facts: Facts) -> str | None:
    done, event = facts.releases.through, facts.event
    if facts.closing.waits == NONE:
        if not facts.releases.total or _lags(facts) or not _all_known(facts):
            return None
        return "up to date: all messages are read, and each report was released when it came"
    if done is None or event is None or event > done:
        return None
    part = "" if all(_is_whole(each) for each in facts.input) else " among the last messages"
    return f"up to date: no event{part} is later than slot {_slot(facts, done)}, which is done"


def _behind(facts: Facts) -> str | None:
    if not _lags(facts):
        return None
    due, through = _due(facts), facts.through
    told = through is not None and (due is None or through >= due)
    blind = through is None and facts.input_why is not None
    if not (facts.closing.waits == NONE or told or blind):
        return None
    group = next(each for each in facts.groups if each.lag)
    lag = group.most
    run = "" if group.members is not None else " (whether it has members is not known here)"
    return (
        f"waits for group {group.name}{run}, which has not acknowledged {lag.total:,} messages of"
        f" {lag.topic}, most of them in partition {lag.worst}"
    )


def _idle(facts: Facts) -> str | None:
    due = _due(facts)
    if facts.closing.waits != ALL or due is None:
        return None
    by = [(each, each.through(facts.closing)) for each in facts.input]
    late = [each for each, through in by if through is None or through < due]
    if not late or len(late) == len(by):
        return None
    names = some(str(each.number) for each in late)
    which = f"partition{'s' * (len(late) > 1)} {names} of {facts.log}"
    what = "a tick" if facts.clock else "an event or tick"
    return (
        f"waits for {which}: {_come_to(facts, late[0])}; slot {_slot(facts, due)} is released when"
        f" {what} of {_slot(facts, facts.closing.closer(due))} or later comes"
        f" {'in each of them' if len(late) > 1 else 'there'}{_ticks(facts)}"
    )


def _silent(facts: Facts) -> str | None:
    if _lags(facts) or not _all_known(facts) or facts.releases.total is None:
        return None
    due, through = _due(facts), facts.through
    if facts.closing.waits != NONE and (due is None or through is None or through < due):
        return None
    return (
        "waits for reports: all messages are read, and no release came of what is closed. Its"
        " events came late or for a slot that the user had reported, the budget refused them, or"
        " nobody was to report (ldp_late_total, ldp_duplicates_total, ldp_refused_total,"
        " ldp_silent_total)"
    )


def _open(facts: Facts) -> str | None:
    due, closing = _due(facts), facts.closing
    if due is None or closing.waits == NONE or not facts.input:
        return None
    why = [f"`lateness: {closing.lateness}`"] if closing.lateness else []
    why += [f"the method's delay of {closing.behind} slots"] if closing.behind else []
    why += [f"a window of {closing.hop} slots"] if closing.hop > 1 else []
    why += [f"`hold: {closing.hold}` (answers to requests)"] if closing.hold else []
    keeps = f"{', '.join(why)} {'keeps' if len(why) == 1 else 'keep'} it" if why else "it is"
    where = " in each partition" if closing.waits == ALL and len(facts.input) > 1 else ""
    # it waits for the last of them, or for any
    find = min if closing.waits == ALL else max
    far = find(facts.input, key=lambda each: _through(each, facts))
    return (
        f"waits until slot {_slot(facts, due)} closes: its events go to {_slot(facts, due + 1)},"
        f" and {keeps} open until an event or tick of {_slot(facts, closing.closer(due))} or later"
        f" comes{where}; partition {far.number}: {_come_to(facts, far)}"
    )


def _unknown(facts: Facts) -> str | None:
    why = [facts.input_why, facts.releases.why, *(each.not_asked for each in facts.sides)]
    said = "; ".join(dict.fromkeys(each for each in why if each))
    return f"what it waits for is not known here{': ' + said if said else ''}"


RULES: dict[str, tuple[str, Callable[[Facts], str | None]]] = {
    "brokers": (BROKEN, _brokers),
    "topics": (BROKEN, _topics),
    "partitions": (BROKEN, _partitions),
    "gaps": (BROKEN, lacks_offsets),
    "workers": (BROKEN, _workers),
    "empty": (WAITS, _empty),
    "dead_letters": (BROKEN, _letters),
    "clock": (BROKEN, fast_clock),
    "split": (BROKEN, in_several_partitions),
    "second_reports": (BROKEN, twice),
    "transaction": (WAITS, open_transaction),
    "current": (RUNS, _current),
    "behind": (WAITS, _behind),
    "idle": (WAITS, _idle),
    "silent": (WAITS, _silent),
    "open": (RUNS, _open),
    "unknown": (WAITS, _unknown),
}
"""By name, what is looked at in this order: the state of a topology in which the rule has something
to say, and what it says; None where it has nothing.
"""


def _slot(facts: Facts, slot: int) -> str:
    return slot_name(slot, facts.closing.slot_ms)


def _is_whole(partition: InputPartition) -> bool:
    """Whether every message of it was read."""
    return partition.messages is not None and partition.sampled >= partition.messages


def _lags(facts: Facts) -> bool:
    return any(each.lag for each in facts.groups)


def _all_known(facts: Facts) -> bool:
    """Whether no group could have something to read."""
    return (
        bool(facts.groups)
        and all(each.why is None for each in facts.groups)
        and (all(each.not_asked is None for each in facts.sides))
    )


def _due(facts: Facts) -> int | None:
    """The slot that is to be released next; None where nothing tells."""
    found = facts.releases
    done = found.through
    if done is not None:
        return done + 1
    if found.total != 0 and found.first is None:  # there are some, which could not be read
        return None
    if found.first is not None:
        return found.first
    oldest = [each.oldest for each in facts.input if each.oldest is not None]
    return min(oldest, default=None)


def _through(partition: InputPartition, facts: Facts) -> int:
    through = partition.through(facts.closing)
    return -(2**62) if through is None else through


def _come_to(facts: Facts, partition: InputPartition) -> str:
    """How far a partition is, in words."""
    if partition.newest is not None:
        return f"its latest event or tick is of {_slot(facts, partition.newest)}"
    if partition.closed is not None:
        return f"its slots are closed through {_slot(facts, partition.closed)}"
    if partition.messages is None:
        return "nothing is known of it here"
    if partition.events:  # which do not say so where ticks alone do
        return "its last messages do not say how far it is"
    return "it has no event" if partition.messages else "it is empty"


def _ticks(facts: Facts) -> str:
    """What may write them."""
    if not facts.written:
        return (
            " (nothing is written into someone else's topic: relay: true copies it into one that"
            " gets ticks)"
        )
    if facts.clock:
        return " (its worker writes a tick there at the end of each slot, by its clock)"
    if facts.idle_ms is None:
        return " (`input.idle: 30s` has workers write ticks where no event comes for so long)"
    return f" (`input.idle: {span(facts.idle_ms)}` has workers write one after such a silence)"
