"""What LDP-IDS says of the orders in its figures 4 to 6 and 8, held against our sweeps.

A mean lies below another where the difference is more than two standard errors of it; what is not
told apart does not hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from ldp_kafka.evaluation.claims import Claim, below, claim
from ldp_kafka.evaluation.ldp_ids.comparison import BUDGET, NAMES, POPULATION
from ldp_kafka.evaluation.ldp_ids.sweeps import Row

__all__ = ["of_data", "of_epsilon", "of_window"]

SLOW = 0.002  # sqrt(Q) up to which the paper has LSP as the best, section 7.3
MOST = 0.5  # of the settings, where the paper says "generally"

Figure = tuple[float, float]


class _Table:
    """Rows by stream, place on the axis and method."""

    def __init__(self, rows: Sequence[Row], figure: str = "mre") -> None:
        self._found: dict[tuple[str, float, str], Figure] = {
            (row.stream, row.value, row.method): (
                getattr(row, figure),
                getattr(row, f"{figure}_error"),
            )
            for row in rows
        }
        self.streams = list(dict.fromkeys(row.stream for row in rows))
        self.values = sorted({row.value for row in rows})

    def at(self, stream: str, value: float, method: str) -> Figure:
        return self._found[stream, value, method]

    @property
    def cells(self) -> list[tuple[str, float]]:
        return list(product(self.streams, self.values))

    def less(self, a: str, b: str, values: Sequence[float] | None = None) -> list[bool]:
        """Whether method ``a`` is below ``b``, in each stream and place."""
        places = self.values if values is None else values
        return [
            below(self.at(stream, value, a), self.at(stream, value, b))
            for stream, value in product(self.streams, places)
        ]

    def falls(self, methods: Sequence[str] = NAMES) -> list[bool]:
        """Whether it is lower at the axis's end than at its start, for each stream and method."""
        first, last = self.values[0], self.values[-1]
        return [
            below(self.at(stream, last, method), self.at(stream, first, method))
            for stream, method in product(self.streams, methods)
        ]

    def grows(self, methods: Sequence[str] = NAMES) -> list[bool]:
        first, last = self.values[0], self.values[-1]
        return [
            below(self.at(stream, first, method), self.at(stream, last, method))
            for stream, method in product(self.streams, methods)
        ]

    def divided(self) -> list[bool]:
        """Whether all of population division are below all of budget division, in each cell."""
        return [
            all(
                below(self.at(*cell, less), self.at(*cell, more))
                for less, more in product(POPULATION, BUDGET)
            )
            for cell in self.cells
        ]


def of_epsilon(rows: Sequence[Row]) -> list[Claim]:
    """Section 7.2 with figure 4, section 7.5 with figure 8(c)."""
    table, sent = _Table(rows), _Table(_walks(rows), "cfpu")
    return [
        claim("the error of every method falls with epsilon", table.falls()),
        claim(
            "every method of population division has less error than all of budget division",
            table.divided(),
        ),
        claim("lbd generally has less error than lbu", table.less("lbd", "lbu"), MOST),
        claim("lba generally has less error than lbu", table.less("lba", "lbu"), MOST),
        claim("lsp generally has less error than lpd", table.less("lsp", "lpd"), MOST),
        claim("lsp generally has less error than lpa", table.less("lsp", "lpa"), MOST),
        claim("users of lpd and lpa report more often at more epsilon", sent.grows(("lpd", "lpa"))),
    ]


def of_window(rows: Sequence[Row]) -> list[Claim]:
    """Section 7.2 with figure 5, section 7.5 with figure 8(d)."""
    table, sent = _Table(rows), _Table(_walks(rows), "cfpu")
    first, last = table.values[0], table.values[-1]

    def gain(stream: str, window: float) -> float:
        return table.at(stream, window, "lpu")[0] / table.at(stream, window, "lpa")[0]

    return [
        claim("the error of every method grows with the window", table.grows()),
        claim(
            "at the longest window lbd has more error than lbu for some stream",
            table.less("lbu", "lbd", [last]),
            1 / len(table.streams),
        ),
        claim("lpd has less error than lpu", table.less("lpd", "lpu")),
        claim("lpa has less error than lpu", table.less("lpa", "lpu")),
        claim("lpa has less error than lpd", table.less("lpa", "lpd")),
        claim(
            "what lpa gains over lpu is more at the longest window than at the shortest",
            (gain(stream, last) > gain(stream, first) for stream in table.streams),
        ),
        claim(
            "users of lsp, lpu, lpd and lpa report less often in longer windows",
            sent.falls(POPULATION),
        ),
    ]


def of_data(rows: Sequence[Row]) -> list[Claim]:
    """Section 7.3 with figure 6, section 7.5 with figures 8(a) and 8(b)."""
    users, steps, speeds = (
        _Table([row for row in rows if row.varied == varied]) for varied in ("users", "sqrt_q", "b")
    )
    sent = _Table([row for row in rows if row.varied == "sqrt_q"], "cfpu")
    slow = [step for step in steps.values if step <= SLOW]
    return [
        claim("the error of every method falls with the number of users", users.falls()),
        claim("on LNS the error of every method grows with the step", steps.grows()),
        claim("on Sin the error of every method grows with the speed", speeds.grows()),
        claim(
            "every method of population division has less error than all of budget division",
            users.divided() + steps.divided() + speeds.divided(),
        ),
        claim(
            f"on LNS lsp has the least error at steps up to {SLOW}",
            (
                all(
                    below(steps.at(stream, step, "lsp"), steps.at(stream, step, method))
                    for method in NAMES
                    if method != "lsp"
                )
                for stream, step in product(steps.streams, slow)
            ),
        ),
        claim(
            "on LNS lsp has more error than lpd and lpa at the largest step",
            steps.less("lpd", "lsp", steps.values[-1:])
            + steps.less("lpa", "lsp", steps.values[-1:]),
        ),
        claim(
            "on LNS lpd and lpa have more error than lpu at the largest step",
            steps.less("lpu", "lpd", steps.values[-1:])
            + steps.less("lpu", "lpa", steps.values[-1:]),
        ),
        claim(
            "lpd and lpa have less error than lpu at the least step and speed",
            steps.less("lpd", "lpu", steps.values[:1])
            + steps.less("lpa", "lpu", steps.values[:1])
            + speeds.less("lpd", "lpu", speeds.values[:1])
            + speeds.less("lpa", "lpu", speeds.values[:1]),
        ),
        claim("users of lpd and lpa report more often at larger steps", sent.grows(("lpd", "lpa"))),
    ]


def _walks(rows: Sequence[Row]) -> list[Row]:
    """Those of LNS, which figure 8 is of."""
    return [row for row in rows if row.stream.startswith("lns")]
