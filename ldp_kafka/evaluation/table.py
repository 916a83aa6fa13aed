"""One table or figure of a paper: how it is made, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ldp_kafka.evaluation.claims import Claim

__all__ = ["Table"]


class Table(NamedTuple):
    """One table: what it shows, and how it is made."""

    title: str
    make: Callable[[], Sequence[Any]]
    """Rows, NamedTuples of one kind."""
    quick: Callable[[], Sequence[Any]] | None = None
    """The same in seconds: fewer rows, runs or users. None: there is no such form."""
    claims: Callable[[Sequence[Any]], Sequence[Claim]] | None = None
    """What its paper says of the rows."""
    plot: Callable[[Sequence[Any], Path], list[Path]] | None = None
    """Draws the rows as PNG files, whose paths begin with the one given."""
