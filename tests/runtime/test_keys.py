"""Who may read the edge's key, beside whom it is refused."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.runtime.keys import is_private, new_key, read_key
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
