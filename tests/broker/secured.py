"""A real broker with TLS, SASL and an authorizer, and who logs in to it."""

from __future__ import annotations

import datetime as dt
import ipaddress
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from ldp_kafka.cli import main
from ldp_kafka.runtime.brokers.local_kafka import KafkaServer
from ldp_kafka.runtime.brokers.ports import free_port
from ldp_kafka.runtime.kafka.rights import _allowed, _clusters
from ldp_kafka.topology import Access, Right
from tests.broker.flow import TEXT

__all__ = ["PRINCIPALS", "Secured", "certificate", "secured_broker"]

PRINCIPALS = ("--principal", "edge=User:edge", "--principal", "collector=User:collector")
SCRAM = {"edge": "edge-secret", "admin": "admin-secret"}
BLOCK = """kafka:
  client:
    security.protocol: SASL_SSL
    ssl.ca.location: {ca}
  bootstrap_servers: localhost:{port}
  edge:
    client: {{sasl.mechanism: SCRAM-SHA-256, sasl.username: edge, sasl.password: {edge}}}
  collector:
    client: {{sasl.mechanism: PLAIN, sasl.username: {user}, sasl.password: {collector}}}
"""


class Secured:
    """One broker.

    Parameters
    ----------
    plain : addresses of two listeners that ask for no login; whoever comes there is a super user
    port : of SASL_SSL
    folder : of the certificate, and of the admin's client options
    """

    server: KafkaServer

    def __init__(self, plain: tuple[str, str], port: int, folder: Path) -> None:
        self.plain, self.port, self.folder = plain, port, folder
        self.admin = AdminClient({"bootstrap.servers": plain[0]})
        self.login = folder / "admin.conf"
        self.login.write_text(
            "# who may make topics and rights\nsecurity.protocol=SASL_SSL\n"
            f"ssl.ca.location={folder / 'ca.pem'}\nsasl.mechanism=SCRAM-SHA-256\n"
            f"sasl.username=admin\nsasl.password={SCRAM['admin']}\n"
        )

    def block(self) -> str:
        """The ``kafka`` block of a topology whose sides log in."""
        return BLOCK.format(
            ca=self.folder / "ca.pem",
            port=self.port,
            edge=SCRAM["edge"],
            collector="collector-secret",
            user="collector",
        )

    def text(self) -> str:
        """A topology for `Flow` whose sides log in."""
        return TEXT.replace(
            "kafka:\n  bootstrap_servers: {boot}\n",
            self.block().replace("{", "{{").replace("}", "}}"),
        )

    def ready(self, path: str | Path) -> None:
        """What an operator does before the first start: topics, and rights for both sides."""
        for more in ((), ("--acls", *PRINCIPALS, "--apply")):
            words = ["topics", str(path), *more, "--login", str(self.login)]
            assert main(words) == 0, words

    def grant(self, user: str, right: Right) -> None:
        """Give a right, and wait until the broker knows it."""
        for answer in self.admin.create_acls(_bindings(AclBinding, user, right)).values():
            answer.result(15)
        self.wait(user, right, there=True)

    def take(self, user: str, right: Right) -> None:
        """Take a right away, likewise."""
        for answer in self.admin.delete_acls(_bindings(AclBindingFilter, user, right)).values():
            assert len(answer.result(15)) == 1
        self.wait(user, right, there=False)

    @contextmanager
    def without(self, user: str, right: Right) -> Iterator[None]:
        """A right is taken away for a while."""
        self.take(user, right)
        try:
            yield
        finally:
            self.grant(user, right)

    def wait(self, user: str, right: Right, *, there: bool) -> None:
        """Until the broker says that this login has the right, or has it not."""
        mechanism, password = (
            ("SCRAM-SHA-256", SCRAM[user]) if user in SCRAM else ("PLAIN", f"{user}-secret")
        )
        client = {
            "bootstrap.servers": f"localhost:{self.port}",
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.folder / "ca.pem"),
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
        }
        cluster = _clusters({user: client}, 15)[user]
        end = time.monotonic() + 15
        while time.monotonic() < end:
            found = _allowed(cluster, Access("", "", "", (right,)), 15)
            if set(right.operations).issubset(found[right[:2]] or ()) == there:
                return
            time.sleep(0.02)
        raise TimeoutError(f"{right}: the broker did not learn of it")


def _bindings(kind: type, user: str, right: Right) -> list:
    return [
        kind(
            ResourceType[right.resource.upper()],
            right.name,
            ResourcePatternType.LITERAL,
            f"User:{user}",
            "*",
            AclOperation[operation],
            AclPermissionType.ALLOW,
        )
        for operation in right.operations
    ]


@contextmanager
def secured_broker(folder: Path) -> Iterator[Secured]:
    """Start one; it ends with the block."""
    certificate(folder)
    port, more = free_port(), free_port(3) + 4
    other, secret = more, more + 1
    module = "org.apache.kafka.common.security"
    settings = {
        "listeners": (
            f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1},"
            f"OTHER://127.0.0.1:{other},SASL_SSL://127.0.0.1:{secret}"
        ),
        "advertised.listeners": (
            f"PLAINTEXT://127.0.0.1:{port},OTHER://127.0.0.1:{other},SASL_SSL://localhost:{secret}"
        ),
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,OTHER:PLAINTEXT,SASL_SSL:SASL_SSL"
        ),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            f'{module}.plain.PlainLoginModule required user_collector="collector-secret";'
        ),
        "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": (
            f"{module}.scram.ScramLoginModule required;"
        ),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "server.pem"),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin",
    }
    with KafkaServer("4.3.1", folder / "kafka", port, properties=settings) as server:
        plain = server.bootstrap_servers, f"127.0.0.1:{other}"
        made = Secured(plain, secret, folder)
        made.server = server
        made.admin.poll(0)
        users = [
            UserScramCredentialUpsertion(
                name, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), password.encode()
            )
            for name, password in SCRAM.items()
        ]
        for answer in made.admin.alter_user_scram_credentials(users).values():
            answer.result(15)
        yield made


def certificate(folder: Path) -> None:
    """A self-signed certificate for localhost: server.pem with its key, ca.pem without."""
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
