"""What a topology whose method is a protocol reports, asks and keeps, for its plan."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import NamedTuple

from ldp_kafka.accounting import MICRO
from ldp_kafka.accounting.words import at_most
from ldp_kafka.methods.protocols import Decider, Responder
from ldp_kafka.methods.protocols.request import SECOND
from ldp_kafka.topology.model import Topology

__all__ = ["Rounds", "rounds"]

REQUEST_BYTES = 140  # about
FEW = 30  # reports of the first phase, below which its noise decides
BRIEF_MS = 10_000  # a worker that is started anew is away for as long
SLOT_BYTES = 8  # of a held value
ROW_BYTES = 40  # of one in the database of a device: digest, slot, value and time


class Rounds(NamedTuple):
    """The rounds of one slot of a topology whose coordinator asks for a second phase, or of one
    whose coordinator only releases.
    """

    first: int
    """Reports of the first phase, at most."""
    second: int
    """Reports of the second phase, at most; 0: there is none."""
    packed: int
    """Bytes of a report of the second phase beside its id and slot."""
    held: int
    """Bytes of a user's state in which values wait for a request."""


def rounds(topology: Topology, users: int) -> Rounds | None:
    """None where the topology's method is no protocol."""
    method = topology.method
    if not isinstance(method, Responder):
        return None
    protocol = method.protocol
    first = _first(protocol, users)
    if not protocol.adaptive:
        return Rounds(first, 0, 0, 0)
    terms, source = protocol.terms, topology.input
    form = method.form(SECOND, terms.second)
    packed = 0 if form is None else form.blank(1).nbytes
    second = users
    if terms.population:  # half B, all of it or half of it
        second = ceil(users / 2 if terms.least[1] == protocol.window else users / 4)
    # a slot's place in the ring of held values is free again when the slot is settled; values that
    # are taken together come there when their slot is closed
    places = source.hold + (0 if topology.holds_slots else source.lateness + 1)
    size = ROW_BYTES if topology.flow.raw is None else SLOT_BYTES
    return Rounds(first, second, packed, size * places)


def _first(protocol: Decider, users: int) -> int:
    terms = protocol.terms
    if not terms.population:
        return users
    return max(1, ceil(users / (protocol.window * (2 if protocol.adaptive else 1))))


def spending(topology: Topology) -> str | None:
    """What a report costs, in words; None where the topology's method is no protocol that adapts
    its costs.
    """
    method = topology.method
    if not isinstance(method, Responder) or method.terms.population or method.phases < 2:
        return None
    terms = method.terms
    return (
        f"epsilon {at_most(terms.first / MICRO)} a report of the first phase, in every slot; what"
        f" the coordinator asks for has at most {at_most(terms.second / MICRO)} in a window"
    )


def lines(topology: Topology) -> Iterator[str]:
    """What is asked, for people."""
    if topology.method.phases < 2:
        return
    source = topology.input
    if topology.flow.raw is None:
        yield (
            f"requests     one a slot, about {REQUEST_BYTES} bytes, read by every device; values"
            f" wait for it in the device's database, while up to {source.hold} more slots close"
            " (hold)"
        )
        return
    yield (
        f"requests     one a slot, about {REQUEST_BYTES} bytes, copied into each of"
        f" {source.partitions} partitions of {topology.raw_topic}; values wait for it at the edge,"
        f" sealed, while up to {source.hold} more slots close (hold)"
    )


def warnings(topology: Topology, found: Rounds) -> Iterator[str]:
    """What speaks against rounds such as these."""
    if not found.second:
        return
    method, source = topology.method, topology.input
    if found.first < FEW:
        yield (
            f"{method.name}: {found.first:,} reports a slot are too few to see a change by: noise"
            " decides when to publish; more users, a larger epsilon or a shorter window would help"
        )
    if topology.flow.raw is None:
        yield (
            f"{method.name}: devices must poll for requests more often than once in"
            f" {source.slot_ms:,} ms: an answer that comes when the slot's second phase is closed"
            " is spent, and not counted; where slots are asked one after the other, each has one"
            " slot's time"
        )
    if source.hold * source.slot_ms < BRIEF_MS:
        yield (
            f"hold {source.hold}: a request that comes {source.hold * source.slot_ms:,} ms after"
            " its slot was closed is not answered, and a worker that is started anew is away for"
            " longer: such slots are approximations; raise input.hold"
        )
