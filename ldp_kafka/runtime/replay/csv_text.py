"""What the text of a CSV file says of itself: what parts its cells, what its columns are called,
and in which line a row lies. No value of it is shown.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Sequence
from io import StringIO
from itertools import islice
from pathlib import Path

from ldp_kafka.errors import ConfigurationError

__all__ = ["DELIMITERS", "check_header", "delimiter_of", "named_delimiter", "ragged", "rows"]

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "|"}
HEAD = 2**16  # characters of a file that are looked at
FIRST = 20  # rows of them
csv.field_size_limit(2**24)


def named_delimiter(text: str) -> str:
    r"""The character that an option names.

    Raises
    ------
    ConfigurationError : it is no single character

    Examples
    --------
    >>> named_delimiter("tab"), named_delimiter(";")
    ('\t', ';')
    """
    names = {name: one for one, name in DELIMITERS.items()} | {r"\t": "\t"}
    found = names.get(text, text)
    if len(found) != 1 or found in '"\r\n' or not found.isascii():
        raise ConfigurationError(
            "--delimiter must be one character, such as ';', or comma, semicolon or tab"
        )
    return found


def delimiter_of(path: Path, wanted: Collection[str]) -> str:
    """What parts the cells: of a comma, a semicolon, a tab and ``|`` the one by which the first
    line names the wanted columns, or else by which the first rows have most cells, as many each.

    Raises
    ------
    ConfigurationError : it is no text
    """
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        head = file.read(HEAD)
    if "\0" in head:
        raise ConfigurationError(
            f"{path}: must be UTF-8 text, and has zero bytes, as UTF-16 has: convert the file"
            " (iconv -f UTF-16 -t UTF-8)"
        )
    if len(head) == HEAD:  # the last line may be cut
        head = head[: head.rfind("\n") + 1] or head

    def fit(delimiter: str) -> tuple[bool, int]:
        """Whether it finds the wanted columns, and how many cells each row has; 0: not as many."""
        reader = csv.reader(StringIO(head, newline=""), delimiter=delimiter)
        found = [row for row in islice(reader, FIRST) if row]
        if not found or len({len(row) for row in found}) > 1:
            return (bool(found) and set(wanted) <= set(found[0]), 0)
        return (set(wanted) <= set(found[0]), len(found[0]))

    return max(DELIMITERS, key=fit)


def rows(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Each row that is not empty, the header too, with the line in which it begins, from 1. A cell
    in quotes may go on over several lines. ConfigurationError for what is no text.
    """
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        reader = csv.reader(file, delimiter=delimiter)
        line = 1
        while True:
            try:
                row = next(reader, None)
            except csv.Error:  # a zero byte, or a cell without an end
                raise ConfigurationError(f"{path}:{line}: must be CSV text") from None
            if row is None:
                return
            if row:
                yield line, row
            line = reader.line_num + 1


def check_header(path: Path, delimiter: str, wanted: Sequence[str]) -> list[str]:
    """The names of the columns.

    Raises
    ------
    ConfigurationError : the file is empty, or the header names a wanted column twice
    """
    line, names = next(rows(path, delimiter), (0, []))
    if not line:
        raise ConfigurationError(f"{path} is empty: its first line must name the columns")
    for name in dict.fromkeys(wanted):
        if names.count(name) > 1:
            raise ConfigurationError(
                f"{path}:{line}: the header names column {name} {names.count(name)} times: give"
                " the others another name"
            )
    return names


def ragged(path: Path, delimiter: str) -> str | None:
    """What to say of the first row that has not as many cells as the header; None where all
    have.
    """
    found = rows(path, delimiter)
    _, header = next(found, (0, []))
    for line, row in found:
        if len(row) != len(header):
            said = f"{path}:{line}: has {len(row)} cells, and the header {len(header)}"
            if len(row) < len(header):
                return f"{said}: each row must have as many (--delimiter says what parts them)"
            held = "decimal or other comma" if delimiter == "," else DELIMITERS.get(delimiter)
            return f"{said}: a cell that holds a {held or delimiter} must be in quotes"
    return None
