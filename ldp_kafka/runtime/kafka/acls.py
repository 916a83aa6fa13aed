"""Make Kafka ACLs at the brokers, each on its side's cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.runtime.brokers.embedded import is_embedded
from ldp_kafka.runtime.kafka.admin.asking import cluster_of, explained, quiet, where
from ldp_kafka.runtime.kafka.setup import client_config
from ldp_kafka.topology import Acl, Topology

__all__ = ["apply", "read_login"]


def apply(
    topology: Topology,
    found: Iterable[Acl],
    login: Mapping[str, Any] | None = None,
    *,
    timeout: float = 15.0,
) -> None:
    """Make these ACLs. Those that are there stay as they are; nothing is taken away.

    Parameters
    ----------
    login : client options of whoever may ALTER the clusters; default: those of each side

    Raises
    ------
    ConfigurationError : a cluster has no authorizer, or this login may not ALTER it
    BrokerError : a broker did not answer
    """
    for side, mine in groupby(sorted(found), lambda acl: acl.cluster):
        config = quiet(client_config(topology, side, login=login))
        client = AdminClient(config)
        if is_embedded(cluster_of(config, client, timeout)):
            raise ConfigurationError(f"{where(config)} is an embedded broker: it has no ACLs")
        bindings = [binding for acl in mine for binding in _bindings(acl)]
        with explained(config, f"the ACLs of {topology.name}", client):
            for answer in client.create_acls(bindings, request_timeout=timeout).values():
                try:
                    answer.result()
                except KafkaException as error:
                    if error.args[0].code() != KafkaError.SECURITY_DISABLED:
                        raise
                    raise ConfigurationError(
                        f"{where(config)} has no authorizer, so everybody may read everything:"
                        " authorizer.class.name must be set at its brokers"
                    ) from None


def read_login(file: Path) -> dict[str, str]:
    """Client options from a file: a line ``name=value`` each, in librdkafka's names.

    Raises
    ------
    ConfigurationError : it cannot be read, or a line is not as above
    """
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise ConfigurationError(f"{file}: the client options cannot be read") from None
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        name, is_, value = line.strip().partition("=")
        if name.startswith("#") or not (name or is_):
            continue
        if not (is_ and name.strip()):
            raise ConfigurationError(f"{file}:{number}: must be NAME=VALUE")
        found[name.strip()] = value.strip()
    return found


def _bindings(acl: Acl) -> list[AclBinding]:
    return [
        AclBinding(
            ResourceType[acl.resource.upper()],
            acl.name,
            ResourcePatternType.LITERAL,
            acl.principal,
            "*",
            AclOperation[operation],
            AclPermissionType.ALLOW,
        )
        for operation in acl.operations
    ]
