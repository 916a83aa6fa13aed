"""A token from an OAuth 2 endpoint, for a client's id and secret (RFC 6749, section 4.4), asked for
as librdkafka does, which does not say why it is given none.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import ssl
import time
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from ldp_kafka.errors import BrokerError, ConfigurationError
from ldp_kafka.runtime.kafka.authorities import authorities
from ldp_kafka.runtime.kafka.tokens import Token

__all__ = ["from_endpoint", "is_endpoint"]

TIMEOUT = 5.0  # seconds for each step
_LARGEST = 1 << 20  # bytes of an answer
_PREFIX = "sasl.oauthbearer."
_ERROR = re.compile(r"[a-z_]{1,40}")
_PASSING = (408, 425, 429)
"""Statuses below 500 after which it may be asked again."""
_LOGIN = f"are {_PREFIX}client.id and {_PREFIX}client.secret right?"
_CURES = {
    "invalid_client": _LOGIN,
    "unauthorized_client": f"is {_PREFIX}client.id allowed client credentials there?",
    "unsupported_grant_type": f"is {_PREFIX}client.id allowed client credentials there?",
    "invalid_scope": f"is {_PREFIX}scope right?",
    "access_denied": _LOGIN,
    "invalid_request": f"does it want another {_PREFIX}scope?",
}
"""By what RFC 6749, section 5.2, has an endpoint say."""
_ADDRESS = f"is {_PREFIX}token.endpoint.url right?"


class _NoRedirect(HTTPRedirectHandler):
    """Whoever answers with another address does not send the secret there."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def is_endpoint(text: str) -> bool:
    """Whether a secret can be sent there: over TLS, or to this machine.

    Examples
    --------
    >>> [is_endpoint(each) for each in ("https://id.example/token", "http://id.example", "id")]
    [True, False, False]
    >>> is_endpoint("http://localhost:8080/token")
    True
    """
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    here = host in ("localhost", "127.0.0.1", "::1")
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and here))


def from_endpoint(client: Mapping[str, Any]) -> Token:
    """Ask for one.

    Raises
    ------
    ConfigurationError : it is refused, or what comes is no token for Kafka
    BrokerError : the endpoint is away
    """
    url, form = str(client[f"{_PREFIX}token.endpoint.url"]), {"grant_type": "client_credentials"}
    if client.get(f"{_PREFIX}scope"):
        form["scope"] = str(client[f"{_PREFIX}scope"])
    login = f"{client[f'{_PREFIX}client.id']}:{client[f'{_PREFIX}client.secret']}"
    headers = {
        "Accept": "application/json",
        "Authorization": f"Basic {base64.b64encode(login.encode()).decode()}",
    }
    opener = build_opener(_NoRedirect, HTTPSHandler(context=authorities(client)))
    request = Request(url, urlencode(form).encode(), headers)  # noqa: S310 - see `is_endpoint`
    who = f"the token endpoint {_shown(url)}"
    try:
        with opener.open(request, timeout=TIMEOUT) as answer:
            said = answer.read(_LARGEST)
    except HTTPError as error:
        with error:
            raise _refused(who, error.code, _error_of(error)) from None
    except (OSError, HTTPException) as error:
        raise _unreached(who, error) from None
    return _token(who, said, str(client.get(f"{_PREFIX}sub.claim.name", "sub")))


def _shown(url: str) -> str:
    """The address without what may be a secret."""
    parts = urlsplit(url)
    port = "" if parts.port is None else f":{parts.port}"
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"


def _error_of(error: HTTPError) -> str:
    """What the endpoint calls it; empty where that is no code. Its description is not shown: nobody
    knows what it repeats.
    """
    try:
        code = json.loads(error.read(_LARGEST))["error"]
    except (OSError, HTTPException, ValueError, LookupError, TypeError):
        return ""
    return code if isinstance(code, str) and _ERROR.fullmatch(code) else ""


def _refused(who: str, status: int, code: str) -> BrokerError | ConfigurationError:
    said = f"{status} {code}".strip()
    if status >= 500 or status in _PASSING:
        return BrokerError(f"{who} gives no token now ({said})")
    if 300 <= status < 400:
        return ConfigurationError(f"{who} leads to another address ({said}): {_ADDRESS}")
    cure = _CURES.get(code) or (_LOGIN if status in (401, 403) else _ADDRESS)
    return ConfigurationError(f"{who} refuses this login ({said}): {cure}")


def _unreached(who: str, error: Exception) -> BrokerError | ConfigurationError:
    reason = getattr(error, "reason", error)
    if isinstance(reason, ssl.SSLCertVerificationError):
        return ConfigurationError(
            f"{who} has a certificate that is not trusted ({reason.verify_message}): is"
            f" {_PREFIX}token.endpoint.url right, and do https.ca.location or https.ca.pem name"
            " who signs it?"
        )
    why = getattr(reason, "strerror", None) or type(reason).__name__
    return BrokerError(f"{who} does not answer ({why})")


def _token(who: str, said: bytes, subject: str) -> Token:
    """The token in an answer. librdkafka wants to read who it is for, and until when it holds."""
    try:
        answer = json.loads(said)
        text = answer.get("access_token") or answer["id_token"]
        body = text.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        seconds = float(answer.get("expires_in") or claims["exp"] - time.time())
        missing = [name for name in ("exp", subject) if not claims.get(name)]
        if not 0 < seconds < float("inf"):  # nor a NaN, which JSON has in Python
            raise ValueError
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, binascii.Error):
        raise ConfigurationError(
            f"{who} gives no token that is a JWT, which Kafka's clients read: {_ADDRESS}"
        ) from None
    if missing:
        raise ConfigurationError(
            f"{who} gives a token without the claim {missing[0]}, which Kafka's clients read"
            + (f": {_PREFIX}sub.claim.name names another" if missing[0] == subject else "")
        )
    return Token(text, seconds)
