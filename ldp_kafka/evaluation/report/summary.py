"""What all experiments together have come to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ldp_kafka.evaluation.experiments import EXPERIMENTS, Document
from ldp_kafka.evaluation.report.papers import NOT_BUILT, PAPERS, STAYS_OUT, shown

__all__ = ["CLOSE", "Report", "Tally", "ratios"]

CLOSE = 0.05
"""Of a printed value, within which a cell of ours is close to it."""


class Tally(NamedTuple):
    """Of some experiments."""

    experiments: int
    shown: int
    """Tables and figures of the paper that they show ..."""
    of: int
    """... of so many."""
    close: int
    """Cells that are `CLOSE` to what is printed ..."""
    printed: int
    """... of so many that have something printed."""
    reproduced: int
    missed: int
    untried: int
    """Claims."""

    def lines(self) -> list[str]:
        """In words.

        Examples
        --------
        >>> print(*Tally(21, 15, 34, 20, 24, 60, 22, 3).lines(), sep="; ")
        15 of 34 tables and figures; 20 of 24 printed cells within 5 %; \
claims: 60 reproduced, 22 not, 3 not tried
        """
        return [
            f"{self.shown} of {self.of} tables and figures",
            f"{self.close} of {self.printed} printed cells within {100 * CLOSE:.0f} %",
            f"claims: {self.reproduced} reproduced, {self.missed} not, {self.untried} not tried",
        ]


def ratios(document: Document) -> list[float | None]:
    """Ours over what is printed, row by row; None where nothing is."""
    rows = document["rows"]
    names = list(rows[0]) if rows else []
    if "printed" not in names:
        return [None] * len(rows)
    ours = names[names.index("printed") + 1]
    return [
        row[ours] / row["printed"] if row["printed"] and row[ours] is not None else None
        for row in rows
    ]


class Report(NamedTuple):
    """All experiments."""

    quick: bool
    documents: Mapping[str, Document]
    """Of those that were made, by name."""
    absent: Mapping[str, str]
    """Why the others were not: which data set is missing."""

    def of(self, paper: str) -> list[Document]:
        """The documents of a paper's experiments."""
        return [
            self.documents[name]
            for name, experiment in EXPERIMENTS.items()
            if experiment.paper == paper and name in self.documents
        ]

    def tally(self, *papers: str) -> Tally:
        """Of some papers."""
        documents = [document for paper in papers for document in self.of(paper)]
        found = [each for document in documents for each in ratios(document) if each is not None]
        claims = [claim["reproduced"] for document in documents for claim in document["claims"]]
        of = sum(len(PAPERS[paper].shows) for paper in papers)
        return Tally(
            len(documents),
            of - sum(len(self.unmade(paper)) for paper in papers),
            of,
            sum(abs(each - 1) <= CLOSE for each in found),
            len(found),
            *(claims.count(each) for each in (True, False, None)),
        )

    def unmade(self, paper: str) -> dict[str, str]:
        """A paper's tables and figures that are not here, and why."""
        made = {what for each in self.of(paper) for what in _shows(each["experiment"])}
        lacking = {what: name for name in self.absent for what in _shows(name)}
        return {
            what: f"its data set is missing: see {lacking[what]}"
            if what in lacking
            else STAYS_OUT.get((paper, what), NOT_BUILT)
            for what in PAPERS[paper].shows
            if what not in made
        }


def _shows(name: str) -> list[str]:
    return shown(EXPERIMENTS[name].shows)
