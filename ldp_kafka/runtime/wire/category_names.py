"""Categories by name: which one a value in a message is.

Names are text in Unicode's NFC, as ids are: two spellings of one word are one category. A number or
a boolean of JSON is the text that JSON has for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

from ldp_kafka.errors import BadRecord, Reason
from ldp_kafka.normal_form import nfc

__all__ = ["CategoryCodes", "category_text"]

SCALARS = (str, int, float, bool)
_DECOMPOSED = 4
"""Characters of a text for one in its NFC, at most (UAX 15, section 12): a longer text is no name,
and is not normalized, which takes the square of a run of accents in time.
"""


def category_text(found: Any) -> str:
    """The name that a value is: text as it is, ``true`` and ``false``, the digits of a whole number
    below 2**64 in magnitude, the shortest decimal of another one. BadRecord otherwise.

    Examples
    --------
    >>> category_text(404), category_text(404.0), category_text(2.5), category_text(True)
    ('404', '404', '2.5', 'true')
    """
    if type(found) is str:
        return found
    if type(found) is bool:
        return "true" if found else "false"
    if type(found) is not int and type(found) is not float:
        raise BadRecord(Reason.VALUE)
    if not -inf < found < inf:
        raise BadRecord(Reason.NOT_FINITE)
    if not -(2**64) < found < 2**64:
        raise BadRecord(Reason.CATEGORY)
    return str(int(found)) if found == int(found) else repr(found)


class CategoryCodes(dict[str, int]):
    """Numbers of categories by name, for whatever a message says: ``codes[404]`` is that of
    ``"404"``. BadRecord for what is none of them; what cannot be hashed is none, too (TypeError).

    Parameters
    ----------
    names : in the order of their numbers, distinct in NFC
    """

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__({nfc(name): code for code, name in enumerate(names)})
        self._longest = _DECOMPOSED * max(map(len, self), default=0)

    def __missing__(self, found: Any) -> int:
        name = category_text(found)
        if not name.isascii() and len(name) <= self._longest:
            name = nfc(name)
        code = self.get(name)
        if code is None:
            raise BadRecord(Reason.CATEGORY)
        return code

    def of(self, found: Any) -> int:
        """The same of anything that JSON can say."""
        if type(found) not in SCALARS:
            raise BadRecord(Reason.VALUE)
        return self[found]
