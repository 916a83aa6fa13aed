"""The one door to randomness.

Every draw of the library is a function of secure 32-bit words. Where they come from decides what
the noise is good for::

    system()     OS entropy, AES-256-CTR: private, not repeatable
    keyed(key)   a PRF of each row's context under AES-256: private against anyone without the
                 key, and the same report after every replay
    seeded(n)    keyed by a public number: repeatable, NOT private; for tests and evaluation

Each method and mechanism draws ``within`` a use of its own, so that what shares a key shares no
words. Keys for noise, report ids, series and user digests are derived from one master key and never
meet; see `ldp_kafka.randomness.prf`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ldp_kafka.randomness.fresh import System
from ldp_kafka.randomness.ids import Digests, Ids, take16
from ldp_kafka.randomness.prf import KEY_BYTES, is_patterned
from ldp_kafka.randomness.repeatable import Bound, Keyed, Seeded
from ldp_kafka.randomness.source import Randomness, check_source, use_of

__all__ = [
    "KEY_BYTES",
    "Bound",
    "Digests",
    "Ids",
    "Keyed",
    "Randomness",
    "Seeded",
    "System",
    "check_source",
    "is_patterned",
    "keyed",
    "seeded",
    "system",
    "take16",
    "use_of",
]


def system() -> System:
    """Private words that no one can repeat.

    Examples
    --------
    >>> system().words(2, 3).shape
    (2, 3)
    """
    return System()


def keyed(key: bytes, *, context: bytes = b"", later: Sequence[tuple[int, bytes]] = ()) -> Keyed:
    """Private words that a replay repeats; see `Keyed`.

    ``secrets.token_bytes(32)`` makes a key. ValueError also where a key is one that nobody drew:
    `is_patterned`.

    Examples
    --------
    >>> keyed(bytes(range(32)))
    Traceback (most recent call last):
    ValueError: a key is random bytes, and these follow a pattern: make it with secrets.token_bytes
    """
    made = Keyed(key, context=context, later=later)
    if any(is_patterned(each) for each in (key, *(new for _, new in later))):
        raise ValueError(
            "a key is random bytes, and these follow a pattern: make it with secrets.token_bytes"
        )
    return made


def seeded(seed: int) -> Seeded:
    """Repeatable words that are not private; for tests and evaluation.

    Examples
    --------
    >>> seeded(7).words(1, 2).tolist() == seeded(7).words(1, 2).tolist()
    True
    >>> seeded(7).private
    False
    """
    return Seeded(seed)
