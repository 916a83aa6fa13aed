"""What the version before wrote of windows is read on: the same events give the same records."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path

import pytest

from ldp_kafka.errors import StateError
from ldp_kafka.runtime.kafka.changelog import key_bytes, read_key
from ldp_kafka.runtime.recovery.checkpoints import READ, WINDOWED, checkpoints
from ldp_kafka.runtime.recovery.keys import place_of
from tests.fold.epochs import Shelf, folded, opened, saved
from tests.runtime.recovery.changelogs import CASES, by_topic, log_of, stage_of
from tests.runtime.written import digest

KEPT = json.loads(Path(__file__).with_name("version_4.json").read_text())
LOG = log_of(KEPT)


def table_of(case, *parts):
    """A changelog of the file, as `changelog.compacted` reads it."""
    written = {key: value for part in parts for key, value in KEPT["cases"][case][part].items()}
    return {read_key(key.encode()): b64decode(value) for key, value in written.items()}


def first_of(table):
    """The offset behind the checkpoint's."""
    [found] = checkpoints(table, 0)
    assert found.meta["version"] == 4
    return found.offset + 1


@pytest.mark.parametrize("parts", [("whole",), ("whole", "torn")], ids=" and ".join)
@pytest.mark.parametrize("case", CASES)
def test_a_state_of_version_4_is_read_on(case, parts):
    """The records of the rest are those that the version before made of it, also where a crash left
    shards ahead of their meta; then the state has the new keys alone, and is read again.
    """
    table, stage = table_of(case, *parts), stage_of(case)
    wanted = KEPT["cases"][case]["rest" if parts == ("whole",) else "rest after the crash"]
    first = first_of(table)
    rest = [message for message in LOG if message.offset >= first]
    panes = [key for key in table if "." in place_of(key)]
    assert panes and all(isinstance(key, str) for key in panes)
    for cut in range(len(rest)):
        shelf = Shelf(table)
        epoch = opened(stage, want=first, committed=True, shelf=shelf)
        made = folded(epoch, rest[:cut])
        now = saved(epoch)
        [found] = checkpoints(now, 0, stage.seal)
        assert found.complete and found.meta["version"] == WINDOWED
        assert not any("." in key for key in now if isinstance(key, str))
        again = opened(stage, want=first + cut, committed=True, held=now)
        made += folded(again, rest[cut:])
        assert [len(made), digest(by_topic(made))] == wanted


@pytest.mark.parametrize("case", CASES)
def test_old_keys_go_as_they_were_written(case):
    """Each record of the old epoch is deleted under the key that it has at the broker."""
    table, stage = table_of(case, "whole"), stage_of(case)
    epoch = opened(stage, want=first_of(table), committed=True, held=table)
    dropped = {key_bytes(key) for key in epoch.snapshot().drop}
    assert dropped == {key.encode() for key in KEPT["cases"][case]["whole"]}


@pytest.mark.parametrize("version", [3, max(READ) + 1])
def test_other_versions_are_refused(version, monkeypatch):
    """The one before version 4, and one that is to come."""
    stage = stage_of("curate sliding")
    epoch = opened(stage, want=LOG[0].offset)
    folded(epoch, LOG[:9])
    monkeypatch.setattr("ldp_kafka.runtime.recovery.epoch.WINDOWED", version)
    held = saved(epoch)
    with pytest.raises(StateError, match=f"of version {version}, this program reads versions 4 an"):
        opened(stage, want=LOG[0].offset, committed=True, held=held)
