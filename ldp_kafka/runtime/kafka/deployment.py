"""Which deployment this is: what noise and ids are bound to beside the topology and the key.

The same topology under the same key, in two places or beside its own staging, would otherwise give
equal reports for equal values. A raw topic's id at its broker is there for all who may read it, is
kept by nobody, and is another one where the topic is made anew.

Of a topic that is relayed it is that topic's id, not our copy's: the values outlive the copy, and
are copied again where it is made anew. Under another id every report would be drawn again.

A client reads on where it was in a topic that was made anew under its name (librdkafka 2.16), and
so would leave out what lies before. So a worker asks for the id again: `RawTopic`.
"""

from __future__ import annotations

from typing import Any

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from ldp_kafka.errors import BrokerError, ConfigurationError
from ldp_kafka.runtime.brokers.embedded import is_embedded
from ldp_kafka.runtime.brokers.run_files import deployment_of
from ldp_kafka.runtime.kafka.admin.asking import (
    Config,
    cluster_of,
    explained,
    of_controller,
    quiet,
    where,
)
from ldp_kafka.runtime.recovery.start import check_deployment
from ldp_kafka.topology import Topology
from ldp_kafka.topology.document import Unset

__all__ = ["RawTopic", "read_deployment"]

ANSWER = 5.0  # seconds in which the id of a topic is said while a worker runs


def read_deployment(
    topology: Topology, config: Config, topic: str | None = None, *, timeout: float = 15.0
) -> str:
    """The deployment of a topology: the id of a topic at its broker, and what the topology says.

    Parameters
    ----------
    config : of a client of the topic's cluster
    topic : default: the raw topic, or the one that is relayed into it

    Raises
    ------
    BrokerError : the broker did not answer, or has no such topic
    ConfigurationError : it gives topics no ids, and the topology does not say what this is
    """
    name = topology.input.topic if topic is None else topic
    found = _said(topology, _topic_id(topology.name, config, name, timeout))
    if found == "/":
        raise ConfigurationError(
            f"{where(config)} gives topics no ids: edge.deployment must say what tells this"
            " deployment from every other under the same key (any text, never to be changed)"
        )
    return found


class RawTopic:
    """The topic that a deployment is told by, while a worker runs. Any thread may use it.

    Parameters
    ----------
    config : of a client of the topic's cluster
    deployment : that the worker has begun with, as `read_deployment` gave it
    """

    def __init__(self, topology: Topology, config: Config, deployment: str) -> None:
        self._topology, self._config, self._deployment = topology, config, deployment
        self._client: AdminClient | None = None
        self._embedded: bool | None = None

    def check(self) -> None:
        """That the topic is still the one. No id comes back: so is all of it that was read before
        this is asked.

        Raises
        ------
        StateError : the topic was made anew
        BrokerError : the broker did not say, or has no such topic just now
        """
        config = quiet(self._config)
        client = self._client = self._client or AdminClient(config)
        try:
            self._check(config, client)
        except BrokerError:
            # a client that has lost its brokers has been seen to find none of them again
            self._client = None
            raise

    def _check(self, config: Config, client: AdminClient) -> None:
        topic = self._topology.input.topic
        if self._embedded is None:
            self._embedded = is_embedded(cluster_of(config, client, ANSWER))
        if not self._embedded:  # that one deletes no topics
            found = _said(self._topology, _described(config, client, topic, ANSWER))
            check_deployment(topic, self._deployment, found)


def _said(topology: Topology, topic_id: str) -> str:
    """The deployment of a topology whose topic has this id."""
    given = topology.edge.deployment
    return f"{topic_id}/{'' if given is None or isinstance(given, Unset) else given}"


def _topic_id(topology_name: str, config: Config, topic: str, timeout: float) -> str:
    """Empty where there is none."""
    config = quiet(config)
    admin = AdminClient(config)
    with explained(config, f"the id of topic {topic}", admin):
        metadata = admin.list_topics(timeout=timeout)
        if topic not in metadata.topics:
            raise BrokerError(
                f"{where(config)} has no topic {topic}, or this login has no right to DESCRIBE it"
            )
        if is_embedded(metadata.cluster_id):  # it does not answer the question below
            return deployment_of(topology_name) or ""
    return _described(config, admin, topic, timeout)


def _described(config: Config, admin: AdminClient, topic: str, timeout: float) -> str:
    """Of brokers that are not embedded."""

    def ask(seconds: float) -> Any:
        asked = admin.describe_topics(TopicCollection([topic]), request_timeout=seconds)
        return asked[topic].result().topic_id

    found = of_controller(config, f"the id of topic {topic}", ask, timeout, admin)
    none = found.get_most_significant_bits() == found.get_least_significant_bits() == 0
    return "" if none else str(found)
