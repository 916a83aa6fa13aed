"""TLS and SASL from the topology reach both Kafka clients; edge and collector with credentials of
their own.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import random
import subprocess
import sys
from pathlib import Path

import pytest

from ldp_kafka.runtime.brokers.local_kafka import KafkaServer
from ldp_kafka.runtime.brokers.ports import free_port
from tests.broker.flow import TEXT, Flow

BLOCK = """kafka:
  client:
    security.protocol: SASL_SSL
    sasl.mechanism: PLAIN
    ssl.ca.location: {ca}
  bootstrap_servers: localhost:{port}
  edge: {{client: {{sasl.username: edge, sasl.password: edge-secret}}}}
  collector: {{client: {{sasl.username: collector, sasl.password: {password}}}}}
"""


def certificate(folder):
    """A self-signed certificate for localhost: (PEM of key and certificate, PEM of the
    certificate).
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.x509.oid import NameOID

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    names = x509.SubjectAlternativeName(
        [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    )
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=2))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public = signed.public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "server.pem").write_bytes(secret + public)
    (folder / "ca.pem").write_bytes(public)


@pytest.fixture(scope="module")
def secured(can_start, tmp_path_factory):
    """A real broker with a second listener: (plain address, port of SASL_SSL, folder of the
    certificate).
    """
    folder = tmp_path_factory.mktemp("secured")
    certificate(folder)
    port, other = free_port(), free_port(3) + 4
    login = (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_edge="edge-secret"'
        ' user_collector="collector-secret";'
    )
    more = {
        "listeners": (
            f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1},"
            f"SASL_SSL://127.0.0.1:{other}"
        ),
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},SASL_SSL://localhost:{other}",
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL"
        ),
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": login,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "server.pem"),
    }
    with KafkaServer("4.3.1", folder / "kafka", port, properties=more) as server:
        yield server.bootstrap_servers, other, folder


def secret_topology(secured, password: str) -> str:
    _, port, folder = secured
    return TEXT.replace(
        "kafka:\n  bootstrap_servers: {boot}\n",
        BLOCK.format(ca=folder / "ca.pem", port=port, password=password)
        .replace("{", "{{")
        .replace("}", "}}"),
    )


def test_two_sides_with_tls_and_passwords(secured, tmp_path, prefix):
    flow = Flow(secured[0], tmp_path, prefix, text=secret_topology(secured, "collector-secret"))
    try:
        assert (
            flow.topology.edge_kafka.client["sasl.username"]
            == "edge"
            != flow.topology.collector_kafka.client["sasl.username"]
        )
        flow.start("perturb")
        # The collector's own copy of the file has no way to the edge: another port, and a password
        # that it is not told
        text = flow.path.read_text()
        other = tmp_path / "collector.yaml"
        assert "edge: {client: {" in text
        other.write_text(
            text.replace(
                "edge: {client: {", "edge: {bootstrap_servers: localhost:1, client: {"
            ).replace("edge-secret", '"${LDP_KAFKA_TEST_EDGE_PASSWORD}"')
        )
        words = [sys.executable, "-m", "ldp_kafka", "run", str(other), "--role", "collect"]
        flow.workers.append(
            (
                "collect",
                subprocess.Popen(
                    words, stdout=flow.log, stderr=flow.log, cwd=Path(__file__).parents[2]
                ),
            )
        )
        rnd = random.Random(1)
        for t in range(6):
            flow.slot(rnd, t, 60)
        flow.finish(6)
        expected = flow.expected()
        flow.wait(expected)
        verdict = flow.judge(expected)
        flow.stop()
    finally:
        flow.close()
    assert verdict.clean and verdict.reports > 200, verdict
    log = flow.log_path.read_text()
    assert "secret" not in log


def test_a_wrong_password_is_a_clear_error_without_it(secured, tmp_path, prefix):
    from ldp_kafka.errors import LdpKafkaError

    with pytest.raises(LdpKafkaError) as caught:
        Flow(secured[0], tmp_path, prefix, text=secret_topology(secured, "wrong-word"))
    assert "wrong-word" not in str(caught.value)
