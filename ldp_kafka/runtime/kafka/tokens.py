"""The tokens of one login: fetched when a client connects, and kept until shortly before they
expire.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from ldp_kafka.errors import LdpKafkaError

__all__ = ["Token", "Tokens"]

RENEW = 0.8  # of its life, after which a token is fetched anew, as librdkafka does
AGAIN = 2.0  # seconds after a failure before it is asked for again, however often clients connect


class Token(NamedTuple):
    """What a client logs in with."""

    text: str
    seconds: float
    """For which it holds, from when it was given."""

    def __repr__(self) -> str:
        return "Token()"  # never what it is


class Tokens:
    """What all clients of one login share, from any thread.

    While no new token can be had, the old one is given as long as it holds.

    Parameters
    ----------
    fetch : gives a new one; raises ConfigurationError or BrokerError
    now : seconds, of the clock by which tokens expire
    """

    def __init__(self, fetch: Callable[[], Token], now: Callable[[], float] = time.time) -> None:
        self._fetch, self._now = fetch, now
        self._lock = threading.Lock()
        self._token = Token("", 0.0)
        self._given = float("-inf")
        """When it was."""
        self._failure: LdpKafkaError | None = None
        self._failed = float("-inf")
        """When that was."""

    def __repr__(self) -> str:
        return "Tokens()"  # never a token

    def get(self) -> str:
        """A token that holds. It may take as long as an endpoint takes to answer.

        Raises
        ------
        ConfigurationError : the login is refused, or cannot be made of what is given
        BrokerError : there is no token for now
        """
        return self._current()[0]

    def for_librdkafka(self, _: str) -> tuple[str, float]:
        """The same, as an ``oauth_cb``: with the second of the epoch until which it holds."""
        return self._current()

    def _current(self) -> tuple[str, float]:
        with self._lock:
            now = self._now()
            if not self._given <= now < self._given + RENEW * self._token.seconds:
                self._renew(now)
            return self._token.text, self._given + self._token.seconds

    def _renew(self, now: float) -> None:
        holds = self._given <= now < self._given + self._token.seconds
        if self._failure is None or not self._failed <= now < self._failed + AGAIN:
            try:
                self._token, self._given, self._failure = self._fetch(), now, None
            except LdpKafkaError as error:
                self._failure, self._failed = error, self._now()
        if self._failure is not None and not holds:
            raise type(self._failure)(str(self._failure))  # each time anew: it grows a traceback
