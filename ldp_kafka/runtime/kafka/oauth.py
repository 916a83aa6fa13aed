"""OAUTHBEARER: which options make a token, and how a client gets it.

librdkafka asks a token endpoint by itself. Where that fails, it is asked once more here, to say
why. All other tokens are ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from ldp_kafka.errors import ConfigurationError, LdpKafkaError
from ldp_kafka.runtime.kafka import msk
from ldp_kafka.runtime.kafka.authorities import PROBE, bundle
from ldp_kafka.runtime.kafka.installed import confluent_kafka
from ldp_kafka.runtime.kafka.pairs import pairs
from ldp_kafka.runtime.kafka.token_endpoint import from_endpoint, is_endpoint
from ldp_kafka.runtime.kafka.tokens import Token, Tokens
from ldp_kafka.topology.document import Unset

__all__ = [
    "EXTENSIONS",
    "METHOD",
    "METHODS",
    "OPTIONS",
    "for_librdkafka",
    "no_token",
    "problems",
    "tokens_of",
]

METHOD = "sasl.oauthbearer.method"
EXTENSIONS = "sasl.oauthbearer.extensions"
_URL = "sasl.oauthbearer.token.endpoint.url"
_HTTPS = (2, 11)
"""The first confluent-kafka that is told whom to believe of a token endpoint."""
_EXTENSION = re.compile(r"[A-Za-z]+")
_NO_EXTENSION = "auth"
"""The name of the token itself."""


class Method(NamedTuple):
    """One way to a token."""

    needs: tuple[str, ...]
    """Options without which there is none."""
    takes: tuple[str, ...]
    """Others that it has."""
    fetch: Callable[[Mapping[str, Any]], Token]


METHODS: dict[str, Method] = {
    "oidc": Method(
        ("sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret", _URL),
        (
            "sasl.oauthbearer.scope",
            EXTENSIONS,
            "sasl.oauthbearer.sub.claim.name",
            "https.ca.location",
            "https.ca.pem",
        ),
        from_endpoint,
    ),
    "msk-iam": Method((msk.CONFIG,), (), msk.signed),
}
"""By ``sasl.oauthbearer.method``; the second is ours, librdkafka has no such word."""
OPTIONS = (METHOD, *(name for each in METHODS.values() for name in (*each.needs, *each.takes)))


def tokens_of(client: Mapping[str, Any]) -> Tokens | None:
    """What logs in with these options share in this process; None where they log in otherwise."""
    name = str(client.get(METHOD, "")).lower()
    if name not in METHODS:
        return None
    method = METHODS[name]
    own = (each for each in (*method.needs, *method.takes) if each in client)
    return _shared(name, tuple((each, str(client[each])) for each in own))


@cache
def _shared(method: str, options: tuple[tuple[str, str], ...]) -> Tokens:
    return Tokens(partial(METHODS[method].fetch, dict(options)))


def for_librdkafka(client: Mapping[str, Any]) -> dict[str, Any]:
    """The same options for a client of librdkafka.

    Raises
    ------
    ConfigurationError, BrokerError : there is no token that it could be given
    """
    settings, method = dict(client), str(client.get(METHOD, "")).lower()
    if method == "oidc":
        settings |= _authorities(client)
    elif method in METHODS:
        del settings[METHOD]
        tokens = tokens_of(client)
        assert tokens is not None
        tokens.get()  # else its maker would wait ten seconds, and not say why
        settings["oauth_cb"] = tokens.for_librdkafka
    return settings


def _authorities(client: Mapping[str, Any]) -> dict[str, str]:
    """Whom it is to believe of a token endpoint. As it is built for Linux it looks in one file
    alone, which is Red Hat's; of a folder, and of "probe", it says that it does, and does not.
    """
    place = client.get("https.ca.location", PROBE)
    if place != PROBE and Path(str(place)).is_dir():
        raise ConfigurationError(
            "kafka.client: https.ca.location must be a file: librdkafka reads no folder there"
        )
    if place != PROBE or "https.ca.pem" in client or confluent_kafka() < _HTTPS:
        return {}
    return {} if (found := bundle()) is None else {"https.ca.location": found}


def no_token(client: Mapping[str, Any]) -> LdpKafkaError | None:
    """Why a client with these options has no token; None where it could have one, or needs none."""
    tokens = tokens_of(client)
    try:
        if tokens is not None:
            tokens.get()
    except LdpKafkaError as error:
        return error
    return None


def problems(client: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(option, what must hold) of each of `OPTIONS` that is wrong."""
    name = client.get(METHOD, "")
    if isinstance(name, Unset):
        return
    if (method := METHODS.get(str(name).lower())) is None:
        yield METHOD, f"must be {' or '.join(METHODS)}"
        return
    own = {METHOD, *method.needs, *method.takes}
    for option in OPTIONS:
        if option in method.needs and not client.get(option):
            yield option, f"must be given where {METHOD} is {name}"
        elif option in client and option not in own:
            yield option, f"is not used where {METHOD} is {name}"
        elif option in client and not isinstance(client[option], Unset):
            wrong = _wrong(option, client)
            if wrong:
                yield option, wrong
    if "https.ca.location" in client and "https.ca.pem" in client:
        yield "https.ca.pem", "must not be given where https.ca.location is"


def _wrong(option: str, client: Mapping[str, Any]) -> str:
    """What must hold of a value that does not, in words; else empty."""
    value = str(client[option])
    if option == _URL and not is_endpoint(value):
        return "must be an address that begins with https:// (http:// on this machine only)"
    if option == EXTENSIONS:
        found = pairs(value)
        if found is None or not all(
            _EXTENSION.fullmatch(each) and each != _NO_EXTENSION for each in found
        ):
            return (
                "must be NAME=VALUE with commas between, such as"
                " logicalCluster=lkc-abc123,identityPoolId=pool-xyz9: a name is letters"
            )
    return msk.problem(client) if option == msk.CONFIG else ""
