"""Ports of this machine: which are taken, and which a server may have."""

from __future__ import annotations

import secrets
import socket

from ldp_kafka.errors import BrokerError

__all__ = ["free_port", "taken_ports"]


def taken_ports(port: int, nodes: int) -> list[int]:
    """Which of the ports of a server are in use."""
    taken = []
    for candidate in range(port, port + 2 * nodes):
        with socket.socket() as probe:
            # As Java does: a port whose last connections are only waiting to be forgotten is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", candidate))
            except OSError:
                taken.append(candidate)
    return taken


def free_port(nodes: int = 1) -> int:
    """Neighbouring free ports, below the range from which systems serve outgoing connections: one
    of those could be taken again at any time.

    Looked for from a random place on: two that look at the same moment find different ones.
    """
    first = 20000 + 2 * secrets.randbelow(5000)
    for port in range(first, first + 2000, 2):
        if not taken_ports(port, nodes):
            return port
    raise BrokerError(f"no {2 * nodes} free neighbouring ports between {first} and {first + 2000}")
