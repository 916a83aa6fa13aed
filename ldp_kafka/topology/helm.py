"""A topology as the Helm chart in deploy/helm/ldp-kafka takes it: its file, the facts of its roles
that pods, disruption budgets, network policies and autoscalers follow from, and which variables of
the environment its pods need.

A pod reads the topology from a ConfigMap, which is no place for a secret: a file with a password in
it is refused. What a file leaves to variables goes two ways. What shapes the topology, such as the
name of a topic, is settled here, since the facts follow from it. How to reach Kafka is said where
the chart is installed, by references to Secrets.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any

from ldp_kafka.errors import ConfigurationError, TopologyError
from ldp_kafka.topology.document import Document, Variable, read
from ldp_kafka.topology.loader import loads
from ldp_kafka.topology.model import Topology
from ldp_kafka.topology.paths import Path
from ldp_kafka.topology.roles import COLLECTOR, EDGE, Role

__all__ = ["KAFKA", "helm_values"]

KAFKA = "kafka"
"""The block of what both sides' pods are told; beside it `EDGE` and `COLLECTOR`."""
_SECRET = re.compile(r"pass(word|phrase)|secret|key\.pem|jaas|oauthbearer\.config")
"""In the names of client options that nobody may see; all that librdkafka calls sensitive."""
_FILE = re.compile(r"[A-Za-z0-9._-]+")
"""Names that a ConfigMap can give to a file."""
_NOWHERE = (None, "embedded")
"""Defaults of an address that are none: a pod has no embedded broker."""
_KEY, _BUDGET = ("edge", "key_file"), ("edge", "budget_file")


