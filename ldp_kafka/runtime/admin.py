"""Topics, offsets and first records: what must be true at the broker before a worker starts.

Every function takes the configuration of a confluent-kafka client (``bootstrap.servers``, TLS, SASL) and a timeout in seconds for each question asked.
BrokerError means: it did not answer or refused, try again. ConfigurationError means: trying again will not help. What librdkafka would write to standard error at each attempt to
connect is kept, and its last word is part of the one error.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from ldp_kafka.errors import BrokerError, ConfigurationError
from ldp_kafka.runtime.embedded import EmbeddedBroker, is_embedded

__all__ = [
    "Config",
    "TopicSpec",
    "commit",
    "commit_first",
    "committed",
    "ensure",
    "extents",
    "lag",
    "members",
    "partitions_of",
    "produce_once",
    "quiet",
    "watermarks",
]

Config = Mapping[str, Any]

_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_VERIFIED = ("cleanup.policy", "message.timestamp.type")
"""Settings that a topic that exists must have as well: on them hangs what is true, not how fast it is."""
_PERMANENT = frozenset(
    {
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
    }
)


# A coordinator or leader moves, or is only just made: on a fresh broker the first question of all meets one of these. Asked again, it answers.
_PASSING = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
    }
)

_UNREACHED = frozenset({KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE, KafkaError._MSG_TIMED_OUT})  # noqa: SLF001
_HINT = "is it up, and do kafka.bootstrap_servers and kafka.client fit it?"

_Answer = TypeVar("_Answer")


class _Heard:
    """What a client says of its connections."""

    last = ""

    def __call__(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001 - comes after the reason
            self.last = error.str()


def quiet(config: Config) -> dict[str, Any]:
    """The configuration of a client that only asks: what it hears of its connections is said once, in the error. With ``debug`` it says all that it would."""
    return dict(config) if "debug" in config else {**config, "log_level": 0, "error_cb": _Heard()}


@dataclass(frozen=True)
class TopicSpec:
    """What a topic must be.

    Parameters
    ----------
    name : 1 to 249 letters, digits, dots, dashes and underscores
    partitions : how many, at least 1
    config : topic configuration in Kafka's spelling, for its creation; ``cleanup.policy`` and ``message.timestamp.type``, where given, must also hold for a topic that exists

    Raises
    ------
    ConfigurationError : name or partitions are not as above

    """

    name: str
    partitions: int
    config: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigurationError(f"a topic's name must be 1 to 249 letters, digits, dots, dashes and underscores, got {self.name!r}")
        if isinstance(self.partitions, bool) or not isinstance(self.partitions, int) or self.partitions < 1:
            raise ConfigurationError(f"partitions of topic {self.name} must be a positive integer, got {self.partitions!r}")


def ensure(config: Config, specs: Iterable[TopicSpec], *, replication: int = -1, embedded: EmbeddedBroker | None = None, timeout: float = 15.0) -> set[str]:
    """Create the topics that are missing and verify those that exist; nothing is created where one of those is wrong.

    Two processes may do this at once. A topic is created if and only if its name is in the result of one of them.

    Parameters
    ----------
    config
        of a confluent-kafka client
    specs
        what the topics must be, each name once
    replication
        copies of each partition; -1 leaves it to the broker
    embedded
        the embedded broker this process hosts: it creates topics for its host only, and has no topic configuration to verify
    timeout
        seconds, for each question and for the new topics to get leaders

    Returns
    -------
    the names of the topics that this call created

    Raises
    ------
    ConfigurationError : a topic has other partitions or another cleanup.policy than it must, or the broker refused for good
    BrokerError : the broker did not answer in time, or refused for now

    """
    specs = list(specs)
    wanted = {spec.name: spec for spec in specs}
    if len(wanted) != len(specs):
        raise ConfigurationError(f"every topic must be named once, got {sorted(spec.name for spec in specs)}")
    config = quiet(config)
    admin = AdminClient(config)
    with _explained(config, "the list of topics", admin):
        metadata = admin.list_topics(timeout=timeout)
    mock = is_embedded(metadata.cluster_id)
    existing = [spec for name, spec in wanted.items() if name in metadata.topics]
    _verify(config, admin, existing, mock=mock, timeout=timeout)
    missing = [spec for name, spec in wanted.items() if name not in metadata.topics]
    if not missing:
        return set()
    if embedded is not None:
        created = {spec.name for spec in missing if embedded.create_topic(spec.name, spec.partitions)}
    elif mock:
        names = sorted(spec.name for spec in missing)
        raise BrokerError(f"{_where(config)} is an embedded broker: only its host can create topics, and it has no {', '.join(names)}")
    else:
        created = _create(config, admin, missing, replication, timeout)
    # Also those just created: a replication or default of the broker may differ from what was asked, and another process may have been first.
    _verify(config, admin, missing, mock=mock, timeout=timeout)
    return created


def partitions_of(config: Config, topic: str, *, timeout: float = 15.0) -> int | None:
    """Return how many partitions a topic has; None where there is no such topic.

    Raises
    ------
    BrokerError : the broker did not answer

    """
    config = quiet(config)
    admin = AdminClient(config)
    with _explained(config, "the list of topics", admin):
        found = admin.list_topics(timeout=timeout).topics.get(topic)
    return None if found is None else len(found.partitions)


def committed(config: Config, group: str, topic: str, partitions: Iterable[int], *, timeout: float = 10.0) -> dict[int, int | None]:
    """Return the committed offset of a group for each partition: the next one it will read, None where it has none.

    Raises
    ------
    BrokerError : the group's coordinator did not answer, or refused

    """
    config = quiet(config)
    return _committed(config, _consumer(config, group), topic, partitions, timeout)


def watermarks(config: Config, topic: str, partition: int, *, timeout: float = 10.0) -> tuple[int, int]:
    """Return the first offset a partition holds and the one its next record will get.

    Raises
    ------
    BrokerError : the partition's leader did not answer, or there is no such partition

    """
    return extents(config, topic, [partition], timeout=timeout)[partition]


def extents(config: Config, topic: str, partitions: Iterable[int], *, timeout: float = 10.0) -> dict[int, tuple[int, int]]:
    """Return `watermarks` of each of these partitions."""
    config = quiet(config)
    consumer = _consumer(config, "ldp_kafka.admin")
    return {partition: _watermarks(config, consumer, topic, partition, timeout) for partition in partitions}


def lag(config: Config, group: str, topic: str, partitions: Iterable[int], *, timeout: float = 10.0) -> dict[int, int]:
    """Count the offsets of each partition that a group has not committed yet, from the first one held where it has committed none.

    Raises
    ------
    BrokerError : the group's coordinator or a partition's leader did not answer, or refused

    """
    config = quiet(config)
    consumer = _consumer(config, group)
    behind = {}
    for partition, offset in _committed(config, consumer, topic, partitions, timeout).items():
        low, high = _watermarks(config, consumer, topic, partition, timeout)
        behind[partition] = max(0, high - max(low, offset or 0))
    return behind


def commit_first(config: Config, group: str, topic: str, partitions: Iterable[int], *, offset: int = 1, metadata: str = "", timeout: float = 10.0) -> set[int]:
    """Commit an offset for the partitions where a group has none; those it has are left as they are.

    A group with members refuses it, so a worker that has already started is never set back. ``metadata`` stays with the offset until the next commit.

    Returns
    -------
    the partitions it was committed for

    Raises
    ------
    BrokerError : the group's coordinator did not answer, or the group has members but lacks an offset

    """
    before = committed(config, group, topic, partitions, timeout=timeout)
    first = [partition for partition, found in before.items() if found is None]
    if first:
        commit(config, group, topic, dict.fromkeys(first, offset), metadata=metadata, timeout=timeout)
    return set(first)


def commit(config: Config, group: str, topic: str, offsets: Mapping[int, int], *, metadata: str = "", timeout: float = 10.0) -> None:
    """Commit these offsets of a group, whatever it has: forwards or back.

    Raises
    ------
    BrokerError : the group's coordinator did not answer, or the group has members: what they fold would not be what is committed

    """
    # An ordinary commit of a consumer without a subscription: unlike AlterConsumerGroupOffsets, the embedded broker has it too.
    # Asynchronous, because the synchronous one waits for ever on a broker that hangs.
    answers: list[tuple[KafkaError | None, list[TopicPartition]]] = []
    config = quiet(config)
    consumer = _consumer(config, group, on_commit=lambda error, offsets: answers.append((error, offsets)))

    def ask() -> Sequence[TopicPartition]:
        answers.clear()
        consumer.commit(offsets=[TopicPartition(topic, partition, offset, metadata=metadata) for partition, offset in offsets.items()], asynchronous=True)
        end = time.monotonic() + timeout
        while not answers and time.monotonic() < end:
            consumer.poll(0.02)
        error, found = answers[0] if answers else (KafkaError(KafkaError._TIMED_OUT), [])  # noqa: SLF001
        if error is not None:
            raise KafkaException(error)
        return _without_errors(found)

    _patiently(config, f"the commit of offsets for group {group} on {topic}", ask, timeout, consumer)


def members(config: Config, group: str, *, timeout: float = 10.0) -> int | None:
    """Count the members of a group; None where the broker is embedded and cannot say. A group that nobody ever was in has none.

    Raises
    ------
    BrokerError : the group's coordinator did not answer, or refused

    """
    config = quiet(config)
    admin = AdminClient(config)
    with _explained(config, "the list of topics", admin):
        if is_embedded(admin.list_topics(timeout=timeout).cluster_id):
            return None
    with _explained(config, f"the members of group {group}", admin):
        try:
            return len(admin.describe_consumer_groups([group], request_timeout=timeout)[group].result().members)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return 0
            raise


def produce_once(
    config: Config, topic: str, partition: int, value: bytes, headers: Sequence[tuple[str, bytes]] = (), *, key: bytes | None = None, timeout: float = 10.0
) -> bool:
    """Write a record at offset 0 of a partition that has never held one.

    A compacted topic refuses a record without a key.
    Kafka has no conditional append: of two processes that do this at the same moment both may write, the second at a later offset.
    The record must therefore be recognisable by its own bytes.

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
    producer = Producer({"message.timeout.ms": int(timeout * 1000), **config, "enable.idempotence": True})
    with _explained(config, what, producer):
        producer.produce(topic, value, key, partition=partition, headers=list(headers), on_delivery=lambda error, message: delivered.append((error, message)))
        # Delivery reports come a moment after the message's own timeout.
        producer.flush(timeout + 1)
        if not delivered:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001 - confluent_kafka spells its public codes so
        error, message = delivered[0]
        if error is not None:
            raise KafkaException(error)
    return bool(message.offset() == 0)


