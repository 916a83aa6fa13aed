"""What runs for a topology, as data: its topics, the agents that fold them, and the roles that the
agents belong to.

A new role takes a line in `ROLES`, an entry in a table of `SOURCES`, a stage, and the stage's
binding in `ldp_kafka.runtime.roles`. Derived from these values are topics and their order, consumer
groups, the choices of ``--role``, what is made before the first start, the tools on state, the
labels of metrics, and the plan. Not derived: counts and gauges of its own (`ldp_kafka.metrics`),
and a place in `ldp_kafka.runtime.local.run`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ldp_kafka.errors import ConfigurationError, InvariantError
from ldp_kafka.topology.sections import Input

__all__ = ["COLLECTOR", "EDGE", "ROLES", "SOURCES", "Agent", "Flow", "Role", "Topic"]

EDGE, COLLECTOR = "edge", "collector"
"""The two sides of the trust line."""

ROLES: dict[str, str] = {"perturb": EDGE, "collect": COLLECTOR}
"""Every role there is, in pipeline order, and the side on which it runs."""

_LOG = {"cleanup.policy": "delete"}
# The broker's clock holds the watermark back: a device's own could close every slot
_DEVICES = {**_LOG, "message.timestamp.type": "LogAppendTime"}
# Small segments and a low ratio keep recovery short; never compact,delete: quiet open state would
# expire
_STATE = {
    "cleanup.policy": "compact",
    "segment.bytes": str(64 * 2**20),
    "min.cleanable.dirty.ratio": "0.1",
}


class Topic(NamedTuple):
    """A topic of a topology."""

    name: str
    partitions: int
    config: Mapping[str, str]
    """In Kafka's spelling; what is not here is left to the broker, retention among it."""
    purpose: str
    side: str
    """``edge`` or ``collector``: on whose cluster it lies."""
    ours: bool = True
    """Whether we create it, and write a header record at offset 0 of what our groups read."""

    def as_json(self) -> dict[str, Any]:
        """The same for machines."""
        return {name: value for name, value in self._asdict().items() if name != "ours"}


@dataclass(frozen=True)
class Agent:
    """One log that is folded, the state that is kept of it, and what comes of it.

    Parameters
    ----------
    name : also its table's; no two agents of a topology have the same
    stage : key of its stage's factory in `ldp_kafka.runtime.roles.STAGES`
    reads : the log
    writes : the topics of its records
    state : what its table holds, in words
    raw : whether it folds raw values: its state holds the users' ledgers and is bound to the
        edge's key
    gaps : whether offsets may be missing from the log
    ticks : whether the owner of an idle partition tells it how far event time has come on the
        others, where ``input.idle`` asks for it
    """

    name: str
    stage: str
    reads: Topic
    writes: tuple[Topic, ...]
    state: str
    raw: bool = False
    gaps: bool = False
    ticks: bool = False

    @property
    def topic(self) -> str:
        """The log's name."""
        return self.reads.name

    @property
    def partitions(self) -> int:
        """Of the log, and of the changelog beside it."""
        return self.reads.partitions

    @property
    def header(self) -> bool:
        """Whether offset 0 of the log is a header record of ours."""
        return self.reads.ours


@dataclass(frozen=True)
class Role:
    """Agents that run in one process and read as one consumer group.

    Parameters
    ----------
    topology : the topology's name, which its group's begins with
    name : one of `ROLES`
    agents : in pipeline order; their logs lie on the role's side
    needs_key : whether it works with the edge's key, and within the budget of the edge's file
    """

    topology: str
    name: str
    agents: tuple[Agent, ...]
    needs_key: bool = False

    def __post_init__(self) -> None:
        if self.name not in ROLES:
            raise InvariantError(f"a role must be one of {', '.join(ROLES)}; got {self.name!r}")
        if not all(agent.reads.side == self.side for agent in self.agents):
            raise InvariantError(f"the logs of role {self.name} must lie on the {self.side}'s side")

    @property
    def side(self) -> str:
        """Where it runs, reads and keeps its state: ``edge`` or ``collector``."""
        return ROLES[self.name]

    @property
    def sides(self) -> tuple[str, ...]:
        """The sides whose clusters it has to reach, the edge's first."""
        reached = {topic.side for topic in self.topics()}
        return tuple(side for side in (EDGE, COLLECTOR) if side in reached)

    @property
    def group(self) -> str:
        """Its consumer group."""
        return f"{self.topology}-{self.name}"

    def changelog(self, agent: str) -> str:
        """The topic in which Faust keeps the table of one of its agents.

        Raises
        ------
        ConfigurationError : it has no such agent
        """
        names = [each.name for each in self.agents]
        if agent not in names:
            raise ConfigurationError(
                f"the role {self.name} of {self.topology} has no table {agent}; it has"
                f" {', '.join(names)}"
            )
        return f"{self.group}-{agent}-changelog"

    def topics(self) -> list[Topic]:
        """Those that it reads, writes and keeps its state in."""
        found: list[Topic] = []
        for agent in self.agents:
            found += [agent.reads, *agent.writes, self._state(agent)]
        return found

    def _state(self, agent: Agent) -> Topic:
        name = self.changelog(agent.name)
        return Topic(name, agent.partitions, _STATE, agent.state, self.side)


