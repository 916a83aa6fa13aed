"""The counter's lock: one process at a time reports for a device, with one database, whatever else
opens and closes its files.
"""

from __future__ import annotations

import fcntl
import gc
import os
import shutil

import pytest

from ldp_kafka.errors import StateError
from ldp_kafka.runtime.device import provisioning
from ldp_kafka.runtime.device.counter import Counter
from ldp_kafka.runtime.device.store import DeviceStore
from tests.runtime.device.lives import FIRST, SLOT, TOPOLOGIES, Broker, in_a_process, opened

TIMES = [(FIRST + slot) * SLOT for slot in range(9)]

REFUSED = """
import sys
import pytest
from ldp_kafka.errors import StateError
from tests.runtime.device.lives import opened
with pytest.raises(StateError, match="in use"):
    opened(sys.argv[1])
"""


def forked(folder):
    """What the start of a client says in a forked child; empty where it opens."""
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        said = b"it did not end"
        try:
            opened(folder).close()
            said = b""
        except StateError as error:
            said = str(error).encode()
        finally:
            os.write(writes, said)
            os._exit(0)
    os.close(writes)
    with os.fdopen(reads, "rb") as file:
        said = file.read().decode()
    assert os.waitpid(child, 0)[1] == 0
    return said


def copied(folder):
    """A copy of the database alone, beside it."""
    return shutil.copy2(folder / "m.db", folder / "copy.db")


def test_a_copy_of_the_database_is_not_opened_beside_it(tmp_path):
    """With one key and one counter, neither has reported since it was made: the second is refused,
    whichever it is, and is an older copy once the first has reported.
    """
    with opened(tmp_path) as client:
        client.report(1.0, TIMES[0])
    copy = copied(tmp_path)
    with opened(tmp_path) as client:
        with pytest.raises(StateError, match=r"m\.key\.count is in use.*only with one database"):
            opened(tmp_path, database=copy)
        assert client.report(1.0, TIMES[1]) == "sent"
    with pytest.raises(StateError, match="older copy"):
        opened(tmp_path, database=copy)
    with opened(tmp_path) as client:
        assert client.report(1.0, TIMES[2]) == "sent"


def test_a_copy_of_the_database_has_no_commit_where_nothing_is_locked(tmp_path, monkeypatch):
    """A file system on which every lock succeeds: the counter is read before each commit, so that
    the copy writes nothing, and sends nothing, in this life or the next.
    """
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    with opened(tmp_path) as client:
        client.report(1.0, TIMES[0])
    copy, broker = copied(tmp_path), Broker()
    with opened(tmp_path) as first:
        second = opened(tmp_path, database=copy, producer=broker)
        assert first.report(0.0, TIMES[1]) == "sent"
        for match in ("changed or replaced", "anew"):
            with pytest.raises(StateError, match=match):
                second.report(100.0, TIMES[1])
        second.close()
        assert first.report(0.0, TIMES[2]) == "sent"
    assert not broker.left
    with pytest.raises(StateError, match="older copy"):
        opened(tmp_path, database=copy)


@pytest.mark.parametrize("change", ["removed", "replaced", "older"])
def test_a_counter_that_changes_under_a_client(change, tmp_path):
    """Stops it before its next commit: a counter that was replaced locks nobody out, and would not
    have the commits that follow. What was sent before is still counted.
    """
    with opened(tmp_path) as client:
        client.report(1.0, TIMES[0])
        counter = tmp_path / "m.key.count"
        older = counter.read_bytes()
        client.report(1.0, TIMES[1])
        kept = counter.read_bytes()
        if change == "removed":
            counter.unlink()
        elif change == "replaced":
            counter.rename(tmp_path / "away")
            counter.write_bytes(kept)
        else:
            counter.write_bytes(older)
        with pytest.raises(StateError, match="changed or replaced"):
            client.report(1.0, TIMES[2])
        assert len(client._queue._producer.left) == 2
    counter.write_bytes(kept)
    with opened(tmp_path) as client:
        assert [client.report(1.0, time) for time in TIMES[1:3]] == ["late", "sent"]


@pytest.mark.parametrize("name", ["m.db", "m.key.count"])
def test_a_file_that_is_read_in_the_process_stays_locked(name, tmp_path):
    """A backup in the same process opens and closes it, and POSIX drops what SQLite had locked:
    another process is refused all the same.
    """
    with opened(tmp_path) as client:
        client.report(1.0, TIMES[0])
        (tmp_path / name).read_bytes()
        in_a_process(REFUSED, tmp_path)  # a forked child has what SQLite noted of the file, too
        with pytest.raises(StateError, match="in use"):
            opened(tmp_path)
        assert client.report(1.0, TIMES[1]) == "sent"
    assert forked(tmp_path) == ""


@pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning")
def test_the_lock_ends_with_the_client(tmp_path):
    """Be it closed, let go of, or never opened; and a second close of a number that is another
    file's by then does not end that one's.
    """
    opened(tmp_path).close()
    with pytest.raises(StateError, match="under another fingerprint"):
        opened(tmp_path, TOPOLOGIES["sw_direct"].replace("epsilon: 3.0", "epsilon: 4.0"))
    client = opened(tmp_path)
    del client  # nobody closed it
    gc.collect()
    with opened(tmp_path) as client:
        first = client._store._counter
    with opened(tmp_path) as client:
        first.close()
        assert "in use" in forked(tmp_path)


def test_a_forked_child_keeps_no_lock(tmp_path):
    """It has the parent's, which must not end while the parent lives, nor outlive it for a child
    that does something else.
    """
    with opened(tmp_path) as client:
        client.report(1.0, TIMES[0])
        begins, ends = os.pipe()
        child = os.fork()
        if not child:
            os.close(ends)
            os.read(begins, 1)  # until the parent says so
            os._exit(0)
        try:
            os.close(begins)
            assert "in use" in forked(tmp_path)
            client.close()
            assert forked(tmp_path) == ""
        finally:
            os.close(ends)
            assert os.waitpid(child, 0)[1] == 0


def test_provisioning_has_the_lock(tmp_path, monkeypatch):
    """A start meanwhile does not find the database half made."""
    made = []

    def make(path, bound):
        with pytest.raises(StateError, match="in use"):
            Counter(tmp_path / "m.key.count")
        made.append(path)
        DeviceStore.make(path, bound)

    monkeypatch.setattr(provisioning, "DeviceStore", type("Made", (), {"make": staticmethod(make)}))
    opened(tmp_path).close()
    assert made == [tmp_path / "m.db"]


def test_a_file_system_without_locks_is_refused(tmp_path, monkeypatch):
    """Rather than that two databases report for one device."""
    opened(tmp_path).close()

    def unsupported(file, operation):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    with pytest.raises(StateError, match=r"cannot be locked \(Operation not supported\)"):
        opened(tmp_path)
