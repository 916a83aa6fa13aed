"""A device's database, one SQLite file: the state of its users and the reports still to send.

State and outgoing reports change in one transaction, made durable (write-ahead log,
``synchronous=FULL``) before it ends: a power cut leaves both or neither. Each commit is counted
beside the key before anything of it is handed over, if need be at the next start. The file is bound
to the topology's fingerprint and to the key, and one process at a time may open it. After any error
of SQLite nothing is written through this object again: after a failed write, only what is read from
the disk anew can be relied on.

===========  ===================================================================================
table      rows
===========  ===================================================================================
``bound``    ``name``, ``value``: what the file belongs to
``commits``  one row: ``number``, how many there were, negative (in files of schema 2 it is
             positive); ``contents``, the checksum of ``users`` and ``asked`` after the last one
``users``    ``digest`` (16 bytes, keyed), ``state``: the method's arrays of one user,
             little-endian, one after the other
``queue``    ``seq`` (never used again), ``id`` (of the report), ``payload``: until the broker has
             acknowledged it
``held``     ``digest``, ``slot``, ``code``, ``since``: a value that waits for the request of its
             slot, in clear as all that is in this file; what is deleted is overwritten with zeros
             (``secure_delete``), and in the write-ahead log with the next pages that come there
``asked``    ``told``: what is known of the requests so far, one row of JSON
===========  ===================================================================================
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

from ldp_kafka.errors import ConfigurationError, StateError
from ldp_kafka.runtime.device.contents import SIZE, all_rows, one_row
from ldp_kafka.runtime.device.counter import Counter
from ldp_kafka.runtime.device.folder import sync_folder
from ldp_kafka.runtime.device.forks import never_freed, watch_forks

__all__ = ["DeviceStore", "Held"]

APPLICATION = 0x6C64706B  # "ldpk": what `file` and SQLite know it by
SCHEMA = 3
UNSUMMED = 2  # without a checksum: the first start gives it one
BINDINGS = {
    "topology": "it belongs to another topology",
    "fingerprint": (
        "a privacy parameter or the slot of the topology changed; give the topology a new name and"
        " this device a new database, or bring the old parameters back"
    ),
    "deployment": (
        "it was provisioned for another one, and a report is bound to it; bring its database back"
    ),
    "key": (
        "the device's key changed; bring the old one back: under a new one every budget would look"
        " unspent"
    ),
    "layout": (
        "input.partitions or per_user in output.statistics changed; give the topology a new name"
        " and this device a new database, or bring the old ones back"
    ),
    "fields": "another version of the method wrote it",
}
"""What a file is bound to, and what to say where it is another's."""
_TABLES = (
    "CREATE TABLE bound (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE commits (number INTEGER NOT NULL, contents BLOB)",
    "INSERT INTO commits VALUES (0, zeroblob(32))",
    "CREATE TABLE users (digest BLOB PRIMARY KEY, state BLOB NOT NULL)",
    (
        "CREATE TABLE queue (seq INTEGER PRIMARY KEY AUTOINCREMENT, id BLOB NOT NULL UNIQUE,"
        " payload BLOB NOT NULL)"
    ),
    (
        "CREATE TABLE held (digest BLOB, slot INTEGER, code INTEGER NOT NULL, since INTEGER NOT"
        " NULL, PRIMARY KEY (digest, slot))"
    ),
    "CREATE TABLE asked (one INTEGER PRIMARY KEY CHECK (one = 1), told TEXT NOT NULL)",
)
_STATE = "INSERT INTO users VALUES (?, ?) ON CONFLICT (digest) DO UPDATE SET state = excluded.state"
_COUNTED = "UPDATE commits SET number = ?, contents = ?"
_TOLD = "INSERT INTO asked VALUES (1, ?) ON CONFLICT (one) DO UPDATE SET told = excluded.told"
_ASKED = b"asked"  # the name of its row in the checksum; those of users have 16 bytes
_Work = tuple[str, tuple[Any, ...]]


class Held(NamedTuple):
    """A value that waits for a request."""

    slot: int
    code: int
    since: int
    """When it was put there, milliseconds of the device's clock."""

    def __repr__(self) -> str:
        return f"Held(slot={self.slot})"  # never the value


