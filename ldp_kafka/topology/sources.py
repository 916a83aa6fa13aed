"""What runs for each kind of source that values come from: a topic of raw values, devices that
perturb by themselves, or a topic of aggregates that a curator sees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ldp_kafka.topology.flow import Flow
from ldp_kafka.topology.roles import COLLECTOR, EDGE, Agent, Forward, Relay, Role, Topic
from ldp_kafka.topology.sections import Input

__all__ = ["SOURCES"]

_LOG = {"cleanup.policy": "delete"}
# The relay writes each record with the timestamp that it had
_RELAYED = {**_LOG, "message.timestamp.type": "CreateTime"}
# The broker's clock holds the watermark back: a device's own could close every slot
_DEVICES = {**_LOG, "message.timestamp.type": "LogAppendTime"}


@dataclass(frozen=True)
class _Edge:
    """Where raw values lie, and where the bad ones of them go."""

    given: Topic
    raw: Topic
    dead: Topic
    relay: Relay | None

    def agent(self, name: str, stage: str, writes: Topic, state: str, *, gaps: bool) -> Agent:
        """What folds the values."""
        return Agent(
            name,
            stage,
            self.raw,
            (self.dead, writes),
            state,
            raw=True,
            # who relays knows what still waits in the other topic, and so which partitions are idle
            gaps=self.relay is None and gaps,
            ticks=self.relay is None,
        )


def _edge(name: str, source: Input, key: str) -> _Edge:
    """The topics at the edge; values are keyed by ``key``."""
    sources = source.partitions
    raw = given = Topic(
        source.topic,
        source.given_partitions,
        _LOG,
        f"values, keyed by {key}: what never leaves the edge",
        EDGE,
        ours=source.create,
    )
    relay = None
    if source.relay:
        purpose = f"values, copied from {source.topic}: what never leaves the edge"
        raw = Topic(f"{name}.edge", sources, _RELAYED, purpose, EDGE)
        relay = Relay(f"{name}-relay", given, raw, source.gaps == "allow", source.rekey)
    dead = Topic(
        f"{name}.dead-letters",
        1,
        _LOG,
        "where the edge's bad records are and why, without their values",
        EDGE,
    )
    return _Edge(given, raw, dead, relay)


def _of_topic(name: str, source: Input, phases: int) -> Flow:
    """Raw values lie in a topic at the edge, and a role there perturbs them."""
    sources, at = source.partitions, _edge(name, source, "user")
    reports = Topic(
        f"{name}.reports",
        sources,
        _LOG,
        "perturbed values: all that crosses the trust line",
        COLLECTOR,
    )
    asked = phases > 1
    perturb = at.agent(
        "perturb",
        "perturb",
        reports,
        "state of the users",
        gaps=source.gaps == "allow",
    )
    collect = Agent("collect", "collect", reports, (), "open windows of each source")
    forward = Forward(f"{name}-forward", _requests(name), at.raw) if asked else None
    edge = Role(name, "perturb", (perturb,), needs_key=True, forward=forward, relay=at.relay)
    return replace(
        _collected(
            name, sources, phases, collect, raw=at.raw, dead_letters=at.dead, before=(edge,)
        ),
        given=at.given,
    )


def _of_curator(name: str, source: Input, phases: int) -> Flow:
    """Values of aggregate streams lie in a topic that a role which sees them releases from."""
    del phases  # there is nobody to ask
    at, releases = _edge(name, source, "stream"), _releases(name, source.partitions)
    state = "state of the streams, and their open windows"
    curate = at.agent("curate", "curate", releases, state, gaps=source.gaps == "allow")
    why = "its curator sees values, and releases them"
    return Flow(
        name,
        raw=at.raw,
        dead_letters=at.dead,
        releases=releases,
        roles=(Role(name, "curate", (curate,), needs_key=True, relay=at.relay),),
        given=at.given,
        absent=dict.fromkeys(("perturb", "collect", "merge"), why),
    )


def _releases(name: str, partitions: int) -> Topic:
    return Topic(
        f"{name}.releases", partitions, _LOG, "published statistics with their errors", COLLECTOR
    )


def _requests(name: str) -> Topic:
    return Topic(
        f"{name}.requests",
        1,
        _LOG,
        "what the coordinator asks of each slot's users; the edge decides who answers",
        COLLECTOR,
    )


def _of_devices(name: str, source: Input, phases: int) -> Flow:
    """Devices perturb by themselves: a report's id says in which partition it is. What a
    coordinator asks they read where it is written.
    """
    reports = Topic(
        f"{name}.device-reports",
        source.partitions,
        _DEVICES,
        "perturbed values, one a message, from devices",
        COLLECTOR,
    )
    collect = Agent(
        "collect", "collect_devices", reports, (), "open windows of each source", ticks=True
    )
    absent = {"perturb": "its devices perturb by themselves (ldp_kafka.Client)"}
    return _collected(name, source.partitions, phases, collect, absent=absent)


def _collected(
    name: str,
    sources: int,
    phases: int,
    collect: Agent,
    *,
    raw: Topic | None = None,
    dead_letters: Topic | None = None,
    before: tuple[Role, ...] = (),
    absent: Mapping[str, str] | None = None,
) -> Flow:
    """What the collector makes of reports, wherever they come from.

    Parameters
    ----------
    phases : in which a coordinator has users report; 0: there is none, and a slot's sums are its
        release
    collect : its first agent, which is given the topics that it writes
    before : the roles that the reports come from
    """
    partials = Topic(
        f"{name}.partials",
        1,
        _LOG,
        "what one source has to say of a slot; one partition, so that slots are released in order",
        COLLECTOR,
    )
    releases = _releases(name, sources)
    rejected = Topic(
        f"{name}.collector.dead-letters", 1, _LOG, "reports that could not be counted", COLLECTOR
    )
    waits = "slots that wait for all sources"
    whole = Flow(
        name,
        raw=raw,
        dead_letters=dead_letters,
        reports=collect.reads,
        partials=partials,
        releases=releases,
        rejected=rejected,
        roles=before,
        absent=absent or {},
    )
    if not phases:
        merge = Agent("merge", "merge", partials, (releases, rejected), waits)
        collect = replace(collect, writes=(partials, releases, rejected))
        return replace(whole, roles=(*before, Role(name, "collect", (collect, merge))))
    sums = Topic(
        f"{name}.sums",
        1,
        _LOG,
        "merged sums of each slot and phase: what the coordinator decides by",
        COLLECTOR,
    )
    requests = _requests(name) if phases > 1 else None
    written = (releases, rejected) if requests is None else (requests, releases, rejected)
    merge = Agent("merge", "merge", partials, (sums, rejected), waits)
    collect = replace(collect, writes=(partials, rejected))
    decides = Agent("coordinate", "coordinate", sums, written, "what was asked and released last")
    roles = Role(name, "collect", (collect, merge)), Role(name, "coordinate", (decides,))
    return replace(whole, sums=sums, requests=requests, roles=(*before, *roles))


SOURCES: dict[str, Callable[[str, Input, int], Flow]] = {
    "topic": _of_topic,
    "devices": _of_devices,
    "curator": _of_curator,
}
"""By ``input.source``, or ``curator`` where one is trusted: what runs for a topology of this name,
whose coordinator has users report in this number of phases a slot (0: there is no coordinator).
"""
