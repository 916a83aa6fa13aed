"""The rights of `ldp_kafka.topology.rights` as Kafka ACLs: who may do what, on which cluster."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.topology.model import Topology
from ldp_kafka.topology.rights import access
from ldp_kafka.topology.roles import COLLECTOR, EDGE

__all__ = ["Acl", "acls", "commands", "read_principals"]

_PRINCIPAL = re.compile(r"[A-Za-z][A-Za-z0-9]*:[^\s].*")
_SIDES = (EDGE, COLLECTOR)


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