class DeviceStore:
    """The open file.

    Parameters
    ----------
    path : of the file; SQLite keeps ``-wal`` beside it
    counter : of its commits

    Raises
    ------
    ConfigurationError : it cannot be opened, or others can read it
    StateError : it is missing, empty, damaged, an older copy or put together of two, another
        process has it, or another version wrote it
    """

    def __init__(self, path: Path, counter: Path) -> None:
        self._path, self.failed, self._abandoned = path, False, False
        _look(path)
        self._counter = Counter(counter)
        try:
            self._db = _connect(path)
        except BaseException:
            self._counter.close()
            raise
        try:
            self._open()
        except sqlite3.Error as error:
            self._release()
            raise self._broken(error) from None
        except BaseException:
            self._release()
            raise
        watch_forks(self)

    def _open(self) -> None:
        ask = self._db.execute
        ask("PRAGMA locking_mode=EXCLUSIVE")  # two processes would spend one budget twice
        if ask("PRAGMA journal_mode=WAL").fetchone() != ("wal",):
            raise StateError(f"{self._path}: this file system cannot hold SQLite's write-ahead log")
        ask("PRAGMA synchronous=FULL")
        ask("PRAGMA fullfsync=ON")  # on macOS fsync alone does not reach the disk
        ask("PRAGMA secure_delete=ON")  # a value that was let go is in no free page
        ask("BEGIN IMMEDIATE")
        if ask("PRAGMA integrity_check").fetchall() != [("ok",)]:
            raise StateError(
                f"{self._path} is damaged: what its users have spent is not known; give the"
                " topology a new name and this device a new database and key"
            )
        application, schema = (
            ask(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
        )
        if (application, schema) == (0, 0) and not ask(
            "SELECT count(*) FROM sqlite_master"
        ).fetchone()[0]:
            raise StateError(
                f"{self._path} is empty, and a device that has reported must not begin anew: bring"
                " the old one back"
            )
        if application != APPLICATION:
            raise StateError(f"{self._path} is not a device's database")
        if schema not in (UNSUMMED, SCHEMA):
            raise StateError(
                f"{self._path} was written by another version: schema {schema}, not {SCHEMA}"
            )
        self.bound = dict(ask("SELECT name, value FROM bound").fetchall())
        """What it belongs to, under the names in ``BINDINGS``."""
        self._summed = schema == SCHEMA
        if self._summed:
            number, summed = ask("SELECT number, contents FROM commits").fetchone()
            # negative, so that a file of schema 2 that was brought back beside the log of this one
            # has too few, and is not summed up as it is
            self._commits = -number
        else:
            (self._commits,) = ask("SELECT number FROM commits").fetchone()
        if self._commits < self._counter.least:
            raise StateError(
                f"{self._path} is an older copy: it has {max(self._commits, 0)} commits, and the"
                f" counter beside the key says {self._counter.least}: bring the last one back; in"
                " this one budgets look unspent that are spent"
            )
        self._contents = all_rows(ask("SELECT digest, state FROM users"))
        # a file of before there were requests has no such table
        if ask("SELECT 1 FROM sqlite_master WHERE name = 'asked'").fetchone():
            for (told,) in ask("SELECT told FROM asked"):
                self._contents ^= one_row(_ASKED, told.encode())
        if self._summed and summed != _stored(self._contents):
            raise StateError(
                f"{self._path} is put together of two commits: an older copy was brought back"
                f" without the {self._path.name}-wal beside it, or with another's. Bring back the"
                " last one, with its own; in this one budgets look unspent that are spent"
            )
        ask("COMMIT")

    @classmethod
    def make(cls, path: Path, bound: Mapping[str, str]) -> None:
        """A new file, of nobody yet: on the disk when it returns.

        Parameters
        ----------
        bound : what it belongs to, under the names in ``BINDINGS``

        Raises
        ------
        ConfigurationError : it is there, or cannot be made
        """
        _make(path)
        with closing(_connect(path)) as made:
            made.execute("PRAGMA synchronous=FULL")
            made.execute("PRAGMA fullfsync=ON")
            made.execute("BEGIN IMMEDIATE")
            for statement in (
                *_TABLES,
                f"PRAGMA application_id={APPLICATION}",
                f"PRAGMA user_version={SCHEMA}",
            ):
                made.execute(statement)
            for name in BINDINGS:
                made.execute("INSERT INTO bound VALUES (?, ?)", (name, bound[name]))
            made.execute("COMMIT")

    def require(self, bound: Mapping[str, str]) -> None:
        """StateError where it belongs to something else."""
        for name, changed in BINDINGS.items():
            if self.bound.get(name) != bound[name]:
                raise StateError(f"{self._path} was written under another {name}: {changed}")

    def catch_up(self) -> None:
        """Count the commit that a life before made and did not count: from now on a copy without it
        is an older one. Once it is known that the file belongs here, and before anything is sent.
        A file of schema 2 gets its checksum before.

        Raises
        ------
        StateError : it could not be written; nothing may be sent, and the file must be opened anew
        """
        if not self._summed:
            self._write(
                [
                    ("ALTER TABLE commits ADD COLUMN contents BLOB", ()),
                    (_COUNTED, (-self._commits, _stored(self._contents))),
                    (f"PRAGMA user_version={SCHEMA}", ()),
                ]
            )
            self._summed = True
        if self._commits == self._counter.least:
            return
        # what was killed had perhaps not synced it, and no count may outlive its commit
        ((busy, *_),) = self._ask("PRAGMA wal_checkpoint(FULL)")
        if busy:
            raise StateError(f"{self._path} could not be synced: open the client anew")
        self._counter.count(self._commits)

    def state(self, digest: bytes) -> bytes | None:
        """The arrays of one user; None for a new one."""
        row = self._ask("SELECT state FROM users WHERE digest = ?", digest)
        return row[0][0] if row else None

    def waiting(self) -> list[int]:
        """What was not acknowledged, oldest first."""
        return [row[0] for row in self._ask("SELECT seq FROM queue ORDER BY seq")]

    def payload(self, seq: int) -> tuple[bytes, bytes]:
        """Report id and message of what waits under ``seq``."""
        found: tuple[bytes, bytes] = self._ask("SELECT id, payload FROM queue WHERE seq = ?", seq)[
            0
        ]
        return found

    def users(self) -> list[tuple[bytes, bytes]]:
        """Digest and arrays of everybody who has reported, in the order of digests."""
        return [tuple(row) for row in self._ask("SELECT digest, state FROM users ORDER BY digest")]

    def held(self, slot: int) -> dict[bytes, int]:
        """The values of a slot that wait for a request, by the digest of their user."""
        return dict(self._ask("SELECT digest, code FROM held WHERE slot = ?", slot))

    def asked(self) -> str | None:
        """What is known of the requests so far; None before the first."""
        row = self._ask("SELECT told FROM asked")
        return row[0][0] if row else None

    def expire(self, since: int) -> None:
        """Let go of the values that were put there at this time or before."""
        if self._ask("SELECT 1 FROM held WHERE since <= ? LIMIT 1", since):
            self._write([("DELETE FROM held WHERE since <= ?", (since,))])

    def commit(
        self,
        digest: bytes,
        state: bytes,
        reports: Sequence[tuple[bytes, bytes]],
        acknowledged: Iterable[int] = (),
        *,
        held: Held | None = None,
        through: int | None = None,
    ) -> list[int]:
        """One transaction: a user's new state, its reports (id, message) and the end of what was
        acknowledged. When it returns, all of it is on the disk.

        Parameters
        ----------
        held : the user's value, where it waits for a request
        through : the last slot that no request of the user's can come for

        Returns
        -------
        the ``seq`` of each report

        Raises
        ------
        StateError : it could not be written; nothing may be sent, and the file must be opened anew
        """
        work: list[_Work] = []
        if held is not None:
            work.append(("INSERT INTO held VALUES (?, ?, ?, ?)", (digest, *held)))
        if through is not None:
            work.append(("DELETE FROM held WHERE digest = ? AND slot <= ?", (digest, through)))
        return self._counted({digest: state}, work, reports, acknowledged)

    def answer(
        self,
        states: Iterable[tuple[bytes, bytes]],
        reports: Sequence[tuple[bytes, bytes]],
        acknowledged: Iterable[int],
        *,
        told: str,
        through: int,
    ) -> list[int]:
        """As `commit`, of a request: the new states of all users, what is known of requests from
        now on, and the end of all values of slots up to ``through``.
        """
        work: list[_Work] = [("DELETE FROM held WHERE slot <= ?", (through,))]
        return self._counted(dict(states), work, reports, acknowledged, told)

    def _counted(
        self,
        states: Mapping[bytes, bytes],
        work: list[_Work],
        reports: Sequence[tuple[bytes, bytes]],
        acknowledged: Iterable[int],
        told: str | None = None,
    ) -> list[int]:
        """A transaction that the counter counts, with these reports at its end."""
        contents = self._contents
        for digest, state in states.items():
            contents ^= one_row(digest, self.state(digest)) ^ one_row(digest, state)
            work.append((_STATE, (digest, state)))
        if told is not None:
            before = self.asked()
            contents ^= one_row(_ASKED, None if before is None else before.encode())
            contents ^= one_row(_ASKED, told.encode())
            work.append((_TOLD, (told,)))
        work += [("DELETE FROM queue WHERE seq = ?", (seq,)) for seq in acknowledged]
        work.append((_COUNTED, (-self._commits - 1, _stored(contents))))
        work += [("INSERT INTO queue (id, payload) VALUES (?, ?)", report) for report in reports]
        self._usable()
        self.failed = True  # until it is counted
        self._counter.require()  # before anything is written that another has written, too
        self.failed = False
        rows = self._write(work)
        self.failed = True
        self._counter.count(self._commits + 1)
        self._commits, self._contents = self._commits + 1, contents
        self.failed = False
        return rows[len(rows) - len(reports) :]

    def forget(self, acknowledged: Iterable[int]) -> None:
        """Delete the reports that the broker has acknowledged."""
        work = [("DELETE FROM queue WHERE seq = ?", (seq,)) for seq in acknowledged]
        if work:
            self._write(work)

    def close(self) -> None:
        """Close the file; in a forked child nothing happens to it."""
        if self._abandoned:
            return
        self._release()

    def _release(self) -> None:
        with suppress(sqlite3.Error):  # all that counts was committed
            self._db.close()
        self._counter.close()

    def abandon(self) -> None:
        """In a forked child: the file is the parent's. SQLite believes that it has it, and would
        fold up the log at the connection's end: so that must not come. The counter is closed here,
        so that its lock ends with the parent.
        """
        self.failed = self._abandoned = True
        self._counter.close()
        never_freed(self._db)

    def _ask(self, question: str, *parameters: Any) -> list[Any]:
        self._usable()
        try:
            return self._db.execute(question, parameters).fetchall()
        except sqlite3.Error as error:
            self.failed = True
            raise self._broken(error) from None

    def _write(self, work: Sequence[_Work]) -> list[int]:
        """All of it in one transaction; the row number of each."""
        self._usable()
        self.failed = True  # until it has ended well, whatever ends it
        try:
            self._db.execute("BEGIN IMMEDIATE")
            rows = [
                self._db.execute(statement, parameters).lastrowid or 0
                for statement, parameters in work
            ]
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            raise self._broken(error) from None
        self.failed = False
        return rows

    def _usable(self) -> None:
        if self.failed:
            raise StateError(f"{self._path} could not be written: open the client anew")

    def _broken(self, error: sqlite3.Error) -> StateError:
        name = getattr(error, "sqlite_errorname", "") or type(error).__name__
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return StateError(
                f"{self._path} is in use: one process at a time may report for its users"
            )
        if name in ("SQLITE_NOTADB", "SQLITE_CORRUPT"):
            return StateError(
                f"{self._path} is no SQLite database, or is damaged: bring it back, or give the"
                " topology a new name and this device a new database and key"
            )
        return StateError(
            f"{self._path} could not be read or written ({name}): open the client anew"
        )

    def __repr__(self) -> str:
        return f"DeviceStore({str(self._path)!r})"


def _stored(contents: int) -> bytes:
    return contents.to_bytes(SIZE, "big")


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        isolation_level=None,
        timeout=0.2,
        check_same_thread=False,
    )


def _look(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise ConfigurationError(f"database: {path}: {error.strerror}") from None
    if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
        raise ConfigurationError(f"database: {path} must be readable by its owner only: chmod 600")


def _make(path: Path) -> None:
    """An empty file that its owner alone can read; what SQLite puts beside it takes the mode from
    it.
    """
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise ConfigurationError(f"database: {path}: {error.strerror}") from None
    sync_folder(path)
