"""Topics, the agents that fold them, and the roles that the agents belong to, as data.

A new role takes a line in `ROLES`, an entry in a table of `ldp_kafka.topology.sources.SOURCES`, a
stage, and the stage's binding in `ldp_kafka.runtime.roles`. Derived from these values are topics
and their order, consumer groups, the choices of ``--role``, what is made before the first start,
the tools on state, the labels of metrics, and the plan. Not derived: counts and gauges of its own
(`ldp_kafka.metrics`), and a place in `ldp_kafka.runtime.local.run`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ldp_kafka.errors import ConfigurationError, InvariantError

__all__ = ["COLLECTOR", "EDGE", "ROLES", "Agent", "Forward", "Relay", "Role", "Topic"]

EDGE, COLLECTOR = "edge", "collector"
"""The two sides of the trust line."""

ROLES: dict[str, str] = {
    "perturb": EDGE,
    "curate": EDGE,
    "collect": COLLECTOR,
    "coordinate": COLLECTOR,
}
"""Every role there is, in pipeline order, and the side on which it runs."""

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


class Forward(NamedTuple):
    """Requests of the collector's side that are copied into a log at the edge: what is decided
    there, and when the edge hears of it, then lies in the one log that is folded.
    """

    group: str
    """The consumer group that copies."""
    reads: Topic
    writes: Topic


class Relay(NamedTuple):
    """Someone else's topic that is copied into a log of ours, partition by partition or each event
    to its user's partition: what we have to add, ticks and requests, is written there.
    """

    group: str
    """The consumer group that copies."""
    reads: Topic
    writes: Topic
    gaps: bool
    """Whether offsets may be missing from what is read."""
    rekey: bool = False
    """Whether each event goes to the partition of its user."""


@dataclass(frozen=True)
class Role:
    """Agents that run in one process and read as one consumer group.

    Parameters
    ----------
    topology : the topology's name, which its group's begins with
    name : one of `ROLES`
    agents : in pipeline order; their logs lie on the role's side
    needs_key : whether it works with the edge's key, and within the budget of the edge's file
    forward : what one of its processes copies beside its agents
    relay : what each of its processes copies of some partitions
    """

    topology: str
    name: str
    agents: tuple[Agent, ...]
    needs_key: bool = False
    forward: Forward | None = None
    relay: Relay | None = None

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
            found += [agent.reads, *agent.writes, self.state(agent)]
        return found + [each.reads for each in self.copied]

    @property
    def copied(self) -> tuple[Forward | Relay, ...]:
        """What its processes copy beside their agents."""
        return tuple(each for each in (self.relay, self.forward) if each is not None)

    def state(self, agent: Agent) -> Topic:
        """The changelog topic of one of its agents."""
        name = self.changelog(agent.name)
        return Topic(name, agent.partitions, _STATE, agent.state, self.side)
