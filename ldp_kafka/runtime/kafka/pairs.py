"""``name=value`` texts in one option, as librdkafka has them."""

from __future__ import annotations

import re

__all__ = ["pairs"]

_COMMA = re.compile(r"(?<!\\),")


def pairs(text: str) -> dict[str, str] | None:
    r"""Those between commas (``\,`` is a comma in a value); None where one is no such pair.

    Examples
    --------
    >>> pairs(r"logicalCluster=lkc-1, identityPoolId=pool-a\,pool-b")
    {'logicalCluster': 'lkc-1', 'identityPoolId': 'pool-a,pool-b'}
    >>> pairs("lkc-1") is None, pairs("")
    (True, {})
    """
    found: dict[str, str] = {}
    for part in _COMMA.split(text) if text.strip() else ():
        name, _, value = (each.strip() for each in part.replace("\\,", ",").partition("="))
        if not name or not value:
            return None
        found[name] = value
    return found
