"""How Faust's client gets tokens: from another thread, anew at each connection, with what goes to
the broker beside them. No line of a log has what a token endpoint answers.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time

import faust
import pytest
from aiokafka.conn import OAuthAuthenticator
from confluent_kafka import Producer

from ldp_kafka.errors import BrokerError
from ldp_kafka.runtime.kafka.oauth import for_librdkafka
from ldp_kafka.runtime.kafka.tokens import Token, Tokens
from ldp_kafka.runtime.worker.logs import LIBRDKAFKA
from ldp_kafka.runtime.worker.side import Side
from ldp_kafka.runtime.worker.token_provider import TokenProvider
from ldp_kafka.topology import KafkaSide
from tests.broker.oauth import issuing, login

EXTENSIONS = {"logicalCluster": "lkc-1", "identityPoolId": "pool-1"}


def client(tls, url, **more):
    return login(
        url,
        sasl_oauthbearer_extensions="logicalCluster=lkc-1,identityPoolId=pool-1",
        https_ca_location=str(tls / "ca.pem"),
        **more,
    )


@pytest.fixture(scope="module")
def issuer(tls):
    with issuing(tls, 60) as made:
        yield made


def test_what_a_broker_is_sent():
    """As RFC 7628 has it, by the client's own code."""
    made = TokenProvider(Tokens(lambda: Token("the-token", 60.0)), EXTENSIONS)
    step = asyncio.run(OAuthAuthenticator(sasl_oauth_token_provider=made).step(None))
    assert step == (
        b"n,,\x01auth=Bearer the-token\x01logicalCluster=lkc-1\x01identityPoolId=pool-1\x01\x01",
        True,
    )


def test_the_loop_goes_on_while_an_endpoint_is_asked():
    slow = threading.Event()

    def fetch():
        assert slow.wait(10)
        return Token("the-token", 60.0)

    async def go():
        asked = asyncio.ensure_future(TokenProvider(Tokens(fetch), {}).token())
        await asyncio.sleep(0.05)
        assert not asked.done()
        slow.set()
        assert await asked == "the-token"

    asyncio.run(go())


def test_no_token_is_as_no_broker():
    """The client tries again after errors of this kind, and fails of any other."""

    def fetch():
        raise BrokerError("the token endpoint does not answer")

    with pytest.raises(OSError, match="does not answer"):
        asyncio.run(TokenProvider(Tokens(fetch), {}).token())


def test_a_side_gives_it_to_faust(tls, issuer):
    """Over TLS; a token of the side's login, and its extensions."""
    side = Side(KafkaSide("b:9092", client(tls, issuer.url)), "b:9092")
    found = side.faust()["broker_credentials"]
    assert isinstance(found, faust.OAuthCredentials)
    assert found.protocol.value == "SASL_SSL" and found.ssl_context is side.security.context
    assert found.oauth_cb.extensions() == EXTENSIONS
    assert asyncio.run(found.oauth_cb.token()).count(".") == 2
    for made in (side.config, side.asking):
        assert made["sasl.oauthbearer.method"] == "oidc", "librdkafka asks by itself"


def test_no_line_has_what_an_endpoint_answers(tls, issuer, caplog):
    """This one repeats the secret that it refuses."""
    options = client(tls, issuer.url, secret="wrong-word")
    settings = for_librdkafka(options) | {"bootstrap.servers": "127.0.0.1:1", "logger": LIBRDKAFKA}
    until = time.time() + 20
    with caplog.at_level(logging.DEBUG, "librdkafka"):
        producer = Producer({**settings, "log_level": 3})
        while "OIDC" not in caplog.text and time.time() < until:
            producer.poll(0.1)
    assert f'Failed to retrieve OIDC token from "{issuer.url}" (401)' in caplog.text
    assert "wrong-word" not in caplog.text and "error_description" not in caplog.text
