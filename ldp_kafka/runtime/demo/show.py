"""Progress bars on standard error, and tables on standard output."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

__all__ = ["bars", "progress_bar", "release_table", "topics_table", "waiting"]

_QUIET = 2.0  # seconds before anything is said where there is no terminal to draw on
_EVERY = 5.0


@contextmanager
def bars(labels: Sequence[tuple[str, int]]) -> Iterator[Callable[[int, int], None]]:
    """One progress bar a (label, total); the function takes which one and how far. Without a
    terminal: a plain line now and then.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines(console, labels).update
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        tasks = [progress.add_task(label, total=total) for label, total in labels]
        yield lambda which, done: progress.update(tasks[which], completed=done)


class _Lines:
    """Progress as text, not more than a line every few seconds."""

    def __init__(self, console: Console, labels: Sequence[tuple[str, int]]) -> None:
        self._console, self._labels = console, labels
        self._done = [0] * len(labels)
        self._next = time.monotonic() + _QUIET

    def update(self, which: int, done: int) -> None:
        """How far one of them is."""
        self._done[which] = done
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _EVERY
            said = (
                f"{label} {at:,} of {total:,}"
                for (label, total), at in zip(self._labels, self._done, strict=True)
            )
            self._console.print("; ".join(said), highlight=False)


@contextmanager
def progress_bar(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """One progress bar."""
    with bars([(label, total)]) as update:
        yield lambda done: update(0, done)


@contextmanager
def waiting(text: str) -> Iterator[None]:
    """A spinner beside a text; without a terminal the text alone."""
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(text):
            yield
    else:
        console.print(f"{text} ...", highlight=False)
        yield


def topics_table(topics: Sequence[Any]) -> None:
    """The topics of a topology."""
    table = Table("topic", "partitions", "side", "cleanup", "purpose", box=None, pad_edge=False)
    for topic in topics:
        table.add_row(
            topic.name,
            str(topic.partitions),
            topic.side,
            topic.config.get("cleanup.policy", ""),
            topic.purpose,
        )
    _console().print(table)


def release_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Releases beside the truth."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for at, name in enumerate(head):
        table.add_column(name, justify="left" if at == 0 else "right")
    for row in rows:
        table.add_row(*row)
    _console().print(table)


def _console() -> Console:
    """Standard output; wide where it is a file or a pipe, so that nothing is folded."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=200)
