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

from ldp_kafka.accounting.words import did_you_mean
from ldp_kafka.errors import ConfigurationError, TopologyError
from ldp_kafka.topology import Topology, place_in, unset

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
_BOTH = "what both have is " + ", ".join(KNOWN)
_NEAR = 0.8
"""Names are long and alike: below that, the nearest is not what was meant."""
_PEM = "write the store as PEM (openssl pkcs12 -in STORE.p12 -out both.pem) and give"
_CA = f"{_PEM} ssl.ca.location"
_OWN = f"{_PEM} ssl.certificate.location and ssl.key.location"
_LOGIN = (
    "give sasl.mechanism (PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512), sasl.username and sasl.password"
)
_BYTES = "leave it out, messages are read and written as bytes"
_ONE_CLIENT = re.compile(
    r"(enable\.)?sasl\.(kerberos|oauthbearer)\.|https\.|ssl\.(crl|engine|cipher)\."
)
"""What librdkafka has: near a name that both have, and no mistake for it."""
_INSTEAD = {
    "ssl.keystore.location": _OWN,
    "ssl.keystore.password": f"{_OWN}, and ssl.key.password",
    "ssl.certificate.pem": "write it to a file and give ssl.certificate.location",
    "ssl.key.pem": "write it to a file that only its owner can read, and give ssl.key.location",
    "session.timeout.ms": "give runtime.session_timeout, which workers use",
}
"""Options of librdkafka that the second client has not: what to write."""
_OF_JAVA = {
    "sasl.jaas.config": _LOGIN,
    "sasl.login.callback.handler.class": _LOGIN,
    "sasl.client.callback.handler.class": _LOGIN,
    "ssl.truststore.location": _CA,
    "ssl.truststore.password": f"{_CA}, which has no password",
    "ssl.truststore.type": _CA,
    "ssl.truststore.certificates": "give ssl.ca.pem",
    "ssl.keystore.type": _OWN,
    "ssl.keystore.key": _OWN,
    "ssl.keystore.certificate.chain": _OWN,
    "ssl.protocol": "leave it out, both clients take TLS 1.2 or later",
    "ssl.enabled.protocols": "leave it out, both clients take TLS 1.2 or later",
    "key.serializer": _BYTES,
    "value.serializer": _BYTES,
    "key.deserializer": _BYTES,
    "value.deserializer": _BYTES,
    "schema.registry.url": "leave it out, there is no schema registry here",
    "basic.auth.credentials.source": "leave it out, there is no schema registry here",
    "basic.auth.user.info": "leave it out, there is no schema registry here",
}
"""What stands in a Java client's file, as Confluent Cloud and MSK show it: what to write."""


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
        if wrong := _not_of_both(name):
            raise ConfigurationError(f"kafka.client: {name} {wrong}")
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


def _not_of_both(name: str) -> str:
    """Why not both clients have an option of this name, and what to write; empty where they have,
    or where it has nothing to do with security.
    """
    if name in _OF_JAVA:
        return f"is an option of Java clients: {_OF_JAVA[name]}"
    one = "reaches one of the two Kafka clients only:"
    if name in _INSTEAD:
        return f"{one} {_INSTEAD[name]}"
    near = "" if _ONE_CLIENT.match(name) else did_you_mean(name, KNOWN, _NEAR)
    if name in KNOWN or not (near or _SECURITY.match(name)):
        return ""
    return f"is no option of both Kafka clients{near}" if near else f"{one} {_BOTH}"


def check_topology(topology: Topology) -> None:
    """`check_options` of each side, as far as it is known here. TopologyError with the file, the
    line and the key.
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
            said = str(error).removeprefix("kafka.client: ")
            name, _, rest = said.partition(" ")
            places = [("kafka", side, "client"), ("kafka", "client")][2 - len(blocks) :]
            if name in kafka.client and not rest.startswith("and "):  # it is about one option
                said, places = rest, [(*place, name) for place in places]
            line, key = place_in(topology.file, *places)
            raise TopologyError(said, file=topology.file, line=line, key=key) from None


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
