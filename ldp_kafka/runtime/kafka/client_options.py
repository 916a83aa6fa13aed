"""Client settings of a topology: librdkafka's options, all that it has.

Whether librdkafka takes an option it says itself. What is looked at here is what it would say only
when it connects, or not at all: a login that is half given, or a Java client's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from ldp_kafka.accounting.words import did_you_mean
from ldp_kafka.errors import ConfigurationError, TopologyError
from ldp_kafka.runtime.kafka import oauth
from ldp_kafka.topology import Topology, place_in
from ldp_kafka.topology.document import Unset

__all__ = [
    "KNOWN",
    "OAUTH",
    "check_options",
    "check_topology",
    "mechanism_of",
    "protocol_of",
    "read_login",
    "reconnects",
]

OAUTH = "OAUTHBEARER"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTH)
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_CHOICES = {
    "security.protocol": PROTOCOLS,
    "sasl.mechanism": MECHANISMS,
    "sasl.mechanisms": MECHANISMS,
    "ssl.endpoint.identification.algorithm": ("https", "none"),
}
_DEFAULTS = {
    "reconnect.backoff.ms": 1000,
    "reconnect.backoff.max.ms": 1000,
    "socket.connection.setup.timeout.ms": 10_000,  # as Java's clients have it
}
_PASSWORD = ("sasl.username", "sasl.password")
_CERTIFICATE = ("ssl.certificate.location", "ssl.certificate.pem")
_KEY = ("ssl.key.location", "ssl.key.pem")

KNOWN = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "ssl.ca.location",
    "ssl.ca.pem",
    *_CERTIFICATE,
    *_KEY,
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
    "enable.ssl.certificate.verification",
    *oauth.OPTIONS,
)
"""Options about security that most topologies have: what a misspelt one may mean."""
_NEAR = 0.8
"""Names are long and alike: below that, the nearest is not what was meant."""
_PEM = "write the store as PEM (openssl pkcs12 -in STORE.p12 -out both.pem) and give"
_CA = f"{_PEM} ssl.ca.location"
_OWN = f"{_PEM} ssl.certificate.location and ssl.key.location"
_OAUTH = (
    "sasl.mechanism: OAUTHBEARER with sasl.oauthbearer.method: oidc,"
    " sasl.oauthbearer.client.id, sasl.oauthbearer.client.secret and"
    " sasl.oauthbearer.token.endpoint.url"
)
_MSK = (
    "sasl.mechanism: OAUTHBEARER with sasl.oauthbearer.method: msk-iam and"
    " sasl.oauthbearer.config: region=REGION"
)
_LOGIN = (
    "give sasl.mechanism (PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512), sasl.username and sasl.password;"
    f" or {_OAUTH}; or, of Amazon MSK with IAM, {_MSK}"
)
_OF_BROKERS = "leave it out, it is for brokers"
_BYTES = "leave it out, messages are read and written as bytes"
_INSTEAD = {
    "session.timeout.ms": "give runtime.session_timeout, which workers use",
    "sasl.oauthbearer.grant.type": (
        f"leave it out, client credentials are what tokens are asked for with; {_OAUTH}"
    ),
}
"""Options of librdkafka that have another place: what to write."""
_OF_JAVA = {
    "sasl.jaas.config": _LOGIN,
    "sasl.login.callback.handler.class": _LOGIN,
    "sasl.client.callback.handler.class": _LOGIN,
    "sasl.oauthbearer.client.credentials.client.id": "give sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "give sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.jwks.endpoint.url": _OF_BROKERS,
    "sasl.oauthbearer.expected.audience": _OF_BROKERS,
    "sasl.oauthbearer.expected.issuer": _OF_BROKERS,
    "ssl.truststore.location": _CA,
    "ssl.truststore.password": f"{_CA}, which has no password",
    "ssl.truststore.type": _CA,
    "ssl.truststore.certificates": "give ssl.ca.pem",
    "ssl.keystore.type": _OWN,
    "ssl.keystore.key": _OWN,
    "ssl.keystore.certificate.chain": _OWN,
    "ssl.protocol": "leave it out, clients take TLS 1.2 or later",
    "ssl.enabled.protocols": "leave it out, clients take TLS 1.2 or later",
    "key.serializer": _BYTES,
    "value.serializer": _BYTES,
    "key.deserializer": _BYTES,
    "value.deserializer": _BYTES,
    "schema.registry.url": "leave it out, there is no schema registry here",
    "basic.auth.credentials.source": "leave it out, there is no schema registry here",
    "basic.auth.user.info": "leave it out, there is no schema registry here",
}
"""What stands in a Java client's file, as Confluent Cloud and MSK show it: what to write."""


def protocol_of(client: Mapping[str, Any]) -> str:
    """How clients connect."""
    return str(client.get("security.protocol", "PLAINTEXT")).upper()


def mechanism_of(client: Mapping[str, Any]) -> str:
    """How they log in, in either spelling; empty: not said."""
    given = client.get("sasl.mechanism", client.get("sasl.mechanisms", ""))
    return str(given).upper()


def check_options(client: Mapping[str, Any]) -> None:
    """Look at names and values, not at files.

    Raises
    ------
    ConfigurationError : an option or a value that librdkafka does not take, or one that is missing
    """
    for name, said in _problems(client):
        raise ConfigurationError(f"kafka.client: {name} {said}")


