"""A question that has no answer because there is no token: what is said, and whether to ask again.
No broker is there: none is reached without a token.
"""

from __future__ import annotations

import time

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from ldp_kafka.errors import BrokerError, ConfigurationError
from ldp_kafka.runtime.kafka.admin.asking import _Heard, _unreached, cluster_of, quiet
from ldp_kafka.runtime.kafka.oauth import for_librdkafka, no_token
from tests.broker.oauth import LIBRDKAFKA, OURS, issuing, login

SASL = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}


@pytest.fixture
def issuer(tls):
    with issuing(tls, 60) as made:
        yield made


def client_of(tls, url, *secret):
    return login(url, *secret, https_ca_location=str(tls / "ca.pem"))


def asked(client, timeout=15.0):
    config = quiet({**for_librdkafka(client), "bootstrap.servers": "127.0.0.1:1"})
    return cluster_of(config, AdminClient(config), timeout)


def test_a_secret_that_is_refused(tls, issuer):
    """It is not tried for as long as a broker that is away."""
    begin = time.monotonic()
    with pytest.raises(ConfigurationError) as caught:
        asked(client_of(tls, issuer.url, "wrong-word"))
    said = str(caught.value)
    assert "127.0.0.1:1 gave no good answer about its cluster" in said
    assert f"{issuer.url} refuses this login (401 invalid_client): are sasl.oauthbearer.cl" in said
    assert "wrong-word" not in said
    assert time.monotonic() - begin < 10


def test_an_endpoint_that_is_away(tls, issuer):
    with pytest.raises(BrokerError, match=r"https://localhost:1/token does not answer \("):
        asked(client_of(tls, "https://localhost:1/token"), timeout=1)
    issuer.away = {OURS}  # a client that has a token is not asked about it
    with pytest.raises(BrokerError, match=r"Connection refused.*; is it up, and do kafka.bootst"):
        asked(client_of(tls, issuer.url), timeout=1)


@pytest.mark.parametrize("given", ["file", "pem", "bundle"])
def test_whom_librdkafka_believes(tls, issuer, given, monkeypatch):
    """The same as `no_token` does: by a file, by text, or whom this machine believes, in whatever
    file it has them.
    """
    options, ca = client_of(tls, issuer.url), tls / "ca.pem"
    if given != "file":
        del options["https.ca.location"]
    if given == "pem":
        options["https.ca.pem"] = ca.read_text()
    if given == "bundle":
        monkeypatch.setenv("SSL_CERT_FILE", str(ca))
    with pytest.raises(BrokerError, match=r"Connection refused.*; is it up"):
        asked(options, timeout=1)
    assert issuer.issued["edge", LIBRDKAFKA]
    assert no_token(options) is None


def test_one_that_gives_none_now(tls, issuer):
    """Of which a client says nothing for as long as it tries again."""
    issuer.away = {LIBRDKAFKA, OURS}
    with pytest.raises(BrokerError, match=r"gives no token now \(503 temporarily_unavailable\)"):
        asked(client_of(tls, issuer.url), timeout=1)


@pytest.mark.parametrize(
    ("client", "cure"),
    [
        (SASL, "it refuses this token: has it the audience, the subject and the extensions"),
        ({**SASL, "sasl.mechanism": "PLAIN"}, "are sasl.username and sasl.password right?"),
    ],
)
def test_a_broker_that_refuses_what_it_is_given(client, cure):
    heard = _Heard()
    heard(KafkaError(KafkaError._AUTHENTICATION, "SASL authentication error: no"))
    kind, said = _unreached(client, heard, BrokerError)
    assert kind is ConfigurationError
    assert "SASL authentication error: no" in said and cure in said


def test_a_token_that_comes_when_it_is_asked_for_again(tls, issuer):
    """Nobody is told to look at options that are right; nor is what the endpoint said repeated."""
    heard = _Heard()
    words = "Failed to acquire SASL OAUTHBEARER token: whatever it said"
    heard(KafkaError(KafkaError._AUTHENTICATION, words))
    kind, said = _unreached(client_of(tls, issuer.url), heard, BrokerError)
    assert kind is BrokerError
    assert "its endpoint gives one now: try again" in said and "whatever" not in said
