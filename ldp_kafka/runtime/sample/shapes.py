"""What lies where a field should be: of which kind, and under which names instead.

A name is shown where most messages have it, and no other: objects may have users' ids for names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from math import isfinite
from typing import Any

import pyarrow as pa

from ldp_kafka.errors import BadRecord, Reason
from ldp_kafka.runtime.sample.arrow_schemas import (
    has_unknown_type,
    schema_of,
    skeleton_of,
    type_at,
)
from ldp_kafka.runtime.wire.arrow import ARROW
from ldp_kafka.runtime.wire.parsing import LONGEST, parse_json
from ldp_kafka.runtime.wire.plain_json import parse_plain
from ldp_kafka.runtime.wire.times import SECONDS, UNITS
from ldp_kafka.runtime.wire.user_ids import one_id
from ldp_kafka.topology import Topology
from ldp_kafka.topology.paths import OUTER, Path, format_path

__all__ = ["NAMES", "Shapes"]

NAMES = 20  # that are shown at most
DEEPEST = 4  # levels at which names are looked for
WIDEST = 200  # names of one message that are looked at
_NAME = re.compile(r"[@$]?[^\W\d]\w{0,63}([ .:/-]\w{1,63}){0,7}")
_DIGITS = re.compile(r"\d{3}")
"""Names with so many are more often ids or dates."""
_MISSING: Any = object()
_HALF = re.compile("[\ud800-\udfff]")
"""A lone surrogate: JSON can say it, UTF-8 cannot."""
_COMMA = re.compile(r"[+-]?[0-9]{1,18},[0-9]{1,18}")
_BARE = re.compile(rb"[:,\[]\s*[+-]?(nan|inf(inity)?)\s*[,}\]]", re.IGNORECASE)
_EARLY, _LATE = 946_684_800_000, 4_102_444_800_000  # 2000 and 2100, milliseconds
_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_OF = {
    Reason.USER: "user",
    Reason.TIME: "time",
    Reason.VALUE: "value",
    Reason.NOT_FINITE: "value",
    Reason.CATEGORY: "value",
}
_USUAL = {
    "user": ("id", "uid", "user", "device", "meter", "sensor"),
    "time": ("time", "timestamp", "ts", "date"),
    "value": ("value", "val", "reading"),
}
"""Words in names of such a field."""
_BYTES: Sequence[tuple[Callable[[bytes], bool], str]] = (
    (lambda text: text[:1] == b"\0", "a zero byte first, as in a schema registry's framing"),
    (lambda text: text[:3] == b"\xef\xbb\xbf", "a byte order mark first"),
    (lambda text: b"\0" in text[:200], "zero bytes, as in UTF-16 or a binary format"),
    (lambda text: b"\t{" in text, "a key before the JSON, as print.key=true prints it"),
    (lambda text: text[:2] == b"{'", "names in single quotes, as Python prints them"),
    (lambda text: text.rstrip().endswith((b"},", b"],")), "a comma at the end"),
    (
        lambda text: _BARE.search(text) is not None,
        "a bare nan or inf, as C prints it: JSON has null for what was not measured",
    ),
    (lambda text: text[:1] in b"{[", "JSON that breaks off or is not valid"),
)
NO_JSON = "no JSON"


class Shapes:
    """What was seen of messages so far, and of which kind it is.

    Parameters
    ----------
    topology : where its fields should be
    """

    def __init__(self, topology: Topology) -> None:
        source = topology.input
        self._paths = source.fields
        self._events, self._unit = source.events, source.time_unit
        names = topology.privacy.category_names
        self._folded = None if names is None else {name.strip().casefold() for name in names}
        self.times: Counter[str] = Counter()
        """By the kind of their time: events that are JSON, and batches."""
        self.found: dict[Reason, Counter[str]] = {}
        """By reason, bad rows by what they hold in place of what is asked for."""
        self.missing: Counter[str] = Counter()
        """Fields that are not there, of messages with something bad."""
        self.arrays: dict[str, Counter[Path]] = {}
        """Of missing fields, arrays of objects with such a field that their paths lead through."""
        self._lacking = _Names()
        self._types = (-1, pa.schema([]))
        """Of the columns of the last message with something bad: its number, and they."""
        self._around = _Names()
        """Of the messages that the events with a missing field are in."""
        self._counted = -1

    def good(self, messages: Sequence[bytes]) -> None:
        """Take in messages that hold events."""
        texts = [message for message in messages if not message.startswith(ARROW)]
        for message in messages:
            if message.startswith(ARROW):
                self.times[f"Arrow's {type_at(schema_of(message), self._paths['time'])}"] += 1
        for found, text in zip(parse_plain(texts) if texts else (), texts, strict=True):
            message = _loaded(found, text)
            for event in self._elements(message):
                time = self._find(event, message, "time")
                self.times[_kind_of_time(time, self._unit)] += 1

    def bad(self, message: bytes | None, row: int, reason: Reason, number: int = 0) -> None:
        """Take in what is no event.

        Parameters
        ----------
        number : of the message: the same for its rows, and for no other's
        """
        kinds = self.found.setdefault(reason, Counter())
        if not message:
            return
        if message.startswith(ARROW):
            if reason in _OF:
                kinds.update(self._column_kinds(message, _OF[reason], number))
                if row == 0:
                    self._lacks(skeleton_of(message))
            elif reason is Reason.NOT_ARROW and has_unknown_type(message):
                kinds["a type that pyarrow does not know, such as whole numbers of 128 bits"] += 1
            return
        try:
            found = parse_json(message, constants=True)
        except BadRecord:
            if reason is Reason.NOT_JSON:
                kinds[next((text for test, text in _BYTES if test(message)), NO_JSON)] += 1
            return
        if reason is Reason.EVENTS:
            assert self._events is not None  # it is their reason
            kinds[_kind(_at(found, self._events))] += 1
            return
        elements = self._elements(found)
        event = elements[row] if row < len(elements) else found
        if reason is Reason.NOT_A_RECORD:
            kinds[_kind(event)] += 1
        if reason not in _OF:
            return
        role = _OF[reason]
        there = [self._find(event, found, name) for name in self._paths if _role_of(name) == role]
        # of several fields of an id one is bad: the first that is no part of one
        wrong = next((each for each in there if role == "user" and not _is_id(each)), there[0])
        kinds[self._kind_for(role, wrong)] += 1
        self._lacks(event, found, number)

    @property
    def names(self) -> list[str]:
        """Paths that most of the messages have that lack a field, those of most first, at most 20;
        none where only one message lacks any. Those of the messages around events begin with ``^``.
        """
        outer = any(self._paths[role][0] == OUTER for role in self.missing)
        both = (self._around, self._lacking) if outer else (self._lacking, self._around)
        return [format_path(path) for names in both for path in names.of_most][:NAMES]

    def nearest(self, role: str) -> str | None:
        """The one of `names` whose name is nearest to that of a missing field; none where most
        messages have the field itself.
        """
        wanted = self._paths[role]
        # what another field is read from is not what is meant
        taken = {format_path(path) for path in self._paths.values()}
        if format_path(wanted) in self.names:
            return None
        names = [name for name in self.names if name not in taken]
        root = format_path(wanted)[0]
        names.sort(key=lambda name: name[0] != root)  # what is beside it first
        last = {name: name.rpartition(".")[2].lower() for name in names}
        mine = str(next((step for step in reversed(wanted) if isinstance(step, str)), "")).lower()
        close = get_close_matches(mine, list(last.values()), 1)
        if close:
            return next(name for name, each in last.items() if each == close[0])
        usual = {mine, *_USUAL[_role_of(role)]}
        of_role = [name for name, each in last.items() if usual & set(re.split(r"[\W_]", each))]
        return of_role[0] if len(of_role) == 1 else None

    def _column_kinds(self, message: bytes, role: str, number: int) -> list[str]:
        """Types of the columns that a field is read from, in a batch."""
        if self._types[0] != number:
            self._types = (number, schema_of(message))
        return [
            f"a column of Arrow's {kind}"
            for name, path in self._paths.items()
            if _role_of(name) == role and (kind := type_at(self._types[1], path)) is not None
        ]

    def _elements(self, message: Any) -> list[Any]:
        """The events of a message."""
        if self._events is None:
            return [message]
        found = _at(message, self._events)
        return found if isinstance(found, list) else []

    def _find(self, event: Any, message: Any, role: str) -> Any:
        """What lies where a field should be."""
        path = self._paths[role]
        return _at(message, path[1:]) if path[0] == OUTER else _at(event, path)

    def array(self, role: str) -> str | None:
        """The array of objects that a missing field's path leads through, most often."""
        found = self.arrays.get(role)
        return None if found is None else format_path(found.most_common(1)[0][0])

    def _lacks(self, found: Any, message: Any = None, number: int = 0) -> None:
        missing = [role for role in self._paths if self._find(found, message, role) is _MISSING]
        self.missing.update(missing)
        for role in missing if self._events is None else ():
            array = _array_in(found, self._paths[role])
            if array is not None:
                self.arrays.setdefault(role, Counter())[array] += 1
        if missing and isinstance(found, dict):
            self._lacking.add(_names(found))
        if missing and self._events and isinstance(message, dict) and number != self._counted:
            self._counted = number  # its other rows lie in the same message
            around = (path for path in _names(message) if path != self._events)
            self._around.add((OUTER, *path) for path in around)

    def _kind_for(self, role: str, found: Any) -> str:
        """What lies there, in words that tell what is wrong with it."""
        if role == "user" and isinstance(found, str):
            if len(found.encode("utf-8", "surrogatepass")) > LONGEST:
                return "text of more than 256 bytes"
            if _HALF.search(found):
                return "text with half a character"
        if role == "user" and type(found) in (int, float):
            which = "with a point" if type(found) is float else "of 2**64 or more"
            return f"a number {which}: write it as text"
        if role == "time" and (unit := _unit_of(found, self._unit)) is not None:
            says = f"(input.time_unit says {self._unit})" if self._unit else ""
            return f"a number as of epoch {_NAMES[unit]}" + (
                f" {says}" if says else f": set input.time_unit: {unit}"
            )
        if role == "time" and type(found) in (int, float) and 0 <= found < SECONDS / 1000:
            return "a number that is no epoch: a clock that is not set, or a day such as 20240331"
        if role == "value" and isinstance(found, str) and self._folded is not None:
            near = found.strip().casefold() in self._folded
            return "a category but for upper and lower case, or spaces" if near else "text"
        return _kind(found)


