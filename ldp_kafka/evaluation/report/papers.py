"""The tables and figures of the papers that measure something, and why some of them stay out."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["NOT_BUILT", "PAPERS", "STAYS_OUT", "Paper", "shown"]


class Paper(NamedTuple):
    """One of the five."""

    title: str
    authors: str
    shows: tuple[str, ...]
    """Its tables and figures that measure something."""


def shown(text: str) -> list[str]:
    """The tables and figures that a text names.

    Examples
    --------
    >>> shown("Table I, figures 4 to 6 and 8, eq. 15")
    ['Table I', 'Figure 4', 'Figure 5', 'Figure 6', 'Figure 8']
    """
    found: list[str] = []
    kind, first = "", 0
    for word in re.findall(r"\w+", text):
        if word.lower().rstrip("s") in ("table", "figure"):
            kind = word.capitalize().rstrip("s")
        elif word == "to" and found:
            first = int(found[-1].split()[1]) + 1
        elif kind and re.fullmatch(r"\d+|[IVX]+", word):
            if first:
                found += [f"{kind} {number}" for number in range(first, int(word))]
            found.append(f"{kind} {word}")
            first = 0
        elif word != "and":
            kind = ""
    return found


PAPERS = {
    "CAPP": Paper(
        "Dual Utilization of Perturbation for Stream Data Publication under Local Differential"
        " Privacy",
        "Du et al.",
        tuple(shown("Table I, figures 4 to 11")),
    ),
    "LDP-IDS": Paper(
        "LDP-IDS: Local Differential Privacy for Infinite Data Streams",
        "Ren et al., SIGMOD 2022",
        tuple(shown("Table 2, figures 4 to 8")),
    ),
    "SPPA": Paper(
        "Local Differentially Private Release of Infinite Streams With Temporal Relevance",
        "WWW 2025",
        tuple(shown("Table 1, figures 1 and 4 to 8")),
    ),
    "CGM": Paper(
        "CGM: An Enhanced Mechanism for Streaming Data Collection with Local Differential Privacy",
        "Bao, Yang, Xiao and Ding, VLDB 2021",
        tuple(shown("figures 1 to 4")),
    ),
    "delay windows": Paper(
        "Delay-allowed Differentially Private Data Stream Release",
        "Li et al.",
        tuple(shown("Tables I and III, figures 2 to 10")),
    ),
}
"""By the name that experiments have for it."""

STAYS_OUT = {
    ("SPPA", "Table 1"): "it needs TICC and the Smartphone data, and rates a method the higher the"
    " worse an activity is recognised: no measure of a guarantee",
}
NOT_BUILT = "not built yet"
"""The reason of all others that no experiment shows."""
