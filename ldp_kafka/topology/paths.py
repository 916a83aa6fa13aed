"""Field paths: where in a record a user, a value or a time is."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ldp_kafka.errors import ConfigurationError

__all__ = ["OUTER", "Path", "format_path", "parse_path"]

Path = tuple[str | int, ...]
OUTER = -1
"""The first step of a path that begins at the message, where events are elements of an array in it:
no position, which is 0 at least.
"""

_PART = re.compile(
    r"""
      \.(?P<name>[^.\[\]'"\s\\$]+)           # .name
    | \[(?P<index>0|[1-9][0-9]{0,8})\]       # [0]
    | \['(?P<single>(?:[^'\\]|\\['\\])*)'\]  # ['any text']
    | \["(?P<double>(?:[^"\\]|\\["\\])*)"\]  # ["any text"]
    """,
    re.VERBOSE,
)
_NAME = re.compile(r"[^.\[\]'\"\s\\$]+")


def parse_path(text: str) -> Path:
    r"""The names and list positions of a path.

    Parameters
    ----------
    text
        ``$``, the event, or ``^``, the message that its array is in; then at least one of
        ``.name``, ``['any text']`` (a quote and a backslash escaped by a backslash) and
        ``[position]``

    Raises
    ------
    ConfigurationError : it is no such text

    Examples
    --------
    >>> parse_path("$.meter.id"), parse_path("$['k w h'][0]")
    (('meter', 'id'), ('k w h', 0))
    >>> parse_path("^.meter") == (OUTER, "meter")
    True

    """
    if text[:1] not in ("$", "^") or len(text) == 1:
        raise ConfigurationError(
            "a field path must be $ (or ^, the message around an array of events) and at least one"
            f" field, such as $.a.b, $['a b'] or $.a[0]; got {text!r}"
        )
    parts: list[str | int] = [OUTER] if text[0] == "^" else []
    at = 1
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            raise ConfigurationError(
                f"a field path goes on with .name, ['any text'] or [position]; got {text[at:]!r}"
                f" after {text[:at]!r}"
            )
        if part["index"] is not None:
            parts.append(int(part["index"]))
        else:
            quoted = part["single"] if part["single"] is not None else part["double"]
            parts.append(part["name"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted))
        at = part.end()
    return tuple(parts)


def format_path(path: Sequence[str | int]) -> str:
    """The text of a path: the inverse of `parse_path`.

    Examples
    --------
    >>> format_path(("meter", "k w h", 0))
    "$.meter['k w h'][0]"

    """
    if path[:1] == (OUTER,):
        return "^" + "".join(_part(part) for part in path[1:])
    return "$" + "".join(_part(part) for part in path)


def _part(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    if _NAME.fullmatch(part):
        return f".{part}"
    escaped = part.replace("\\", "\\\\").replace("'", "\\'")
    return f"['{escaped}']"
