"""A budget file: what all topologies on one raw topic may lose together, and which are admitted."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from pathlib import Path as FilePath
from typing import NamedTuple

from ldp_kafka.accounting import micro
from ldp_kafka.accounting.admission import Claim, Limit, Loss, Spender, contributions, judge
from ldp_kafka.accounting.words import instant
from ldp_kafka.errors import ConfigurationError, TopologyError
from ldp_kafka.methods import StreamMethod
from ldp_kafka.topology.document import Document, Unset, read
from ldp_kafka.topology.durations import parse_duration
from ldp_kafka.topology.loader import loads, text_of
from ldp_kafka.topology.model import Topology
from ldp_kafka.topology.paths import Path
from ldp_kafka.topology.schema import problems, schema
from ldp_kafka.topology.stamps import Stamps

__all__ = ["Admitted", "EdgeFile", "load_edge"]

_OF_A_MACHINE = ("kafka", "edge", "runtime")
"""Sections of a topology in which variables are allowed: none of them says whose values are read,
of when, or what is lost of them."""


class Admitted(NamedTuple):
    """One topology of a budget file."""

    topology: Topology
    until_ms: int | None
    """Epoch milliseconds from which it does not run; None: it is not retired."""

    def spender(self, stamps: Stamps | None = None) -> Spender:
        """As far as sums go. A value that it reads before it ends is at most ``max_ahead`` later
        than the record's timestamp, and that as much later than the broker's clock: where the raw
        topic's ``stamps`` say so, or are not asked for.
        """
        source, method = self.topology.input, self.topology.method
        last: float | None = None
        if self.until_ms is not None:
            known = stamps is None or stamps.bounded(source.max_ahead_ms)
            last = self.until_ms + 2 * source.max_ahead_ms if known else inf
        steps = 1
        if isinstance(method, StreamMethod):
            steps = contributions(method.domain, method.contribution)
        return Spender(self.topology.name, self.topology.guarantee, source.slot_ms, last, steps)


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

    def claims(self, at: int, now_ms: int, stamps: Stamps | None = None) -> tuple[Claim, ...]:
        """What the topology at this place asks for of each limit that speaks of it, where the raw
        topic has these ``stamps``; None: as if they were bounded.
        """
        before = [each.spender(stamps) for each in self.admits[:at]]
        mine = self.admits[at].spender(stamps)
        return tuple(
            judge(limit, before, mine, now_ms)
            for limit in self.limits
            if limit.run_ms is not None or mine.guarantee.level == "user"
        )


def load_edge(path: str | os.PathLike[str]) -> EdgeFile:
    """The edge in a YAML file, and the topologies that it admits.

    Raises
    ------
    TopologyError : a line ``file:line: key: what must hold`` for everything that is wrong with it,
        or with a topology that it names
    ConfigurationError : it cannot be read

    """
    file = os.fspath(path)
    document = read(text_of(path, "budget file"), file, os.environ)
    named = _named(document, "each of its values would have limits of its own")
    wrong = {*document.unread, *named}
    found = [*named.values(), *(error for at, error in document.problems if at not in named)]
    found += [error for at, error in problems(document, "edge") if at not in wrong]
    if not found:
        edge = _made(document, found)
    if found:
        raise TopologyError.together(sorted(found, key=lambda error: error.line or 0))
    return edge


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
        file = FilePath(document.file).parent / entry["topology"]
        try:
            text = text_of(file)
            named = _named(
                read(text, os.fspath(file), os.environ),
                f"{document.file} admits this topology, and each value of the variable would have"
                " the whole limit",
                _OF_A_MACHINE,
            )
            if named:
                found += named.values()
                continue
            topology = loads(text, os.fspath(file))
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


def _named(document: Document, why: str, but: Collection[str] = ()) -> dict[Path, TopologyError]:
    """What is left to variables of the environment, but for these sections."""
    return dict(
        document.problem(each.path, f"must be written out, without the variable {each.name}: {why}")
        for each in document.variables
        if each.path[0] not in but
    )


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
        _ = Admitted(topology, None).spender()
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
