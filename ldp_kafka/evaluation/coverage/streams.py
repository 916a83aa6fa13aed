"""Made-up streams whose releases are judged, made by an ordinary seeded generator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["JUMP", "JUMPS", "STREAMS", "Generator", "categories", "numbers"]

Generator = np.random.Generator
SEASON = 8  # slots
JUMP = 0.5  # of the slots, after which it comes
JUMPS = ("jump", "two kinds")  # streams that have one
LEVELS, SHARES = np.array([0.2, 0.45, 0.8]), (0.4, 0.4, 0.2)  # low, middle and high users
# of the users, who are far from the others where values are skewed; of few users a quarter of one
RARE, ONE = 0.02, 0.25
HIGH, FALL = 0.4, 0.3  # of two kinds: the share of high users, and how far all fall, to 0 at least
PRESENT, STAYS = 0.1, 0.85  # few reports: of all; and who is there, or away, stays so
FEW_IN = np.array([0.6, 0.3, 0.1])  # shares of categories

STREAMS: dict[str, str] = {
    "constant": "every user keeps a value of its own",
    "random walk": "the crowd moves, and each user moves by itself",
    "daily season": f"the crowd rises and falls in {SEASON} slots",
    "jump": "from the middle of the run on the crowd is elsewhere",
    "two kinds": f"{HIGH:.0%} of the users are high, the others low, and all fall at once",
    "all in one": "all users have the same category, or the domain's lower end",
    "skewed": f"{RARE:.0%} of the users are far from all others",
    "few reports": f"a user has a value in {PRESENT:.0%} of the slots",
    "come and go": f"users go, and come back, on a random walk: {1 - STAYS:.0%} of them a slot",
}
"""By name, what moves."""


def numbers(name: str, users: int, slots: int, rng: Generator) -> NDArray[np.float64]:
    """Values (users, slots) in [0, 1], NaN where a user has none.

    Examples
    --------
    >>> numbers("all in one", 2, 3, np.random.default_rng(1)).tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    values = np.clip(_NUMBERS.get(name, _level)(users, slots, rng), 0, 1)
    return np.where(_present(name, users, slots, rng), values, np.nan)


def categories(name: str, users: int, slots: int, rng: Generator) -> NDArray[np.int64]:
    """Categories (users, slots) of three, -1 where a user has none.

    A user has a rank for good, and changes the category where the shares move past it.

    Examples
    --------
    >>> categories("all in one", 2, 3, np.random.default_rng(1)).tolist()
    [[0, 0, 0], [0, 0, 0]]
    """
    shares = np.broadcast_to(_SHARES.get(name, _same)(slots, rng), (slots, 3))
    found = (rng.random((users, 1, 1)) >= np.cumsum(shares, axis=1)[:, :2]).sum(axis=2)
    return np.where(_present(name, users, slots, rng), found, -1)


def _present(name: str, users: int, slots: int, rng: Generator) -> NDArray[np.bool_]:
    if name == "few reports":
        return rng.random((users, slots)) < PRESENT
    if name == "come and go":
        moves = rng.random((users, slots)) >= STAYS
        first = rng.integers(0, 2, (users, 1))
        return np.asarray((first + np.cumsum(moves, axis=1)) % 2 == 0)
    return np.ones((users, slots), np.bool_)


def _level(users: int, slots: int, rng: Generator) -> NDArray[np.float64]:
    """Low, middle and high users, none twice the same."""
    kind = rng.choice(3, users, p=SHARES)
    level = LEVELS[kind] + rng.uniform(-0.1, 0.1, users)
    return np.repeat(level[:, None], slots, axis=1)


def _walk(users: int, slots: int, rng: Generator) -> NDArray[np.float64]:
    crowd = np.cumsum(rng.normal(0, 0.02, slots))
    own = np.cumsum(rng.normal(0, 0.02, (users, slots)), axis=1)
    return np.asarray(_level(users, slots, rng) + crowd + own)


def _season(users: int, slots: int, rng: Generator) -> NDArray[np.float64]:
    at = np.arange(slots) + rng.integers(SEASON)
    return np.asarray(_level(users, slots, rng) + 0.15 * np.sin(2 * np.pi * at / SEASON))


def _jump(users: int, slots: int, rng: Generator) -> NDArray[np.float64]:
    after = np.arange(slots) >= int(JUMP * slots)
    return np.asarray(0.7 * _level(users, slots, rng) + 0.3 * after)


def _kinds(users: int, slots: int, rng: Generator) -> NDArray[np.float64]:
    """Those whom feedback draws furthest, and who are furthest behind where they move."""
    level = np.where(rng.random(users) < HIGH, LEVELS[2], LEVELS[0])
    after = np.arange(slots) >= int(JUMP * slots)
    return np.asarray(level[:, None] - FALL * after)


def _skewed(users: int, slots: int, rng: Generator) -> NDArray[np.float64]:
    rare = rng.random(users) < max(RARE, ONE / users)
    level = np.where(rare, 0.95, rng.uniform(0.0, 0.1, users))
    return np.repeat(level[:, None], slots, axis=1)


_NUMBERS: dict[str, Callable[[int, int, Generator], NDArray[np.float64]]] = {
    "random walk": _walk,
    "daily season": _season,
    "jump": _jump,
    "two kinds": _kinds,
    "all in one": lambda users, slots, _: np.zeros((users, slots)),
    "skewed": _skewed,
    "come and go": _walk,
}


def _same(slots: int, rng: Generator) -> Any:
    del slots, rng
    return FEW_IN


def _wandering(slots: int, rng: Generator) -> Any:
    weights = FEW_IN * np.exp(np.cumsum(rng.normal(0, 0.15, (slots, 3)), axis=0))
    return weights / weights.sum(axis=1, keepdims=True)


def _seasonal(slots: int, rng: Generator) -> Any:
    at = np.arange(slots) + rng.integers(SEASON)
    first = 0.5 + 0.3 * np.sin(2 * np.pi * at / SEASON)
    return np.stack([first, 0.75 * (1 - first), 0.25 * (1 - first)], axis=1)


def _turned(slots: int, rng: Generator) -> Any:
    del rng
    after = np.arange(slots) >= int(JUMP * slots)
    return np.where(after[:, None], FEW_IN[::-1], FEW_IN)


def _fallen(slots: int, rng: Generator) -> Any:
    del rng
    after = np.arange(slots) >= int(JUMP * slots)
    return np.where(after[:, None], [1 - HIGH, HIGH, 0], [1 - HIGH, 0, HIGH])


_SHARES: dict[str, Callable[[int, Generator], Any]] = {
    "random walk": _wandering,
    "daily season": _seasonal,
    "jump": _turned,
    "two kinds": _fallen,
    "all in one": lambda *_: np.array([1.0, 0.0, 0.0]),
    "skewed": lambda *_: np.array([1 - RARE, 0.75 * RARE, 0.25 * RARE]),
    "come and go": _wandering,
}
