"""Topics, offsets and first records: what must be true at the broker before a worker starts.

Every function takes the configuration of a confluent-kafka client (``bootstrap.servers``, TLS,
SASL) and a timeout in seconds for each question asked. BrokerError means: it did not answer or
refused, try again. ConfigurationError means: trying again will not help. What librdkafka would
write to standard error at each attempt to connect is kept, and its last word is part of the one
error.
"""

from ldp_kafka.runtime.kafka.admin.asking import Config, kind_of, quiet
from ldp_kafka.runtime.kafka.admin.offsets import (
    commit,
    commit_first,
    committed,
    extent,
    extents,
    group_state,
    lag,
    members,
    watermarks,
)
from ldp_kafka.runtime.kafka.admin.topics import (
    TopicSpec,
    ensure,
    partitions_of,
    produce_once,
    settings_of,
    verify,
)

__all__ = [
    "Config",
    "TopicSpec",
    "commit",
    "commit_first",
    "committed",
    "ensure",
    "extent",
    "extents",
    "group_state",
    "kind_of",
    "lag",
    "members",
    "partitions_of",
    "produce_once",
    "quiet",
    "settings_of",
    "verify",
    "watermarks",
]