def check_topology(topology: Topology) -> None:
    """`check_options` of each side, as far as it is known here. TopologyError with the file, the
    line and the key of each that is wrong.
    """
    blocks = {
        id(kafka): (side, kafka)
        for side, kafka in (("edge", topology.edge_kafka), ("collector", topology.collector_kafka))
    }
    found: dict[str, TopologyError] = {}
    for side, kafka in blocks.values():
        for name, wrong in _problems(kafka.client):
            said = wrong
            places = [("kafka", side, "client"), ("kafka", "client")][2 - len(blocks) :]
            if name in kafka.client:
                places = [(*place, name) for place in places]
            else:
                said = f"{name} {wrong}"
            line, key = place_in(topology.file, *places)
            problem = TopologyError(said, file=topology.file, line=line, key=key)
            found[str(problem)] = problem  # once, where both sides have it of one block
    if found:
        raise TopologyError.together(found.values())


def _problems(client: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(option, what must hold) of each that is wrong; of what a variable that is not set here
    leaves open nothing is.
    """
    names = [(name, wrong) for name in client if (wrong := _refused(name, client[name]))]
    if names:  # what else is missing may be what is misspelt
        yield from names
        return
    yield from _choices(client)
    if protocol_of(client) in PROTOCOLS:
        yield from _login(client)
    for mine, others in ((_CERTIFICATE, _KEY), (_KEY, _CERTIFICATE)):
        for name in mine:
            if client.get(name) and not any(client.get(other) for other in others):
                yield name, f"needs {' or '.join(others)} beside it"


def _choices(client: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Those whose value is no choice."""
    for name, known in _CHOICES.items():
        value = client.get(name)
        if value is None or isinstance(value, Unset):
            continue
        if str(value).upper() == "AWS_MSK_IAM":
            yield name, f"AWS_MSK_IAM is an option of Java clients: give {_MSK}"
        elif str(value).lower() not in map(str.lower, known):
            yield name, f"must be one of {', '.join(known)}"


def _login(client: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is missing, or given and not used."""
    protocol, mechanism = protocol_of(client), mechanism_of(client)
    password = [name for name in _PASSWORD if name in client]
    tokens = [name for name in oauth.OPTIONS if name in client]
    if not protocol.startswith("SASL"):
        for name in [*(each for each in password if each == "sasl.username"), *tokens[:1]]:
            yield (
                name,
                (
                    f"is not used where security.protocol is {protocol}: it must be SASL_SSL (or"
                    " SASL_PLAINTEXT)"
                ),
            )
    elif not mechanism:
        yield "sasl.mechanism", f"must be one of {', '.join(MECHANISMS)}"
    elif str(client.get("sasl.mechanisms", mechanism)).upper() != mechanism:
        yield "sasl.mechanisms", "is one option with sasl.mechanism: they must not differ"
    elif mechanism == OAUTH:
        for name in password[:1]:
            yield name, f"is not used where sasl.mechanism is {OAUTH}"
        yield from oauth.problems(client)
    elif mechanism in MECHANISMS:
        for name in tokens[:1]:
            yield name, f"is not used where sasl.mechanism is {mechanism}"
        for name in _PASSWORD:
            if not client.get(name):
                yield name, f"must be given where sasl.mechanism is {mechanism}"


def _refused(name: str, value: object) -> str:
    """Why there is no option of this name, or not with this value, and what to write; else empty.
    Never the value.
    """
    if name in _OF_JAVA:
        return f"is an option of Java clients: {_OF_JAVA[name]}"
    if name in _INSTEAD:
        return f"is not to be given here: {_INSTEAD[name]}"
    if name in oauth.OPTIONS or name in _CHOICES:
        return ""
    # who only looks at a topology loads no library that it names
    unseen = isinstance(value, Unset) or name == "plugin.library.paths"
    said = _said(name, "" if unseen else str(value))
    if said.startswith("No such configuration property"):
        return f"is no option of librdkafka{did_you_mean(name, KNOWN, _NEAR)}"
    # of some it wants others beside them: whether all fit together it says when it is started
    wrong = said and not said.startswith("Failed to create") and not unseen
    return "has a value that librdkafka does not take" if wrong else ""


@lru_cache(maxsize=256)
def _said(name: str, value: str) -> str:
    """What librdkafka says of an option; empty where it takes it."""
    try:
        AdminClient({name: value, "log_level": 0})
    except KafkaException as error:
        return str(error.args[0].str())
    except (TypeError, ValueError):  # what is a function to confluent-kafka
        return "Invalid value"
    return ""


def read_login(file: Path) -> dict[str, str]:
    """Client options from a file: a line ``name=value`` each, in librdkafka's names.

    Raises
    ------
    ConfigurationError : it cannot be read, or a line is not as above
    """
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise ConfigurationError(f"{file}: the client options cannot be read") from None
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        name, is_, value = line.strip().partition("=")
        if name.startswith("#") or not (name or is_):
            continue
        if not (is_ and name.strip()):
            raise ConfigurationError(f"{file}:{number}: must be NAME=VALUE")
        found[name.strip()] = value.strip()
    return found


def reconnects(client: Mapping[str, Any]) -> dict[str, int]:
    """How often librdkafka looks for brokers that are away, and how long it waits for a connection,
    unless the topology's options say: once or twice a second, and ten seconds.

    Of its own accord it does so twenty times a second and more. Where none of its brokers is there
    it forgets them all and begins again with the addresses that it was given, and with the brokers
    it forgets how long it was to wait. Beside a machine full of such clients nothing comes back.

    A frozen broker takes connections until its queue of them is full. From then on the system asks
    for each of them in growing pauses: after half a minute of waiting, for sixteen seconds not at
    all, whether the broker is back or not. Who begins anew asks at once.
    """
    backoff = any(name.startswith("reconnect.") for name in _DEFAULTS.keys() & client.keys())
    return {
        name: value
        for name, value in _DEFAULTS.items()
        # the other one of two might not go with the topology's
        if name not in client and not (backoff and name.startswith("reconnect."))
    }
