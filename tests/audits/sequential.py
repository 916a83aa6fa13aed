"""Wald's sequential probability ratio test (Annals of Mathematical Statistics, 1945): as few draws
as tell two probabilities apart.
"""

from __future__ import annotations

from math import log

__all__ = ["exceeds"]


def exceeds(draw, most, least, sure=1e-6):
    """Whether an event is likelier than ``most``. Where it is not, the answer is True with
    probability at most ``sure``; where it has the probability ``least`` or more, the answer is
    False with probability at most ``sure``: both by Ville's inequality, at any number of draws.
    """
    seen, unseen = log(least / most), log((1 - least) / (1 - most))
    ratio, bound = 0.0, -log(sure)
    while -bound < ratio < bound:
        ratio += seen if draw() else unseen
    return ratio > 0
