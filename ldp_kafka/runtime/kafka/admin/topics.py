"""Topics as they must be, and the first record of each partition."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from ldp_kafka.errors import BrokerError, ConfigurationError
from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker, is_embedded
from ldp_kafka.runtime.kafka.admin.asking import (
    PASSING,
    Config,
    cluster_of,
    explained,
    of_controller,
    quiet,
    where,
)
from ldp_kafka.runtime.kafka.admin.offsets import watermarks

__all__ = ["TopicSpec", "ensure", "partitions_of", "produce_once", "settings_of", "verify"]

_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_VERIFIED = ("cleanup.policy", "message.timestamp.type")
"""Settings that a topic that exists must have as well: on them hangs what is true, not how fast it
is.
"""

_LARGEST = "max.message.bytes"


@dataclass(frozen=True)
class TopicSpec:
    """What a topic must be.

    Parameters
    ----------
    name : 1 to 249 letters, digits, dots, dashes and underscores
    partitions : how many, at least 1
    config : topic configuration in Kafka's spelling, for its creation; ``cleanup.policy`` and
        ``message.timestamp.type``, where given, must also hold for a topic that exists
    cure : what to do where a topic that exists has ``{}`` partitions instead
    takes : bytes of what is written to it together; one that exists must take as many
    uncompact : what to do where its ``cleanup.policy`` is another one
    made : more of its configuration, which a topic that exists need not have

    Raises
    ------
    ConfigurationError : name or partitions are not as above

    """

    name: str
    partitions: int
    config: Mapping[str, str] = field(default_factory=dict)
    cure: str = ""
    takes: int = 0
    uncompact: str = ""
    made: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigurationError(
                "a topic's name must be 1 to 249 letters, digits, dots, dashes and underscores,"
                f" got {self.name!r}"
            )
        if (
            isinstance(self.partitions, bool)
            or not isinstance(self.partitions, int)
            or self.partitions < 1
        ):
            raise ConfigurationError(
                f"partitions of topic {self.name} must be a positive integer, got"
                f" {self.partitions!r}"
            )


def ensure(
    config: Config,
    specs: Iterable[TopicSpec],
    *,
    replication: int = -1,
    embedded: EmbeddedBroker | None = None,
    timeout: float = 15.0,
) -> set[str]:
    """Create the topics that are missing and verify those that exist; nothing is created where one
    of those is wrong.

    Two processes may do this at once. A topic is created if and only if its name is in the result
    of one of them.

    Parameters
    ----------
    config
        of a confluent-kafka client
    specs
        what the topics must be, each name once
    replication
        copies of each partition; -1 leaves it to the broker
    embedded
        the embedded broker this process hosts: it creates topics for its host only, and has no
        topic configuration to verify
    timeout
        seconds, for each question and for the new topics to get leaders

    Returns
    -------
    the names of the topics that this call created

    Raises
    ------
    ConfigurationError : a topic has other partitions or another cleanup.policy than it must, or the
        broker refused for good
    BrokerError : the broker did not answer in time, or refused for now

    """
    specs = list(specs)
    wanted = {spec.name: spec for spec in specs}
    if len(wanted) != len(specs):
        raise ConfigurationError(
            f"every topic must be named once, got {sorted(spec.name for spec in specs)}"
        )
    config = quiet(config)
    admin = AdminClient(config)
    with explained(config, "the list of topics", admin):
        metadata = admin.list_topics(timeout=timeout)
    mock = is_embedded(metadata.cluster_id)
    existing = [spec for name, spec in wanted.items() if name in metadata.topics]
    _verify(config, admin, existing, mock=mock, timeout=timeout)
    missing = [spec for name, spec in wanted.items() if name not in metadata.topics]
    if not missing:
        return set()
    if embedded is not None:
        created = {
            spec.name for spec in missing if embedded.create_topic(spec.name, spec.partitions)
        }
    elif mock:
        names = sorted(spec.name for spec in missing)
        raise BrokerError(
            f"{where(config)} is an embedded broker: only its host can create topics, and it has no"
            f" {', '.join(names)}"
        )
    else:
        created = _create(config, admin, missing, replication, timeout)
    # Also those just created: a replication or default of the broker may differ from what was
    # asked, and another process may have been first.
    _verify(config, admin, missing, mock=mock, timeout=timeout)
    return created


def verify(config: Config, specs: Iterable[TopicSpec], *, timeout: float = 15.0) -> None:
    """See that these topics are as they must be; they exist. Raises as `ensure`."""
    config = quiet(config)
    admin = AdminClient(config)
    mock = is_embedded(cluster_of(config, admin, timeout))
    _verify(config, admin, list(specs), mock=mock, timeout=timeout)


def partitions_of(config: Config, topic: str, *, timeout: float = 15.0) -> int | None:
    """Return how many partitions a topic has; None where there is no such topic.

    Raises
    ------
    BrokerError : the broker did not answer

    """
    config = quiet(config)
    admin = AdminClient(config)
    with explained(config, "the list of topics", admin):
        found = admin.list_topics(timeout=timeout).topics.get(topic)
    return None if found is None else len(found.partitions)


def produce_once(
    config: Config,
    topic: str,
    partition: int,
    value: bytes,
    headers: Sequence[tuple[str, bytes]] = (),
    *,
    key: bytes | None = None,
    timeout: float = 10.0,
) -> bool:
    """Write a record at offset 0 of a partition that has never held one.

    A compacted topic refuses a record without a key.
    Kafka has no conditional append: of two processes that do this at the same moment both may
    write, the second at a later offset. The record must therefore be recognisable by its own bytes.

    Returns
    -------
    whether this call wrote the record at offset 0

    Raises
    ------
    BrokerError : the partition's leader did not answer, or there is no such partition

    """
    if watermarks(config, topic, partition, timeout=timeout)[1] > 0:
        return False
    what = f"the first record of {topic} partition {partition}"
    config = quiet(config)
    delivered: list[tuple[KafkaError | None, Message]] = []
    producer = Producer(
        {"message.timeout.ms": int(timeout * 1000), **config, "enable.idempotence": True}
    )
    with explained(config, what, producer):
        producer.produce(
            topic,
            value,
            key,
            partition=partition,
            headers=list(headers),
            on_delivery=lambda error, message: delivered.append((error, message)),
        )
        # Delivery reports come a moment after the message's own timeout.
        producer.flush(timeout + 1)
        if not delivered:
            # confluent_kafka spells its public codes so
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001
        error, message = delivered[0]
        if error is not None:
            raise KafkaException(error)
    return bool(message.offset() == 0)


def _create(
    config: Config, admin: AdminClient, specs: Sequence[TopicSpec], replication: int, timeout: float
) -> set[str]:
    topics = [
        NewTopic(
            spec.name,
            num_partitions=spec.partitions,
            replication_factor=replication,
            config={**spec.config, **spec.made},
        )
        for spec in specs
    ]
    created = set()
    for name, answer in admin.create_topics(
        topics, operation_timeout=timeout, request_timeout=timeout
    ).items():
        with explained(config, f"the creation of topic {name}", admin):
            try:
                answer.result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
            else:
                created.add(name)
    return created


def _verify(
    config: Config, admin: AdminClient, specs: Sequence[TopicSpec], *, mock: bool, timeout: float
) -> None:
    found = _partition_counts(config, admin, {spec.name for spec in specs}, timeout)
    for spec in specs:
        if found[spec.name] != spec.partitions:
            raise ConfigurationError(
                f"topic {spec.name} must have {spec.partitions} partitions, found"
                f" {found[spec.name]} at {where(config)}"
                + (f": {spec.cure.format(found[spec.name])}" if spec.cure else "")
            )
    for spec in specs:
        settings = {name: spec.config[name] for name in _VERIFIED if name in spec.config}
        if not mock and (settings or spec.takes):
            _compare(config, spec, settings, _held(config, admin, spec.name, timeout))


def _compare(
    config: Config, spec: TopicSpec, settings: Mapping[str, str], held: Mapping[str, str]
) -> None:
    """See that a topic has these settings, and takes what is written."""
    for name, value in settings.items():
        if (has := _words(held[name])) != (words := _words(value)):
            must, is_ = (",".join(sorted(found)) for found in (words, has))
            cure = f": {spec.uncompact}" if spec.uncompact and name == "cleanup.policy" else ""
            raise ConfigurationError(
                f"topic {spec.name} must have {name}={must}, found {is_} at {where(config)}{cure}"
            )
    if (most := int(held.get(_LARGEST, spec.takes))) < spec.takes:
        raise ConfigurationError(
            f"topic {spec.name} must have {_LARGEST}={spec.takes} or more, found {most} at"
            f" {where(config)}: what is written together has up to so many bytes. Where the cluster"
            f" takes no more, set message.max.bytes: {most} in kafka.client: no record of ours may"
            " be larger then"
        )


def settings_of(config: Config, topic: str, *, timeout: float = 15.0) -> dict[str, str]:
    """The configuration of a topic as its broker has it, with its defaults; empty where the broker
    is embedded, and has none.

    Raises
    ------
    ConfigurationError : this login may not ask
    BrokerError : the broker did not answer, or has no such topic
    """
    config = quiet(config)
    admin = AdminClient(config)
    if is_embedded(cluster_of(config, admin, timeout)):
        return {}
    return _held(config, admin, topic, timeout)


def _held(config: Config, admin: AdminClient, topic: str, timeout: float) -> dict[str, str]:
    """The settings of a topic that exists. A broker that was not asked to make it may not know of
    it yet.
    """

    def ask(seconds: float) -> dict[str, str]:
        [answer] = admin.describe_configs(
            [ConfigResource(ResourceType.TOPIC, topic)], request_timeout=seconds
        ).values()
        return {
            name: entry.value for name, entry in answer.result().items() if entry.value is not None
        }

    return of_controller(
        config,
        f"the configuration of topic {topic}",
        ask,
        timeout,
        admin,
        {*PASSING, KafkaError.UNKNOWN_TOPIC_OR_PART},
    )


def _partition_counts(
    config: Config, admin: AdminClient, names: set[str], timeout: float
) -> dict[str, int]:
    """Partitions of each topic, once each has a leader: a new topic takes a moment to reach every
    broker.
    """
    end = time.monotonic() + timeout
    while True:
        with explained(config, "the list of topics", admin):
            topics = admin.list_topics(timeout=timeout).topics
        unready = sorted(
            name
            for name in names
            if name not in topics
            or topics[name].error
            or any(p.leader < 0 for p in topics[name].partitions.values())
        )
        if not unready:
            return {name: len(topics[name].partitions) for name in names}
        if time.monotonic() > end:
            raise BrokerError(
                f"{where(config)} has no leader for {', '.join(unready)} after {timeout:g} s"
            )
        time.sleep(0.1)


def _words(policy: str) -> frozenset[str]:
    return frozenset(word.strip() for word in policy.split(","))
