"""A token endpoint, asked over TLS: what it is sent, and what is said of each answer."""

from __future__ import annotations

import base64
import json
import math
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from ldp_kafka.errors import BrokerError, ConfigurationError
from ldp_kafka.runtime.kafka import token_endpoint
from ldp_kafka.runtime.kafka.oauth import no_token
from ldp_kafka.runtime.kafka.token_endpoint import from_endpoint
from tests.broker.oauth import OURS, issuing, login

LIFE = 300.0


@pytest.fixture(scope="module")
def issuer(tls):
    with issuing(tls, LIFE) as made:
        yield made


class Plain(HTTPServer):
    """Answers whatever a test says, without TLS."""

    status, said, headers = 200, b"", {}
    heard: list

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/token"


@pytest.fixture
def plain():
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.server.heard.append((dict(self.headers), body))
            self.send_response(self.server.status)
            for name, value in self.server.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(self.server.said)

        do_GET = do_POST

        def log_message(self, *_):
            pass

    with Plain(("127.0.0.1", 0), Handler) as server:
        server.heard = []
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join(10)


@pytest.mark.parametrize("of", ["location", "pem"])
def test_a_token_over_tls(issuer, tls, of):
    """Of an endpoint whose authority is named, by a file or by its text."""
    ca = tls / "ca.pem"
    given = {f"https_ca_{of}": str(ca) if of == "location" else ca.read_text()}
    found = from_endpoint(login(issuer.url, **given))
    assert found.seconds == LIFE
    _, claims, _ = found.text.split(".")
    assert json.loads(base64.urlsafe_b64decode(claims + "=="))["sub"] == "edge"
    assert issuer.issued["edge", OURS]


def test_what_is_sent(plain):
    """The id and the secret in the header, as librdkafka sends them, and nowhere else."""
    plain.said = answer()
    from_endpoint(login(plain.url))
    [(headers, body)] = plain.heard
    assert body == b"grant_type=client_credentials&scope=kafka"
    said = base64.b64encode(b"edge:edge-secret").decode()
    assert headers["Authorization"] == f"Basic {said}"
    assert headers["Content-Type"] == "application/x-www-form-urlencoded"


def jwt(**claims) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"e30.{body}.c2lnbmVk"


def answer(**more) -> bytes:
    until = int(time.time()) + 100
    return json.dumps({"access_token": jwt(sub="edge", exp=until), **more}).encode()


def test_for_how_long_it_holds(plain):
    """As the endpoint says, or else the token itself."""
    plain.said = answer(expires_in=60)
    assert from_endpoint(login(plain.url)).seconds == 60
    plain.said = json.dumps({"id_token": jwt(sub="e", exp=9e9), "expires_in": "30"}).encode()
    assert from_endpoint(login(plain.url)).seconds == 30
    plain.said = answer()
    assert 60 < from_endpoint(login(plain.url)).seconds <= 100


GOOD = {"access_token": jwt(sub="edge", exp=9e9)}
SECRET = "edge-secret repeated by who should not"
REFUSED = [
    (401, {"error": "invalid_client"}, ConfigurationError, "(401 invalid_client): are sasl.oa"),
    (401, None, ConfigurationError, "(401): are sasl.oauthbearer.client.id and sasl.oauthbearer.c"),
    (400, {"error": "invalid_scope"}, ConfigurationError, "is sasl.oauthbearer.scope right?"),
    (400, {"error": "unauthorized_client"}, ConfigurationError, "allowed client credentials"),
    (400, {"error": f"no {SECRET}"}, ConfigurationError, "(400): is sasl.oauthbearer.token.endpoi"),
    (404, None, ConfigurationError, "(404): is sasl.oauthbearer.token.endpoint.url right?"),
    (302, None, ConfigurationError, "leads to another address (302): is sasl.oauthbearer.token.e"),
    (429, None, BrokerError, "gives no token now (429)"),
    (503, {"error": "temporarily_unavailable"}, BrokerError, "(503 temporarily_unavailable)"),
    (200, None, ConfigurationError, "gives no token that is a JWT"),
    (200, {"access_token": SECRET}, ConfigurationError, "gives no token that is a JWT"),
    (200, ["access_token"], ConfigurationError, "gives no token that is a JWT"),
    (200, {**GOOD, "expires_in": -1}, ConfigurationError, "gives no token that is a JWT"),
    (200, {**GOOD, "expires_in": math.nan}, ConfigurationError, "gives no token that is a JWT"),
    (200, {**GOOD, "expires_in": 10**400}, ConfigurationError, "gives no token that is a JWT"),
    (200, {"access_token": jwt(exp=9e9)}, ConfigurationError, "without the claim sub"),
    (
        200,
        {"access_token": jwt(sub="edge"), "expires_in": 60},
        ConfigurationError,
        "without the claim exp",
    ),
]


@pytest.mark.parametrize(("status", "said", "kind", "words"), REFUSED)
def test_what_is_said_of_an_answer(plain, status, said, kind, words):
    """Which option to look at, and whether to try again; neither the secret nor what the endpoint
    says in its own words. A redirection is not followed: the secret is for one address.
    """
    plain.status = status
    plain.headers = {"Location": f"{plain.url}/other"} if status == 302 else {}
    described = {**said, "error_description": SECRET} if isinstance(said, dict) else said
    plain.said = SECRET.encode() if said is None else json.dumps(described).encode()
    with pytest.raises(kind) as caught:
        from_endpoint(login(plain.url))
    text = str(caught.value)
    assert words in text and plain.url in text
    assert "edge-secret" not in text and "repeated" not in text
    assert len(plain.heard) == 1


def test_an_endpoint_that_nobody_vouches_for(issuer, tls):
    """Is not given the secret."""
    before = sum(issuer.issued.values())
    with pytest.raises(ConfigurationError, match=r"not trusted \(self-signed certificate\)"):
        from_endpoint(login(issuer.url))
    ca = str(tls / "ca.pem")
    other = issuer.url.replace("localhost", "127.1")  # this machine, in other words
    with pytest.raises(ConfigurationError, match="not trusted"):
        from_endpoint(login(other, https_ca_location=ca))
    assert sum(issuer.issued.values()) == before


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://127.0.0.1:1/token?key=edge-secret", "does not answer (Connection refused)"),
        ("https://nowhere.invalid/token", "https://nowhere.invalid/token does not answer ("),
    ],
)
def test_an_endpoint_that_is_away(url, words):
    """Is asked again; what an address has beside its path may be a secret."""
    with pytest.raises(BrokerError) as caught:
        from_endpoint(login(url))
    assert words in str(caught.value) and "edge-secret" not in str(caught.value)


def test_one_that_hangs(monkeypatch):
    """Is left after a while."""
    monkeypatch.setattr(token_endpoint, "TIMEOUT", 0.2)
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:  # nobody answers
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        with pytest.raises(BrokerError, match="does not answer"):
            from_endpoint(login(url))


def test_why_there_is_no_token(issuer, tls):
    ca = {"https_ca_location": str(tls / "ca.pem")}
    assert no_token({"sasl.mechanism": "PLAIN"}) is None
    assert no_token(login(issuer.url, **ca)) is None
    wrong = login(issuer.url, "wrong-word", **ca)
    assert isinstance(found := no_token(wrong), ConfigurationError)
    assert "invalid_client" in str(found) and "wrong-word" not in str(found)
