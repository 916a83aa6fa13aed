"""Who may read what: the Kafka rights that each role needs, and the topics that it must not read,
as they follow from the tables of roles and topics; and the same as Kafka ACLs.

A side's login is who its block of the topology (``kafka.edge``, ``kafka.collector``) is to a
broker. A role logs in at each cluster that it reaches with that cluster's block: ``perturb`` reads
at the edge as the edge's login, and writes reports as the collector's; as the collector's it also
reads the requests that it forwards into the raw log. Someone else's topic that is relayed it reads
as the edge's login, which needs no right to write there. Devices have the edge's login, and write
to the collector's cluster with it; where a coordinator asks, they read its requests there, in no
group.

Nobody here creates topics: whoever runs ``ldp-kafka topics`` does. A right to read or write a
topic includes DESCRIBE, and so it does for a group; idempotent producers need no right of their own
(Kafka 3.0 and later).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.topology.model import Topology
from ldp_kafka.topology.roles import COLLECTOR, EDGE, Role, Topic

__all__ = ["Access", "Acl", "Right", "access", "acls", "commands", "lines", "read_principals"]

READ, WRITE, DESCRIBE_CONFIGS = "READ", "WRITE", "DESCRIBE_CONFIGS"
_OPERATIONS = (READ, WRITE, DESCRIBE_CONFIGS)
_PRINCIPAL = re.compile(r"[A-Za-z][A-Za-z0-9]*:[^\s].*")
_SIDES = (EDGE, COLLECTOR)


class Right(NamedTuple):
    """What may be done with one topic or consumer group."""

    resource: str
    """``topic`` or ``group``."""
    name: str
    operations: tuple[str, ...]
    """In Kafka's words."""

    def __str__(self) -> str:
        return f"{', '.join(self.operations)} on {self.resource} {self.name}"


@dataclass(frozen=True)
class Access:
    """What one role needs of one cluster, and what it must not read there.

    Parameters
    ----------
    role : its name, or ``devices``
    login : the side whose block it logs in with
    cluster : the side whose cluster it is
    rights : what it needs, all of it and no more
    must_not_read : topics of the other side that it must not read, should they lie here
    """

    role: str
    login: str
    cluster: str
    rights: tuple[Right, ...]
    must_not_read: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "role": self.role,
            "login": f"kafka.{self.login}",
            "cluster": self.cluster,
            "rights": [right._asdict() for right in self.rights],
            "must_not_read": list(self.must_not_read),
        }


def lines(found: Iterable[Access]) -> Iterator[str]:
    """A line for each right, with the login that needs it, for people."""
    rows = [
        (each.role, f"kafka.{each.login}", what, where)
        for each in found
        for what, where in (
            *(
                (", ".join(right.operations), f"{right.resource} {right.name}")
                for right in each.rights
            ),
            *(("must not READ", f"topic {name}") for name in each.must_not_read),
        )
    ]
    wide = [max(len(row[at]) for row in rows) for at in range(3)]
    for role, login, what, where in rows:
        yield f"  {role:<{wide[0]}}  {login:<{wide[1]}}  {what:<{wide[2]}}  {where}"


def access(topology: Topology) -> tuple[Access, ...]:
    """Of all roles that a topology has, in pipeline order, at each cluster; of its devices first.

    Examples
    --------
    >>> from ldp_kafka.topology import loads
    >>> meters = loads('''
    ... topology: meters
    ... input: {slot: 1h}
    ... privacy: {method: sw_direct, epsilon: 1.0, window: 10, domain: [0, 100]}
    ... output: {statistics: [mean]}
    ... ''')
    >>> for each in access(meters):
    ...     print(each.role, each.login, each.rights[0])
    perturb edge READ, DESCRIBE_CONFIGS on topic meters.raw
    perturb collector WRITE, DESCRIBE_CONFIGS on topic meters.reports
    collect collector READ, DESCRIBE_CONFIGS on topic meters.reports
    """
    found: list[Access] = []
    if topology.flow.raw is None:
        reports = topology.reports_topic
        mine = [Right("topic", reports, (WRITE,))]
        if topology.flow.requests is not None:
            mine.append(Right("topic", topology.flow.requests.name, (READ,)))
        found.append(Access("devices", EDGE, COLLECTOR, tuple(mine), must_not_read=(reports,)))
    for role in topology.roles:
        rights = dict(_rights(topology, role))
        found += [
            Access(role.name, side, side, tuple(rights[side]), _others(topology, role, side))
            for side in role.sides
        ]
    return tuple(found)


