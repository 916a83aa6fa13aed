"""A database whose pages are of more than one commit: an older copy beside the write-ahead log of a
process that was killed. Its count of commits is that of the log; its users are not.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from random import Random

import pytest

from ldp_kafka.errors import StateError
from ldp_kafka.runtime.device import store
from tests.runtime.device.lives import (
    FIRST,
    SLOT,
    TOPOLOGIES,
    Cut,
    Plan,
    connection,
    opened,
)
from tests.runtime.device.test_client_hostile import TOPOLOGIES as ASKED
from tests.runtime.device.test_client_hostile import asking

TWO = "put together of two commits"
TIMES = [(FIRST + slot) * SLOT for slot in range(9)]
USERS = 200


def killed(folder, user, time, text=TOPOLOGIES["sw_direct"]):
    """Database and log as a client leaves them that is killed after a report."""
    client = opened(folder, text)
    client.report(1.0 if text is TOPOLOGIES["sw_direct"] else 1, time, user=user)
    shutil.copytree(folder, folder.parent / "killed")
    client.close()
    return folder.parent / "killed"


@pytest.fixture
def device(disk):
    """A folder with a device of many users, all of whom have reported once."""
    folder = disk / "device"
    folder.mkdir()
    with opened(folder) as client:
        for user in range(USERS):
            client.report(1.0, TIMES[0], user=f"u{user}")
    return folder


def reported(folder, user, time):
    """A life in which one user reports, and which ends in order."""
    with opened(folder) as client:
        assert client.report(1.0, time, user=user) == "sent"


def versions(folder):
    """Schema and row of the commits of a database that is closed."""
    with closing(sqlite3.connect(folder / "m.db")) as db:
        schema = db.execute("PRAGMA user_version").fetchone()[0]
        return schema, db.execute("SELECT * FROM commits").fetchone()


def made_older(folder):
    """The database as the version before had it: without a checksum."""
    with closing(sqlite3.connect(folder / "m.db", isolation_level=None)) as db:
        db.execute("UPDATE commits SET number = -number")
        db.execute("ALTER TABLE commits DROP COLUMN contents")
        db.execute("PRAGMA user_version=2")
        db.execute("PRAGMA journal_mode=DELETE")


def test_an_older_database_beside_a_later_log_is_refused(device):
    """The log has the count of commits, and the page of one user; that of another, who reported
    between, is in the database alone. The last one is taken, with its log, and without one.
    """
    backup = (device / "m.db").read_bytes()
    reported(device, "u0", TIMES[1])
    left = killed(device, f"u{USERS - 1}", TIMES[1])
    last = shutil.copytree(left, left.with_name("last"))
    (left / "m.db").write_bytes(backup)
    for _ in range(2):  # SQLite folds up the log when the first start ends
        with pytest.raises(StateError, match=TWO):
            opened(left)
    for folder in (last, device):
        with opened(folder) as client:
            for user in ("u0", f"u{USERS - 1}"):
                assert client.report(1.0, TIMES[1], user=user) == "late"
                assert client.report(1.0, TIMES[2], user=user) == "sent"


def test_what_was_asked_is_of_the_same_commit(disk):
    """A request that was answered is not forgotten in the same way."""
    folder, text = disk / "device", ASKED["lba"]
    folder.mkdir()
    with opened(folder, text) as client:
        client.report(1, TIMES[0])
        client.answer(asking("lba", 0, Random(1)))
    backup = (folder / "m.db").read_bytes()
    with opened(folder, text) as client:
        client.report(1, TIMES[1])
        client.answer(asking("lba", 1, Random(1)))
    left = killed(folder, "m", TIMES[2], text)
    opened(left, text).close()
    shutil.rmtree(left)
    left = killed(folder, "m", TIMES[3], text)
    (left / "m.db").write_bytes(backup)
    with pytest.raises(StateError, match=TWO):
        opened(left, text)


def test_a_state_that_is_another_is_refused(device):
    """A single user's, with the right count; or a user who is not there."""
    whole = (device / "m.db").read_bytes()
    for change in (
        "UPDATE users SET state = zeroblob(length(state)) WHERE rowid = 7",
        "DELETE FROM users WHERE rowid = 7",
        "INSERT INTO users SELECT zeroblob(16), state FROM users WHERE rowid = 7",
        "UPDATE commits SET contents = NULL",
    ):
        (device / "m.db").write_bytes(whole)
        with closing(sqlite3.connect(device / "m.db", isolation_level=None)) as db:
            assert db.execute(change).rowcount == 1
        with pytest.raises(StateError, match=TWO):
            opened(device)
    (device / "m.db").write_bytes(whole)
    opened(device).close()


def test_a_database_without_a_checksum_gets_one(device):
    """At the first start, once it is known that it belongs there; what was spent stays spent."""
    made_older(device)
    assert versions(device) == (2, (USERS,))
    before = (device / "m.db").read_bytes()
    with pytest.raises(StateError, match="under another fingerprint"):
        opened(device, TOPOLOGIES["sw_direct"].replace("epsilon: 3.0", "epsilon: 4.0"))
    assert versions(device) == (2, (USERS,))
    opened(device).close()
    schema, (number, contents) = versions(device)
    assert (schema, number, len(contents)) == (3, -USERS, 32)
    with opened(device) as client:
        assert client.report(1.0, TIMES[0], user="u7") == "late"
        assert client.report(1.0, TIMES[1], user="u7") == "sent"
    assert versions(device)[1][0] == -USERS - 1
    (device / "m.db").write_bytes(before)
    with pytest.raises(StateError, match="older copy"):
        opened(device)


def test_a_database_without_a_checksum_beside_a_later_log_is_refused(device):
    """It was copied before the checksum came: it gets none of its own."""
    made_older(device)
    backup = (device / "m.db").read_bytes()
    reported(device, "u0", TIMES[1])
    left = killed(device, f"u{USERS - 1}", TIMES[1])
    (left / "m.db").write_bytes(backup)
    with pytest.raises(StateError, match="older copy: it has 0 commits"):
        opened(left)


def test_a_checksum_is_there_whole_or_not_at_all(disk, monkeypatch):
    """A cut before every step of the first start, and the next one goes on."""
    older = disk / "older"
    older.mkdir()
    with opened(older) as client:
        client.report(1.0, TIMES[0])
    made_older(older)
    schemas = []
    for at in range(1, 100):
        place, after, plan = disk / f"at{at}", disk / f"after{at}", Plan(at)
        shutil.copytree(older, place)
        plan.cut = lambda place=place, after=after: shutil.copytree(place, after)
        faulty = connection(plan)
        with monkeypatch.context() as patch:
            patch.setattr(
                store,
                "_connect",
                lambda path, faulty=faulty: sqlite3.connect(
                    path, isolation_level=None, check_same_thread=False, factory=faulty
                ),
            )
            try:
                client = opened(place)
            except Cut:
                pass
            else:
                plan.over, plan.at = False, None
                client.close()
                break
        with closing(sqlite3.connect(shutil.copytree(after, disk / f"seen{at}") / "m.db")) as db:
            schemas.append(db.execute("PRAGMA user_version").fetchone()[0])
        with opened(after) as client:
            assert client.report(1.0, TIMES[0]) == "late"
            assert client.report(1.0, TIMES[1]) == "sent"
        assert versions(after)[0] == 3
    assert schemas == sorted(schemas) and set(schemas) == {2, 3}
