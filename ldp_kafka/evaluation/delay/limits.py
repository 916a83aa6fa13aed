"""Claims that a figure stays below a limit, which say what was measured, and by how much what lies
above it does.
"""

from __future__ import annotations

from collections.abc import Mapping

from ldp_kafka.evaluation.claims import Claim, claim

__all__ = ["at_most"]

NAMED = 4  # settings above the limit that are named


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