@dataclass(frozen=True)
class Flow:
    """All topics and roles of one topology, from where values come in to where they are released.

    Parameters
    ----------
    topology : its name
    raw : the topic of raw values; None where nobody writes any
    reports, partials, releases, rejected : the topics on the collector's side; the last is of
        reports that could not be counted
    dead_letters : the topic of the edge's bad records; None where there is no raw topic
    roles : in pipeline order
    absent : of roles that other topologies have, why this one does not
    """

    topology: str
    raw: Topic | None
    dead_letters: Topic | None
    reports: Topic
    partials: Topic
    releases: Topic
    rejected: Topic
    roles: tuple[Role, ...]
    absent: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [agent.name for _, agent in self.readers()]
        if not len(set(names)) == len(names):
            raise InvariantError(f"agents must have different names; got {', '.join(names)}")

    @property
    def topics(self) -> tuple[Topic, ...]:
        """All of them, someone else's raw topic among them, in pipeline order."""
        found: list[Topic] = []
        for topic in (topic for role in self.roles for topic in role.topics()):
            if topic not in found:
                found.append(topic)
        return tuple(found)

    def readers(self) -> Iterator[tuple[Role, Agent]]:
        """Each agent with its role, in pipeline order."""
        for role in self.roles:
            for agent in role.agents:
                yield role, agent

    def role(self, name: str) -> Role:
        """The role of this name.

        Raises
        ------
        ConfigurationError : the topology has no such role
        """
        for role in self.roles:
            if role.name == name:
                return role
        raise ConfigurationError(
            f"{self.topology} has no {name} role{self._why(name)}; its roles:"
            f" {', '.join(role.name for role in self.roles)}"
        )

    def agent(self, name: str) -> Agent:
        """The agent of this name.

        Raises
        ------
        ConfigurationError : the topology has no such agent
        """
        for _, agent in self.readers():
            if agent.name == name:
                return agent
        raise ConfigurationError(
            f"{self.topology} has no agent {name}{self._why(name)}; its agents:"
            f" {', '.join(agent.name for _, agent in self.readers())}"
        )

    def reader(self, topic: str) -> tuple[Role, Agent]:
        """The role and the agent that fold a topic.

        Raises
        ------
        ConfigurationError : nobody does
        """
        for role, agent in self.readers():
            if agent.topic == topic:
                return role, agent
        raise ConfigurationError(
            f"{self.topology} has no role that reads {topic}{self._why(*self.absent)}"
        )

    def _why(self, *names: str) -> str:
        return "".join(f": {self.absent[name]}" for name in names if name in self.absent)


def _of_topic(name: str, source: Input) -> Flow:
    """Raw values lie in a topic at the edge, and a role there perturbs them."""
    sources = source.partitions
    raw = Topic(
        source.topic,
        sources,
        _LOG,
        "values, keyed by user: what never leaves the edge",
        EDGE,
        ours=source.create,
    )
    dead = Topic(
        f"{name}.dead-letters",
        1,
        _LOG,
        "where the edge's bad records are and why, without their values",
        EDGE,
    )
    reports = Topic(
        f"{name}.reports",
        sources,
        _LOG,
        "perturbed values: all that crosses the trust line",
        COLLECTOR,
    )
    perturb = Agent(
        "perturb",
        "perturb",
        raw,
        (dead, reports),
        "state of the users",
        raw=True,
        gaps=source.gaps == "allow",
        ticks=True,
    )
    collect = Agent("collect", "collect", reports, (), "open windows of each source")
    edge = Role(name, "perturb", (perturb,), needs_key=True)
    return _collected(name, sources, collect, raw=raw, dead_letters=dead, before=(edge,))


def _of_devices(name: str, source: Input) -> Flow:
    """Devices perturb by themselves: a report's id says in which partition it is."""
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
    return _collected(name, source.partitions, collect, absent=absent)


def _collected(
    name: str,
    sources: int,
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
    releases = Topic(
        f"{name}.releases", sources, _LOG, "published statistics with their errors", COLLECTOR
    )
    rejected = Topic(
        f"{name}.collector.dead-letters", 1, _LOG, "reports that could not be counted", COLLECTOR
    )
    collect = replace(collect, writes=(partials, releases, rejected))
    merge = Agent(
        "merge", "merge", partials, (releases, rejected), "slots that wait for all sources"
    )
    return Flow(
        name,
        raw=raw,
        dead_letters=dead_letters,
        reports=collect.reads,
        partials=partials,
        releases=releases,
        rejected=rejected,
        roles=(*before, Role(name, "collect", (collect, merge))),
        absent=absent or {},
    )


SOURCES: dict[str, Callable[[str, Input], Flow]] = {"topic": _of_topic, "devices": _of_devices}
"""By ``input.source``: what runs for a topology of this name."""
