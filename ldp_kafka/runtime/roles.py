"""Which stage each agent of `ldp_kafka.topology.roles` folds its log with: what both drivers,
`local` and the workers, run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ldp_kafka.runtime.keys import EdgeNoise
from ldp_kafka.runtime.log import Stage
from ldp_kafka.runtime.stages.collect import make_collect
from ldp_kafka.runtime.stages.collect_devices import make_collect_devices
from ldp_kafka.runtime.stages.coordinate import make_coordinate
from ldp_kafka.runtime.stages.curate import make_curate
from ldp_kafka.runtime.stages.merge import make_merge
from ldp_kafka.runtime.stages.perturb import make_perturb
from ldp_kafka.topology import Topology
from ldp_kafka.topology.roles import Agent

__all__ = ["STAGES", "make"]

STAGES: dict[str, Callable[[Topology, int, EdgeNoise | None], Stage[Any]]] = {
    "perturb": make_perturb,
    "collect": make_collect,
    "collect_devices": make_collect_devices,
    "merge": make_merge,
    "coordinate": make_coordinate,
    "curate": make_curate,
}
"""By `Agent.stage`: makes the stage of one partition."""


def make(
    topology: Topology, agent: Agent | str, partition: int, randomness: EdgeNoise | None = None
) -> Stage[Any]:
    """The stage of one partition of an agent's log.

    Parameters
    ----------
    agent : of the topology, or its name
    randomness : keyed by the edge's key (`keys.edge_randomness`), for an agent that folds raw
        values
    """
    found = topology.agent(agent) if isinstance(agent, str) else agent
    return STAGES[found.stage](topology, partition, randomness)