def _create(config: Config, admin: AdminClient, specs: Sequence[TopicSpec], replication: int, timeout: float) -> set[str]:
    topics = [NewTopic(spec.name, num_partitions=spec.partitions, replication_factor=replication, config=dict(spec.config)) for spec in specs]
    created = set()
    for name, answer in admin.create_topics(topics, operation_timeout=timeout, request_timeout=timeout).items():
        with _explained(config, f"the creation of topic {name}", admin):
            try:
                answer.result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
            else:
                created.add(name)
    return created


def _verify(config: Config, admin: AdminClient, specs: Sequence[TopicSpec], *, mock: bool, timeout: float) -> None:
    found = _partition_counts(config, admin, {spec.name for spec in specs}, timeout)
    for spec in specs:
        if found[spec.name] != spec.partitions:
            raise ConfigurationError(f"topic {spec.name} must have {spec.partitions} partitions, found {found[spec.name]} at {_where(config)}")
    wanted = {spec.name: {name: _words(spec.config[name]) for name in _VERIFIED if name in spec.config} for spec in specs}
    wanted = {name: settings for name, settings in wanted.items() if settings}
    if mock or not wanted:
        return
    for topic, settings in wanted.items():
        held = _held(config, admin, topic, timeout)
        for name, words in settings.items():
            if held[name] != words:
                must, is_ = (",".join(sorted(found)) for found in (words, held[name]))
                raise ConfigurationError(f"topic {topic} must have {name}={must}, found {is_} at {_where(config)}")


