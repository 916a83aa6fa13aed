"""What must be at the brokers before the first worker starts: topics, header records, first
offsets. Idempotent, and safe to run from several processes at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from confluent_kafka import KafkaException, Producer

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker
from ldp_kafka.runtime.brokers.run_files import address_of
from ldp_kafka.runtime.kafka import admin
from ldp_kafka.runtime.kafka.admin import TopicSpec
from ldp_kafka.runtime.kafka.client_options import check_options, reconnects
from ldp_kafka.runtime.kafka.group_offsets import BEGUN
from ldp_kafka.runtime.kafka.headers import headed, logs
from ldp_kafka.runtime.kafka.oauth import for_librdkafka
from ldp_kafka.runtime.kafka.producer import LARGEST
from ldp_kafka.runtime.kafka.rights import check_sides
from ldp_kafka.runtime.recovery.rules import GAPS
from ldp_kafka.topology import Topic, Topology, require
from ldp_kafka.topology.document import Unset
from ldp_kafka.topology.roles import COLLECTOR, EDGE, Agent, Role
from ldp_kafka.topology.stamps import BY_THE_BROKER, UNBOUNDED, Stamps, stamps

__all__ = ["check_topics", "client_config", "prepare", "read_stamps", "resolve"]

_AT_ONCE = 8  # partitions
_GIVEN = "set {} to {{}} (where the topology has run, give it a new name, too)"
_OURS = "give the topology a new name: its topics are made anew"
"""What to do where a topic has another number of partitions."""


def resolve(topology: Topology) -> tuple[str, str]:
    """The bootstrap servers of the edge and of the collector; ``embedded`` becomes the address of
    the topology's embedded broker.

    Raises
    ------
    BrokerError : the broker is embedded, and no process hosts it

    """
    edge, collector = topology.edge_kafka, topology.collector_kafka
    embedded = address_of(topology.name) if edge.embedded or collector.embedded else ""
    return (
        embedded if edge.embedded else edge.bootstrap_servers,
        embedded if collector.embedded else collector.bootstrap_servers,
    )


def client_config(
    topology: Topology,
    side: str,
    bootstrap: str | None = None,
    login: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The configuration of a confluent-kafka client of one side, ``edge`` or ``collector``: the
    address, and the topology's own options or those of another login.

    Raises
    ------
    ConfigurationError : a variable that it needs is not set, an option is none of librdkafka's, or
        there is no token to log in with
    BrokerError : there is no token for now

    """
    kafka = topology.edge_kafka if side == "edge" else topology.collector_kafka
    if login is None:
        require(topology, (side,))
    elif isinstance(kafka.bootstrap_servers, Unset):
        raise kafka.bootstrap_servers.problem
    client = kafka.client if login is None else login
    check_options(client)
    found = resolve(topology)[side != "edge"] if bootstrap is None else bootstrap
    # What librdkafka notes below errors is no news to whoever runs a command
    own = {"log_level": 3, **reconnects(client)}
    return {**own, **for_librdkafka(client), "bootstrap.servers": found}


def prepare(
    topology: Topology,
    embedded: EmbeddedBroker | None = None,
    sides: Sequence[str] = (EDGE, COLLECTOR),
    *,
    role: Role | None = None,
    login: Mapping[str, Any] | None = None,
) -> list[str]:
    """Create the topics that are missing, verify those that exist, write header records and commit
    the groups' first offsets.

    Parameters
    ----------
    topology
        what is prepared
    embedded
        the embedded broker, where this process hosts it: nobody else can create its topics
    sides
        which clusters to touch: a collector of its own knows neither the edge's address nor its
        credentials
    role
        whose topics alone are wanted, at the sides that it reaches: it may have no right to touch
        any others
    login
        client options of whoever makes topics, in place of those that the sides log in with

    Returns
    -------
    what was done, a line each; empty where everything was there

    Raises
    ------
    ConfigurationError : a topic is not what it must be, or its records are those of another
        topology; both sides are one cluster that asks for no login
    BrokerError : the broker did not answer, or refused

    """
    # Where nothing of ours lies at the edge, as with devices, its way to a cluster is none of ours
    mine = None if role is None else role.topics()
    wanted = [topic for topic in topology.flow.topics if mine is None or topic in mine]
    used = {topic.side for topic in wanted}
    sides = [side for side in sides if side in used]
    if login is None:
        require(topology, sides)
    address = None if embedded is None else embedded.bootstrap_servers
    configs = {
        side: client_config(topology, side, address if _embedded(topology, side) else None, login)
        for side in sides
    }
    check_sides(topology, configs)
    for side, config in configs.items():
        try:
            # says at once what it cannot do
            Producer({**admin.quiet(config), "enable.idempotence": True})
        except KafkaException as error:
            raise ConfigurationError(f"kafka.client of the {side}: {error.args[0].str()}") from None
    done = [f"created topic {name}" for name in _topics(topology, wanted, configs, embedded)]
    names = {topic.name for topic in wanted}
    for log in logs(topology):
        if log.topic.name not in names or log.topic.side not in configs:
            continue
        own = role is None or role.name == log.role
        topic, config = log.topic.name, configs[log.topic.side]
        # A first record takes half a second, in which nothing happens but waiting for the broker
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            states = list(
                pool.map(
                    partial(headed, topology, config, log, mine=own), range(log.topic.partitions)
                )
            )
        done += [
            f"wrote the header record of {topic} partition {partition}"
            for partition, (_, written) in enumerate(states)
            if written
        ]
        ours = [partition for partition, (there, _) in enumerate(states) if there and own]
        if log.group is None or not ours:
            continue
        first = admin.commit_first(config, log.group, topic, ours)
        if first:
            done.append(
                f"committed offset 1 of {topic} for group {log.group}: partition"
                f" {', '.join(map(str, sorted(first)))}"
            )
    if configs.keys() >= {EDGE, COLLECTOR}:
        for reader, agent in topology.flow.readers():
            if agent.raw and (role is None or role.name == reader.name):
                done += _begin(topology, reader.group, agent, configs)
    return done


