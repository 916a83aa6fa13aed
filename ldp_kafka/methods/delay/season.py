"""A season: what slots whole periods apart have in common, learnt from what was released."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import Field
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import check_whole
from ldp_kafka.methods.delay.rows import Rows
from ldp_kafka.methods.delay.smoother import Piece

__all__ = ["MOST_SEASON", "Season", "season_of"]

MOST_SEASON = 1024  # slots: a stream's state holds three numbers for each
# squared lengths of the domain: of a place of the season before anything is known of it, as of a
# stream's level, and how it moves from one period to the next, so that a season may change
UNKNOWN = 1 / 24
GROWTH = 2.0**-16


def season_of(smooth: Mapping[str, Any]) -> int:
    """The slots of ``{"season": slots}``.

    Raises
    ------
    TypeError, ConfigurationError : it is not that, or no whole number in 2..1024

    Examples
    --------
    >>> season_of({"season": 7})
    7
    """
    if set(smooth) != {"season"}:
        raise ConfigurationError("smooth must be true or false, or {season: slots}")
    return check_whole(smooth["season"], "the season of smooth", 2, MOST_SEASON)


class Season:
    """The season of each stream: by how much each slot of a period lies above the period's mean.

    Notes
    -----
    What is released of a slot, less the mean of each place's last release, is its place's height
    above the level plus noise: what else there is in the stream, a level and its slow moves, is in
    both. Places that never had a release, such as the days on which a shop is closed, are left out.
    A Kalman filter a place follows it, from the first whole period on. It sees nothing but
    releases, so it costs no privacy; by + - * / alone, places added in order.

    Parameters
    ----------
    length : slots of a period, at least 2
    """

    def __init__(self, length: int) -> None:
        self.length = length
        self.fields = {
            "s_height": Field("f8", length),
            "s_known": Field("f8", length),
            "s_looks": Field("f8", length),
            "s_seen": Field("?", length),
        }

    def level(self, window: Rows, slot: int) -> NDArray[np.float64]:
        """(n,) how far slots of this place lie above the period's mean, in lengths of the
        domain.
        """
        return window.at("s_height", slot % self.length)

    def learn(self, window: Rows, piece: Piece) -> None:
        """Take in what was released of one slot, later than those before it."""
        place = piece.first % self.length
        looks, seen = window.ring("s_looks"), window.ring("s_seen")
        looks[place] = np.where(piece.known, piece.released, looks[place])
        again = seen[place].copy()  # a whole period has passed
        seen[place] |= piece.known
        count = np.maximum(np.count_nonzero(seen, axis=0), 1)
        total = looks[0].copy()
        for one in looks[1:]:
            total += one
        known = piece.known & (again | seen.all(axis=0))
        height, spent = window.at("s_height", place), window.at("s_known", place)
        doubt = UNKNOWN - spent + GROWTH  # kept as what is known of it, 0 at first
        gain = doubt / (doubt + piece.variance * (1 + 1 / count))
        moved = height + gain * (piece.released - total / count - height)
        window.put("s_height", place, np.where(known, moved, height))
        window.put("s_known", place, np.where(known, UNKNOWN - doubt * (1 - gain), spent))
