"""A real broker that wants signed tokens (OAUTHBEARER), and the endpoint that issues them."""

from __future__ import annotations

import base64
import json
import os
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from ldp_kafka.cli import main
from ldp_kafka.runtime.brokers.local_kafka import KafkaServer
from ldp_kafka.runtime.brokers.ports import free_port
from tests.broker.flow import TEXT
from tests.broker.secured import PRINCIPALS, certificate

__all__ = [
    "LIBRDKAFKA",
    "OURS",
    "SECRETS",
    "Bearer",
    "Issuer",
    "bearer_broker",
    "issuing",
    "login",
]

SECRETS = {name: f"{name}-secret" for name in ("admin", "collector", "edge")}
LIBRDKAFKA, OURS = "", "Python-urllib"
"""How the client, and who asks once more to say why, name themselves to an endpoint."""
AUDIENCE = "ldp"
SCOPE = "kafka"
MODULE = "org.apache.kafka.common.security.oauthbearer"
TLS = "security.protocol: SASL_SSL\nssl.ca.location: {ca}\nsasl.mechanism: OAUTHBEARER\n"
OIDC = (
    "sasl.oauthbearer.method: oidc\nsasl.oauthbearer.token.endpoint.url: {url}\n"
    "sasl.oauthbearer.scope: " + SCOPE + "\nhttps.ca.location: {ca}\n"
    "sasl.oauthbearer.extensions: logicalCluster=lkc-1,identityPoolId=pool-1\n"
)
LOGIN = "sasl.oauthbearer.client.id: {user}\nsasl.oauthbearer.client.secret: {user}-secret\n"


