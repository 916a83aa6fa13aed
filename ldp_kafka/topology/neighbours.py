"""What two streams have in common, so that releases of a curator, or reports that hide presence, do
not tell one from the other.

The guarantee of a delay method is about one value: the streams have values in the same slots. Which
slots have values, and which values are in time, follows from other records of the log. So one
event can change more than the value of its slot. What it may not change is said beside the
guarantee, wherever that is printed.
"""

from __future__ import annotations

from ldp_kafka.accounting import PRESENCE, Guarantee
from ldp_kafka.topology.sections import Input

__all__ = ["EVENTS", "KNOWN", "MESSAGES", "SLOTS", "STREAMS", "at_a_curator", "at_the_edge"]

SLOTS = "the same slots have values"
"""A slot without an event is not released, and is left out of means of several slots."""
STREAMS = "the same streams have events"
"""A stream is released, under its name, once it has an event."""
MESSAGES = "the same messages can be read"
"""An event in a batch that makes its message too large or too deep takes its neighbours along."""
EVENTS = "the same events close slots"
"""An event that is ahead of the others closes their slots: theirs are late then, and left out."""
KNOWN = "from a user's first event on, whose slot is not hidden"
"""The edge knows of a user by its first event; from then on the user reports in each slot."""


def at_the_edge(promised: Guarantee, source: Input) -> Guarantee:
    """The guarantee of a method where the edge runs it: with presence, since when it is hidden."""
    if promised.protects != PRESENCE:
        return promised
    shared = f", as long as {MESSAGES}" * source.batches
    return promised._replace(within=f"{KNOWN}{shared}")


def at_a_curator(promised: Guarantee, source: Input) -> Guarantee:
    """The guarantee of a method where a curator runs it: what else neighbours have in common."""
    said = {
        SLOTS: not source.zeros,
        STREAMS: not source.streams,
        MESSAGES: source.batches,
        EVENTS: not source.by_ticks,
    }
    kept = [each for each, true in said.items() if true]
    if not kept:
        return promised
    *first, last = kept
    shared = f"{', '.join(first)} and {last}" if first else last
    return promised._replace(within=f"{promised.within}, as long as {shared}")
