"""The edge's key: read and checked, and never shown.

A file holds one key (its bytes and nothing else), or a ring of keys as `ldp-kafka key rotate`
writes it. The first line of a ring says that it is one. Then come the first key, and for each
rotation the next key with the time from which on it is used. Keys are in base64 there, times in
milliseconds since 1970-01-01 UTC.
"""

from __future__ import annotations

import base64
import binascii
import os
import stat
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.randomness import KEY_BYTES, Keyed, is_patterned
from ldp_kafka.runtime.sealing import Seal
from ldp_kafka.topology import Topology
from ldp_kafka.topology.document import Unset

__all__ = [
    "VARIABLE",
    "EdgeNoise",
    "Keyring",
    "edge_randomness",
    "is_private",
    "new_key",
    "read_key",
    "write_secret",
]

VARIABLE = "LDP_KAFKA_EDGE_KEY"
_MARK = b"ldp-kafka keyring 1\n"


@dataclass(frozen=True, repr=False)
class Keyring:
    """The key of an edge, and those that it was rotated to.

    Parameters
    ----------
    first : at least 32 random bytes
    later : of each rotation (milliseconds from which on, key), times increasing

    Raises
    ------
    ConfigurationError : a key is too short or there twice, or times do not increase
    """

    first: bytes
    later: tuple[tuple[int, bytes], ...] = ()

    def __post_init__(self) -> None:
        keys, times = (
            [self.first, *(key for _, key in self.later)],
            [0, *(time for time, _ in self.later)],
        )
        if not all(len(key) >= KEY_BYTES for key in keys):
            raise ConfigurationError(f"must hold at least {KEY_BYTES} random bytes")
        if not (len(set(keys)) == len(keys) and all(0 <= a < b for a, b in pairwise(times))):
            raise ConfigurationError("must hold another key and a later time for each rotation")

    def turns(self, slot_ms: int) -> list[tuple[int, bytes]]:
        """(first slot, key) of each rotation: the first slot that begins at its time or after it.
        Of two in one slot the later one counts.
        """
        return list({-(-time // slot_ms): key for time, key in self.later}.items())

    def rotated(self, time: int, key: bytes) -> Keyring:
        """With one rotation more."""
        return Keyring(self.first, (*self.later, (time, key)))

    def encode(self) -> bytes:
        """As a file holds it."""
        if not self.later:
            return self.first
        lines = [
            base64.b64encode(self.first),
            *(str(time).encode() + b" " + base64.b64encode(key) for time, key in self.later),
        ]
        return _MARK + b"\n".join(lines) + b"\n"

    @classmethod
    def decode(cls, content: bytes) -> Keyring:
        """What `encode` gave, or one key alone. ConfigurationError also where a key is one that
        nobody drew (`is_patterned`): here a key enters, from a file or from the environment.
        """
        if not content.startswith(_MARK.rstrip()):
            found = cls(content)
        else:
            try:
                # an editor, or a paste, may leave other ends of lines, and empty ones
                lines = content[len(_MARK.rstrip()) :].splitlines()
                (first,), *pairs = [line.split() for line in lines if line.strip()]
                found = cls(
                    base64.b64decode(first, validate=True),
                    tuple((int(time), base64.b64decode(key, validate=True)) for time, key in pairs),
                )
            except ValueError:  # binascii.Error is one
                raise ConfigurationError(
                    "is not a ring of keys as `ldp-kafka key rotate` writes it: put the right file"
                    " back"
                ) from None
        if any(is_patterned(key) for key in (found.first, *(key for _, key in found.later))):
            raise ConfigurationError(
                "holds a key whose bytes follow a pattern, which anybody can guess: make one with"
                " `ldp-kafka key new FILE`; a topology that has run needs a new name"
            )
        return found

    def __repr__(self) -> str:
        return f"Keyring({len(self.later)} rotations)"  # never a key


def read_key(path: Path | Unset | None) -> Keyring:
    """The master key from its file, or from the environment (base64 of what a file would hold)
    where the topology names no file, or leaves its name to a variable that is not set.

    Raises
    ------
    ConfigurationError : no key, an unsafe file mode, fewer than 32 bytes, bytes that follow a
        pattern, or not a ring
    """
    if path is None or isinstance(path, Unset):
        text = os.environ.get(VARIABLE)
        if not text and path is not None:
            raise ConfigurationError(
                f"the edge needs a key: {path.problem} (ldp-kafka key new FILE makes one)"
            )
        if not text:
            raise ConfigurationError(
                "the edge needs a key: set edge.key_file in the topology (ldp-kafka key new FILE"
                f" makes one), or {VARIABLE} to the base64 of {KEY_BYTES} random bytes"
            )
        try:
            # base64 FILE, an env file or a secret may wrap it, or end it with a line's end
            content = base64.b64decode("".join(text.split()), validate=True)
        except (binascii.Error, ValueError):
            raise ConfigurationError(
                f"{VARIABLE} must be base64 (white space does not matter)"
            ) from None
        where = VARIABLE
    else:
        try:
            found = path.stat()
            content = path.read_bytes()
        except OSError as error:
            raise ConfigurationError(
                f"edge.key_file: {path}: {error.strerror}; ldp-kafka key new FILE makes one"
            ) from None
        if os.name == "posix" and not is_private(found, os.geteuid()):
            raise ConfigurationError(
                f"edge.key_file: {path} must be readable by its owner only: chmod 600"
            )
        where = str(path)
    try:
        return Keyring.decode(content)
    except ConfigurationError as error:
        raise ConfigurationError(f"{where} {error}") from None


def is_private(found: os.stat_result, user: int) -> bool:
    """Whether a file is for this process alone: nobody but its owner may read it. Of what root owns
    a group may, where the process is not root's: so systemd (a credential of a unit: its mode shows
    an ACL's mask) and Kubernetes (a Secret, with ``fsGroup``) give a file to one user.
    """
    others = 0o037 if found.st_uid == 0 and user != 0 else 0o077
    return not stat.S_IMODE(found.st_mode) & others


class EdgeNoise(Keyed):
    """Keyed noise of one topology in one deployment, and what seals the state that it is drawn
    from; see `edge_randomness`.
    """

    deployment: str
    seal: Seal


def edge_randomness(topology: Topology, key: bytes | Keyring, deployment: str) -> EdgeNoise:
    """Keyed noise of one topology in one deployment: its fingerprint separates it from every other
    topology under the same key, the deployment from the same topology elsewhere, and its slots say
    when a ring's keys take turns.

    Parameters
    ----------
    deployment : what `ldp_kafka.runtime.kafka.deployment` read, or any text that is not used for
        other values under the same key
    """
    ring = key if isinstance(key, Keyring) else Keyring(key)
    context = bytes.fromhex(topology.fingerprint) + deployment.encode()
    found = EdgeNoise(ring.first, context=context, later=ring.turns(topology.input.slot_ms))
    found.deployment = deployment
    keys = [ring.first, *(new for _, new in ring.later)]
    found.seal = Seal(keys, context, found.check)
    return found


def new_key(path: Path) -> None:
    """Write 32 random bytes as `write_secret` does."""
    write_secret(path, os.urandom(KEY_BYTES))


def write_secret(path: Path, content: bytes) -> None:
    """Write a file that must not exist, mode 0600: the whole of it or, where the power goes, none.
    ConfigurationError where it does, or cannot be written.
    """
    part = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.link(part, path)  # unlike a rename it overwrites nothing
    except FileExistsError:
        raise ConfigurationError(
            f"{path} exists; a lost key cannot be brought back, so it is not overwritten"
        ) from None
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from None
    finally:
        part.unlink(missing_ok=True)
