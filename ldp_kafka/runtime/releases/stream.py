"""Releases as they lie in their topic, each once: an iterator of records, and a table."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any, Self

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.records import Release
from ldp_kafka.runtime.kafka.reader import Kept
from ldp_kafka.runtime.releases.choosing import Choosing, Counts
from ldp_kafka.runtime.releases.columns import table_of
from ldp_kafka.runtime.releases.moves import moves_above
from ldp_kafka.runtime.releases.rows import Row, rows_of

__all__ = ["Releases"]


class Releases:
    """The releases of one topology: an iterator of `Release`, in the order of the log.

    Close it, or use it in a ``with`` statement: it holds a connection to the brokers, which also
    ends with the iteration and with the last reference. It is for one thread.

    A release that is written again, by a worker that goes on after a crash, comes once: the first
    time. pandas and polars take all of them as a table (`table`).

    Parameters
    ----------
    held : the records that the topic holds at this moment
    later : the records after these, as they come, and None whenever there are none; None: the
        iteration ends with ``held``
    choosing : what is wanted of them
    """

    def __init__(
        self,
        held: Generator[Kept, None, None],
        later: Callable[[], Generator[Kept | None, None, None]] | None,
        choosing: Choosing,
    ) -> None:
        # The generator knows nothing of this object: who drops it drops the connection
        self._held, self._at_hand = held, choosing.read(held, later)
        self._table: Any = None
        self.follows = later is not None
        """Whether it has no end."""
        self.counts: Counts = choosing.counts
        """What was found so far."""
        self.slot_ms = choosing.slot_ms
        """Length of a slot, milliseconds."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Release:
        for found in self._at_hand:
            if found is not None:
                return found
        raise StopIteration

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Releases({self.counts.given} so far)"

    def close(self) -> None:
        """End the iteration, and the connection; once more changes nothing."""
        self._at_hand.close()
        self._held.close()

    def at_hand(self) -> Iterator[Release | None]:
        """The same releases, and None whenever no more is there at the moment: when to write what
        waits to be written.
        """
        return self._at_hand

    def rows(self) -> Iterator[Row]:
        """The same as flat rows, a dict each number of each release: the columns are those of
        `ldp_kafka.runtime.releases.rows.COLUMNS`.
        """
        for release in self:
            yield from rows_of(release)

    def table(self) -> Any:
        """What has not been iterated yet as a `pyarrow.Table` of flat rows, sorted by slot,
        statistic, subject and position; the same table when it is asked for again.

        Raises
        ------
        ConfigurationError : it follows the topic, and has no end
        """
        if self.follows:
            raise ConfigurationError("a table needs an end: releases must be read without follow")
        if self._table is None:
            self._table = table_of(self.rows(), self.slot_ms)
        return self._table

    def moves(self, above: float) -> Any:
        """How often each user's, or stream's, releases move by more than ``above`` from one slot to
        the next: see `ldp_kafka.runtime.releases.moves.moves_above`.
        """
        return moves_above(self.table(), above)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The table, for whatever takes the Arrow PyCapsule interface."""
        return self.table().__arrow_c_stream__(requested_schema)
