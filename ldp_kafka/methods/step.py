"""The result of `Method.step`: for each user of one slot its answer and its status."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import NEVER

__all__ = ["REFUSED", "SENT", "SILENT", "Step"]

# what became of a row: did not have to report, reported, was refused by the ledger
SILENT, SENT, REFUSED = (0, 1, 2)


class Step(NamedTuple):
    """The result of one slot: one row for each row of users that was put in."""

    answers: NDArray[Any]
    """(n,) what the mechanism emitted, on its own scale, or (n, width) packed bits, or (n,
    dimension); 0 where nothing was sent.
    """
    status: NDArray[np.uint8]
    """(n,) SENT, SILENT or REFUSED."""
    slots: NDArray[np.int64] | None = None
    """None: reports are of the slot that was stepped. Else (n, k), and answers are (n, k) or (n, k,
    dimension): k reports a row that is SENT, each of a slot at most `Method.delay` back; NEVER
    where one is missing.
    """
    phase: int = 0
    """Of the reports: what tells those of one user and slot apart, such as the coordinate of a
    vector that they are of.
    """

    @classmethod
    def silent(cls, answers: NDArray[Any], phase: int = 0) -> Step:
        """Of users none of whom has to report; ``answers`` are zeros."""
        return cls(answers, np.full(len(answers), SILENT, np.uint8), phase=phase)

    def among(self, count: int, at: NDArray[np.intp]) -> Step:
        """The same of so many users, of whom its own have these places, and the others are
        silent.
        """
        answers = np.zeros((count, *self.answers.shape[1:]), self.answers.dtype)
        status, slots = np.full(count, SILENT, np.uint8), None
        answers[at], status[at] = self.answers, self.status
        if self.slots is not None:
            slots = np.full((count, self.slots.shape[1]), NEVER)
            slots[at] = self.slots
        return Step(answers, status, slots, self.phase)

    def __repr__(self) -> str:
        return f"Step({len(self.status)} rows, phase={self.phase})"  # never an answer
