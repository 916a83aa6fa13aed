"""Whether a budget file lets a topology run, and what it says of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ldp_kafka.accounting.admission import Claim, frees
from ldp_kafka.accounting.words import moment
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.topology.budget_file import Admitted, EdgeFile, load_edge
from ldp_kafka.topology.model import Topology
from ldp_kafka.topology.stamps import UNBOUNDED, Stamps, assumed
from ldp_kafka.topology.unset import require

__all__ = ["Admission", "admission", "admit"]


@dataclass(frozen=True)
class Admission:
    """What a budget file says of one topology, at one moment.

    Parameters
    ----------
    edge : the file
    now_ms : epoch milliseconds
    at : the topology's place among those admitted; None: it is not among them
    refusals : why it may not run; empty where it may
    stamps : of the raw topic, which decide whether what is retired ever counts no longer; None: its
        broker was not asked, and they are taken for bounded
    """

    edge: EdgeFile
    now_ms: int
    at: int | None
    refusals: tuple[str, ...]
    stamps: Stamps | None = None

    @property
    def until_ms(self) -> int | None:
        """From when it does not run."""
        return None if self.at is None else self.edge.admits[self.at].until_ms

    @property
    def asks(self) -> bool:
        """Whether the raw topic's broker has a say in it: the file says how what is retired counts
        no longer.
        """
        return any(limit.kept_ms is not None for limit in self.edge.limits)

    def require(self) -> None:
        """ConfigurationError that says why the topology may not run, where it may not."""
        if self.refusals:
            raise ConfigurationError(
                "\n".join(f"{self.edge.file}: {reason}" for reason in self.refusals)
            )

    def lines(self) -> list[str]:
        """Text for people: the sum, where the part of each comes from, and what stands
        against it.
        """
        claims = () if self.at is None else self._claims(self.at)
        sums = [
            f"edge budget  {self.edge.name}, {claim.arithmetic}"
            for claim in claims
            if claim.allowed
        ] or [f"edge budget  {self.edge.name} ({self.edge.file})"]
        assumes = [] if self.assumes is None else [f"  assumed: {self.assumes}"]
        refused = [f"refused      {reason}" for reason in self.refusals]
        return [*sums, *self._parts(), *assumes, *refused]

    @property
    def assumes(self) -> str | None:
        """What is taken for granted of the raw topic's broker, which was not asked; None: nothing
        hangs on it.
        """
        ahead = [
            each.topology.input.max_ahead_ms
            for each in self.edge.admits
            if each.until_ms is not None
        ]
        if self.stamps is not None or not (self.asks and ahead):
            return None
        return assumed(self.edge.raw_topic, min(ahead))

    def _claims(self, place: int) -> tuple[Claim, ...]:
        return self.edge.claims(place, self.now_ms, self.stamps)

    def _parts(self) -> Iterator[str]:
        wide = max(len(each.topology.name) for each in self.edge.admits)
        for place, each in enumerate(self.edge.admits):
            claims = self._claims(place)
            state = "" if all(claim.allowed for claim in claims) else "; refused"
            state = state if each.until_ms is None else f"; {self._retired(each)}"
            yield (
                f"  {each.topology.name:<{wide}}  {claims[0].how}; fingerprint"
                f" {each.topology.fingerprint}{state}"
            )

    def _retired(self, each: Admitted) -> str:
        run = next((limit for limit in self.edge.limits if limit.run_ms is not None), None)
        when = None if run is None else frees(each.spender(self.stamps), run)
        counts = (
            "counts for ever"
            if when is None
            else "no longer counts"
            if self.now_ms > when
            else f"counts until {moment(when)}"
        )
        if when is not None and each.topology.guarantee.level == "user":
            counts += " in any run"
        until = each.until_ms or 0
        return f"{'retired' if self.now_ms >= until else 'runs until'} {moment(until)}, {counts}"

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "edge": self.edge.name,
            "file": self.edge.file,
            "raw_topic": self.edge.raw_topic,
            "admits": [
                {
                    "topology": each.topology.name,
                    "fingerprint": each.topology.fingerprint,
                    "until": None if each.until_ms is None else moment(each.until_ms),
                    "claims": [claim.as_json() for claim in self._claims(place)],
                }
                for place, each in enumerate(self.edge.admits)
            ],
            "admitted": not self.refusals,
            "refusals": list(self.refusals),
            "assumes": self.assumes,
        }


def admission(
    topology: Topology, now_ms: int | None = None, stamps: Stamps | None = None
) -> Admission | None:
    """What its budget file says of a topology; None where it names none.

    Parameters
    ----------
    now_ms : epoch milliseconds; default: this moment
    stamps : of the raw topic; None: not asked, as for a plan, and taken for bounded

    Raises
    ------
    TopologyError : the budget file is wrong, or its name is left to a variable that is not set
    ConfigurationError : it cannot be read

    """
    if topology.edge.budget_file is None:
        return None
    require(topology, ("budget",))
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    edge = load_edge(topology.edge.budget_file)
    at = next(
        (place for place, each in enumerate(edge.admits) if each.topology.name == topology.name),
        None,
    )
    return Admission(edge, now, at, tuple(_refusals(edge, topology, at, now, stamps)), stamps)


def admit(topology: Topology, now_ms: int | None = None, stamps: Stamps = UNBOUNDED) -> int | None:
    """Let a topology run, or raise; returns the moment, in epoch milliseconds, at which it must
    end, or None.

    Parameters
    ----------
    now_ms : epoch milliseconds; default: this moment
    stamps : of the raw topic; without them what is retired counts for ever

    Raises
    ------
    ConfigurationError : its budget file does not admit it, or it would lose more than is left; with
        the sum

    """
    found = admission(topology, now_ms, stamps)
    if found is None:
        return None
    found.require()
    return found.until_ms


def _refusals(
    edge: EdgeFile, topology: Topology, at: int | None, now_ms: int, stamps: Stamps | None
) -> Iterator[str]:
    if at is None:
        yield (
            f"edge {edge.name} does not admit {topology.name}; it admits"
            f" {', '.join(each.topology.name for each in edge.admits)}"
        )
        return
    mine, until = edge.admits[at].topology, edge.admits[at].until_ms
    if (mine.fingerprint, mine.layout) != (topology.fingerprint, topology.layout):
        yield (
            f"edge {edge.name} admits {mine.file} (fingerprint {mine.fingerprint}, layout"
            f" {mine.layout}) as {topology.name}, and not {topology.file} (fingerprint"
            f" {topology.fingerprint}, layout {topology.layout})"
        )
    if until is not None and now_ms >= until:
        yield f"edge {edge.name} retired {topology.name} on {moment(until)}"
    refused = [claim for claim in edge.claims(at, now_ms, stamps) if not claim.allowed]
    yield from (f"edge {edge.name}, {claim.arithmetic}" for claim in refused)
    freeable = any(claim.limit.kept_ms is not None for claim in refused)
    if stamps is not None and freeable:
        yield from dict.fromkeys(
            why
            for each in edge.admits[:at]
            if each.until_ms is not None
            and (why := stamps.unbounded(edge.raw_topic, each.topology.input.max_ahead_ms))
        )
