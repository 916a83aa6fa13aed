"""The ids of a curator's streams: public names, which releases are keyed by. Of users nobody keeps
any.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldp_kafka.errors import StateError
from ldp_kafka.randomness import Ids
from ldp_kafka.runtime.stages.users import Users
from ldp_kafka.runtime.wire.arrow import read_batch, write_batch

__all__ = ["Names"]

RECORD = "names-"  # begins the name of each record


class Names:
    """The id of each row of some streams.

    Parameters
    ----------
    users : whose rows they are
    shards : of the streams: each has a record of its own
    """

    def __init__(self, users: Users, shards: int) -> None:
        self._users, self._shards = users, shards
        self._texts: list[str | None] = []
        self._known = np.empty(0, np.bool_)  # of each row
        self._changed: set[int] = set()

    def __repr__(self) -> str:
        return f"Names({len(self._texts)})"

    def note(self, rows: NDArray[np.intp], ids: Ids) -> None:
        """These rows (n,) have these ids."""
        count = self._users.state.count
        self._texts += [None] * (count - len(self._texts))
        if count > len(self._known):
            self._known = np.append(self._known, np.zeros(count, np.bool_))  # grows by doubling
        at = np.flatnonzero(~self._known[rows])
        self._known[rows] = True
        for row, text in zip(rows[at].tolist(), ids.take(at).texts(), strict=True):
            self._texts[row] = text
            self._changed.add(int(self._users.shard[row]))

    def of(self, rows: NDArray[np.intp]) -> list[str]:
        """Of rows (n,), all of which were noted."""
        found = [self._texts[row] for row in rows.tolist()]
        assert all(text is not None for text in found)
        return [text for text in found if text is not None]

    @staticmethod
    def is_record(name: str) -> bool:
        """Whether a record of this name holds ids."""
        return name.startswith(RECORD)

    def dirty(self) -> set[str]:
        """Names of the records that changed since the last call."""
        found = {f"{RECORD}{shard}" for shard in self._changed}
        self._changed.clear()
        return found

    def records(self) -> set[str]:
        """Names of all records that hold anything."""
        rows = [row for row, text in enumerate(self._texts) if text is not None]
        return {f"{RECORD}{shard}" for shard in np.unique(self._users.shard[rows]).tolist()}

    def dump(self, names: Iterable[str]) -> dict[str, bytes]:
        """Those of these records that hold anything."""
        held: dict[str, list[str]] = {name: [] for name in names if self.is_record(name)}
        if not held:
            return {}
        for row, text in enumerate(self._texts):
            name = f"{RECORD}{self._users.shard[row]}"
            if text is not None and name in held:
                held[name].append(text)
        return {
            name: write_batch("state", ["stream"], [pa.array(texts, pa.string())])
            for name, texts in sorted(held.items())
            if texts
        }

    def load(self, records: Mapping[str, bytes]) -> None:
        """Take in what `dump` wrote."""
        for _, payload in sorted(records.items()):
            ids = self.read(payload)
            self.note(self._users.rows(ids), ids)
        self._changed.clear()

    @staticmethod
    def read(payload: bytes) -> Ids:
        """The ids in one record. StateError, BadRecord: it is none."""
        batch = read_batch(payload)[0]
        if batch.schema.names != ["stream"]:
            raise StateError("a record of ids in the changelog has other columns than it must have")
        return Ids.of(batch.column(0).to_pylist())
