"""Consecutive messages of one partition as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, groupby
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.runtime.log import Message

__all__ = ["Run"]

_message: Callable[[Any], Message] = partial(tuple.__new__, Message)  # its own is Python


class Run(Sequence[Message]):
    """Messages (n,) of one partition, in rising order of their offsets: columns for who folds them
    together, and a `Message` each for who takes them one by one.
    """

    __slots__ = ("_size", "offsets", "timestamps", "values")

    def __init__(
        self,
        offsets: NDArray[np.int64],
        timestamps: NDArray[np.int64],
        values: Sequence[bytes | None],
    ) -> None:
        self.offsets, self.timestamps, self.values = offsets, timestamps, values
        self._size: int | None = None

    @property
    def size(self) -> int:
        """Bytes of all values."""
        if self._size is None:  # several ask, and to sum them up takes as long as to read a field
            self._size = sum(map(len, filter(None, self.values)))
        return self._size

    @classmethod
    def of(cls, messages: Sequence[Message]) -> Run:
        """The same messages as columns."""
        if isinstance(messages, Run):
            return messages
        offsets, timestamps, values = zip(*messages, strict=True) if messages else ((), (), ())
        return cls(np.array(offsets, np.int64), np.array(timestamps, np.int64), values)

    @classmethod
    def join(cls, parts: Sequence[Sequence[Message]]) -> Run:
        """All of them, at least one part, one after the other."""
        if len(parts) == 1:
            return cls.of(parts[0])
        runs: list[Run] = []
        for are_runs, some in groupby(parts, key=lambda part: isinstance(part, Run)):
            same = list(some)
            runs += map(cls.of, same) if are_runs else [cls.of(list(chain.from_iterable(same)))]
        return cls(
            np.concatenate([run.offsets for run in runs]),
            np.concatenate([run.timestamps for run in runs]),
            list(chain.from_iterable(run.values for run in runs)),
        )

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, at: int) -> Message: ...
    @overload
    def __getitem__(self, at: slice) -> Run: ...
    def __getitem__(self, at: int | slice) -> Message | Run:
        if isinstance(at, slice):
            if at.indices(len(self)) == (0, len(self), 1):
                return self
            return Run(self.offsets[at], self.timestamps[at], self.values[at])
        return Message(self.offsets.item(at), self.timestamps.item(at), self.values[at])

    def __iter__(self) -> Iterator[Message]:
        columns = self.offsets.tolist(), self.timestamps.tolist(), self.values
        return map(_message, zip(*columns, strict=True))

    def __repr__(self) -> str:
        return f"Run({len(self)} messages)"  # never a value
