"""What a role is allowed at the brokers, asked when it starts: each right that it lacks is named
before anything runs, and a collector that can read what must not leave the edge is refused.

A login that may DESCRIBE a topic may ask for its offsets, which tell how many raw messages there
were: with ``per_slot: count`` that is users' values. So the collector may not do that either.

A broker says what a login may do with a topic or a group (KIP-430). It says of a topic that a login
may not even DESCRIBE neither that it is there nor that it is not.

That the collector can read the edge's topics is an error where ``kafka.edge`` and
``kafka.collector`` are both given: they were given to keep the two apart. Where one block serves
both, as on a laptop, it is a warning. One cluster with two logins and rights that fit is as good as
two clusters; one cluster that lets both in without a login is not, whatever the addresses.

The embedded broker has no rights and answers no such question: nothing is asked there.

`grant` makes what is missing, as Kafka ACLs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from itertools import groupby
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
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
from ldp_kafka.runtime.kafka.admin.asking import (
    Config,
    cluster_of,
    describe_groups,
    explained,
    of_controller,
    quiet,
    where,
)
from ldp_kafka.topology import Access, Acl, Right, Topology, access
from ldp_kafka.topology.roles import COLLECTOR, EDGE, Role

__all__ = ["check_rights", "check_sides", "grant"]

Allowed = frozenset[str] | None
"""Operations in Kafka's words; None: the broker does not say, or there is no such thing yet."""


class Cluster(NamedTuple):
    """One cluster as one login sees it."""

    config: Config
    client: AdminClient
    id: str

    def __repr__(self) -> str:
        return f"Cluster({type(self.client).__name__})"  # never a password


def check_rights(
    topology: Topology, role: Role, configs: Mapping[str, Config], *, timeout: float = 15.0
) -> list[str]:
    """Ask each cluster that a role reaches what it may do there.

    Parameters
    ----------
    configs : of a confluent-kafka client of each side that it reaches
    timeout : seconds, for each question

    Returns
    -------
    what it may do and should not, in words, where that is no error

    Raises
    ------
    ConfigurationError : a right is missing, it may read what it must not, or its login is refused
    BrokerError : a broker did not answer
    """
    clusters = _clusters(configs, timeout)
    mine = [each for each in access(topology) if each.role == role.name]
    said: list[str] = []
    missing: list[str] = []
    for each in mine:
        cluster = clusters[each.login]
        if is_embedded(cluster.id):
            continue
        allowed = _allowed(cluster, each, timeout)
        missing += _missing(topology, cluster, each, allowed)
        readable = [
            name
            for name in each.must_not_read
            if _TELLING & (allowed.get(("topic", name)) or frozenset())
        ]
        if readable:
            said.append(_readable(topology, cluster, each, readable))
    if missing:
        raise ConfigurationError("\n".join(missing))
    if said and topology.edge_kafka is not topology.collector_kafka:
        raise ConfigurationError("\n".join(said))
    return said


def check_sides(
    topology: Topology, configs: Mapping[str, Config], *, timeout: float = 15.0
) -> None:
    """Refuse two sides that are one: one cluster, and nobody logs in.

    Parameters
    ----------
    configs : of a confluent-kafka client of each side

    Raises
    ------
    ConfigurationError : they are one, or a login is refused
    BrokerError : a broker did not answer
    """
    edge, collector = topology.edge_kafka, topology.collector_kafka
    if (
        topology.flow.raw is None
        or edge is collector
        or not configs.keys() >= {EDGE, COLLECTOR}
        or edge.identity != collector.identity
    ):
        return
    clusters = _clusters(configs, timeout)
    if clusters[EDGE].id == clusters[COLLECTOR].id:
        raise ConfigurationError(
            f"kafka.edge ({where(clusters[EDGE].config)}) and kafka.collector"
            f" ({where(clusters[COLLECTOR].config)}) are one cluster, and neither has a login: the"
            " collector can read the raw topic. Give kafka.collector another cluster, or each a"
            " login of its own and the rights that `ldp-kafka topics TOPOLOGY --acls` prints"
        )


