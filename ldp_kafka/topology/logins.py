"""Who a block of the topology is to a broker, and which brokers it reaches, as far as its text and
this machine tell.

Two sides are told apart by who they log in as. Where neither has a login, only their clusters tell
them apart. Addresses cannot say that two brokers are *not* one cluster: a start compares the
clusters' ids (`ldp_kafka.runtime.kafka.rights`).
"""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = ["Identity", "endpoints", "identity", "is_address"]

Identity = tuple[tuple[str, str], ...]
"""What a broker knows a client by: (option, what it says). Empty: nothing, so it is anonymous."""

_SASL = (
    "sasl.username",
    "sasl.kerberos.principal",
    "sasl.kerberos.keytab",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.config",
)
_TLS = ("ssl.certificate.location", "ssl.certificate.pem", "ssl.keystore.location")
_LOCALHOST = ("127.0.0.1", "::1")
_PORT = 9092  # librdkafka's, where an address has none
_PATIENCE = 0.5  # seconds
_ADDRESS = re.compile(r"(?:[a-z_]+://)?(?:\[(?P<six>[^]]+)]|(?P<host>[^:]*))(?::(?P<port>[0-9]+))?")


def identity(client: Mapping[str, Any]) -> Identity:
    """Who these options make a client to a broker: its user where SASL is used, else its
    certificate's subject. An option that ``security.protocol`` leaves unused makes it nobody.

    Examples
    --------
    >>> identity({"sasl.username": "meters", "linger.ms": "5"})
    (('sasl.username', 'meters'),)
    >>> identity({"sasl.username": "meters", "security.protocol": "PLAINTEXT"})
    ()
    """
    protocol = str(client.get("security.protocol", "")).upper()
    sasl = tuple((name, str(client[name])) for name in _SASL if name in client)
    if sasl and (not protocol or protocol.startswith("SASL")):
        return sasl
    if protocol in ("", "SSL"):
        return tuple((name, _subject(name, client[name])) for name in _TLS if name in client)
    return ()


def _subject(option: str, text: str) -> str:
    """Whose certificate it is: two files may hold one. The text itself where it cannot be read
    here: each side's certificate may lie on its own machines.
    """
    # Only now: few topologies name a certificate, and the library takes its time to load
    from cryptography.x509 import load_pem_x509_certificate

    try:
        pem = text.encode() if option.endswith(".pem") else Path(text).read_bytes()
        return load_pem_x509_certificate(pem).subject.rfc4514_string()
    except (OSError, ValueError):
        return text


def is_address(text: str) -> bool:
    """Whether it is a broker's: a host, its port, and the protocol before it as librdkafka has it.

    Examples
    --------
    >>> [is_address(text) for text in ("kafka-1:9092", "[::1]:9092", "http://kafka:9092", "a:b")]
    [True, True, False, False]
    """
    match = _ADDRESS.fullmatch(text.lower())
    host = match and (match["six"] or match["host"])
    if not match or not host or re.search(r"[\s/]", host):
        return False
    protocol, there, _ = text.lower().partition("://")
    if there and protocol not in ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"):
        return False
    return match["port"] is None or 1 <= int(match["port"]) <= 65535


def endpoints(brokers: Iterable[str]) -> frozenset[tuple[str, int]]:
    """(host, port) of single addresses: each name, and what it is resolved to here. The two
    addresses of localhost are one.

    Examples
    --------
    >>> sorted(endpoints(["127.0.0.1:9092"]) & endpoints(["[::1]"]))
    [('localhost', 9092)]
    """
    named: set[tuple[str, int]] = set()
    for broker in brokers:
        match = _ADDRESS.fullmatch(broker.lower())
        if match is None:
            named.add((broker, _PORT))
        else:
            host = (match["six"] or match["host"]).rstrip(".")
            named.add((host, int(match["port"] or _PORT)))
    known = _resolved({host for host, _ in named})
    return frozenset((name, port) for host, port in named for name in {host, *known.get(host, ())})


def _resolved(hosts: Iterable[str]) -> dict[str, set[str]]:
    """The addresses of those that are known here within `_PATIENCE`: a start asks the brokers
    themselves, and nobody should wait for that when a file is read.
    """
    found: dict[str, set[str]] = {}

    def ask(host: str) -> None:
        with suppress(OSError, UnicodeError):
            answers = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            addresses = {str(answer[4][0]).split("%")[0] for answer in answers}
            found[host] = {"localhost" if each in _LOCALHOST else each for each in addresses}

    asking = [threading.Thread(target=ask, args=(host,), daemon=True) for host in hosts]
    for thread in asking:
        thread.start()
    until = time.monotonic() + _PATIENCE
    for thread in asking:
        thread.join(max(0.0, until - time.monotonic()))
    return dict(found)
