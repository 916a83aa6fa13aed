"""Table 2: how often users report, beside what is printed."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise, product

from ldp_kafka.accounting.words import at_most
from ldp_kafka.evaluation.claims import Claim, claim
from ldp_kafka.evaluation.experiment import (
    Experiment,
    Row,
    Rows,
    by,
    measured,
    points,
    values_of,
    where,
)
from ldp_kafka.evaluation.ldp_ids import comparison
from ldp_kafka.evaluation.ldp_ids.comparison import NAMES
from ldp_kafka.evaluation.ldp_ids.crowds import stream
from ldp_kafka.evaluation.plots import Panel

__all__ = ["EXPERIMENTS", "PRINTED", "SETTINGS", "TOLERANCE", "claims", "panels", "rows"]

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


def rows(
    settings: Iterable[tuple[float, int]] = SETTINGS, *, repetitions: int = 20, seed: int = 0
) -> list[Row]:
    """Sin and Log of 200,000 users and 800 slots, oracle GRR; other noise in every run."""
    made: list[Row] = []
    for (epsilon, window), (at, name) in product(settings, enumerate(("sin", "log"))):
        crowd = stream(name)
        for method in NAMES:
            protocol = comparison.made(method, epsilon, window, crowd.counts.shape[1])
            found = comparison.runs(protocol, [crowd] * repetitions, seed=(seed, len(made)))
            printed = PRINTED[epsilon, window][method][at]
            cfpu = measured(cfpu=[run["cfpu"] for run in found])
            away = [run["cfpu"] / printed - 1 for run in found]
            made.append(
                {"stream": name, "epsilon": epsilon, "window": window, "method": method}
                | {"printed": printed, **cfpu, "away": cfpu["cfpu"] / printed - 1}
                | {"farthest": max(away, key=abs), "runs": repetitions}
            )
    return made


def claims(found: Rows) -> list[Claim]:
    """Every mean against what is printed, and the order of the table."""
    cells = by(found, "stream", "epsilon", "window", "method")
    return [
        claim(
            f"the mean of all runs is within {TOLERANCE:.0%} of the printed value",
            (abs(row["away"]) < TOLERANCE for row in found),
        ),
        claim(
            "lpa reports less often than lpd, that than lpu, that than lba, and that than lbd",
            (
                all(
                    cells[*cell, less]["cfpu"] < cells[*cell, more]["cfpu"]
                    for less, more in pairwise(("lpa", "lpd", "lpu", "lba", "lbd"))
                )
                for cell in values_of(found, "stream", "epsilon", "window")
            ),
        ),
    ]


def panels(found: Rows) -> list[Panel]:
    """How far means are from what is printed, one panel for each stream and setting; shaded: as far
    as they may be.
    """
    made = []
    for name, epsilon, window in values_of(found, "stream", "epsilon", "window"):
        part = [
            {**row, "away_error": row["cfpu_error"] / row["printed"]}
            for row in where(found, stream=name, epsilon=epsilon, window=window)
        ]
        made.append(
            Panel(
                f"{name}, epsilon {at_most(epsilon)}, window {window}",
                {
                    "mean of all runs": points(part, "away"),
                    "farthest single run": points(part, "farthest"),
                },
                "",
                "(CFPU - printed) / printed",
                yscale="linear",
                band=(-TOLERANCE, TOLERANCE),
                names=[row["method"] for row in part],
            )
        )
    return made


EXPERIMENTS = (
    Experiment(
        "ldp-ids-table-2",
        "LDP-IDS",
        "Table 2",
        "reports of a user in a slot, 200,000 users, 800 slots",
        rows,
        {"settings": ((1.0, 20),), "repetitions": 3},
        claims,
        {"": panels},
        "Sin and Log as the paper makes them; its other data sets are not among ours, or not in its"
        " form",
    ),
)
