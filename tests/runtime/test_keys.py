"""Who may read the edge's key, beside whom it is refused."""

from __future__ import annotations

import base64
import os
from itertools import pairwise
from types import SimpleNamespace

import pytest

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.runtime.keys import VARIABLE, Keyring, is_private, new_key, read_key
from tests import keys
from tests.cases import cases

ROOT, ME = 0, 10001


@cases(
    ("mode", "owner", "user", "private"),
    [
        (0o600, ME, ME, True),
        (0o400, ME, ME, True),
        (0o440, ME, ME, False),  # whoever is in my group
        (0o604, ME, ME, False),
        (0o440, ROOT, ME, True),  # systemd's credentials, and Secrets with an fsGroup
        (0o640, ROOT, ME, True),
        (0o460, ROOT, ME, False),
        (0o450, ROOT, ME, False),
        (0o444, ROOT, ME, False),
        (0o441, ROOT, ME, False),
        (0o440, ROOT, ROOT, False),  # root's own needs no group
        (0o600, ROOT, ROOT, True),
        (0o440, ME + 1, ME, False),
    ],
)
def test_who_may_read_it(mode, owner, user, private):
    found = SimpleNamespace(st_mode=0o100000 | mode, st_uid=owner)
    assert is_private(found, user) is private


def test_a_key_that_a_group_reads(tmp_path, monkeypatch):
    """Of root's it is taken, of anybody's not."""
    path = tmp_path / "edge.key"
    new_key(path)
    path.chmod(0o440)
    found = path.stat()
    monkeypatch.setattr(os, "geteuid", lambda: ME)
    for owner in (ROOT, ME):
        stat = SimpleNamespace(st_mode=found.st_mode, st_uid=owner)
        monkeypatch.setattr(type(path), "stat", lambda _, stat=stat: stat)
        if owner == ROOT:
            assert len(read_key(path).first) == 32
        else:
            with pytest.raises(ConfigurationError, match="chmod 600"):
                read_key(path)


KEY, LATER = keys.KEY + keys.OTHER[:8], keys.OTHER + keys.KEY[:8]
RING = Keyring(KEY, ((1_800_000_000_000, LATER),))


@cases("ring", [Keyring(KEY), RING])
@cases("space", ["\n", "\r\n", " ", "\t", "\n\n"])
def test_white_space_in_a_pasted_key_does_not_matter(ring, space, monkeypatch):
    """At its ends and where it is wrapped, as base64 does after 76 characters; nowhere else."""
    text = base64.b64encode(ring.encode()).decode()
    wrapped = space.join(text[a:b] for a, b in pairwise([*range(0, len(text), 19), None]))
    for pasted in (text + space, space + text, wrapped, wrapped + space):
        monkeypatch.setenv(VARIABLE, pasted)
        assert read_key(None) == ring
    for broken in (text[:-1], text + "!", text[:8] + "-" + text[9:], "=" + text):
        monkeypatch.setenv(VARIABLE, broken)
        with pytest.raises(ConfigurationError, match=r"must be base64 \(white space does not"):
            read_key(None)


@cases("end", [b"\r\n", b"\n\n", b" \n"])
def test_a_ring_with_other_ends_of_lines_is_the_same_ring(end):
    """And never a key by itself, which its text would be, too."""
    assert Keyring.decode(RING.encode().replace(b"\n", end)) == RING
    for broken in (RING.encode().replace(b"=", b"!"), RING.encode()[:20], RING.encode()[:19]):
        with pytest.raises(ConfigurationError, match="not a ring of keys"):
            Keyring.decode(broken)


def test_a_key_file_is_taken_byte_for_byte(tmp_path):
    """Its bytes are random: white space among them is a part of it."""
    for content in (b" " * 4 + KEY, KEY + b"\n", KEY):
        path = tmp_path / "edge.key"
        path.write_bytes(content)
        path.chmod(0o600)
        assert read_key(path).first == content
