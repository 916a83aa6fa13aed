"""Text that holds a number, as many producers write it: read by the grammar of JSON (RFC 8259,
section 6), and by no other.
"""

from __future__ import annotations

import re

from ldp_kafka.errors import BadRecord, Reason

__all__ = ["NUMBER", "WIDEST_TEXT", "number_of"]

NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
"""A JSON number: no spaces, no plus, no leading zeros, no NaN or infinity, no underscores."""
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]*)")
WIDEST_TEXT = 256  # characters of a number: no measurement has more


def number_of(text: str, reason: Reason = Reason.VALUE) -> int | float:
    """What JSON says where this text stands without quotes; an infinity where that is too large for
    a float. BadRecord for this reason where it is no number, or longer than 256 characters.

    Examples
    --------
    >>> number_of("3.5"), number_of("-12"), number_of("1e3")
    (3.5, -12, 1000.0)
    """
    if len(text) > WIDEST_TEXT or not NUMBER.fullmatch(text):
        raise BadRecord(reason)
    return int(text) if _WHOLE.fullmatch(text) else float(text)
