"""Events of single users and streams: moves between slots that are above a threshold."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np
import pyarrow as pa

from ldp_kafka.errors import ConfigurationError

__all__ = ["ABOVE", "MOVES", "moves_above"]

ABOVE = "above"
MOVES = pa.schema(
    [("subject", pa.string(), False), ("moves", pa.int64(), False), (ABOVE, pa.int64(), False)]
)
"""A user's pseudonym or a stream's name; moves that were released; those above the threshold."""
_NEEDED = ("subject", "position", "slot", "value")


def moves_above(releases: Any, above: float) -> Any:
    """How often each user's, or stream's, releases move by more than ``above`` from one slot to the
    next: the events of the SPPA paper's figure 8, velocities above a threshold, by user.

    Parameters
    ----------
    releases : a `pyarrow.Table` of flat rows, as `Releases.table` and `ldp_kafka.run` give it
    above : in units of the values, a slot; of vectors their Euclidean distance

    Returns
    -------
    a `pyarrow.Table` of `MOVES`, sorted by subject. A move is between two slots in a row that both
    have a whole release. It is counted in what was released, so counting costs no privacy; how
    often the values themselves moved is not known of it. A method that perturbs values adds moves,
    and one that hides their times has them at other times, faster or slower.

    Raises
    ------
    ConfigurationError : ``above`` is negative or not finite; a column is missing
    """
    if not (isfinite(above) and above >= 0):
        raise ConfigurationError("above must be a finite number, 0 or more")
    missing = {*_NEEDED} - {*releases.column_names}
    if missing:
        raise ConfigurationError(f"the releases have no column {', '.join(sorted(missing))}")
    of = releases["subject"].to_numpy() != ""
    subject, position, slot, value = (releases[name].to_numpy()[of] for name in _NEEDED)
    names, whose = np.unique(subject.astype(str), return_inverse=True)
    order = np.lexsort((slot, position, whose))
    slot, value = slot[order], value[order].astype(np.float64)
    place = np.column_stack([whose, position])[order]
    away = np.diff(value)
    beside = (np.diff(slot) == 1) & (np.diff(place, axis=0) == 0).all(axis=1) & np.isfinite(away)
    # of a vector the sum over its coordinates, and no move where one of them is missing
    ends = np.column_stack([place[1:, 0], slot[1:]])[beside]
    moves, at, parts = np.unique(ends, axis=0, return_inverse=True, return_counts=True)
    square = np.bincount(at.ravel(), away[beside] ** 2, len(moves))
    whole = parts == position.max(initial=0) + 1
    mover, event = moves[whole, 0], np.sqrt(square[whole]) > above
    counts = (np.bincount(each, minlength=len(names)) for each in (mover, mover[event]))
    return pa.Table.from_arrays(
        [pa.array(each, kind) for each, kind in zip((names, *counts), MOVES.types, strict=True)],
        schema=MOVES,
    )
