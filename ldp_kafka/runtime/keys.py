"""The edge's key: read, checked, never shown."""

from __future__ import annotations

import base64
import binascii
import os
import stat
from pathlib import Path

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.randomness import KEY_BYTES

__all__ = ["VARIABLE", "new_key", "read_key"]

VARIABLE = "LDP_KAFKA_EDGE_KEY"


def read_key(path: Path | None) -> bytes:
    """The master key from its file, or from the environment (base64) where the topology names no file.

    Raises
    ------
    ConfigurationError : no key, an unsafe file mode, or fewer than 32 bytes
    """
    if path is None:
        text = os.environ.get(VARIABLE)
        if not text:
            raise ConfigurationError(
                f"the edge needs a key: set edge.key_file in the topology (ldp-kafka key new FILE makes one), or {VARIABLE} to the base64 of {KEY_BYTES} random bytes"
            )
        try:
            key = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise ConfigurationError(f"{VARIABLE} must be base64") from None
        where = VARIABLE
    else:
        try:
            mode = path.stat().st_mode
            key = path.read_bytes()
        except OSError as error:
            raise ConfigurationError(f"edge.key_file: {path}: {error.strerror}; ldp-kafka key new FILE makes one") from None
        if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
            raise ConfigurationError(f"edge.key_file: {path} must be readable by its owner only: chmod 600")
        where = str(path)
    if not len(key) >= KEY_BYTES:
        raise ConfigurationError(f"{where} must hold at least {KEY_BYTES} random bytes")
    return key


def new_key(path: Path) -> None:
    """Write 32 random bytes to a file that must not exist, mode 0600: the whole of it or, where the power goes, none. ConfigurationError where it does, or cannot be written."""
    part = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(os.urandom(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        os.link(part, path)  # unlike a rename it overwrites nothing
    except FileExistsError:
        raise ConfigurationError(f"{path} exists; a lost key cannot be brought back, so it is not overwritten") from None
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from None
    finally:
        part.unlink(missing_ok=True)
