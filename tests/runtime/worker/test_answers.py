"""No line of a log has what a token endpoint answers."""

from __future__ import annotations

import logging
import time

import pytest
from confluent_kafka import Producer

from ldp_kafka.runtime.kafka.oauth import for_librdkafka
from ldp_kafka.runtime.worker.logs import LIBRDKAFKA
from tests.broker.oauth import issuing, login


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
