"""Values that can be told wherever they are shown, of every type that somebody may hand over; and
the places where they must not be seen: errors, warnings, logs and reprs.
"""

from __future__ import annotations

import gc
import inspect
import logging
import re
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache
from math import inf, nan
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

LOUD, TEXT = 987654321.125, "s3cret-77"
WHOLE = 987654321
WHEN = datetime(1987, 6, 5, 4, 3, 21, tzinfo=UTC)

MARKS = (
    "s3cret",
    TEXT.encode().hex(),
    "98765432",
    "9.87654",
    LOUD.hex(),
    np.float64(LOUD).tobytes().hex(),
    np.int64(WHOLE).tobytes().hex(),
    "1987-06",
    "1987, 6",
)
"""What a text holds in which a poison is shown: any that is a number, in any notation that Python
and numpy have, begins with the same digits.
"""
# of a default repr, which says nothing; its digits are the machine's
_ADDRESS = re.compile(r"\bat 0x[0-9a-f]+")
# holds what others asked for too
_CACHE = type(cache(len))


class Speaking:
    """An object of somebody else's that says its value whenever it is asked for a number."""

    def __repr__(self) -> str:
        return TEXT

    def __float__(self) -> float:
        raise ValueError(f"{TEXT} is no number")

    __int__ = __index__ = __float__


POISONS: dict[str, Any] = {
    "float": LOUD,
    "float32": np.float32(98765432),
    "longdouble": np.longdouble("987654321e4000"),
    "int": WHOLE,
    "negative": -WHOLE,
    "uint64": np.uint64(98765432 * 10**11),
    "beyond int64": 98765432 * 10**20,
    "beyond floats": 98765432 * 10**400,
    "complex": complex(LOUD, 1),
    "decimal": Decimal("987654321.125"),
    "fraction": Fraction(WHOLE, 7),
    "text": TEXT,
    "text of a number": "987654321.125",
    "text of too large a number": "987654321e99999",
    "half a character": TEXT + "\ud800",
    "bytes": TEXT.encode(),
    "bytes that are no text": TEXT.encode() + b"\xff",
    "bytearray": bytearray(TEXT.encode()),
    "datetime": WHEN,
    "date": date(1987, 6, 5),
    "datetime64": np.datetime64("1987-06-05"),
    "timedelta": timedelta(days=98765432),
    "list": [LOUD],
    "nested": [[LOUD], [LOUD]],
    "ragged": [[LOUD], [LOUD, TEXT]],
    "tuple": (LOUD, TEXT),
    "dict": {TEXT: LOUD},
    "set": {TEXT},
    "bytes beside text": [TEXT.encode() + b"\xff", TEXT],
    "objects": np.array([LOUD, TEXT, None], object),
    "table": np.full((2, 3), LOUD),
    "cube": np.full((2, 2, 2), LOUD),
    "texts": np.array([TEXT, TEXT]),
    "records": np.array([(LOUD, TEXT)], [("a", "f8"), ("b", "U9")]),
    "object": Speaking(),
    "nan": nan,
    "inf": -inf,
    "none": None,
    "bool": True,
}
"""Of every type. The last four say nothing; what they stand beside must not be shown either."""


def _arrays() -> Iterator[tuple[str, Any]]:
    for name, value in POISONS.items():
        yield name, value
        yield f"{name}, listed", [value]
        yield f"{name}, second", [LOUD, value]
        both = np.empty(2, object)
        both[0], both[1] = LOUD, value
        yield f"{name}, as objects", both
        if isinstance(value, str | bytes | int | float | complex | np.generic):
            yield f"{name}, as an array", np.array([value, value])


ARRAYS = tuple(_arrays())
"""Each poison as it is, in lists, and beside a loud number in an array, where there can be one."""


def column(value: Any) -> pa.Array:
    """A poison twice, as a column of a table; its text where Arrow has no such type."""
    try:
        return pa.array([value, value])
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return pa.array([ascii(value)] * 2)


def shown(text: str, *more: str) -> list[str]:
    """The marks of poisons, and of what was made of one, in a text."""
    plain = _ADDRESS.sub("", text).lower()
    return [mark for mark in (*MARKS, *more) if mark in plain]


def said_by(made: Any) -> str:
    """All that an object says of itself, alone and in a list."""
    return f"{made!r} {made!s} {made} {[made]}"


def reached(*roots: Any) -> Iterator[Any]:
    """All objects that these hold, and those that they hold; of functions what they close over."""
    seen: dict[int, Any] = {}
    waiting = [*roots]
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, type | ModuleType) or type(each) is _CACHE:
            continue
        seen[id(each)] = each
        yield each
        isfunction = isinstance(each, FunctionType)
        waiting += each.__closure__ or () if isfunction else gc.get_referents(each)


def words_of(error: BaseException) -> Iterator[str]:
    """All that an error and those behind it say, as a traceback has them, without lines of source;
    and what its repr says.
    """
    whole: Any = traceback.TracebackException(type(error), error, None, lookup_lines=False)
    seen: list[Any] = [whole]
    while seen:
        each = seen.pop()
        yield "".join(each.format_exception_only())
        behind = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
        seen += [one for one in (behind, *(each.exceptions or ())) if one is not None]
    yield repr(error)


def leak_of(function: Callable[[], Any]) -> str | None:
    """What a call shows of a poison where it fails, in one line; None where it shows nothing."""
    try:
        function()
    except Exception as error:
        for text in words_of(error):
            if shown(text):
                return f"{type(error).__name__} shows {shown(text)}: {text.strip()[:200]!r}"
    return None


def walk(
    function: Callable[..., Any],
    good: Mapping[str, Any],
    data: Iterable[str],
    values: Iterable[tuple[str, Any]] = ARRAYS,
) -> list[str]:
    """Every leak of a function: each parameter named in ``data`` is given each poison while the
    others have what ``good`` says. LookupError for a parameter that neither knows: whoever adds it
    says what it is.
    """
    parameters = inspect.signature(function).parameters
    needed = [name for name, one in parameters.items() if one.default is one.empty]
    data, values = set(data), list(values)
    unknown = [name for name in needed if name not in good and name not in data]
    if unknown:
        raise LookupError(f"{function}: say what {', '.join(unknown)} can be")
    found = []
    for name in [name for name in parameters if name in data]:
        given = {other: good[other] for other in parameters if other in good and other != name}
        for kind, value in values:
            leak = leak_of(
                lambda given=given, name=name, value=value: function(
                    **{other: made() if callable(made) else made for other, made in given.items()},
                    **{name: value},
                )
            )
            if leak:
                found.append(
                    f"{getattr(function, '__qualname__', function)}({name}=<{kind}>) {leak}"
                )
    return found


@contextmanager
def silent() -> Iterator[list[str]]:
    """What is found goes into the list, and so does what warnings and logs show of poisons
    meanwhile; AssertionError, with all of it, unless it stays empty.
    """
    leaks: list[str] = []

    class Heard(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = logging.Formatter().format(record)
            leaks.extend(f"the log of {record.name} shows {mark}" for mark in shown(text))

    handler, root = Heard(0), logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(0)
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            yield leaks
        leaks += [f"a warning shows {mark}" for one in warned for mark in shown(str(one.message))]
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
    if leaks:
        raise AssertionError(f"{len(leaks)} leaks:\n" + "\n".join(leaks))
