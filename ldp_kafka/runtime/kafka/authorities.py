"""Whose certificates are believed: authorities as librdkafka's options name them."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ldp_kafka.errors import ConfigurationError

__all__ = ["PROBE", "authorities"]

PROBE = "probe"
"""librdkafka's word, in place of a path, for those of this machine."""


def authorities(client: Mapping[str, Any], of: str) -> ssl.SSLContext:
    """A context that verifies: whose certificate it is, and that one of these authorities says so.

    Parameters
    ----------
    client : options; ``<of>.ca.location`` is a file or a folder, ``<of>.ca.pem`` the certificates
        themselves. Without either it is the authorities of this machine
    of : ``ssl`` for brokers, ``https`` for token endpoints
    """
    place = client.get(f"{of}.ca.location")
    place = None if place in (None, PROBE) else str(place)
    folder = place is not None and Path(place).is_dir()
    try:
        return ssl.create_default_context(
            cafile=None if folder else place,
            capath=place if folder else None,
            cadata=client.get(f"{of}.ca.pem"),
        )
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            "kafka.client: the TLS files cannot be used:"
            f" {error.strerror or 'not a certificate or key'}"
        ) from None
