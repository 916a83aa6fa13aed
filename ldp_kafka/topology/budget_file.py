"""A budget file: what all topologies on one raw topic may lose together, which are admitted, and
whether one of them may run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path as FilePath
from typing import Any, NamedTuple

from ldp_kafka.accounting import micro
from ldp_kafka.accounting.admission import Claim, Limit, Loss, Spender, frees, judge
from ldp_kafka.accounting.words import instant, moment
from ldp_kafka.errors import ConfigurationError, TopologyError
from ldp_kafka.topology.document import Document, Unset, read
from ldp_kafka.topology.durations import parse_duration
from ldp_kafka.topology.loader import load
from ldp_kafka.topology.model import Topology
from ldp_kafka.topology.schema import problems, schema
from ldp_kafka.topology.unset import require

__all__ = ["Admission", "Admitted", "EdgeFile", "admission", "admit", "load_edge"]


class Admitted(NamedTuple):
    """One topology of a budget file."""

    topology: Topology
    until_ms: int | None
    """Epoch milliseconds from which it does not run; None: it is not retired."""

    @property
    def spender(self) -> Spender:
        """As far as sums go. What it reads before it ends is at most ``max_ahead`` later than the
        clock, as records are stamped.
        """
        source = self.topology.input
        return Spender(
            self.topology.name,
            self.topology.guarantee,
            source.slot_ms,
            None if self.until_ms is None else self.until_ms + source.max_ahead_ms,
        )


@dataclass(frozen=True)
class EdgeFile:
    """A budget file, checked.

    Parameters
    ----------
    name, file, raw_topic : as they were given
    limits : over any run, over a life, or both
    admits : in the order in which they were admitted
    """

    name: str
    file: str
    raw_topic: str
    limits: tuple[Limit, ...]
    admits: tuple[Admitted, ...]

    def claims(self, at: int, now_ms: int) -> tuple[Claim, ...]:
        """What the topology at this place asks for of each limit that speaks of it."""
        before, mine = [each.spender for each in self.admits[:at]], self.admits[at].spender
        return tuple(
            judge(limit, before, mine, now_ms)
            for limit in self.limits
            if limit.run_ms is not None or mine.guarantee.level == "user"
        )


@dataclass(frozen=True)
class Admission:
    """What a budget file says of one topology, at one moment.

    Parameters
    ----------
    edge : the file
    now_ms : epoch milliseconds
    at : the topology's place among those admitted; None: it is not among them
    refusals : why it may not run; empty where it may
    """

    edge: EdgeFile
    now_ms: int
    at: int | None
    refusals: tuple[str, ...]

    @property
    def until_ms(self) -> int | None:
        """From when it does not run."""
        return None if self.at is None else self.edge.admits[self.at].until_ms

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
        claims = () if self.at is None else self.edge.claims(self.at, self.now_ms)
        sums = [
            f"edge budget  {self.edge.name}, {claim.arithmetic}"
            for claim in claims
            if claim.allowed
        ] or [f"edge budget  {self.edge.name} ({self.edge.file})"]
        return [*sums, *self._parts(), *(f"refused      {reason}" for reason in self.refusals)]

    def _parts(self) -> Iterator[str]:
        wide = max(len(each.topology.name) for each in self.edge.admits)
        for place, each in enumerate(self.edge.admits):
            claims = self.edge.claims(place, self.now_ms)
            state = "" if all(claim.allowed for claim in claims) else "; refused"
            state = state if each.until_ms is None else f"; {self._retired(each)}"
            yield (
                f"  {each.topology.name:<{wide}}  {claims[0].how}; fingerprint"
                f" {each.topology.fingerprint}{state}"
            )

    def _retired(self, each: Admitted) -> str:
        run = next((limit for limit in self.edge.limits if limit.run_ms is not None), None)
        when = None if run is None else frees(each.spender, run)
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
                    "claims": [claim.as_json() for claim in self.edge.claims(place, self.now_ms)],
                }
                for place, each in enumerate(self.edge.admits)
            ],
            "admitted": not self.refusals,
            "refusals": list(self.refusals),
        }


def load_edge(path: str | os.PathLike[str]) -> EdgeFile:
    """The edge in a YAML file, and the topologies that it admits.

    Raises
    ------
    TopologyError : a line ``file:line: key: what must hold`` for everything that is wrong with it,
        or with a topology that it names
    ConfigurationError : it cannot be read

    """
    file = os.fspath(path)
    try:
        text = FilePath(path).read_text("utf-8")
    except OSError as error:
        raise ConfigurationError(f"cannot read the budget file {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise TopologyError("a budget file must be UTF-8 text", file=file) from None
    document = read(text, file, os.environ)
    found = [error for _, error in document.problems]
    found += [error for place, error in problems(document, "edge") if place not in document.unread]
    if not found:
        edge = _made(document, found)
    if found:
        raise TopologyError.together(sorted(found, key=lambda error: error.line or 0))
    return edge


def admission(topology: Topology, now_ms: int | None = None) -> Admission | None:
    """What its budget file says of a topology; None where it names none.

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
    return Admission(edge, now, at, tuple(_refusals(edge, topology, at, now)))