def _rights(topology: Topology, role: Role) -> Iterator[tuple[str, list[Right]]]:
    """The rights that a role needs at each side."""
    needs: dict[str, set[str]] = {}
    topics: dict[str, Topic] = {}

    def need(topic: Topic, *operations: str) -> None:
        topics[topic.name] = topic
        needs.setdefault(topic.name, set()).update(operations)

    limited = topology.edge.budget_file is not None
    for agent in role.agents:
        need(agent.reads, READ, DESCRIBE_CONFIGS)  # it must not be compacted: it is looked at
        if agent.ticks and (topology.input.idle_ms is not None or topology.input.clock):
            need(agent.reads, WRITE)
        for topic in agent.writes:
            need(topic, WRITE, DESCRIBE_CONFIGS)
        need(role.state(agent), READ, WRITE, DESCRIBE_CONFIGS)
    groups = {role.side: [role.group]}
    if role.forward is not None:
        need(role.forward.reads, READ, DESCRIBE_CONFIGS)
        need(role.forward.writes, WRITE)
    if role.relay is not None:
        asked = not role.relay.gaps or limited
        need(role.relay.reads, READ, *((DESCRIBE_CONFIGS,) if asked else ()))
        need(role.relay.writes, WRITE)
    for each in role.copied:
        groups.setdefault(each.reads.side, []).append(each.group)
    for side in role.sides:
        mine = [
            Right("topic", name, tuple(each for each in _OPERATIONS if each in needs[name]))
            for name in needs
            if topics[name].side == side
        ]
        yield side, mine + [Right("group", name, (READ,)) for name in groups.get(side, ())]


def _others(topology: Topology, role: Role, side: str) -> tuple[str, ...]:
    """What lies at the edge is not for the collector."""
    if not role.side == side == COLLECTOR:
        return ()
    return tuple(topic.name for topic in topology.flow.topics if topic.side == EDGE)


class Acl(NamedTuple):
    """What one principal may do with one topic or group."""

    cluster: str
    """The side on whose cluster it is."""
    principal: str
    resource: str
    """``topic`` or ``group``."""
    name: str
    operations: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return self._asdict()


def read_principals(texts: Iterable[str]) -> dict[str, str]:
    """By side, who its block of the topology logs in as.

    Parameters
    ----------
    texts : ``SIDE=TYPE:NAME`` each

    Raises
    ------
    ConfigurationError : there is none, or one is not as above, or two sides have one

    Examples
    --------
    >>> read_principals(["edge=User:meters", "collector=User:CN=statistics,O=House"])
    {'edge': 'User:meters', 'collector': 'User:CN=statistics,O=House'}
    """
    found: dict[str, str] = {}
    for text in texts:
        side, _, principal = text.partition("=")
        if side not in _SIDES:
            raise ConfigurationError(
                f"--principal {text}: must begin with {' or '.join(f'{each}=' for each in _SIDES)}"
            )
        if not _PRINCIPAL.fullmatch(principal):
            raise ConfigurationError(
                f"--principal {text}: a principal must be TYPE:NAME, such as {side}=User:meters"
            )
        if principal.endswith(":*"):
            raise ConfigurationError(
                f"--principal {text}: {principal} is everybody: each side must be somebody"
            )
        if found.setdefault(side, principal) != principal:
            raise ConfigurationError(f"--principal {text}: {side} must be given once")
    if not found:
        raise ConfigurationError(
            "--acls: a --principal must say who each side is to its broker, such as --principal"
            " edge=User:meters --principal collector=User:statistics"
        )
    if len(found) > len(set(found.values())):
        raise ConfigurationError(
            f"--principal: both sides are {found[EDGE]}: whoever reads reports could read the raw"
            " topic; each side must have a principal of its own"
        )
    return found


def acls(topology: Topology, principals: Mapping[str, str]) -> list[Acl]:
    """What these principals need, each on the clusters that it reaches; all that a side's roles
    need together.
    """
    wanted: dict[tuple[str, str, str, str], list[str]] = {}
    for each in access(topology):
        if each.login not in principals:
            continue
        for right in each.rights:
            place = each.cluster, principals[each.login], right.resource, right.name
            operations = wanted.setdefault(place, [])
            operations += [name for name in right.operations if name not in operations]
    return [Acl(*place, tuple(operations)) for place, operations in wanted.items()]


def commands(topology: Topology, found: Iterable[Acl]) -> Iterator[str]:
    """A line of Kafka's own tool for each, to be run by whoever may ALTER the cluster."""
    addresses = {
        EDGE: topology.edge_kafka.bootstrap_servers,
        COLLECTOR: topology.collector_kafka.bootstrap_servers,
    }
    for acl in found:
        operations = [
            word
            for name in acl.operations
            for word in ("--operation", name.title().replace("_", ""))
        ]
        yield shlex.join(
            [
                "kafka-acls.sh",
                "--bootstrap-server",
                addresses[acl.cluster],
                "--command-config",
                "admin.properties",
                "--add",
                "--allow-principal",
                acl.principal,
                *operations,
                f"--{acl.resource}",
                acl.name,
            ]
        )
