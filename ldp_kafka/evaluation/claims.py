"""What a paper says of its figures, held against figures of our own: reproduced or not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import hypot
from typing import Any, NamedTuple

__all__ = ["CLEAR", "Claim", "as_plain", "at_most", "below", "claim", "lines"]

CLEAR = 2.0
"""Standard errors of a difference that make an order clear."""
NAMED = 4  # settings above a limit that are named


class Claim(NamedTuple):
    """One statement, and in how many settings it holds."""

    statement: str
    settings: int
    held: int
    needed: float
    """The share of the settings in which it must hold: 1 for all of them."""

    @property
    def reproduced(self) -> bool | None:
        """Whether it holds in as many as it must; None where it was tried in no setting at all.

        Examples
        --------
        >>> Claim("a is below b in most settings", 4, 3, 0.5).reproduced
        True
        """
        return self.held >= self.needed * self.settings if self.settings else None


def claim(statement: str, settings: Iterable[bool], needed: float = 1.0) -> Claim:
    """A claim from whether it holds in each setting."""
    found = [bool(each) for each in settings]
    return Claim(statement, len(found), sum(found), needed)


def below(less: tuple[float, float], more: tuple[float, float], clear: float = CLEAR) -> bool:
    """Whether one mean lies clearly below another, by so many standard errors of the difference;
    each is given with its own.

    Examples
    --------
    >>> below((1.0, 0.1), (1.5, 0.1)), below((1.0, 0.1), (1.2, 0.1))
    (True, False)
    """
    return more[0] - less[0] > clear * hypot(less[1], more[1])


def at_most(what: str, limit: float, measured: Mapping[str, float]) -> Claim:
    """That every measured figure is at most ``limit``.

    Parameters
    ----------
    what : what they are, in words
    measured : by setting

    Examples
    --------
    >>> at_most("a over b", 0.5, {"one": 0.4, "two": 0.6}).statement
    'a over b is at most 0.5 (measured 0.4 to 0.6; above by 20 %: two)'
    >>> at_most("a over b", 0.5, {"one": 0.4}).statement
    'a over b is at most 0.5 (measured 0.4)'
    """
    if not measured:
        return claim(f"{what} is at most {limit:.3g}", ())
    least, most = min(measured.values()), max(measured.values())
    seen = f"{least:.3g} to {most:.3g}" if least < most else f"{most:.3g}"
    above = sorted(
        ((figure / limit - 1, name) for name, figure in measured.items() if not figure <= limit),
        reverse=True,
    )
    words = ", ".join(f"{_percent(over)}: {name}" for over, name in above[:NAMED])
    more = f" and {len(above) - NAMED} more" if len(above) > NAMED else ""
    by = f"; above by {words}{more}" if above else ""
    return claim(
        f"{what} is at most {limit:.3g} (measured {seen}{by})",
        (figure <= limit for figure in measured.values()),
    )


def _percent(share: float) -> str:
    digits = 0 if share >= 0.1 else 1
    return f"{100 * share:.{digits}f} %"


def as_plain(claims: Iterable[Claim]) -> list[dict[str, Any]]:
    """Claims for JSON."""
    return [{**each._asdict(), "reproduced": each.reproduced} for each in claims]


def lines(claims: Iterable[Claim]) -> list[str]:
    """A line a claim.

    Examples
    --------
    >>> lines([Claim("errors fall with epsilon", 4, 3, 1.0)])
    ['not reproduced (3 of 4 settings): errors fall with epsilon']
    >>> lines([Claim("it falls with users", 0, 0, 1.0)])
    ['not tried (no setting of these rows tells): it falls with users']
    """
    return [f"{_said(each)}: {each.statement}" for each in claims]


def _said(of: Claim) -> str:
    if of.reproduced is None:
        return "not tried (no setting of these rows tells)"
    said = "reproduced" if of.reproduced else "not reproduced"
    return f"{said} ({of.held} of {of.settings} settings)"
