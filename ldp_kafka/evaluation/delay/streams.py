"""The four streams of the paper, each with a public domain."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.evaluation import data
from ldp_kafka.evaluation.streams import slice_series

__all__ = ["DATA", "STREAMS", "TRENDS", "Stream", "stream"]


class Stream(NamedTuple):
    """One stream, whole or in consecutive pieces."""

    name: str
    values: NDArray[np.float64]
    """(pieces, slots)."""
    domain: tuple[float, float]
    """Public bounds of a value: chosen without a look at the greatest one."""
    width: float
    """Of a bucket of `BucOrder`, as the authors have it (caption of figure 2)."""

    @property
    def length(self) -> float:
        """Of the domain."""
        return self.domain[1] - self.domain[0]

    @property
    def middle(self) -> float:
        """Of the domain."""
        return (self.domain[0] + self.domain[1]) / 2


# name: (end of the domain, authors' bucket width, pieces, slots of one; None: all)
_KNOWN: dict[str, tuple[float, float, int, int | None]] = {
    "unemployment": (700.0, 100.0, 1, None),
    "covid19_death": (30_000.0, 100.0, 1, None),
    "outpatient": (3e6, 10_000.0, 1, None),
    # one stream of 18,319 ids of items. Pieces of ten windows at the longest delay take an
    # eighteenth of the time; ids have no trend that a longer stream would show
    "foodmart": (1600.0, 100.0, 18, 1000),
}
STREAMS = tuple(_KNOWN)
DATA = (
    "the paper's four: Unemployment (622 months), COVID19 (216 weeks), Outpatient (1,364 weeks) and"
    " FoodMart (18 pieces of 1,000 records), in public domains; at quick depth COVID19 alone"
)
"""What `STREAMS` are."""
TRENDS = ("unemployment", "covid19_death", "outpatient")
"""Those that are counts over time. FoodMart's values are ids of items: their mean means nothing,
and no value says anything of the next.
"""


def stream(name: str) -> Stream:
    """One of `STREAMS`.

    Raises
    ------
    ConfigurationError : there is no stream of this name
    FileNotFoundError : see `data.find`
    """
    if name not in _KNOWN:
        raise ConfigurationError(f"unknown stream {name!r}; known: {', '.join(STREAMS)}")
    end, width, pieces, slots = _KNOWN[name]
    return Stream(name, slice_series(data.series(name), pieces, slots), (0.0, end), width)
