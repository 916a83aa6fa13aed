"""How the second client (aiokafka, below Faust) is to connect: what the topology's options, which
have librdkafka's names, mean for it.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.runtime.kafka.authorities import authorities
from ldp_kafka.runtime.kafka.client_options import check_options, mechanism_of, protocol_of
from ldp_kafka.runtime.kafka.oauth import extensions_of, tokens_of

__all__ = ["Security", "security"]


class Security:
    """How the second client is to connect."""

    def __init__(self, client: Mapping[str, Any]) -> None:
        check_options(client)
        self.protocol, self.mechanism = protocol_of(client), mechanism_of(client)
        self.username, self.password = client.get("sasl.username"), client.get("sasl.password")
        self.context = _context(client) if self.protocol.endswith("SSL") else None
        self.tokens, self.extensions = tokens_of(client), extensions_of(client)

    def __repr__(self) -> str:
        return f"Security({self.protocol})"  # never a password


def security(client: Mapping[str, Any]) -> Security:
    """The same settings for the second client. ConfigurationError for what it cannot do."""
    return Security(client)


def _context(client: Mapping[str, Any]) -> ssl.SSLContext:
    context = authorities(client, "ssl")
    if str(client.get("ssl.endpoint.identification.algorithm", "https")).lower() == "none":
        context.check_hostname = False
    if str(client.get("enable.ssl.certificate.verification", "true")).lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    try:
        if client.get("ssl.certificate.location"):
            context.load_cert_chain(
                client["ssl.certificate.location"],
                client["ssl.key.location"],
                client.get("ssl.key.password"),
            )
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            "kafka.client: the TLS files cannot be used:"
            f" {error.strerror or 'not a certificate or key'}"
        ) from None
    return context
