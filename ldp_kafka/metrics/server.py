"""Metrics and probes over HTTP."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from http import HTTPStatus
from socketserver import ThreadingMixIn
from types import MappingProxyType
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import CollectorRegistry, make_wsgi_app

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.metrics.registry import Metrics

__all__ = ["Probe", "listening", "serve"]

Probe = tuple[bool, str]
"""What a probe says: whether, and why in one line."""


class _Server(ThreadingMixIn, WSGIServer):
    """A thread a request; none of them holds the process back when it ends."""

    daemon_threads = True

    def __init__(self, bound: socket.socket) -> None:
        self.address_family = bound.family
        super().__init__(bound.getsockname(), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = bound
        host, port = bound.getsockname()[:2]
        self.server_name, self.server_port = str(host), int(port)
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: whoever asked has gone away."""


class _Handler(WSGIRequestHandler):
    """Logs no request."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        """Nothing."""


def _app(registry: CollectorRegistry, probes: Mapping[str, Callable[[], Probe]]) -> WSGIApplication:
    """Metrics at /metrics, a probe at each of these paths, and nothing else."""
    shown: WSGIApplication = make_wsgi_app(registry)
    known = ", ".join(("/metrics", *probes))

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/metrics":
            return shown(environ, start_response)
        if path in probes:
            yes, why = probes[path]()
            status = HTTPStatus.OK if yes else HTTPStatus.SERVICE_UNAVAILABLE
        else:
            status, why = HTTPStatus.NOT_FOUND, f"there is only {known}"
        said = json.dumps({"ok": status == HTTPStatus.OK, "why": why})
        headers = [("Content-Type", "application/json"), ("Cache-Control", "no-store")]
        start_response(f"{status.value} {status.phrase}", headers)
        return [f"{said}\n".encode()]

    return answer


def listening(port: int, host: str = "127.0.0.1") -> socket.socket:
    """A socket for `serve` that listens already: whoever keeps it keeps the port, and what it runs
    may answer there, one process after the other. ConfigurationError where it cannot be bound.
    """
    if not 0 <= port < 2**16:
        raise ConfigurationError("metrics port must be from 0 to 65535")
    try:
        family, kind, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with ExitStack() as unless_bound:
            bound = unless_bound.enter_context(socket.socket(family, kind))
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            bound.listen()
            unless_bound.pop_all()
    except OSError as error:
        raise ConfigurationError(f"metrics port {port} at {host}: {error.strerror}") from None
    return bound


def serve(
    metrics: Metrics,
    port: int,
    host: str = "127.0.0.1",
    probes: Mapping[str, Callable[[], Probe]] = MappingProxyType({}),
    *,
    bound: socket.socket | None = None,
) -> tuple[int, Callable[[], None]]:
    """Answer over HTTP, in a thread: Prometheus at ``/metrics``, and whoever runs the worker at the
    paths of its probes. Returns the real port (0 takes a free one), and what ends the server.

    A probe gives whether, and why: its answer is 200 or 503, with one line of JSON, ``{"ok": true,
    "why": "..."}``. Any other path is 404.

    Any ``host`` but loopback lets a network read the metrics: for the perturb role, let that be the
    edge's own. ConfigurationError where the address cannot be bound. ``bound`` is a socket that
    listens (`listening`), in place of a port and a host.
    """
    server = _Server(listening(port, host) if bound is None else bound)
    server.set_app(_app(metrics.registry, probes))
    thread = threading.Thread(target=server.serve_forever, daemon=True, name="metrics")
    thread.start()

    def close() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return server.server_port, close
