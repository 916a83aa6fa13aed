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
from ldp_kafka.topology.document import Unset
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


# librdkafka's CONFIGURATION.md: what its client takes whatever else it is given
TAKEN = [
    "sasl.kerberos.service.name",
    "sasl.kerberos.principal",
    "sasl.kerberos.keytab",
    "sasl.oauthbearer.assertion.private.key.file",
    "sasl.oauthbearer.assertion.claim.aud",
    "ssl.cipher.suites",
    "ssl.curves.list",
    "ssl.sigalgs.list",
    "ssl.crl.location",
    "ssl.providers",
    "ssl.engine.location",
    "client.rack",
    "fetch.message.max.bytes",
    "compression.level",
    "statistics.interval.ms",
]
UNKNOWN = ["ssl.new.option", "sasl.new.option", "security.new", "fetch.some", "error.cb"]


def test_what_librdkafka_takes_is_taken():
    """Whatever it is about; a number as text, as all of them are."""
    for name in TAKEN:
        check_options({**LOGIN, name: "9"})
    pem = {"ssl.certificate.pem": "x", "ssl.key.pem": "y"}
    for own in (pem, {"ssl.certificate.location": "a.pem", "ssl.key.pem": "y"}):
        check_options({"security.protocol": "SSL", **own})
    check_options({"enable.ssl.certificate.verification": "0", "compression.type": "lz4"})
    check_options({"ssl.keystore.location": "a.p12", "ssl.keystore.password": "secret-word"})


def test_what_it_does_not_take_is_refused():
    """By its name, and never with its value; a name's value too."""
    for name in UNKNOWN:
        with pytest.raises(
            ConfigurationError, match=re.escape(f"kafka.client: {name} is no option of librdkafka")
        ) as caught:
            check_options({**LOGIN, name: "hidden-value"})
        assert "hidden-value" not in str(caught.value)
    for name in (
        "socket.connection.setup.timeout.ms",
        "compression.type",
        "enable.ssl.certificate.verification",
        "error_cb",
    ):
        with pytest.raises(
            ConfigurationError, match=f"{re.escape(name)} has a value that"
        ) as caught:
            check_options({name: "hidden-value"})
        assert "hidden-value" not in str(caught.value)
    with pytest.raises(ConfigurationError, match="has a value that"):
        check_options({"socket.connection.setup.timeout.ms": "999"})


def test_what_a_variable_leaves_open_is_not_looked_at():
    """But for its name. Nor is a library loaded that a topology names."""
    check_options({"plugin.library.paths": "/no/such/library"})
    open_ = Unset("${SIZE}")
    check_options({"fetch.message.max.bytes": open_})
    with pytest.raises(ConfigurationError, match="is no option"):
        check_options({"fetch.some": open_})


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("ssl.keystore.type", "ssl.certificate.location and ssl.key.location"),
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


def test_whatever_is_said_to_be_written_is_an_option():
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
        {"ssl.endpoint.identification.algorithm": "ldaps"},
        {"ssl.certificate.location": "a.pem"},
        {"ssl.key.location": "a.pem"},
    ],
)
def test_what_is_half_given_or_no_choice_is_refused(client):
    with pytest.raises(ConfigurationError, match=r"kafka\.client: ") as caught:
        check_options(client)
    assert "secret-word" not in str(caught.value)


@cases("client", [{"ssl.ca.location": "/nowhere/ca.pem"}, {"ssl.ca.pem": "no certificate"}])
def test_files_that_cannot_be_used_are_refused(client):
    """By the client itself, before anything is asked of a broker."""
    options = ", ".join(f"{name}: {value}" for name, value in client.items())
    with pytest.raises(ConfigurationError, match=r"kafka\.client of the "):
        setup.prepare(loads(TEXT % f"security.protocol: SSL, {options}"))