def _held(config: Config, admin: AdminClient, topic: str, timeout: float) -> dict[str, frozenset[str]]:
    """What a topic that exists has of the settings that are verified. A broker that was not asked to make it may not know of it yet."""

    def ask() -> dict[str, frozenset[str]]:
        [answer] = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)], request_timeout=timeout).values()
        return {name: _words(entry.value) for name, entry in answer.result().items() if name in _VERIFIED}

    return _patiently(config, f"the configuration of topic {topic}", ask, timeout, admin, {*_PASSING, KafkaError.UNKNOWN_TOPIC_OR_PART})


def _partition_counts(config: Config, admin: AdminClient, names: set[str], timeout: float) -> dict[str, int]:
    """Partitions of each topic, once each has a leader: a new topic takes a moment to reach every broker."""
    end = time.monotonic() + timeout
    while True:
        with _explained(config, "the list of topics", admin):
            topics = admin.list_topics(timeout=timeout).topics
        unready = sorted(name for name in names if name not in topics or topics[name].error or any(p.leader < 0 for p in topics[name].partitions.values()))
        if not unready:
            return {name: len(topics[name].partitions) for name in names}
        if time.monotonic() > end:
            raise BrokerError(f"{_where(config)} has no leader for {', '.join(unready)} after {timeout:g} s")
        time.sleep(0.1)


