"""What a worker answers over HTTP: its metrics and its probes, and nothing else."""

from __future__ import annotations

import json
import re
import socket
import struct
from collections.abc import Iterator
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.metrics import Metrics, listening, serve
from tests.metrics.test_families import PERTURB, made, output


def test_serve_answers_on_loopback_and_closes():
    """The real port is returned, nothing listens after close, and close may be repeated."""
    metrics = made()
    metrics.count(output(PERTURB))
    port, close = serve(metrics, 0)
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            text = answer.read().decode()
        assert 'ldp_events_total{method="capp",role="perturb",topology="meters"} 7.0' in text
        with pytest.raises(ConfigurationError, match=f"metrics port {port} at 127.0.0.1: .*in use"):
            serve(metrics, port)
    finally:
        close()
    with (
        pytest.raises(ConnectionRefusedError),
        socket.create_connection(("127.0.0.1", port), timeout=5),
    ):
        pass
    close()


def asked(port: int, path: str, **headers: str) -> tuple[int, str, str]:
    """Status, type and text of what is answered."""
    request = Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    try:
        answer = urlopen(request, timeout=5)
    except HTTPError as error:
        answer = error
    with answer:
        return answer.status, answer.headers["Content-Type"], answer.read().decode()


@pytest.fixture
def served() -> Iterator[tuple[Metrics, dict[str, tuple[bool, str]], int]]:
    """Metrics and what the probes say, to be changed, and the port."""
    metrics, said = made(), {"/live": (True, "it starts"), "/ready": (False, "it starts")}
    port, close = serve(metrics, 0, probes={path: lambda path=path: said[path] for path in said})
    try:
        yield metrics, said, port
    finally:
        close()


def test_a_probe_says_whether_and_why_in_a_line(served):
    """By its status, for those who look at nothing else."""
    _, said, port = served
    for path in said:
        for yes, status in ((True, 200), (False, 503)):
            said[path] = (yes, 'it "waits"')
            code, kind, text = asked(port, path)
            assert (code, kind) == (status, "application/json")
            assert text.endswith("}\n") and text.count("\n") == 1
            assert json.loads(text) == {"ok": yes, "why": 'it "waits"'}


@pytest.mark.parametrize(
    "path",
    ["/", "/metrics/", "/Live", "/live/", "/ready.html", "/favicon.ico", "/metrics/all", "/%00"],
)
def test_any_other_path_is_not_there(served, path):
    """And what is asked for is not said again."""
    code, kind, text = asked(served[2], path)
    assert (code, kind) == (404, "application/json")
    assert json.loads(text) == {"ok": False, "why": "there is only /metrics, /live, /ready"}


def test_without_probes_there_are_only_metrics():
    """A library user serves metrics alone."""
    port, close = serve(made(), 0)
    try:
        assert [asked(port, path)[0] for path in ("/metrics", "/live", "/ready")] == [200, 404, 404]
    finally:
        close()


@pytest.mark.parametrize("accept", ["text/plain", "application/openmetrics-text; version=1.0.0"])
def test_no_series_says_when_a_counter_was_made(served, accept):
    """In neither format: it is a second series for each, which nobody asks for."""
    metrics, _, port = served
    metrics.step(0.002)
    code, _, text = asked(port, "/metrics", Accept=accept)
    assert code == 200
    assert "ldp_events_total{" in text and "ldp_step_seconds_count{" in text
    assert "_created" not in text


def test_a_client_that_goes_away_says_nothing_in_our_log(served, capfd):
    """Nor does it keep others from their answer."""
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", served[2]), timeout=5) as gone:
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            gone.sendall(b"GET /metrics HTTP/1.0\r\n")
    assert asked(served[2], "/live")[0] == 200
    assert capfd.readouterr() == ("", "")


def test_one_process_after_the_other_answers_at_a_socket_that_is_kept():
    """Whoever keeps it keeps the port: a question that comes between two is answered by the next.
    Nobody else can listen there meanwhile.
    """
    with listening(0) as kept:
        port = kept.getsockname()[1]
        for number in range(2):
            with socket.create_connection(("127.0.0.1", port), timeout=5) as early:
                early.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
                metrics = made()
                metrics.started(number)
                found, close = serve(metrics, 0, bound=kept.dup())
                answer = early.makefile().read()
            close()
            assert found == port
            assert re.search(rf"^ldp_start_timestamp_seconds.* {number}.0$", answer, re.MULTILINE)
            with pytest.raises(ConfigurationError, match="in use"):
                listening(port)
    listening(port).close()


def test_serve_listens_on_loopback_only():
    """Another address of this machine gets no answer."""
    port, close = serve(made(), 0)
    try:
        with (
            pytest.raises(ConnectionRefusedError),
            socket.create_connection(("127.0.0.2", port), timeout=5),
        ):
            pass
    finally:
        close()


@pytest.mark.parametrize("port", [-1, 65536])
def test_ports_are_ports(port):
    """Refused before anything is bound."""
    with pytest.raises(ConfigurationError, match="from 0 to 65535"):
        serve(made(), port)
