"""All that runs for one topology: its topics, agents and roles, and how to find one of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ldp_kafka.errors import ConfigurationError, InvariantError
from ldp_kafka.topology.roles import Agent, Role, Topic

__all__ = ["Flow"]


@dataclass(frozen=True)
class Flow:
    """All topics and roles of one topology, from where values come in to where they are released.

    Parameters
    ----------
    topology : its name
    raw : the topic of raw values; None where nobody writes any
    releases : the topic of what is published
    reports, partials, rejected : the others on the collector's side; the last is of reports that
        could not be counted; None where a curator releases what it sees
    sums, requests : of a method with a coordinator: what it folds, and what it asks of the edge;
        None elsewhere
    dead_letters : the topic of the edge's bad records; None where there is no raw topic
    given : where values come in: the raw topic, or the one that is relayed into it
    roles : in pipeline order
    absent : of roles that other topologies have, why this one does not
    """

    topology: str
    raw: Topic | None
    dead_letters: Topic | None
    releases: Topic
    roles: tuple[Role, ...]
    reports: Topic | None = None
    partials: Topic | None = None
    rejected: Topic | None = None
    sums: Topic | None = None
    requests: Topic | None = None
    given: Topic | None = None
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