def _unit_of(found: Any, declared: str | None) -> str | None:
    """The unit in which a number that is no time would be one of this century; None where it is
    none in any. Where a unit is declared, numbers may be text.
    """
    if declared is not None and _is_number(found):
        found = float(found)
    if type(found) not in (int, float):
        return None
    for name, unit in UNITS.items():
        if name != declared and _EARLY * unit.over <= found * unit.times < _LATE * unit.over:
            return name
    return None


def _role_of(field: str) -> str:
    """``user`` of ``user[1]``."""
    return field.partition("[")[0]


def _is_id(found: Any) -> bool:
    """Whether this can be a user's id, or a part of one."""
    try:
        one_id(found)
    except BadRecord:
        return False
    return True


def _loaded(found: Any, text: bytes) -> Any:
    """What a message says that could not be read among many."""
    if found is not None:
        return found
    try:
        return parse_json(text, constants=True)
    except BadRecord:
        return None


def _at(record: Any, path: Path) -> Any:
    for step in path:
        if isinstance(step, str):
            record = record.get(step, _MISSING) if isinstance(record, dict) else _MISSING
        else:
            there = isinstance(record, list) and step < len(record)
            record = record[step] if there else _MISSING
    return record


def _kind(found: Any) -> str:
    if found is _MISSING:
        return "nothing"
    if found is None:
        return "null"
    if isinstance(found, bool):
        return "true or false"
    if isinstance(found, int | float):
        return "a number" if isinstance(found, int) else "a number with a point"
    if isinstance(found, str):
        return _kind_of_text(found)
    return "a list" if isinstance(found, list) else "an object"


