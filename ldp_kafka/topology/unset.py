"""What a topology leaves to variables that are not set on this machine: nobody's secrets need to be
where their role does not run.
"""

from __future__ import annotations

from collections.abc import Iterable

from ldp_kafka.errors import TopologyError
from ldp_kafka.topology.document import Unset
from ldp_kafka.topology.model import Topology

__all__ = ["require", "unset"]


def unset(
    topology: Topology, sides: Iterable[str] = ("edge", "collector", "key", "budget")
) -> tuple[TopologyError, ...]:
    """One error, not raised, for each address or option of these sides that is not known here;
    ``key`` is the edge's key and ``budget`` its file of budgets, which the perturb role alone
    needs.
    """
    known: dict[str, tuple[object, ...]] = {
        "edge": (
            topology.edge_kafka.bootstrap_servers,
            *topology.edge_kafka.client.values(),
            topology.edge.deployment,
        ),
        "collector": (
            topology.collector_kafka.bootstrap_servers,
            *topology.collector_kafka.client.values(),
        ),
        "key": (topology.edge.key_file,),
        "budget": (topology.edge.budget_file,),
    }
    texts = [text for side in sides for text in known[side]]
    return tuple({id(text): text.problem for text in texts if isinstance(text, Unset)}.values())


def require(topology: Topology, sides: Iterable[str]) -> None:
    """TopologyError that says all of them."""
    problems = unset(topology, sides)
    if problems:
        raise TopologyError.together(problems)