def admit(topology: Topology, now_ms: int | None = None) -> int | None:
    """Let a topology run, or raise; returns the moment, in epoch milliseconds, at which it must
    end, or None.

    Raises
    ------
    ConfigurationError : its budget file does not admit it, or it would lose more than is left; with
        the sum

    """
    found = admission(topology, now_ms)
    if found is None:
        return None
    found.require()
    return found.until_ms


def _refusals(edge: EdgeFile, topology: Topology, at: int | None, now_ms: int) -> Iterator[str]:
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
    yield from (
        f"edge {edge.name}, {claim.arithmetic}"
        for claim in edge.claims(at, now_ms)
        if not claim.allowed
    )


def _made(document: Document, found: list[TopologyError]) -> EdgeFile:
    """The edge that a document without a mistake of form describes; ``found`` takes in what is
    wrong in sense.
    """
    data = document.data

    def wrong(message: str, *place: str | int) -> None:
        found.append(document.problem(place, message)[1])

    kept = parse_duration(data["kept"]) if "kept" in data else None
    limits = []
    for key in ("limit", "life"):
        if key in data:
            given = schema("edge")["properties"][key]["properties"]
            values = {
                name: place["default"] for name, place in given.items() if "default" in place
            } | data[key]
            most = Loss(micro(values["epsilon"]), Fraction(repr(float(values["delta"]))))
            if not most.epsilon >= 1:
                wrong("must be at least a millionth", key, "epsilon")
            limits.append(
                Limit(most, parse_duration(values["window"]) if key == "limit" else None, kept)
            )
    admits: list[Admitted] = []
    for at, entry in enumerate(data["admits"]):
        until = _until(entry.get("until"))
        if until is not None and until < 0:
            wrong("must be a day of the calendar, from 1970 on", "admits", at, "until")
        try:
            topology = load(
                FilePath(document.file).parent / FilePath(entry["topology"]).expanduser()
            )
        except TopologyError as error:
            more = (
                f" (and {len(error.problems) - 1} more: ldp-kafka validate)"
                if len(error.problems) > 1
                else ""
            )
            wrong(f"cannot be admitted: {error.problems[0]}{more}", "admits", at, "topology")
        except ConfigurationError as error:
            wrong(str(error), "admits", at, "topology")
        else:
            for message in _unfit(document, topology, admits):
                wrong(message, "admits", at, "topology")
            admits.append(Admitted(topology, until))
    return EdgeFile(data["edge"], document.file, data["raw_topic"], tuple(limits), tuple(admits))


def _unfit(document: Document, topology: Topology, admits: list[Admitted]) -> Iterator[str]:
    """Why a topology cannot stand in a budget file after those before it."""
    name, source = topology.name, topology.input
    if name in {each.topology.name for each in admits}:
        yield f"admits {name} twice: two topologies of one name would draw the same noise"
    if source.topic != document.data["raw_topic"]:
        yield (
            f"{name} must read the raw topic {document.data['raw_topic']}; it reads {source.topic}"
        )
    if admits and source.who_and_when != admits[0].topology.input.who_and_when:
        yield (
            f"{name} must take user and time from the same fields, and in the same way, as"
            f" {admits[0].topology.name}: what is lost of one user in one run is summed"
        )
    budget = topology.edge.budget_file
    if budget is None:
        yield f"{name} must name this file as its edge.budget_file, or it would run unasked"
    elif not isinstance(budget, Unset) and budget.resolve() != FilePath(document.file).resolve():
        yield f"{name} must name this file as its edge.budget_file; it names {budget}"
    try:
        _ = Admitted(topology, None).spender
    except ConfigurationError as error:
        yield str(error)
    else:
        need = "life" if topology.guarantee.level == "user" else "limit"
        if need not in document.data:
            yield f"{name} is of level {topology.guarantee.level}: {need} must be given"


def _until(text: str | None) -> int | None:
    """Epoch milliseconds of a date or a time in UTC; -1 where there is no such day."""
    if text is None:
        return None
    try:
        return instant(text)
    except ValueError:
        return -1
