"""Which deployment this is: what noise and ids are bound to beside the topology and the key.

The same topology under the same key, in two places or beside its own staging, would otherwise give
equal reports for equal values. A raw topic's id at its broker is there for all who may read it, is
kept by nobody, and is another one where the topic is made anew.

Of a topic that is relayed it is that topic's id, not our copy's: the values outlive the copy, and
are copied again where it is made anew. Under another id every report would be drawn again.
"""

from __future__ import annotations

from typing import Any

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from ldp_kafka.errors import BrokerError, ConfigurationError
from ldp_kafka.runtime.brokers.embedded import is_embedded
from ldp_kafka.runtime.brokers.run_files import deployment_of
from ldp_kafka.runtime.kafka.admin.asking import Config, explained, of_controller, quiet, where
from ldp_kafka.topology import Topology
from ldp_kafka.topology.document import Unset

__all__ = ["read_deployment"]


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
    given = topology.edge.deployment
    written = "" if given is None or isinstance(given, Unset) else given
    name = topology.input.topic if topic is None else topic
    found = _topic_id(topology.name, config, name, timeout)
    if not (found or written):
        raise ConfigurationError(
            f"{where(config)} gives topics no ids: edge.deployment must say what tells this"
            " deployment from every other under the same key (any text, never to be changed)"
        )
    return f"{found}/{written}"


def _topic_id(topology_name: str, config: Config, topic: str, timeout: float) -> str:
    """Empty where there is none."""
    config = quiet(config)
    admin = AdminClient(config)
    what = f"the id of topic {topic}"
    with explained(config, what, admin):
        metadata = admin.list_topics(timeout=timeout)
        if topic not in metadata.topics:
            raise BrokerError(
                f"{where(config)} has no topic {topic}, or this login has no right to DESCRIBE it"
            )
        if is_embedded(metadata.cluster_id):  # it does not answer the question below
            return deployment_of(topology_name) or ""

    def ask(seconds: float) -> Any:
        asked = admin.describe_topics(TopicCollection([topic]), request_timeout=seconds)
        return asked[topic].result().topic_id

    found = of_controller(config, what, ask, timeout, admin)
    none = found.get_most_significant_bits() == found.get_least_significant_bits() == 0
    return "" if none else str(found)
