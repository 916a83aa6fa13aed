"""One set of client settings (librdkafka's names) for both Kafka clients."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from ldp_kafka.errors import ConfigurationError

__all__ = ["Security", "security"]

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class Security:
    """How the second client (aiokafka, below Faust) is to connect: what the librdkafka settings mean for it."""

    def __init__(self, client: Mapping[str, Any]) -> None:
        self.protocol = str(client.get("security.protocol", "PLAINTEXT")).upper()
        if self.protocol not in PROTOCOLS:
            raise ConfigurationError(f"kafka.client: security.protocol must be one of {', '.join(PROTOCOLS)}")
        self.mechanism = str(client.get("sasl.mechanism", client.get("sasl.mechanisms", "PLAIN"))).upper()
        self.username, self.password = client.get("sasl.username"), client.get("sasl.password")
        if self.protocol.startswith("SASL"):
            if self.mechanism not in MECHANISMS:
                raise ConfigurationError(f"kafka.client: sasl.mechanism must be one of {', '.join(MECHANISMS)}")
            if not self.username or not self.password:
                raise ConfigurationError("kafka.client: sasl.username and sasl.password must be set for SASL")
        self.context = _context(client) if self.protocol.endswith("SSL") else None

    def __repr__(self) -> str:
        return f"Security({self.protocol})"  # never a password


def security(client: Mapping[str, Any]) -> Security:
    """The same settings for the second client. ConfigurationError for what it cannot do."""
    return Security(client)


def _context(client: Mapping[str, Any]) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=client.get("ssl.ca.location"), cadata=client.get("ssl.ca.pem"))
        if str(client.get("ssl.endpoint.identification.algorithm", "https")).lower() == "none":
            context.check_hostname = False
        if str(client.get("enable.ssl.certificate.verification", "true")).lower() == "false":
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if client.get("ssl.certificate.location"):
            context.load_cert_chain(client["ssl.certificate.location"], client.get("ssl.key.location"), client.get("ssl.key.password"))
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"kafka.client: the TLS files cannot be used: {error.strerror or 'not a certificate or key'}") from None
    return context