def grant(
    topology: Topology,
    found: Iterable[Acl],
    configs: Mapping[str, Config],
    *,
    timeout: float = 15.0,
) -> None:
    """Make these ACLs. Those that are there stay as they are; nothing is taken away.

    Parameters
    ----------
    configs : of each side's cluster, a confluent-kafka client of whoever may ALTER it

    Raises
    ------
    ConfigurationError : a cluster has no authorizer, or this login may not ALTER it
    BrokerError : a broker did not answer
    """
    for side, mine in groupby(sorted(found), lambda acl: acl.cluster):
        config, client, cluster = _clusters({side: configs[side]}, timeout)[side]
        if is_embedded(cluster):
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


def _clusters(configs: Mapping[str, Config], timeout: float) -> dict[str, Cluster]:
    found: dict[str, Cluster] = {}
    for side, given in configs.items():
        config = quiet(given)
        client = AdminClient(config)
        found[side] = Cluster(config, client, cluster_of(config, client, timeout))
    return found


def _allowed(cluster: Cluster, wanted: Access, timeout: float) -> dict[tuple[str, str], Allowed]:
    """Of each topic and group what may be done with it. Nothing of what may not be described."""
    topics = [right.name for right in wanted.rights if right.resource == "topic"]
    topics += [name for name in wanted.must_not_read if name not in topics]
    groups = [right.name for right in wanted.rights if right.resource == "group"]
    config, client = cluster.config, cluster.client

    def ask(seconds: float) -> dict[tuple[str, str], Allowed]:
        more = {"include_authorized_operations": True}
        within = {"request_timeout": seconds, **more}
        of_topics = client.describe_topics(TopicCollection(topics), **within) if topics else {}
        of_groups = describe_groups(client, groups, seconds, **more) if groups else {}
        return {
            **{("topic", name): _operations(answer) for name, answer in of_topics.items()},
            **{("group", name): _operations(answer) for name, answer in of_groups.items()},
        }

    # a fresh broker's first question about a group finds no coordinator yet
    return of_controller(config, "what this login may do", ask, timeout, client)


_TELLING = {"READ", "DESCRIBE"}
_NOTHING = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED)
_ABSENT = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.GROUP_ID_NOT_FOUND)


def _operations(answer: Future[Any]) -> Allowed:
    try:
        found = answer.result().authorized_operations
    except KafkaException as error:
        code = error.args[0].code()
        if code in _NOTHING:
            return frozenset()
        if code in _ABSENT:
            return None
        raise
    return frozenset(each.name for each in found) if found else None


def _missing(
    topology: Topology,
    cluster: Cluster,
    wanted: Access,
    allowed: Mapping[tuple[str, str], Allowed],
) -> Iterator[str]:
    """One line for all that is missing at a cluster, if anything is."""
    lacking = [
        str(Right(right.resource, right.name, left))
        for right in wanted.rights
        if (found := allowed[right.resource, right.name]) is not None
        and (left := tuple(each for each in right.operations if each not in found))
    ]
    if lacking:
        yield (
            f"the {wanted.role} role may not do at {where(cluster.config)} what it has to, as"
            f" {_block(topology, wanted.login)} logs in: it lacks {_listed(lacking)}. `ldp-kafka"
            f" topics {topology.file} --acls --principal {wanted.login}=User:NAME` prints what to"
            " grant, and with --apply grants it"
        )


def _readable(topology: Topology, cluster: Cluster, found: Access, names: list[str]) -> str:
    return (
        f"the {found.role} role can read or describe {_listed(names)} at {where(cluster.config)},"
        f" as {_block(topology, found.login)} logs in: that is for the edge alone, and how many"
        " messages a topic has is, too. Take the rights to READ and to DESCRIBE it away from its"
        " login (where a cluster has no authorizer, everybody can read), or give kafka.edge a"
        " cluster of its own"
    )


def _block(topology: Topology, login: str) -> str:
    return "kafka" if topology.edge_kafka is topology.collector_kafka else f"kafka.{login}"


def _listed(parts: Iterable[str]) -> str:
    return "; ".join(parts)
