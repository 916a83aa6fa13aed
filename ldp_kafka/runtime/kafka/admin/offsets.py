"""What a partition holds, how far a group has come, and who is in it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from ldp_kafka.runtime.brokers.embedded import is_embedded
from ldp_kafka.runtime.kafka.admin.asking import (
    PASSING,
    Config,
    asker,
    describe_groups,
    explained,
    patiently,
    quiet,
    without_errors,
)

__all__ = [
    "commit",
    "commit_first",
    "committed",
    "extent",
    "extents",
    "group_state",
    "lag",
    "members",
    "watermarks",
]

# What a broker says of a topic that was made a moment ago, through another broker of its cluster
_NOT_HEARD_OF = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION}  # noqa: SLF001
)


def committed(
    config: Config, group: str, topic: str, partitions: Iterable[int], *, timeout: float = 10.0
) -> dict[int, int | None]:
    """Return the committed offset of a group for each partition: the next one it will read, None
    where it has none.

    Raises
    ------
    BrokerError : the group's coordinator did not answer, or refused

    """
    config = quiet(config)
    return _committed(config, asker(config, group), topic, partitions, timeout)


def watermarks(
    config: Config, topic: str, partition: int, *, timeout: float = 10.0
) -> tuple[int, int]:
    """Return the first offset a partition holds and the one its next record will get.

    Raises
    ------
    BrokerError : the partition's leader did not answer, or there is no such partition

    """
    return extents(config, topic, [partition], timeout=timeout)[partition]


def extents(
    config: Config,
    topic: str,
    partitions: Iterable[int],
    *,
    stable: bool = False,
    timeout: float = 10.0,
) -> dict[int, tuple[int, int]]:
    """Return `watermarks` of each of these partitions; ``stable``: they end where a transaction
    is open, as they do for whoever reads what is committed.
    """
    config = quiet(config)
    more = {"isolation.level": "read_committed"} if stable else {}
    consumer = asker(config, "ldp_kafka.admin", **more)
    return {
        partition: _watermarks(config, consumer, topic, partition, timeout)
        for partition in partitions
    }


def lag(
    config: Config, group: str, topic: str, partitions: Iterable[int], *, timeout: float = 10.0
) -> dict[int, int]:
    """Count the offsets of each partition that a group has not committed yet, from the first one
    held where it has committed none.

    Raises
    ------
    BrokerError : the group's coordinator or a partition's leader did not answer, or refused

    """
    config = quiet(config)
    consumer = asker(config, group)
    behind = {}
    for partition, offset in _committed(config, consumer, topic, partitions, timeout).items():
        low, high = _watermarks(config, consumer, topic, partition, timeout)
        behind[partition] = max(0, high - max(low, offset or 0))
    return behind


def commit_first(
    config: Config,
    group: str,
    topic: str,
    partitions: Iterable[int],
    *,
    offset: int = 1,
    metadata: str = "",
    timeout: float = 10.0,
) -> set[int]:
    """Commit an offset for the partitions where a group has none; those it has are left as they
    are.

    A group with members refuses it, so a worker that has already started is never set back.
    ``metadata`` stays with the offset until the next commit.

    Returns
    -------
    the partitions it was committed for

    Raises
    ------
    BrokerError : the group's coordinator did not answer, or the group has members but lacks an
        offset

    """
    before = committed(config, group, topic, partitions, timeout=timeout)
    first = [partition for partition, found in before.items() if found is None]
    if first:
        commit(
            config, group, topic, dict.fromkeys(first, offset), metadata=metadata, timeout=timeout
        )
    return set(first)


def commit(
    config: Config,
    group: str,
    topic: str,
    offsets: Mapping[int, int],
    *,
    metadata: str = "",
    timeout: float = 10.0,
) -> None:
    """Commit these offsets of a group, whatever it has: forwards or back.

    Raises
    ------
    BrokerError : the group's coordinator did not answer, or the group has members: what they fold
        would not be what is committed

    """
    # An ordinary commit of a consumer without a subscription: unlike AlterConsumerGroupOffsets, the
    # embedded broker has it too.
    # Asynchronous, because the synchronous one waits for ever on a broker that hangs.
    answers: list[tuple[KafkaError | None, list[TopicPartition]]] = []
    config = quiet(config)
    consumer = asker(
        config, group, on_commit=lambda error, offsets: answers.append((error, offsets))
    )

    def ask() -> Sequence[TopicPartition]:
        answers.clear()
        consumer.commit(
            offsets=[
                TopicPartition(topic, partition, offset, metadata=metadata)
                for partition, offset in offsets.items()
            ],
            asynchronous=True,
        )
        end = time.monotonic() + timeout
        while not answers and time.monotonic() < end:
            consumer.poll(0.02)
        late = KafkaError(KafkaError._TIMED_OUT)  # noqa: SLF001
        error, found = answers[0] if answers else (late, [])
        if error is not None:
            raise KafkaException(error)
        return without_errors(found)

    patiently(config, f"the commit of offsets for group {group} on {topic}", ask, timeout, consumer)


def members(config: Config, group: str, *, timeout: float = 10.0) -> int | None:
    """Count the members of a group; None where the broker is embedded and cannot say. A group that
    nobody ever was in has none.

    Raises
    ------
    BrokerError : the group's coordinator did not answer, or refused

    """
    found = group_state(config, group, timeout=timeout)
    return None if found is None else found[1]


def group_state(config: Config, group: str, *, timeout: float = 10.0) -> tuple[str, int] | None:
    """The state of a group in Kafka's words, such as ``stable`` or ``empty``, and how many members
    it has; None where the broker is embedded and cannot say. One that nobody ever was in is
    ``dead``.

    Raises
    ------
    BrokerError : the group's coordinator did not answer, or refused
    ConfigurationError : this login may not know of the group

    """
    config = quiet(config)
    admin = AdminClient(config)
    with explained(config, "the list of topics", admin):
        if is_embedded(admin.list_topics(timeout=timeout).cluster_id):
            return None
    with explained(config, f"the members of group {group}", admin):
        try:
            found = describe_groups(admin, [group], timeout)[group].result()
        except KafkaException as error:
            if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return "dead", 0
            raise
    return found.state.name.lower().replace("_", " "), len(found.members)


def _committed(
    config: Config, consumer: Consumer, topic: str, partitions: Iterable[int], timeout: float
) -> dict[int, int | None]:
    wanted = [TopicPartition(topic, partition) for partition in partitions]

    def ask() -> Sequence[TopicPartition]:
        return without_errors(consumer.committed(wanted, timeout=timeout))

    answers = patiently(config, f"the committed offsets on {topic}", ask, timeout, consumer)
    return {
        answer.partition: None if answer.offset == OFFSET_INVALID else answer.offset
        for answer in answers
    }


def _watermarks(
    config: Config, consumer: Consumer, topic: str, partition: int, timeout: float
) -> tuple[int, int]:
    ask = partial(extent, consumer, TopicPartition(topic, partition), timeout)
    what = f"the offsets of {topic} partition {partition}"
    return patiently(config, what, ask, timeout, consumer, {*PASSING, *_NOT_HEARD_OF})


def extent(consumer: Consumer, place: TopicPartition, timeout: float) -> tuple[int, int]:
    """Where a partition begins and ends, by two questions. `Consumer.get_watermark_offsets` asks
    both at once: where a leader moves in between, it takes the one answer that it has for both, and
    a log looks empty.

    Raises
    ------
    KafkaException : the partition's leader did not say, or moves
    """
    first, end = (
        without_errors(
            consumer.offsets_for_times(
                [TopicPartition(place.topic, place.partition, at)], timeout=timeout
            )
        )[0].offset
        for at in (OFFSET_BEGINNING, OFFSET_END)
    )
    return first, end
