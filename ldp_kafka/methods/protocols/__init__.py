"""Streaming protocols: users report in phases, and a coordinator decides what is asked next."""

from __future__ import annotations

from ldp_kafka.methods.protocols.adaptive import (
    BudgetAbsorption,
    BudgetDistribution,
    PopulationAbsorption,
    PopulationDistribution,
)
from ldp_kafka.methods.protocols.base import Protocol
from ldp_kafka.methods.protocols.coordinator import Coordinator
from ldp_kafka.methods.protocols.decider import Decider
from ldp_kafka.methods.protocols.history import History
from ldp_kafka.methods.protocols.request import Request
from ldp_kafka.methods.protocols.responder import Responder
from ldp_kafka.methods.protocols.trace import Trace
from ldp_kafka.methods.protocols.uniform import (
    BudgetUniform,
    PopulationUniform,
    SamplingPublication,
)

__all__ = [
    "PROTOCOLS",
    "BudgetAbsorption",
    "BudgetDistribution",
    "BudgetUniform",
    "Coordinator",
    "Decider",
    "History",
    "PopulationAbsorption",
    "PopulationDistribution",
    "PopulationUniform",
    "Protocol",
    "Request",
    "Responder",
    "SamplingPublication",
    "Trace",
]

PROTOCOLS: dict[str, type[Protocol]] = {
    "lba": BudgetAbsorption,
    "lbd": BudgetDistribution,
    "lbu": BudgetUniform,
    "lpa": PopulationAbsorption,
    "lpd": PopulationDistribution,
    "lpu": PopulationUniform,
    "lsp": SamplingPublication,
}
