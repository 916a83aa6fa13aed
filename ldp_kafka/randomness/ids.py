"""User ids, and the digests that stand for them in contexts and in state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Digests", "Ids", "take16"]

Digests = NDArray[np.uint64]  # (n, 2): 128 bits of each user


def take16(pairs: NDArray[np.uint64], rows: NDArray[np.integer] | slice) -> NDArray[np.uint64]:
    """``pairs[rows]``: as elements of 16 bytes, which numpy gathers three times as fast as rows of
    two.
    """
    found: Digests = pairs.view(np.complex128)[:, 0][rows].view(np.uint64).reshape(-1, 2)
    return found


@dataclass(frozen=True, repr=False, slots=True)
class Ids:
    """User ids as one run of UTF-8 bytes: user i is ``data[offsets[i]:offsets[i + 1]]``. What Arrow
    holds, without its import; its repr shows no id.
    """

    data: NDArray[np.uint8]
    offsets: NDArray[np.integer]

    @classmethod
    def of(cls, users: Iterable[str]) -> Ids:
        """From texts, as they are: which of them are one person is decided where a message is read
        (`ldp_kafka.runtime.wire.user_ids`); here rows that are alike would have one noise.
        ValueError, which shows none, where one cannot be written as UTF-8.
        """
        try:
            encoded = [str(user).encode() for user in users]
        except UnicodeEncodeError:
            raise ValueError("users must be text that UTF-8 can hold") from None
        return cls(np.frombuffer(b"".join(encoded), np.uint8), np.cumsum([0, *map(len, encoded)]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def take(self, rows: NDArray[np.intp]) -> Ids:
        """Those at ``rows``, in that order."""
        lengths = np.diff(self.offsets)[rows]
        ends = np.cumsum(lengths)
        within = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - lengths, lengths)
        return Ids(
            self.data[np.repeat(self.offsets[:-1][rows], lengths) + within],
            np.concatenate([[0], ends]),
        )

    def texts(self) -> list[str]:
        """As texts."""
        raw = self.data.tobytes()
        return [
            raw[a:b].decode()
            for a, b in zip(self.offsets[:-1].tolist(), self.offsets[1:].tolist(), strict=True)
        ]

    @staticmethod
    def join(parts: Sequence[Ids]) -> Ids:
        """All of them, one after the other."""
        if len(parts) == 1:
            return parts[0]
        starts = np.cumsum([0, *(int(part.offsets[-1] - part.offsets[0]) for part in parts)])
        offsets = [
            part.offsets[:-1] - part.offsets[0] + start
            for part, start in zip(parts, starts, strict=False)
        ]
        return Ids(
            np.concatenate([part.data[part.offsets[0] : part.offsets[-1]] for part in parts]),
            np.concatenate([*offsets, starts[-1:]]),
        )

    def __repr__(self) -> str:
        return f"Ids({len(self)} users)"