def login(url: str, secret: str = SECRETS["edge"], **more: str) -> dict[str, str]:
    """The edge's client options for an endpoint, and more of them, with underscores for dots."""
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "edge",
        "sasl.oauthbearer.client.secret": secret,
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.oauthbearer.scope": SCOPE,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Issuer:
    """A token endpoint for client credentials.

    Parameters
    ----------
    lifetime : seconds that a token holds
    """

    def __init__(self, lifetime: float) -> None:
        self.lifetime, self.port = lifetime, 0
        self.away: set[str] = set()
        """For whom it is not there."""
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.issued: Counter = Counter()
        """Tokens by (client's id, how the one who asks names itself)."""

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}/token"

    def jwks(self) -> str:
        """Its public key, as brokers read it."""
        public = self._key.public_key().public_numbers()
        n, e = (_text(each.to_bytes(-(-each.bit_length() // 8))) for each in (public.n, public.e))
        key = {"kty": "RSA", "kid": "one", "use": "sig", "alg": "RS256", "n": n, "e": e}
        return json.dumps({"keys": [key]})

    def token(self, user: str, lifetime: float | None = None) -> str:
        """A signed one (RS256)."""
        now = time.time()
        until = int(now + (lifetime or self.lifetime))
        claims = {"sub": user, "aud": AUDIENCE, "iat": int(now), "exp": until}
        parts = ({"alg": "RS256", "kid": "one", "typ": "JWT"}, claims)
        signed = ".".join(_text(json.dumps(part).encode()) for part in parts)
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_text(signature)}"

    def answer(self, headers: Mapping[str, str], body: str) -> tuple[int, dict]:
        """Status and JSON, as RFC 6749 has them; in what it refuses it repeats what it was given,
        as nobody should.
        """
        agent = headers.get("User-Agent", "").partition("/")[0]
        if agent in self.away:
            return 503, {"error": "temporarily_unavailable"}
        login = base64.b64decode(headers.get("Authorization", "").removeprefix("Basic "))
        user, _, secret = login.decode().partition(":")
        form = {name: values[0] for name, values in parse_qs(body).items()}
        if SECRETS.get(user) != secret:
            return 401, {"error": "invalid_client", "error_description": f"{user} is not {secret}"}
        if form != {"grant_type": "client_credentials", "scope": SCOPE}:
            return 400, {"error": "invalid_scope"}
        self.issued[user, agent] += 1
        token = self.token(user)
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime}


@contextmanager
def issuing(folder: Path, lifetime: float) -> Iterator[Issuer]:
    """It answers at localhost over TLS, with the certificate of the folder."""
    made = Issuer(lifetime)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            status, said = made.answer(self.headers, body)
            data = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            pass  # whoever does not trust the certificate hangs up

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    with Server(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        made.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield made
        server.shutdown()
        thread.join(10)


class Bearer(NamedTuple):
    """One broker.

    Parameters
    ----------
    plain : a listener that asks for no login; whoever comes there is a super user
    address : of SASL_SSL
    folder : of the certificate
    """

    plain: str
    address: str
    folder: Path
    issuer: Issuer

    def text(self, both: str, edge: str, collector: str) -> str:
        """A topology for `Flow` with these client options: of both sides, and of each."""

        def inline(options: str, user: str = "") -> str:
            filled = options.format(ca=self.folder / "ca.pem", url=self.issuer.url, user=user)
            pairs = (line.split(": ", 1) for line in filled.splitlines())
            return "{" + ", ".join(f"{name}: {json.dumps(value)}" for name, value in pairs) + "}"

        block = f"kafka:\n  bootstrap_servers: {self.address}\n  client: {inline(both)}\n"
        for side, options in {"edge": edge, "collector": collector}.items():
            block += f"  {side}:\n    client: {inline(options, side)}\n"
        block = block.replace("{", "{{").replace("}", "}}")
        text = TEXT.replace("kafka:\n  bootstrap_servers: {boot}\n", block)
        return text.replace("lateness: 1", "lateness: 1\n  idle: 5s")

    def ready(self, path: Path) -> None:
        """What an operator does before the first start: topics, and rights for both sides."""
        login = self.folder / "admin.conf"
        lines = (TLS + OIDC + LOGIN).replace(": ", "=")
        ca = self.folder / "ca.pem"
        login.write_text(lines.format(ca=ca, url=self.issuer.url, user="admin"))
        for more in ((), ("--acls", *PRINCIPALS, "--apply")):
            assert main(["topics", str(path), *more, "--login", str(login)]) == 0


@contextmanager
def bearer_broker(folder: Path, lifetime: float, session: float) -> Iterator[Bearer]:
    """Start one whose sessions end after so many seconds: a client must log in anew."""
    certificate(folder)
    port, secret = free_port(), free_port(2) + 3
    jwks = folder / "jwks.json"
    listener = "listener.name.sasl_ssl"
    settings = {
        "listeners": (
            f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1},"
            f"SASL_SSL://127.0.0.1:{secret}"
        ),
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},SASL_SSL://localhost:{secret}",
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL"
        ),
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{listener}.oauthbearer.sasl.jaas.config": f"{MODULE}.OAuthBearerLoginModule required;",
        f"{listener}.oauthbearer.sasl.server.callback.handler.class": (
            f"{MODULE}.OAuthBearerValidatorCallbackHandler"
        ),
        f"{listener}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": jwks.as_uri(),
        f"{listener}.oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
        f"{listener}.connections.max.reauth.ms": str(int(session * 1000)),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "server.pem"),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin",
    }
    with issuing(folder, lifetime) as issuer:
        jwks.write_text(issuer.jwks())
        server = KafkaServer("4.3.1", folder / "kafka", port, properties=settings)
        with reading(jwks):
            server.start()
        with server:
            yield Bearer(server.bootstrap_servers, f"localhost:{secret}", folder, issuer)


@contextmanager
def reading(jwks: Path) -> Iterator[None]:
    """Let a broker that starts meanwhile read the keys of a file."""
    name, of = "JAVA_TOOL_OPTIONS", "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
    before = os.environ.get(name)
    os.environ[name] = f"{before or ''} {of}.urls={jwks.as_uri()} {of}.files={jwks}"
    try:
        yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before
