"""Whose certificates of token endpoints are believed, as librdkafka's options name them."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ldp_kafka.errors import ConfigurationError

__all__ = ["PROBE", "authorities", "bundle"]

PROBE = "probe"
"""librdkafka's word, in place of a path, for those of this machine."""
_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt",  # Red Hat
    "/etc/ssl/ca-bundle.pem",  # SUSE
    "/etc/ssl/cert.pem",  # macOS
)
"""Where systems have those that they believe, in one file."""


def authorities(client: Mapping[str, Any]) -> ssl.SSLContext:
    """A context that verifies: whose certificate it is, and that one of these authorities says so.

    Parameters
    ----------
    client : options; ``https.ca.location`` is a file, ``https.ca.pem`` the certificates themselves.
        Without either it is the authorities of this machine
    """
    place = client.get("https.ca.location", PROBE)
    file = None if place == PROBE else str(place)
    try:
        return ssl.create_default_context(cafile=file, cadata=client.get("https.ca.pem"))
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            "kafka.client: the TLS files cannot be used:"
            f" {error.strerror or 'not a certificate or key'}"
        ) from None


def bundle() -> str | None:
    """The file of this machine's authorities: that of Python, or one where systems have it."""
    places = (ssl.get_default_verify_paths().cafile, *_BUNDLES)
    return next((place for place in places if place and Path(place).is_file()), None)
