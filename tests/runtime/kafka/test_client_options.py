"""Client options about TLS and SASL that cannot work are refused by name."""

from __future__ import annotations

import re

import pytest

from ldp_kafka.cli import main
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.runtime.kafka import setup
from ldp_kafka.runtime.kafka.client_options import _INSTEAD, _OF_JAVA, KNOWN, check_options
from ldp_kafka.runtime.kafka.oauth import METHODS
from ldp_kafka.topology import loads
from tests.cases import cases

TEXT = """
topology: t
kafka:
  bootstrap_servers: broker:9093
  client: {%s}
input: {slot: 1h}
privacy: {method: sw_direct, epsilon: 1.0, window: 3, domain: [0, 10]}
output: {statistics: [mean]}
"""
LOGIN = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "u",
    "sasl.password": "secret-word",
}


# librdkafka's CONFIGURATION.md
ONE_SIDED = [
    "sasl.kerberos.service.name",
    "sasl.kerberos.principal",
    "sasl.kerberos.keytab",
    "sasl.oauthbearer.grant.type",
    "sasl.oauthbearer.assertion.private.key.file",
    "sasl.oauthbearer.assertion.claim.aud",
    "sasl.oauthbearer.metadata.authentication.type",
    "enable.sasl.oauthbearer.unsecure.jwt",
    "ssl.cipher.suites",
    "ssl.curves.list",
    "ssl.sigalgs.list",
    "ssl.key.pem",
    "ssl.certificate.pem",
    "ssl.crl.location",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.providers",
    "ssl.engine.location",
]
UNKNOWN = ["ssl.new.option", "sasl.new.option", "security.new"]


def test_what_one_client_would_not_get_is_refused():
    """By its name, with what to do instead, and never with its value."""
    for name in [*ONE_SIDED, *UNKNOWN]:
        with pytest.raises(
            ConfigurationError, match=re.escape(f"kafka.client: {name} reaches one of the two")
        ) as caught:
            check_options({**LOGIN, name: "hidden-value"})
        assert "hidden-value" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("ssl.keystore.location", "ssl.certificate.location and ssl.key.location"),
        ("ssl.certificate.pem", "ssl.certificate.location"),
        ("ssl.key.pem", "ssl.key.location"),
        ("session.timeout.ms", "runtime.session_timeout"),
        ("security.protcol", "(did you mean security.protocol?)"),
        ("ssl.ca.locaton", "(did you mean ssl.ca.location?)"),
        ("securty.protocol", "(did you mean security.protocol?)"),
        ("sasl_username", "(did you mean sasl.username?)"),
        ("sasl.jaas.config", "sasl.mechanism (PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512), sasl.user"),
        ("ssl.truststore.location", "ssl.ca.location"),
        ("ssl.truststore.password", "ssl.ca.location, which has no password"),
        ("key.serializer", "leave it out"),
    ],
)
def test_it_says_what_to_use(name, instead, tmp_path, capsys):
    """In `validate`, and before anything is asked of a broker."""
    text = TEXT % f"{name}: hidden-value"
    with pytest.raises(ConfigurationError, match=re.escape(instead)):
        setup.prepare(loads(text))
    path = tmp_path / "t.yaml"
    path.write_text(text)
    assert main(["validate", str(path)]) == 2
    said = capsys.readouterr().err
    assert re.search(rf"{path}:[0-9]+: kafka.client.{re.escape(name)}: ", said)
    assert instead in said
    assert "hidden-value" not in said
    assert ("what both have" in said) is False, "the list is for names that are near nothing"


def test_whatever_is_said_to_be_written_is_an_option_of_both():
    """Or a key of the topology; nothing of a Java client is passed on."""
    for name, instead in {**_INSTEAD, **_OF_JAVA}.items():
        named = re.findall(r"\b(?:ssl|sasl|security)(?:\.[a-z]+)+\b", instead)
        assert {*named} <= {*KNOWN}, name
        assert {*re.findall(r"oauthbearer\.method: (\S+?),? ", instead)} <= {*METHODS}
        assert named or "leave it out" in instead or "runtime.session_timeout" in instead
        with pytest.raises(ConfigurationError, match=re.escape(instead)):
            check_options({name: "x"})
    assert not {*KNOWN} & {*_INSTEAD, *_OF_JAVA}


@cases(
    "client",
    [
        {"security.protocol": "TLS"},
        {**LOGIN, "sasl.mechanism": "GSSAPI"},
        {name: value for name, value in LOGIN.items() if name != "sasl.mechanism"},
        {name: value for name, value in LOGIN.items() if name != "sasl.password"},
        {**LOGIN, "sasl.mechanisms": "SCRAM-SHA-256"},
        {"enable.ssl.certificate.verification": "0"},
        {"ssl.endpoint.identification.algorithm": "ldaps"},
        {"ssl.certificate.location": "a.pem"},
        {"ssl.key.location": "a.pem"},
    ],
)
def test_choices_that_the_clients_do_not_share_are_refused(client):
    with pytest.raises(ConfigurationError, match=r"kafka\.client: ") as caught:
        check_options(client)
    assert "secret-word" not in str(caught.value)


@cases("client", [{"ssl.ca.location": "/nowhere/ca.pem"}, {"ssl.ca.pem": "no certificate"}])
def test_files_that_cannot_be_used_are_refused(client):
    """By the client itself, before anything is asked of a broker."""
    options = ", ".join(f"{name}: {value}" for name, value in client.items())
    with pytest.raises(ConfigurationError, match=r"kafka\.client of the "):
        setup.prepare(loads(TEXT % f"security.protocol: SSL, {options}"))


def test_other_options_are_the_clients_own():
    """They are about nobody's security."""
    check_options({"client.id": "x", "socket.timeout.ms": "1000", "broker.address.family": "v4"})
