"""What a fault is: a function of a `World`. It does it, undoes what was done to the surroundings,
and says what became of it; a fault that must halt a worker waits for that.
"""

from __future__ import annotations

from collections.abc import Callable

from ldp_kafka.topology.roles import Agent, Role
from tests.broker.chaos.world import World
from tests.broker.flow import Flow

Fault = Callable[[World], str]


def edge(flow: Flow) -> tuple[Role, Agent]:
    """Who folds a topology's raw log: the edge, or a curator."""
    return flow.topology.reader(flow.topology.raw_topic)


def written(flow: Flow, *kinds: str) -> list[str]:
    """Those of these topics that a topology's workers write into."""
    topics = [getattr(flow.topology.flow, kind) for kind in kinds]
    return [topic.name for topic in topics if topic is not None]


class NotHeld(Exception):
    """A fault ended as it must not."""


def must(held: bool, what: str) -> None:
    if not held:
        raise NotHeld(what)
