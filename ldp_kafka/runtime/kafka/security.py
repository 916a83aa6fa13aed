"""One set of client settings (librdkafka's names) for both Kafka clients.

An option that the second client (aiokafka, below Faust) does not have is refused by its name:
otherwise only one of the two connections would be secured by it.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ldp_kafka.errors import ConfigurationError, TopologyError
from ldp_kafka.topology import Topology, unset

__all__ = ["Security", "check_options", "check_topology", "security"]

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_SECURITY = re.compile(r"(enable\.)?(ssl|sasl)\.|security\.|https\.")
KNOWN = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
    "enable.ssl.certificate.verification",
)
"""The security options that both clients have."""
_INSTEAD = {
    "ssl.keystore.location": (
        "give ssl.certificate.location and ssl.key.location, both PEM files (openssl pkcs12 -in"
        " KEYSTORE -out both.pem)"
    ),
    "ssl.keystore.password": (
        "give ssl.certificate.location and ssl.key.location, both PEM files, and ssl.key.password"
    ),
    "ssl.certificate.pem": "write it to a file and give ssl.certificate.location",
    "ssl.key.pem": "write it to a file that only its owner can read, and give ssl.key.location",
}


class Security:
    """How the second client is to connect: what the librdkafka settings mean for it."""

    def __init__(self, client: Mapping[str, Any]) -> None:
        check_options(client)
        self.protocol = str(client.get("security.protocol", "PLAINTEXT")).upper()
        self.mechanism = _mechanism(client)
        self.username, self.password = client.get("sasl.username"), client.get("sasl.password")
        self.context = _context(client) if self.protocol.endswith("SSL") else None

    def __repr__(self) -> str:
        return f"Security({self.protocol})"  # never a password


def security(client: Mapping[str, Any]) -> Security:
    """The same settings for the second client. ConfigurationError for what it cannot do."""
    return Security(client)


def check_options(client: Mapping[str, Any]) -> None:
    """Look at names and choices, not at files.

    Raises
    ------
    ConfigurationError : an option about TLS or SASL that not both clients have, a choice that they
        do not share, or one that is missing

    """
    for name in client:
        if _SECURITY.match(name) and name not in KNOWN:
            instead = _INSTEAD.get(name) or "what both have is " + ", ".join(KNOWN)
            raise ConfigurationError(
                f"kafka.client: {name} reaches one of the two Kafka clients only: {instead}"
            )
    protocol = str(client.get("security.protocol", "PLAINTEXT")).upper()
    _one_of(protocol, PROTOCOLS, "security.protocol")
    if protocol.startswith("SASL"):
        _one_of(_mechanism(client), MECHANISMS, "sasl.mechanism")
        if not client.get("sasl.username") or not client.get("sasl.password"):
            raise ConfigurationError(
                "kafka.client: sasl.username and sasl.password must be set for SASL"
            )
    elif "sasl.username" in client:
        raise ConfigurationError(
            f"kafka.client: sasl.username is not used where security.protocol is {protocol}: it"
            " must be SASL_SSL (or SASL_PLAINTEXT)"
        )
    _one_of(
        str(client.get("ssl.endpoint.identification.algorithm", "https")).lower(),
        ("https", "none"),
        "ssl.endpoint.identification.algorithm",
    )
    _one_of(
        str(client.get("enable.ssl.certificate.verification", "true")).lower(),
        ("true", "false"),
        "enable.ssl.certificate.verification",
    )
    if bool(client.get("ssl.certificate.location")) != bool(client.get("ssl.key.location")):
        raise ConfigurationError(
            "kafka.client: ssl.certificate.location and ssl.key.location must be given together"
        )


def check_topology(topology: Topology) -> None:
    """`check_options` of each side, as far as it is known here. TopologyError with the file and the
    side's key.
    """
    blocks = {
        id(kafka): (side, kafka)
        for side, kafka in (("edge", topology.edge_kafka), ("collector", topology.collector_kafka))
    }
    for side, kafka in blocks.values():
        if unset(topology, (side,)):
            continue
        try:
            check_options(kafka.client)
        except ConfigurationError as error:
            where = f"kafka.{side}.client" if len(blocks) > 1 else "kafka.client"
            raise TopologyError(
                str(error).removeprefix("kafka.client: "), file=topology.file, key=where
            ) from None


def _mechanism(client: Mapping[str, Any]) -> str:
    """In both spellings; the two clients have different ones when none is given."""
    given = {
        str(client[name]).upper()
        for name in ("sasl.mechanism", "sasl.mechanisms")
        if name in client
    }
    if len(given) > 1:
        raise ConfigurationError(
            "kafka.client: sasl.mechanism and sasl.mechanisms are one option and must not differ"
        )
    return given.pop() if given else ""


def _one_of(found: str, known: tuple[str, ...], name: str) -> None:
    if found not in known:
        raise ConfigurationError(f"kafka.client: {name} must be one of {', '.join(known)}")


def _context(client: Mapping[str, Any]) -> ssl.SSLContext:
    place = client.get("ssl.ca.location")
    folder = bool(place) and Path(str(place)).is_dir()
    try:
        context = ssl.create_default_context(
            cafile=None if folder else place,
            capath=place if folder else None,
            cadata=client.get("ssl.ca.pem"),
        )
        if str(client.get("ssl.endpoint.identification.algorithm", "https")).lower() == "none":
            context.check_hostname = False
        if str(client.get("enable.ssl.certificate.verification", "true")).lower() == "false":
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
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
