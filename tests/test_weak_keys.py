"""Keys that nobody drew are refused wherever a user hands one in, and shown nowhere."""

from __future__ import annotations

import base64
import os
import re
from pathlib import Path

import pytest

import ldp_kafka as lk
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.runtime.keys import Keyring, read_key
from tests.cases import cases
from tests.keys import KEY, OTHER

WEAK = [
    bytes(32),
    b"\xff" * 32,
    bytes(range(32)),
    bytes(range(7, 39)),
    bytes(reversed(range(32))),
    bytes(7 * i % 256 for i in range(32)),  # over the end of a byte
    b"ab" * 16,
    b"0123456789abcdef" * 2,
    b"secret!" * 5,  # the last one is cut off in no period of 7 bytes
    b"secret!" * 5 + b"sec",
    bytes((i // 2 * 3 + i % 2) % 256 for i in range(32)),  # steps 1, 2, 1, 2, ...
    KEY * 2,
    bytes(64),
]


@cases("key", WEAK)
def test_a_key_that_follows_a_pattern_is_refused(tmp_path, monkeypatch, key):
    """In Python, in a file, in the environment, and in a ring, at each of its places."""
    for given in ({"key": key}, {"key": KEY, "later": [(5, key)]}):
        with pytest.raises(ValueError, match="follow a pattern") as caught:
            lk.randomness.keyed(**given)
        assert repr(key) not in str(caught.value)
    file = tmp_path / "edge.key"
    for ring in (Keyring(key), Keyring(key).rotated(5, KEY), Keyring(KEY).rotated(5, key)):
        file.write_bytes(ring.encode())
        file.chmod(0o600)
        monkeypatch.setenv("LDP_KAFKA_EDGE_KEY", base64.b64encode(ring.encode()).decode())
        for path, where in ((file, "edge.key"), (None, "LDP_KAFKA_EDGE_KEY")):
            with pytest.raises(ConfigurationError, match=f"{where} holds a key .* pattern"):
                read_key(path)


@cases("key", [KEY, OTHER, KEY[::-1], KEY + b"\0", KEY[:32] + bytes(16), b"a" * 31 + b"b"])
def test_any_other_key_is_taken(tmp_path, key):
    """Also one that begins again, but never ends its period."""
    lk.randomness.keyed(key)
    assert Keyring.decode(key).first == key


def test_random_keys_are_taken():
    """One of 2**119 is not."""
    for _ in range(2000):
        lk.randomness.keyed(os.urandom(32))


def test_no_page_shows_a_key_that_anybody_can_guess():
    """Who copies a snippet gets a key of their own."""
    root = Path(lk.__file__).parents[1]
    pages = [
        page
        for page in root.rglob("*.md")
        if not any(part[0] == "." for part in page.relative_to(root).parts)
    ]
    assert root / "README.md" in pages
    shown = [found for page in pages for found in re.findall(r"bytes\(range.*", page.read_text())]
    assert not shown