def check_topics(topology: Topology, role: Role) -> None:
    """See that the topics of a role, which exist, are as they must be: one may have been changed
    since `prepare`. Raises as `prepare`.
    """
    configs = {side: client_config(topology, side) for side in role.sides}
    for side, specs in _specs(topology, role.topics(), configs, None).items():
        admin.verify(configs[side], {spec.name: spec for spec in specs}.values())


def read_stamps(topology: Topology, config: Mapping[str, Any]) -> Stamps:
    """How far the timestamps of a topology's raw records may be ahead of the broker's clock. Of a
    topic that is relayed that broker decides: records keep their timestamps.

    Parameters
    ----------
    config : of a confluent-kafka client of the edge

    Raises
    ------
    ConfigurationError : this login may not ask
    BrokerError : the broker did not answer, or has no such topic
    """
    found = admin.settings_of(config, topology.input.topic)
    return stamps(found) if found else UNBOUNDED


def _begin(
    topology: Topology, group: str, agent: Agent, configs: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Note where a raw log without its first records begins for us: what had expired before was
    never ours, what expires from now on is a loss. Not where a worker has reported already.
    """
    done: list[str] = []
    raw = agent.topic
    for partition, offset in admin.committed(
        configs[EDGE], group, raw, range(agent.partitions)
    ).items():
        if offset is not None:
            continue
        low, _ = admin.watermarks(configs[EDGE], raw, partition)
        if (
            low > 0
            and admin.watermarks(configs[COLLECTOR], topology.answers_topic, partition)[1]
            <= topology.answers_begin
        ):
            admin.commit_first(configs[EDGE], group, raw, [partition], offset=low, metadata=BEGUN)
            done.append(
                f"{raw} partition {partition} begins at offset {low}: what was before it had"
                " expired and is not read"
            )
    return done


def _embedded(topology: Topology, side: str) -> bool:
    return (topology.edge_kafka if side == "edge" else topology.collector_kafka).embedded


def _topics(
    topology: Topology,
    topics: Iterable[Topic],
    configs: Mapping[str, Mapping[str, Any]],
    embedded: EmbeddedBroker | None,
) -> list[str]:
    created: list[str] = []
    for side, wanted in _specs(topology, topics, configs, embedded).items():
        host = embedded if _embedded(topology, side) else None
        new = admin.ensure(configs[side], wanted, embedded=host)
        created += [spec.name for spec in wanted if spec.name in new]
    return created


def _specs(
    topology: Topology,
    topics: Iterable[Topic],
    configs: Mapping[str, Mapping[str, Any]],
    embedded: EmbeddedBroker | None,
) -> dict[str, list[TopicSpec]]:
    """What these topics must be, by side."""
    flow = topology.flow
    given = flow.given or flow.reports  # where devices write their reports
    specs: dict[str, list[TopicSpec]] = {side: [] for side in configs}
    for topic in topics:
        if topic.side in specs:
            specs[topic.side].append(
                TopicSpec(
                    topic.name,
                    topic.partitions,
                    topic.config,
                    _GIVEN.format("input.partitions") if topic == given else _OURS,
                    _takes(topology, topic, configs[topic.side]),
                    GAPS if topic == flow.given else "",
                    _stamped(topology, topic),
                )
                if topic.ours
                else _foreign(topology, configs[topic.side], embedded)
            )
    return specs


def _takes(topology: Topology, topic: Topic, config: Mapping[str, Any]) -> int:
    """Bytes that are written together to a topic of ours, at most: by librdkafka's own default,
    unless the topology says otherwise; of a copy as many as the other topic takes. How many others
    write to it is theirs to say.
    """
    flow = topology.flow
    if topic == (flow.given or flow.reports):
        return 0
    kafka = topology.edge_kafka if topic.side == EDGE else topology.collector_kafka
    given = kafka.client.get("message.max.bytes", LARGEST)
    most = LARGEST if isinstance(given, Unset) else int(given)
    if topic != flow.raw:
        return most
    try:
        found = admin.settings_of(config, topology.input.topic)
    except ConfigurationError:  # it may not ask
        return most
    return max(most, int(found.get("max.message.bytes", most)))


def _stamped(topology: Topology, topic: Topic) -> Mapping[str, str]:
    """By whose clock a new topic's records are stamped: the broker's, where a budget file limits
    what is lost of them. Else what is retired would count for ever.
    """
    limited = topic == topology.flow.raw and topology.edge.budget_file is not None
    return BY_THE_BROKER if limited and not topology.input.relay else {}


def _foreign(
    topology: Topology, config: Mapping[str, Any], embedded: EmbeddedBroker | None
) -> TopicSpec:
    """What someone else's raw topic must be; it is only made on an embedded broker, where nobody
    else could.
    """
    source = topology.input
    if (not _embedded(topology, "edge") or embedded is None) and admin.partitions_of(
        config, source.topic
    ) is None:
        raise ConfigurationError(
            f"topic {source.topic} does not exist, and input.create is false: its owner has to"
            " create it"
        )
    # Compaction takes messages that a worker has reported on and has to fold again after a crash:
    # other messages of the user and slot would then be reported on a second time. A relay copies
    # a message once, and only the copy is folded.
    copied = source.relay and source.gaps == "allow"
    policy = {} if copied else {"cleanup.policy": "delete"}
    way_out = _GIVEN.format(source.given_by)
    return TopicSpec(source.topic, source.given_partitions, policy, way_out, uncompact=GAPS)
