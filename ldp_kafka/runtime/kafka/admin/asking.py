"""Questions to a broker, and what is said of those that have no good answer: what librdkafka would
write to standard error is kept, and its last word is part of the one error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from ldp_kafka.errors import BrokerError, ConfigurationError, LdpKafkaError
from ldp_kafka.runtime.kafka.client_options import OAUTH, mechanism_of
from ldp_kafka.runtime.kafka.oauth import no_token

__all__ = [
    "PASSING",
    "Config",
    "asker",
    "cluster_of",
    "describe_groups",
    "explained",
    "goes_on",
    "kind_of",
    "of_controller",
    "patiently",
    "quiet",
    "refused",
    "where",
    "without_errors",
]

Config = Mapping[str, Any]

_PERMANENT = frozenset(
    {
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.POLICY_VIOLATION,
        KafkaError.SECURITY_DISABLED,
    }
)
_FORBIDDEN = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
    }
)

# A coordinator or leader moves, or is only just made: on a fresh broker the first question of all
# meets one of these. Asked again, it answers.
PASSING = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
    }
)
_UNREACHED = frozenset(
    {
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError._MSG_TIMED_OUT,  # noqa: SLF001
    }
)
_HINT = "is it up, and do kafka.bootstrap_servers and kafka.client fit it?"
_LOGIN = "; it refuses this login: are sasl.username and sasl.password right?"
_BEARER = (
    "; it refuses this token: has it the audience, the subject and the extensions that the broker"
    " wants?"
)
_TOKENLESS = "Failed to acquire SASL OAUTHBEARER token"
"""What a client says of a token endpoint; behind it, whatever the endpoint said."""
_RIGHTS = "; this login may not do that: `ldp-kafka topics TOPOLOGY --acls` says what it needs"
_TURN = 3.0  # seconds that one controller has for an answer
_NEVER = 3600.0  # seconds: the most that librdkafka takes
_LOGIN_AFTER = 2.0  # seconds in which every attempt to log in was refused

_Answer = TypeVar("_Answer")


class _Heard:
    """What a client says of its connections."""

    last = ""
    refused = False
    """Whether the last it said is that it cannot log in."""
    tokenless = False
    """Whether that is because it has no token."""

    def __call__(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001 - comes after the reason
            self.tokenless = error.str().startswith(_TOKENLESS)
            self.last = _TOKENLESS if self.tokenless else error.str()
            self.refused = error.code() == KafkaError._AUTHENTICATION  # noqa: SLF001


def quiet(config: Config) -> dict[str, Any]:
    """The configuration of a client that only asks: what it hears of its connections is said once,
    in the error. With ``debug`` it says all that it would.
    """
    return dict(config) if "debug" in config else {**config, "log_level": 0, "error_cb": _Heard()}


def asker(config: Config, group: str, **more: object) -> Consumer:
    """A consumer that only asks: it subscribes to nothing, creates nothing and commits nothing by
    itself.
    """
    # read_uncommitted: the end of the log is what a worker has to reach, whatever transactions are
    # open.
    own = {"group.id": group, "enable.auto.commit": False, "isolation.level": "read_uncommitted"}
    # Never closed, only dropped: it is in no group it could leave, and close() would wait for a
    # broker that hangs.
    return Consumer({**config, **own, **more})


def patiently(
    config: Config,
    what: str,
    ask: Callable[[], _Answer],
    timeout: float,
    client: Consumer | AdminClient,
    passing: Collection[int] = PASSING,
) -> _Answer:
    """Ask, and where the answer is one of ``passing`` ask again, until ``timeout`` seconds are
    over.
    """
    end = time.monotonic() + timeout
    while True:
        with explained(config, what, client):
            try:
                return ask()
            except KafkaException as error:
                if error.args[0].code() not in passing or time.monotonic() > end:
                    raise
        time.sleep(0.1)


def of_controller(
    config: Config,
    what: str,
    ask: Callable[[float], _Answer],
    timeout: float,
    client: AdminClient,
    passing: Collection[int] = PASSING,
) -> _Answer:
    """Ask what librdkafka asks the controller, until ``timeout`` seconds are over.

    A client waits for the controller that it knows, however long that one is gone. So each answer
    has `_TURN` seconds, and before the next turn any broker says which node is the controller.

    Parameters
    ----------
    ask : called with the seconds that the answer has
    """
    end = time.monotonic() + timeout

    def turn() -> _Answer:
        left = end - time.monotonic()
        try:
            return ask(max(min(left, _TURN), 0.1))
        except KafkaException as error:
            if error.args[0].code() in _UNREACHED:
                with suppress(KafkaException):
                    client.list_topics(timeout=_TURN)
            raise

    return patiently(config, what, turn, timeout, client, {*passing, *_UNREACHED})


def describe_groups(
    client: AdminClient, groups: Sequence[str], seconds: float, **more: object
) -> dict[str, Future[Any]]:
    """`AdminClient.describe_consumer_groups`, answered within ``seconds``.

    librdkafka (2.16) ends the process (an assertion) where it gives such a question up while it
    looks for the group's coordinator, and finds the coordinator later: as on a fresh broker. So it
    never gives one up, and the wait is ours.

    Raises
    ------
    KafkaException : no answer came in time
    """
    asked = client.describe_consumer_groups(groups, request_timeout=_NEVER, **more)
    if wait(asked.values(), seconds).not_done:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001
    return dict(asked)


def without_errors(answers: Sequence[TopicPartition]) -> Sequence[TopicPartition]:
    """The answers; KafkaException where one of them is an error of its partition only."""
    for answer in answers:
        if answer.error is not None:
            raise KafkaException(answer.error)
    return answers


def where(config: Config) -> str:
    """The broker's name in messages."""
    return str(config.get("bootstrap.servers", "the broker"))