def _words(policy: str) -> frozenset[str]:
    return frozenset(word.strip() for word in policy.split(","))


def _consumer(config: Config, group: str, **more: object) -> Consumer:
    """A consumer that only asks: it subscribes to nothing, creates nothing and commits nothing by itself."""
    # read_uncommitted: the end of the log is what a worker has to reach, whatever transactions are open.
    own = {"group.id": group, "enable.auto.commit": False, "isolation.level": "read_uncommitted"}
    # Never closed, only dropped: it is in no group it could leave, and close() would wait for a broker that hangs.
    return Consumer({**config, **own, **more})


def _committed(config: Config, consumer: Consumer, topic: str, partitions: Iterable[int], timeout: float) -> dict[int, int | None]:
    wanted = [TopicPartition(topic, partition) for partition in partitions]

    def ask() -> Sequence[TopicPartition]:
        return _without_errors(consumer.committed(wanted, timeout=timeout))

    answers = _patiently(config, f"the committed offsets on {topic}", ask, timeout, consumer)
    return {answer.partition: None if answer.offset == OFFSET_INVALID else answer.offset for answer in answers}


def _patiently(
    config: Config, what: str, ask: Callable[[], _Answer], timeout: float, client: Consumer | AdminClient, passing: Collection[int] = _PASSING
) -> _Answer:
    end = time.monotonic() + timeout
    while True:
        with _explained(config, what, client):
            try:
                return ask()
            except KafkaException as error:
                if error.args[0].code() not in passing or time.monotonic() > end:
                    raise
        time.sleep(0.1)


def _without_errors(answers: Sequence[TopicPartition]) -> Sequence[TopicPartition]:
    """The answers; KafkaException where one of them is an error of its partition only."""
    for answer in answers:
        if answer.error is not None:
            raise KafkaException(answer.error)
    return answers


def _watermarks(config: Config, consumer: Consumer, topic: str, partition: int, timeout: float) -> tuple[int, int]:
    def ask() -> tuple[int, int]:
        answer: tuple[int, int] | None = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=timeout, cached=False)
        if answer is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001
        return answer

    return _patiently(config, f"the offsets of {topic} partition {partition}", ask, timeout, consumer)


def _where(config: Config) -> str:
    return str(config.get("bootstrap.servers", "the broker"))


@contextmanager
def _explained(config: Config, what: str, client: AdminClient | Consumer | Producer) -> Iterator[None]:
    """Say which question to which broker failed, and whether to ask again."""
    try:
        yield
    except KafkaException as error:
        reason = error.args[0]
        kind = ConfigurationError if reason.code() in _PERMANENT else BrokerError
        raise kind(f"{_where(config)} gave no good answer about {what}: {reason.name()}: {reason.str()}{_why(config, reason, client)}") from error


def _why(config: Config, reason: KafkaError, client: AdminClient | Consumer | Producer) -> str:
    """What the client has heard of its connections, where that is why there is no answer."""
    if reason.code() not in _UNREACHED:
        return ""
    heard = config.get("error_cb")
    for _ in range(20):  # a consumer serves few of them at a time
        client.poll(0)
    last = f"{heard.last}; " if isinstance(heard, _Heard) and heard.last else ""
    return f" ({last}{_HINT})"
