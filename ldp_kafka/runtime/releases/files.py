"""Where releases are written, and as what: files that are there when they are whole, standard
output, lines that go on.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.records import Release
from ldp_kafka.runtime.releases.connect import envelope
from ldp_kafka.runtime.releases.rows import COLUMNS, rows_of
from ldp_kafka.runtime.wire.records import encode_json

__all__ = ["LINES", "STDOUT", "Write", "text_file", "whole_file"]

STDOUT = Path("-")
"""How standard output is spelled as a file."""
Write = Callable[[Release], None]


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A place to write to, which takes the file's name when all of it was written; nothing is left
    behind where that failed.

    Raises
    ------
    ConfigurationError : it cannot be written
    """
    part = path.with_name(f".{path.stem}.part{path.suffix}")
    with _said(path):
        try:
            yield part
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


@contextmanager
def text_file(path: Path, *, grows: bool) -> Iterator[IO[str]]:
    """A file of lines, or standard output.

    Parameters
    ----------
    path : `STDOUT`, or a file
    grows : whether it is read while it is written; else it is there when it is whole

    Raises
    ------
    ConfigurationError : it cannot be written
    """
    if path == STDOUT:
        yield sys.stdout
        sys.stdout.flush()
    elif grows:
        with _said(path), path.open("w", encoding="utf-8", newline="") as file:
            yield file
    else:
        with whole_file(path) as part, part.open("w", encoding="utf-8", newline="") as file:
            yield file


@contextmanager
def _said(path: Path) -> Iterator[None]:
    """What the system says of a file in one line; a pipe that was closed is another's."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be written: {error.strerror}") from None


def _csv(to: IO[str], slot_ms: int) -> Write:
    """Flat rows below a line with their names."""
    del slot_ms
    writer = csv.DictWriter(to, COLUMNS, lineterminator="\n")
    writer.writeheader()
    return lambda release: writer.writerows(rows_of(release))


def _json(to: IO[str], slot_ms: int) -> Write:
    """The records, as they lie in the topic."""
    del slot_ms

    def write(release: Release) -> None:
        to.write(encode_json(release).decode() + "\n")

    return write


def _connect(to: IO[str], slot_ms: int) -> Write:
    """Flat rows with their schema."""

    def write(release: Release) -> None:
        to.writelines(envelope(row, slot_ms) + "\n" for row in rows_of(release))

    return write


LINES: dict[str, Callable[[IO[str], int], Write]] = {
    "connect": _connect,
    "csv": _csv,
    "json": _json,
}
"""By name, what writes a release as lines, given the file and the length of a slot in
milliseconds.
"""