def kind_of(error: KafkaError) -> type[BrokerError | ConfigurationError]:
    """Whether to try again: not where a right is missing."""
    return ConfigurationError if error.code() in _FORBIDDEN else BrokerError


@contextmanager
def refused(what: str) -> Iterator[None]:
    """Say in these words, and the broker's, what it answered in place of what was asked."""
    try:
        yield
    except KafkaException as error:
        reason = error.args[0]
        raise kind_of(reason)(f"{what}: {reason.str()}") from None


def goes_on(error: KafkaError) -> bool:
    """Whether a client that says this goes on by itself: a broker is away, or something moves."""
    return bool(error.retriable()) or error.code() in PASSING | _UNREACHED


@contextmanager
def explained(
    config: Config, what: str, client: AdminClient | Consumer | Producer
) -> Iterator[None]:
    """Say which question to which broker failed, and whether to ask again."""
    try:
        yield
    except KafkaException as error:
        reason = error.args[0]
        kind: type[LdpKafkaError] = kind_of(reason)
        why = _RIGHTS if reason.code() in _FORBIDDEN else ""
        if reason.code() in _PERMANENT:  # what was asked for can never be
            kind = ConfigurationError
        if reason.code() in _UNREACHED:
            kind, why = _unreached(config, _heard(config, client), kind)
        raise kind(
            f"{where(config)} gave no good answer about {what}: {reason.name()}:"
            f" {reason.str()}{why}"
        ) from error


def _unreached(
    config: Config, heard: _Heard, kind: type[LdpKafkaError]
) -> tuple[type[LdpKafkaError], str]:
    """What came of it that no broker was reached; and why, the end of a message."""
    if heard.refused or not heard.last:
        # a client says of its token endpoint no more than that, or, where it tries on, nothing
        if (problem := no_token(config)) is not None:
            return type(problem), f" ({problem})"
        if heard.tokenless:
            return kind, f" ({heard.last}, though its endpoint gives one now: try again)"
        if heard.refused:
            cure = _BEARER if mechanism_of(config) == OAUTH else _LOGIN
            return ConfigurationError, f" ({heard.last}{cure})"
    return kind, f" ({heard.last}; {_HINT})" if heard.last else f" ({_HINT})"


def cluster_of(config: Config, client: AdminClient, timeout: float) -> str:
    """The id of the broker's cluster.

    A login that is refused for `_LOGIN_AFTER` seconds ends the question, however long the timeout:
    librdkafka would try until then.

    Parameters
    ----------
    config : as `quiet` gives it
    """
    begin = time.monotonic()
    with explained(config, "its cluster", client):
        while True:
            try:
                return str(client.list_topics(timeout=1.0).cluster_id)
            except KafkaException as error:
                passed = time.monotonic() - begin
                if (
                    error.args[0].code() not in _UNREACHED
                    or passed > timeout
                    or (passed > _LOGIN_AFTER and _heard(config, client).refused)
                ):
                    raise


def _heard(config: Config, client: AdminClient | Consumer | Producer) -> _Heard:
    """What the client has heard of its connections so far."""
    heard = config.get("error_cb")
    for _ in range(20):  # a consumer serves few of them at a time
        client.poll(0)
    return heard if isinstance(heard, _Heard) else _Heard()
