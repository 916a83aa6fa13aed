"""Tokens are fetched when they are needed, kept while they hold, and nobody sees them."""

from __future__ import annotations

import threading

import pytest

from ldp_kafka.errors import BrokerError, ConfigurationError
from ldp_kafka.runtime.kafka.tokens import AGAIN, RENEW, Token, Tokens

LIFE = 100.0


class Endpoint:
    """Gives tokens, or what it is told to raise; and the clock by which they expire."""

    def __init__(self) -> None:
        self.now, self.given, self.asked = 1_000_000.0, 0, 0
        self.fault: Exception | None = None

    def fetch(self) -> Token:
        self.asked += 1
        if self.fault is not None:
            raise self.fault
        self.given += 1
        return Token(f"token-{self.given}", LIFE)

    def clock(self) -> float:
        return self.now


@pytest.fixture
def endpoint():
    return Endpoint()


@pytest.fixture
def tokens(endpoint):
    return Tokens(endpoint.fetch, endpoint.clock)


def test_one_token_for_as_long_as_it_holds_well(endpoint, tokens):
    """And a new one shortly before it expires; librdkafka is told when that is."""
    assert endpoint.asked == 0, "nobody connects"
    for _ in range(3):
        assert tokens.get() == "token-1"
        assert tokens.for_librdkafka("") == ("token-1", endpoint.now + LIFE)
    begin = endpoint.now
    endpoint.now += RENEW * LIFE - 0.1
    assert tokens.for_librdkafka("") == ("token-1", begin + LIFE)
    endpoint.now += 0.1
    assert tokens.for_librdkafka("") == ("token-2", endpoint.now + LIFE)
    assert endpoint.asked == 2


@pytest.mark.parametrize("kind", [BrokerError, ConfigurationError])
def test_an_endpoint_that_is_away(endpoint, tokens, kind):
    """The old token is given while it holds; then what is wrong is said. However often clients
    connect, it is asked again after a pause only; and when it is back, all is as before.
    """
    assert tokens.get() == "token-1"
    begin, endpoint.fault = endpoint.now, kind("away")
    endpoint.now = begin + LIFE - 0.1
    for _ in range(5):
        assert tokens.get() == "token-1"
    assert endpoint.asked == 2
    endpoint.now = begin + LIFE
    for _ in range(5):
        with pytest.raises(kind, match="away"):
            tokens.get()
    assert endpoint.asked == 2
    endpoint.now += AGAIN
    with pytest.raises(kind, match="away"):
        tokens.get()
    assert endpoint.asked == 3
    endpoint.fault = None
    with pytest.raises(kind, match="away"):
        tokens.get()
    endpoint.now += AGAIN
    assert tokens.get() == "token-2"


def test_a_clock_that_is_set_back(endpoint, tokens):
    """A token of the future is none, nor is a failure."""
    assert tokens.get() == "token-1"
    endpoint.now -= 3600
    assert tokens.get() == "token-2"
    endpoint.fault = BrokerError("away")
    endpoint.now += LIFE
    with pytest.raises(BrokerError):
        tokens.get()
    endpoint.fault = None
    endpoint.now -= 3600
    assert tokens.get() == "token-3"


def test_many_clients_that_connect_at_once(endpoint):
    """Share one token."""
    slow = threading.Event()

    def fetch() -> Token:
        slow.wait(10)
        return endpoint.fetch()

    tokens, found = Tokens(fetch, endpoint.clock), []
    threads = [threading.Thread(target=lambda: found.append(tokens.get())) for _ in range(8)]
    for thread in threads:
        thread.start()
    slow.set()
    for thread in threads:
        thread.join(10)
    assert found == ["token-1"] * 8
    assert endpoint.asked == 1
