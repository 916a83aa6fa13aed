"""All experiments, by several processes; what a folder has of them is not made again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from ldp_kafka.evaluation import plots
from ldp_kafka.evaluation.experiments import (
    EXPERIMENTS,
    Document,
    asked,
    document,
    evaluated,
    written,
)
from ldp_kafka.evaluation.pool import mapped
from ldp_kafka.evaluation.report.page import page
from ldp_kafka.evaluation.report.summary import Report

__all__ = ["PAGE", "report"]

PAGE = "index.html"


def report(
    directory: Path,
    *,
    quick: bool,
    jobs: int = 1,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Write each experiment and its plots into a folder, and the page of all of them.

    Parameters
    ----------
    jobs : processes
    progress : is told how many experiments are done

    Raises
    ------
    ConfigurationError : there is no matplotlib
    """
    plots.needed()
    found: dict[str, Document] = {}
    absent: dict[str, str] = {}
    for name in EXPERIMENTS:
        had = _kept(directory, name, quick=quick)
        if had is not None:
            found[name] = had
    missing = [name for name in EXPERIMENTS if name not in found]
    for name, made in mapped(partial(_made, directory=directory, quick=quick), missing, jobs):
        if isinstance(made, str):
            absent[name] = made
        else:
            found[name] = made
        if progress is not None:
            progress(len(found) + len(absent))
    whole = Report(quick, found, {name: absent[name] for name in EXPERIMENTS if name in absent})
    directory.mkdir(parents=True, exist_ok=True)
    (directory / PAGE).write_text(page(whole, directory), encoding="utf-8")
    return whole


def _kept(directory: Path, name: str, *, quick: bool) -> Document | None:
    """What a folder has of an experiment, asked for in the same way, with its plots for a page."""
    try:
        found: Document = json.loads((directory / f"{name}.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # or torn
        return None
    files = [file for each in found.get("plots", {}).values() for file in each]
    same = all(found.get(key) == value for key, value in asked(name, quick=quick).items())
    there = all(file.endswith(".svg") and (directory / file).is_file() for file in files)
    return found if same and there else None


def _made(name: str, *, directory: Path, quick: bool) -> Document | str:
    """The result of an experiment, or the name of the data set that is missing."""
    start = time.perf_counter()
    try:
        found = evaluated(name, quick=quick, directory=directory, draw=plots.draw_apart)
    except FileNotFoundError as error:
        return str(error)
    made = document(name, found, quick=quick) | {"minutes": (time.perf_counter() - start) / 60}
    written(directory, made)
    return made