def _kind_of_text(found: str) -> str:
    if not found.strip():
        return "empty text"
    if found.lstrip()[0] in "{[":
        return "JSON within text"
    if _COMMA.fullmatch(found.strip()):
        return "a number with a decimal comma, as text"
    return "a number as text" if _is_number(found) else "text"


def _is_number(found: Any) -> bool:
    """Whether it is text that Python reads as one."""
    try:
        return isinstance(found, str) and isfinite(float(found))
    except ValueError:
        return False


def _kind_of_time(found: Any, unit: str | None) -> str:
    if unit is not None and (type(found) in (int, float) or _is_number(found)):
        return f"numbers of {unit}"
    if type(found) in (int, float):
        return "epoch seconds" if found < SECONDS else "epoch milliseconds"
    return "ISO 8601 text" if isinstance(found, str) else "other"


def _array_in(record: Any, path: Path) -> Path | None:
    """The array of objects that a path leads through, whose first one has the rest of it."""
    for at, step in enumerate(path):
        if isinstance(record, list) and isinstance(step, str):
            return path[:at] if record and _at(record[0], path[at:]) is not _MISSING else None
        record = _at(record, (step,))
    return None


class _Names:
    """Names of messages that lack a field."""

    def __init__(self) -> None:
        self._messages = 0
        self._names: Counter[Path] = Counter()

    def add(self, paths: Iterator[Path]) -> None:
        """Those of one message."""
        self._messages += 1
        self._names.update(list(dict.fromkeys(paths)))

    @property
    def of_most(self) -> list[Path]:
        """That more than half of the messages have; none of a single message."""
        if self._messages < 2:
            return []
        return [path for path, number in self._names.most_common() if 2 * number > self._messages]


def _names(found: Mapping[str, Any]) -> Iterator[Path]:
    """Paths of a message that end in no object, and whose names are surely none."""
    level: list[tuple[Path, Mapping[str, Any]]] = [((), found)]
    left = WIDEST
    for _ in range(DEEPEST):
        deeper: list[tuple[Path, Mapping[str, Any]]] = []
        for path, each in level:
            for name, inner in each.items():
                left -= 1
                if left < 0:
                    return
                if not _NAME.fullmatch(name) or _DIGITS.search(name):
                    continue
                if isinstance(inner, dict):
                    deeper.append(((*path, name), inner))
                else:
                    yield (*path, name)
        level = deeper
