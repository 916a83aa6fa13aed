"""One Kafka cluster as one role sees it."""

from __future__ import annotations

from typing import Any

import faust

from ldp_kafka.runtime.kafka.client_options import connect_ms, reconnects
from ldp_kafka.runtime.kafka.oauth import for_librdkafka
from ldp_kafka.runtime.kafka.security import security
from ldp_kafka.runtime.worker.logs import LIBRDKAFKA
from ldp_kafka.runtime.worker.token_provider import TokenProvider, without_answers
from ldp_kafka.topology import KafkaSide

__all__ = ["Side"]

LIBRDKAFKA.addFilter(without_answers)


class Side:
    """One Kafka cluster as one role sees it: how both of our clients connect.

    Parameters
    ----------
    kafka : the topology's section
    bootstrap : addresses, separated by commas
    """

    def __init__(self, kafka: KafkaSide, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.security = security(kafka.client)
        self.connect_ms = connect_ms(kafka.client)
        self.config: dict[str, Any] = {
            **reconnects(kafka.client),
            **for_librdkafka(kafka.client),
            "bootstrap.servers": bootstrap,
            "log_level": 3,
            "logger": LIBRDKAFKA,
        }

    @property
    def asking(self) -> dict[str, Any]:
        """Settings of a client that only asks: nobody polls it, so nobody would hear what it says;
        why a question has no answer is in its error.
        """
        config = {name: value for name, value in self.config.items() if name != "logger"}
        return config if "debug" in config else {**config, "log_level": 0}

    def faust(self) -> dict[str, Any]:
        """What Faust's App takes to connect."""
        known = self.security
        addresses = [address.strip() for address in self.bootstrap.split(",")]
        settings: dict[str, Any] = {"broker": [f"kafka://{address}" for address in addresses]}
        if known.tokens is not None:
            settings["broker_credentials"] = faust.OAuthCredentials(
                oauth_cb=TokenProvider(known.tokens, known.extensions), ssl_context=known.context
            )
        elif known.protocol.startswith("SASL"):
            settings["broker_credentials"] = faust.SASLCredentials(
                username=known.username,
                password=known.password,
                ssl_context=known.context,
                mechanism=known.mechanism,
            )
        elif known.context is not None:
            settings["broker_credentials"] = faust.SSLCredentials(known.context)
        return settings
