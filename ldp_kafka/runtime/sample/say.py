"""A verdict in words, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from ldp_kafka.accounting.words import moment, span
from ldp_kafka.runtime import partitioning
from ldp_kafka.runtime.sample.judge import Problem, Verdict
from ldp_kafka.runtime.sample.looks import Ids, Looks, Slots, Times, Values
from ldp_kafka.runtime.stages import clocks
from ldp_kafka.runtime.stages.per_slot import PER_SLOT
from ldp_kafka.topology import Topology
from ldp_kafka.topology.paths import format_path
from ldp_kafka.topology.sections import MOST_SLOTS

__all__ = ["PRIVATE", "as_json", "lines"]

PRIVATE = "computed from raw values, without noise: for the edge's own eyes; do not pass it on"


def lines(topology: Topology, verdict: Verdict, name: str) -> Iterator[str]:
    """What workers would make of the messages, a line each, for people; no value is in them.

    Parameters
    ----------
    name : of where the messages are from
    """
    yield f"{name}: {_head(verdict)}"
    for wrong in verdict.wrong:
        yield f"  {wrong}"
    if verdict.left_out:
        rows = _many(verdict.left_out, "row")
        yield f"  {rows} without a user, a value or a time: replay leaves such out"
    for problem in verdict.problems:
        yield from _problem(problem)
    yield from _missing(topology, verdict)
    if (looks := verdict.looks) is not None:
        yield f"  users   {_ids(looks.ids)}"
        yield from _split(looks.ids)
        yield f"  times   {_times(topology, verdict, looks.times)}"
        yield from _slots(topology, verdict, looks.slots)
        yield f"  values  {_values(topology, looks.values)}"
    yield f"  note    {PRIVATE}"


def _head(verdict: Verdict) -> str:
    text = f"{_many(verdict.messages, 'message')}, {verdict.with_events:,} of them with events"
    if verdict.events != verdict.with_events:
        text += f" ({_many(verdict.events, 'event')})"
    if verdict.others:
        text += f", {verdict.others:,} of ours (headers, ticks or requests)"
    if not verdict.bad:
        return text
    return f"{text}; {verdict.bad:,} would be dead letters"


def _problem(problem: Problem) -> Iterator[str]:
    yield f"  {problem.count:,} x {problem.reason.sentence}"
    more = ", ..." if problem.count > problem.placed else ""
    yield f"      at {', '.join(problem.places)}{more}"
    if problem.found:
        found = "; ".join(f"{kind} ({number:,})" for kind, number in problem.found)
        yield f"      there is: {found}"


def _missing(topology: Topology, verdict: Verdict) -> Iterator[str]:
    for each in verdict.missing:
        path = format_path(topology.input.fields[each.role])
        hint = "" if each.nearest is None else f": did you mean {each.nearest}?"
        yield f"  input.{each.role}: {path} is not in {each.count:,} of them{hint}"
        if each.array is not None:
            inner = "$" + path.removeprefix(each.array)
            yield (
                f"      {each.array} is an array of objects: set input.events: {each.array}, and"
                f" input.{each.role}: {inner}; what lies around the array begins with ^ then"
            )
    if verdict.names:
        yield f"  most of these have: {', '.join(verdict.names)}"


def _ids(ids: Ids) -> str:
    kinds = _list((ids.whole, "whole numbers"), (ids.distinct - ids.whole, "other text"))
    text = f"{_many(ids.distinct, 'id')} of {_range(ids.shortest, ids.longest)} bytes: {kinds}"
    if ids.not_ascii:
        text += f"; {ids.not_ascii:,} with letters beyond ASCII"
    if ids.alike:
        text += f"; {ids.alike:,} equal another one but for case or spaces: users of their own"
    return text


def _split(ids: Ids) -> Iterator[str]:
    if ids.split:
        yield (
            f"          {ids.split:,} of {_many(ids.distinct, 'id')} lie in more than one"
            f" partition: each has a budget, and reports, in each of them; {partitioning.CURE}"
        )


def _times(topology: Topology, verdict: Verdict, times: Times) -> str:
    kinds = _list(*((number, kind) for kind, number in verdict.time_kinds))
    first, last = (moment(topology.slot_start(slot)) for slot in (times.first, times.last))
    text = f"{kinds}; " if kinds else ""
    text += f"events in {_many(times.slots, 'slot')} of {span(topology.input.slot_ms)}, "
    text += f"from {first}" if times.first == times.last else f"the first from {first}, the last"
    text += "" if times.first == times.last else f" from {last}"
    if times.after_now:
        text += f"; {times.after_now:,} later than now"
    if times.ahead:
        ahead = span(topology.input.max_ahead_ms)
        text += f" ({times.ahead:,} by more than max_ahead, {ahead}: dead letters, if sent now)"
    if times.before_2000:
        text += f"; {times.before_2000:,} before the year 2000"
    return text


def _slots(topology: Topology, verdict: Verdict, slots: Slots) -> Iterator[str]:
    source = topology.input
    text = f"{verdict.events / slots.pairs:.2f} events of a user in a slot with any, at most"
    text += f" {slots.most:,}"
    if slots.repeated:
        fate = "dropped" if PER_SLOT[source.per_slot].drops else "taken together"
        text += f"; {slots.repeated:,} are not their user's first in the slot: {fate}"
        text += f" (input.per_slot: {source.per_slot})"
    if slots.behind and not topology.holds_slots:
        text += f"; {slots.behind:,} come after one of a later slot of their user: dropped"
    yield f"  slots   {text}"
    if slots.late:
        yield (
            f"  late    {slots.late:,} come when their slot is closed (input.lateness:"
            f" {source.lateness}): not reported, in the order of these messages"
        )
        if slots.clocks:
            yield (
                f"      {slots.clocks:,} of them by an event alone that was far ahead of its"
                f" message's timestamp: it closed the slots of all others; {clocks.CURE}"
            )
        if slots.late > slots.clocks:
            yield from _lateness(topology, slots)


def _lateness(topology: Topology, slots: Slots) -> Iterator[str]:
    source, them = topology.input, "the others" if slots.clocks else "all of them"
    if slots.lateness <= MOST_SLOTS:
        later = _many(slots.lateness - source.lateness, "slot")
        yield (
            f"      input.lateness: {slots.lateness} would take {them}; a slot would close"
            f" {later} later, and what waits for that be released so much later"
        )
    else:
        yield (
            f"      they come up to {slots.lateness:,} slots late, and input.lateness is at most"
            f" {MOST_SLOTS:,}: send events in the order of their times"
        )
    if source.batches and slots.several:
        yield (
            f"      {_many(slots.several, 'message')} with events of several slots: the latest of"
            " these closes slots for the messages that follow; send each slot's events in messages"
            " of their own, in the order of slots"
        )


def _values(topology: Topology, values: Values) -> str:
    if values.categories is not None:
        return f"{values.categories:,} of {topology.privacy.categories:,} categories occur"
    share = _percent(values.outside, values.compared)
    if not topology.holds_slots:
        return (
            f"{values.outside:,} of {values.compared:,} ({share}) lie outside the domain, and are"
            " clamped to it"
        )
    slots = _many(values.compared, "slot")
    return (
        f"{values.outside:,} of {slots} of a user ({share}) come to a value outside the domain"
        f" (input.per_slot: {topology.input.per_slot}), which is clamped to it"
    )


def _percent(part: int, whole: int) -> str:
    """Rounded down; 0 % is only said where there is nothing."""
    tenths = 1000 * part // max(whole, 1)
    return "less than 0.1 %" if part and not tenths else f"{tenths / 10:g} %"


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _range(least: int, most: int) -> str:
    return f"{least}" if least == most else f"{least} to {most}"


def _list(*found: tuple[int, str]) -> str:
    """What there is any of; its number where there is more than one kind."""
    there = [(number, kind) for number, kind in found if number]
    if len(there) == 1:
        return there[0][1]
    return ", ".join(f"{number:,} {kind}" for number, kind in there)


def as_json(topology: Topology, verdict: Verdict, name: str) -> dict[str, Any]:
    """The same, for programs."""
    return {
        "source": name,
        "private": PRIVATE,
        "messages": verdict.messages,
        "with_events": verdict.with_events,
        "events": verdict.events,
        "others": verdict.others,
        "left_out": verdict.left_out,
        "wrong": list(verdict.wrong),
        "bad": verdict.bad,
        "lost_share": verdict.lost_share,
        "problems": [
            {
                "reason": problem.reason.value,
                "meaning": problem.reason.meaning,
                "cure": problem.reason.cure,
                "count": problem.count,
                "places": list(problem.places),
                "found": dict(problem.found),
            }
            for problem in verdict.problems
        ],
        "missing": [
            {
                "key": f"input.{each.role}",
                "path": format_path(topology.input.fields[each.role]),
                "count": each.count,
                "did_you_mean": each.nearest,
                "events": each.array,
            }
            for each in verdict.missing
        ],
        "names": list(verdict.names),
        "time_kinds": dict(verdict.time_kinds),
        **_looks(topology, verdict.looks),
    }


def _looks(topology: Topology, looks: Looks | None) -> dict[str, Any]:
    if looks is None:
        return dict.fromkeys(("users", "times", "slots", "values"))
    first, last = (moment(topology.slot_start(at)) for at in (looks.times.first, looks.times.last))
    return {
        "users": asdict(looks.ids),
        "times": {**asdict(looks.times), "first": first, "last": last},
        "slots": asdict(looks.slots),
        "values": asdict(looks.values),
    }
