"""Table 2: how often users report, beside what is printed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ldp_kafka.accounting.words import at_most
from ldp_kafka.evaluation.claims import Claim, claim
from ldp_kafka.evaluation.ldp_ids import comparison
from ldp_kafka.evaluation.ldp_ids.comparison import NAMES
from ldp_kafka.evaluation.ldp_ids.crowds import stream
from ldp_kafka.evaluation.plots import Line, Panel

__all__ = ["PRINTED", "SETTINGS", "TOLERANCE", "Row", "claims", "panels", "rows"]

TOLERANCE = 0.03  # of a printed value, that the mean of ten runs may be away from it
SETTINGS = ((1.0, 20), (2.0, 20), (2.0, 40))
# (epsilon, window): {protocol: (Sin, Log)}, as printed in LDP-IDS, Table 2
PRINTED = {
    (1.0, 20): {
        "lbu": (1.0000, 1.0000), "lbd": (1.2719, 1.2671), "lba": (1.1709, 1.1687),
        "lsp": (0.0500, 0.0500), "lpu": (0.0500, 0.0500),
        "lpd": (0.0457, 0.0457), "lpa": (0.0404, 0.0403),
    },
    (2.0, 20): {
        "lbu": (1.0000, 1.0000), "lbd": (1.2800, 1.2823), "lba": (1.1731, 1.1737),
        "lsp": (0.0500, 0.0500), "lpu": (0.0500, 0.0500),
        "lpd": (0.0466, 0.0468), "lpa": (0.0414, 0.0413),
    },
    (2.0, 40): {
        "lbu": (1.0000, 1.0000), "lbd": (1.2643, 1.2575), "lba": (1.1729, 1.1676),
        "lsp": (0.0250, 0.0250), "lpu": (0.0250, 0.0250),
        "lpd": (0.0242, 0.0245), "lpa": (0.0206, 0.0207),
    },
}  # fmt: skip


class Row(NamedTuple):
    """One protocol in one setting."""

    stream: str
    epsilon: float
    window: int
    method: str
    printed: float
    cfpu: float
    """Reports of a user in a slot, mean over runs ..."""
    cfpu_error: float
    """... and its standard error."""
    away: float
    """(mean - printed) / printed."""
    farthest: float
    """The same of the single run that is farthest."""
    runs: int


def rows(
    settings: Iterable[tuple[float, int]] = SETTINGS, *, repetitions: int = 20, seed: int = 0
) -> list[Row]:
    """Sin and Log of 200,000 users and 800 slots, oracle GRR; other noise in every run."""
    made: list[Row] = []
    for epsilon, window in settings:
        for at, name in enumerate(("sin", "log")):
            crowd = stream(name)
            for method in NAMES:
                found = [
                    run.reports
                    for run in comparison.runs(
                        comparison.made(method, epsilon, window, crowd.counts.shape[1]),
                        [crowd] * repetitions,
                        seed=(seed, len(made)),
                    )
                ]
                printed = PRINTED[epsilon, window][method][at]
                mean, error = comparison.mean_of(found)
                away = [one / printed - 1 for one in found]
                made.append(
                    Row(
                        name,
                        epsilon,
                        window,
                        method,
                        printed,
                        mean,
                        error,
                        mean / printed - 1,
                        max(away, key=abs),
                        repetitions,
                    )
                )
    return made


def claims(found: Sequence[Row]) -> list[Claim]:
    """Every mean against what is printed, and the order of the table."""
    cells = {(row.stream, row.epsilon, row.window) for row in found}
    by = {(row.stream, row.epsilon, row.window, row.method): row.cfpu for row in found}
    return [
        claim(
            f"the mean of all runs is within {TOLERANCE:.0%} of the printed value",
            (abs(row.away) < TOLERANCE for row in found),
        ),
        claim(
            "lpa reports less often than lpd, that than lpu, that than lba, and that than lbd",
            (
                by[*cell, "lpa"]
                < by[*cell, "lpd"]
                < by[*cell, "lpu"]
                < by[*cell, "lba"]
                < by[*cell, "lbd"]
                for cell in cells
            ),
        ),
    ]


def panels(found: Sequence[Row]) -> list[Panel]:
    """How far means are from what is printed, one panel for each stream and setting; shaded: as far
    as they may be.
    """
    made = []
    for cell in dict.fromkeys(row[:3] for row in found):
        part = [row for row in found if row[:3] == cell]
        name, epsilon, window = cell
        x = list(range(len(part)))
        error = [row.cfpu_error / row.printed for row in part]
        lines = {
            "mean of all runs": Line(
                x, [row.away for row in part], error if part[0].runs > 1 else None, joined=False
            ),
            "farthest single run": Line(x, [row.farthest for row in part], joined=False),
        }
        made.append(
            Panel(
                f"{name}, epsilon {at_most(epsilon)}, window {window}",
                lines,
                "",
                "(CFPU - printed) / printed",
                yscale="linear",
                band=(-TOLERANCE, TOLERANCE),
                names=[row.method for row in part],
            )
        )
    return made
