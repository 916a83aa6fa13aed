"""Users' ids: how what a message says of a user becomes the text that stands for one person.

Ids are text in Unicode's normalization form C (UAX 15): an accent may be written as a character of
its own or not, and one person must not have two budgets by it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from ldp_kafka import normal_form
from ldp_kafka.errors import BadRecord, Reason
from ldp_kafka.runtime.wire.parsing import LONGEST, check_user

__all__ = ["MOST_CHARACTERS", "joined_id", "named_ids", "nfc", "one_id", "split_id"]

MOST_CHARACTERS = 2 * LONGEST
"""No text of more has an NFC of 256 bytes: three characters for two bytes are the most that one is
written as. Longer ones are not normalized, which takes the square of a run of accents in time.
"""


def nfc(text: str) -> str:
    """The text in NFC. BadRecord where it is too long to be an id.

    Examples
    --------
    >>> nfc("e\u0301") == nfc("\u00e9") == "\u00e9"
    True
    """
    if text.isascii():
        return text
    if len(text) > MOST_CHARACTERS:
        raise BadRecord(Reason.USER)
    return normal_form.nfc(text)


def one_id(found: Any) -> str:
    """The id that one field holds, or a part of one: text, or a whole number below 2**64 in
    magnitude, which is the text of its digits; in NFC. BadRecord otherwise, and beyond 256 bytes.

    Examples
    --------
    >>> one_id(17), one_id("17")
    ('17', '17')
    """
    if type(found) is int:
        found = str(found) if abs(found) < 2**64 else ""
    elif type(found) is str:
        found = nfc(found)
    check_user(found)
    return str(found)


def joined_id(parts: Iterable[Any]) -> str:
    """The id that several fields make: a JSON array of their texts, written as RFC 8785 has it, so
    that other parts are another id. BadRecord where one of them is none, or the whole has more than
    256 bytes.

    Examples
    --------
    >>> joined_id(["a", 17]), joined_id(["a,17"])
    ('["a","17"]', '["a,17"]')
    """
    found = orjson.dumps([one_id(part) for part in parts]).decode()
    check_user(found)
    return found


def split_id(user: str, count: int) -> list[str]:
    """So many parts of which `joined_id` makes this id; of a text that is no such id, itself as
    each of them.

    Examples
    --------
    >>> split_id('["a","17"]', 2), split_id("m1", 2)
    (['a', '17'], ['m1', 'm1'])
    """
    try:
        found = json.loads(user)
    except (ValueError, RecursionError):
        found = None
    if type(found) is list and len(found) == count and all(type(part) is str for part in found):
        return found
    return [user] * count


def named_ids(users: Sequence[str], count: int = 0) -> list[str]:
    """The ids under which users count whose messages say these texts, in so many parts (0: as one
    field); what is no id stays as it is.
    """
    return [_named(user, count) for user in users]


def _named(user: str, count: int) -> str:
    try:
        return joined_id(split_id(user, count)) if count else one_id(user)
    except BadRecord:
        return user
