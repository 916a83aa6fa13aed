"""Two sides that are one are refused when the file is read, as far as it and this machine tell."""

from __future__ import annotations

import datetime as dt
import socket

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ldp_kafka.cli import main
from ldp_kafka.errors import TopologyError
from ldp_kafka.topology import loads
from ldp_kafka.topology.logins import endpoints, identity
from tests.cases import cases

TEXT = """topology: m
input: {slot: 1h}
privacy: {method: sw_direct, epsilon: 1.0, window: 10, domain: [0, 100]}
output: {statistics: [mean]}
kafka:
  edge: EDGE
  collector: COLLECTOR
"""
SASL = "security.protocol: SASL_SSL, sasl.mechanism: PLAIN"


def text(edge, collector):
    return TEXT.replace("EDGE", edge).replace("COLLECTOR", collector)


def login(user, password="p", at="a:1"):
    return (
        f"{{bootstrap_servers: '{at}', client: {{{SASL}, sasl.username: {user}, sasl.password:"
        f" {password}}}}}"
    )


OAUTH = "security.protocol: SASL_SSL, sasl.mechanism: OAUTHBEARER, sasl.oauthbearer"


def token(client, at="a:1"):
    return f"{{bootstrap_servers: '{at}', client: {{{OAUTH}.client.id: {client}}}}}"


def iam(config):
    return f"{{bootstrap_servers: 'a:1', client: {{{OAUTH}.config: 'region={config}'}}}}"


CERTIFICATE = "ssl.certificate.location: "


def at(broker, more=""):
    return f"{{bootstrap_servers: '{broker}', client: {{{more}}}}}"


@cases(
    ("edge", "collector", "said"),
    [
        # One broker under two addresses: the old comparison of text let each of these pass
        (at("localhost:9092"), at("127.0.0.1:9092"), "both reach one broker"),
        (at("localhost:9092"), at("[::1]:9092"), "both reach one broker"),
        (at("localhost"), at("LOCALHOST.:9092"), "both reach one broker"),
        (at("PLAINTEXT://localhost:9092"), at("127.0.0.1:9092"), "both reach one broker"),
        ("{}", "{}", "both reach one broker"),
        (at("a:1,b:1"), at("B:1,c:1"), "both reach one broker"),
        ("{client: {linger.ms: 5}}", "{client: {linger.ms: 6}}", "both reach one broker"),
        (at("x.invalid:1,localhost:9"), at("y.invalid:1,127.0.0.1:9"), "both reach one broker"),
        # One login, at whatever addresses
        (login("u"), login("u", at="b:1"), "both log in with one sasl.username"),
        (login("u"), login("u", "other", at="b:1"), "both log in with one sasl.username"),
        (
            at("a:1", "security.protocol: SSL, ssl.certificate.location: c.pem"),
            at("b:1", "security.protocol: SSL, ssl.certificate.location: c.pem"),
            "both log in with one ssl.certificate.location",
        ),
        (token("u"), token("u", at="b:1"), "both log in with one sasl.oauthbearer.client.id"),
        (iam("eu-west-1"), iam("eu-west-1"), "both log in with one sasl.oauthbearer.config"),
        (
            at("a:1", f"sasl.username: a, {CERTIFICATE}a.pem"),
            at("a:1", f"sasl.username: a, {CERTIFICATE}b.pem"),
            "both log in with one sasl.username",
        ),
        # Users that nobody is told of
        (
            at("a:1", "security.protocol: PLAINTEXT, sasl.username: u"),
            at("a:1", "security.protocol: PLAINTEXT, sasl.username: v"),
            "both reach one broker",
        ),
        (
            at("a:1", "security.protocol: SSL, sasl.username: u"),
            at("a:1", "security.protocol: SSL, sasl.username: v"),
            "both reach one broker",
        ),
    ],
)
def test_one_side_given_as_two(edge, collector, said):
    with pytest.raises(TopologyError) as caught:
        loads(text(edge, collector), "t.yaml")
    error = str(caught.value)
    assert error.startswith("t.yaml:7: kafka.collector: must not be able to read the raw topic")
    assert said in error
    assert "credentials other than kafka.edge's" in error


@cases(
    ("edge", "collector"),
    [
        (at("localhost:9092"), at("127.0.0.1:9093")),
        (at("127.0.0.1:9092"), at("127.0.0.2:9092")),
        (at("a.invalid:1"), at("b.invalid:1")),
        (login("u"), login("v")),  # one cluster, two logins: its rights tell them apart
        (login("u"), at("a:1")),
        (token("u"), token("v")),
        (token("u"), login("u")),
        (iam("eu-west-1"), iam("eu-west-1,profile=v")),
        (
            at("a:1", "security.protocol: SSL, ssl.certificate.location: c.pem"),
            at("a:1", "security.protocol: SSL, ssl.certificate.location: d.pem"),
        ),
        (at("${NOT_SET}"), at("${NOT_SET_EITHER}")),
        # a login counts where no protocol is named
        (at("a:1", "sasl.username: a"), at("a:1", "sasl.username: b")),
        (at("a:1", "sasl.username: a"), at("a:1")),
        (at("a:1", CERTIFICATE + "a.pem"), at("a:1", CERTIFICATE + "b.pem")),
    ],
)
def test_two_sides_that_may_be_two(edge, collector):
    assert loads(text(edge, collector)).warnings == ()


def test_a_name_that_is_the_same_machine(monkeypatch):
    """Whatever this machine's resolver says."""
    known = {"one.test": "10.0.0.7", "two.test": "10.0.0.7", "three.test": "10.0.0.8"}

    def resolve(host, *_, **__):
        if host not in known:
            raise socket.gaierror
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (known[host], 0))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    assert endpoints(["one.test:9"]) & endpoints(["two.test:9"]) == {("10.0.0.7", 9)}
    assert not endpoints(["one.test:9"]) & endpoints(["three.test:9"])
    assert endpoints(["four.test:9"]) == {("four.test", 9)}
    with pytest.raises(TopologyError, match="both reach one broker"):
        loads(text(at("one.test:9"), at("two.test:9")))


def pem(name):
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + dt.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM)


def test_a_certificate_is_its_subject(tmp_path):
    """Two files, or two certificates, of one subject are one to a broker."""
    for file, name in (("a", "meters"), ("b", "meters"), ("c", "statistics")):
        (tmp_path / f"{file}.pem").write_bytes(pem(name))

    def side(file):
        location = tmp_path / f"{file}.pem"
        return at("a:1", f"security.protocol: SSL, ssl.certificate.location: {location}")

    with pytest.raises(TopologyError, match="both log in with one ssl"):
        loads(text(side("a"), side("b")))
    assert loads(text(side("a"), side("c"))).warnings == ()
    broken = tmp_path / "d.pem"
    broken.write_text("no certificate")
    assert identity({"ssl.certificate.location": str(broken)}) == (
        ("ssl.certificate.location", str(broken)),
    )
    assert identity({"ssl.certificate.pem": pem("meters").decode()}) == (
        ("ssl.certificate.pem", "CN=meters"),
    )


def test_a_user_that_nobody_is_told_of(tmp_path, capsys):
    """Without SASL its name is not sent: two of them would pass as two logins."""
    path = tmp_path / "t.yaml"
    path.write_text(text(at("a:1", "sasl.username: u"), at("a:1", "sasl.username: v")))
    assert main(["validate", str(path)]) == 2
    assert (
        "kafka.edge.client.sasl.username: is not used where security.protocol is PLAINTEXT"
        in capsys.readouterr().err
    )