def helm_values(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The values of the chart that follow from a topology's file, and no others.

    Raises
    ------
    TopologyError : the file is wrong, holds a secret, or says where the key lies on one machine
    ConfigurationError : it cannot be read, or its name cannot be that of a file in a ConfigMap
    """
    file = os.fspath(path)
    name = FilePath(file).name
    if not _FILE.fullmatch(name):
        raise ConfigurationError(
            f"{file}: the name of the file must be letters, digits, dots, dashes and underscores,"
            " since a ConfigMap holds it under its name"
        )
    try:
        text = FilePath(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        raise ConfigurationError(f"cannot read the topology {file} as text") from None
    topology, document = loads(text, file), read(text, file, os.environ)
    if problems := tuple(_problems(topology, document)):
        raise TopologyError.together(problems)
    return {
        "topology": {
            "name": topology.name,
            "file": name,
            "fingerprint": topology.fingerprint,
            "oneBlock": topology.edge_kafka is topology.collector_kafka,
            "roles": {role.name: _role(role) for role in topology.roles},
            "bootstrap": {side: _bootstrap(document, side) for side in _reached(topology)},
            "key": _place(document, _KEY) if _needs_key(topology) else {},
            "budget": _place(document, _BUDGET) if topology.edge.budget_file else {},
            "environment": dict(_settled(document)),
            "variables": [*_variables(document)],
            "text": text,
        }
    }


def _role(role: Role) -> dict[str, Any]:
    """What follows from a role."""
    most = max(agent.partitions for agent in role.agents)
    # more workers help with these; what has one partition is folded by one of them
    lag = [(role.group, agent.topic) for agent in role.agents if agent.partitions == most]
    if role.relay is not None:
        lag.append((role.relay.group, role.relay.reads.name))
    return {
        "side": role.side,
        "sides": list(role.sides),
        "key": role.needs_key,
        "partitions": most,
        "lag": [{"group": group, "topic": topic} for group, topic in lag],
    }


def _needs_key(topology: Topology) -> bool:
    return any(role.needs_key for role in topology.roles)


def _reached(topology: Topology) -> list[str]:
    """The sides whose brokers its roles reach."""
    return [
        side for side in (EDGE, COLLECTOR) if any(side in role.sides for role in topology.roles)
    ]


def _problems(topology: Topology, document: Document) -> Iterator[TopologyError]:
    """Why no chart can run it as it is."""
    for path, value in _options(document):
        variable = _whole(document, path)
        hidden = variable is not None and not variable.default
        if value and _SECRET.search(str(path[-1])) and not hidden:
            yield document.problem(
                path,
                "must be a variable without a default, such as ${KAFKA_PASSWORD}: pods read the"
                " file from a ConfigMap, which is no place for a secret",
            )[1]
    sides = {EDGE: topology.edge_kafka, COLLECTOR: topology.collector_kafka}
    for path in dict.fromkeys(
        _address(document, side) for side in _reached(topology) if sides[side].embedded
    ):
        if not any(each.path == path for each in document.variables):
            yield document.problem(
                path, "must be the address of brokers, or a variable: pods have no embedded broker"
            )[1]
    if _needs_key(topology) and not _whole(document, _KEY):
        yield document.problem(
            _KEY,
            "must be a variable alone, such as ${LDP_KAFKA_EDGE_KEY_FILE}: the chart says where"
            " its pods have the key",
        )[1]
    budget = _at(document, _BUDGET)
    if budget is not None and not (_whole(document, _BUDGET) or _FILE.fullmatch(str(budget))):
        yield document.problem(
            _BUDGET,
            "must be a variable alone, or the name of a file beside the topology: pods have no"
            " other folder",
        )[1]


def _options(document: Document) -> Iterator[tuple[Path, Any]]:
    """Every option of a client, with its place."""
    for block in ((), (EDGE,), (COLLECTOR,)):
        place: Path = (KAFKA, *block, "client")
        for name, value in (_at(document, place) or {}).items():
            yield (*place, name), value


def _at(document: Document, path: Path) -> Any:
    """What a file says in a place; None where it says nothing."""
    found = document.data
    for part in path:
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _address(document: Document, side: str) -> Path:
    """Where the file says at which brokers a side is."""
    own = (KAFKA, side, "bootstrap_servers")
    return (KAFKA, "bootstrap_servers") if _at(document, own) is None else own


def _whole(document: Document, path: Path) -> Variable | None:
    """The variable that is all that stands in a place."""
    return next((each for each in document.variables if each.path == path and each.whole), None)


def _place(document: Document, path: Path) -> dict[str, Any]:
    """Where a pod is to find a file: the variable that says it, or a name beside the topology."""
    variable = _whole(document, path)
    return {"file": _at(document, path)} if variable is None else {"variable": variable.name}


def _bootstrap(document: Document, side: str) -> dict[str, Any]:
    """The brokers' address, the variable that it is in, or the default of that; empty where it is
    put together.
    """
    path = _address(document, side)
    if (variable := _whole(document, path)) is not None:
        default = {} if variable.default in _NOWHERE else {"address": variable.default}
        return {"variable": variable.name, **default}
    used = any(each.path == path for each in document.variables)
    return {} if used else {"address": _at(document, path)}


def _block(path: Path) -> str | None:
    """In whose block of values a variable is given; None: it shapes the topology."""
    if path == ("edge", "deployment"):
        return EDGE
    if path[:1] != (KAFKA,):
        return None
    return str(path[1]) if path[1] in (EDGE, COLLECTOR) else KAFKA


def _uses(document: Document) -> dict[str, list[Variable]]:
    """By variable, but for those of the edge's files, which the chart mounts."""
    found: dict[str, list[Variable]] = {}
    for each in document.variables:
        if each.path not in (_KEY, _BUDGET):
            found.setdefault(each.name, []).append(each)
    return found


def _secret(use: Variable) -> bool:
    return "client" in use.path[:-1] and bool(_SECRET.search(str(use.path[-1])))


def _shapes(uses: list[Variable]) -> bool:
    """Whether a variable shapes the topology; one that holds a secret is never written down."""
    return any(_block(each.path) is None for each in uses) and not any(map(_secret, uses))


def _settled(document: Document) -> Iterator[tuple[str, str]]:
    """Variables that shape the topology, with what they are here. Of others of these the file's
    defaults hold in pods, too.
    """
    for name, uses in _uses(document).items():
        if _shapes(uses) and name in os.environ:
            yield name, os.environ[name]


def _variables(document: Document) -> Iterator[dict[str, Any]]:
    """Variables that are given where the chart is installed."""
    for name, uses in _uses(document).items():
        if _shapes(uses):
            continue
        blocks = {_block(each.path) or KAFKA for each in uses}
        given = [each.default not in _NOWHERE for each in uses]
        yield {
            "name": name,
            "block": blocks.pop() if len(blocks) == 1 else KAFKA,
            "secret": any(map(_secret, uses)),
            "required": not all(given),
        }
