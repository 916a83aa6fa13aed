"""The page: no scripts, nothing from a network, for a desk and for a phone, light and dark."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from ldp_kafka.evaluation.experiment import Row
from ldp_kafka.evaluation.experiments import EXPERIMENTS, Document, cell
from ldp_kafka.evaluation.report.columns import COLUMNS, TIMES
from ldp_kafka.evaluation.report.markup import folded, inline, items, link, prose, table
from ldp_kafka.evaluation.report.papers import PAPERS
from ldp_kafka.evaluation.report.summary import CLOSE, Report, ratios
from ldp_kafka.version import __version__

__all__ = ["page"]

_STYLE = Path(__file__).with_name("page.css")
_LONG = 16  # rows that are folded
_TITLE = "Five papers on private streams: what is printed, and what comes out"
_NOTES = "How it is measured, what does not come out, and why"
_DEPTH = {
    True: "quick depth (few settings and runs: a claim may fail here and hold at full depth)",
    False: "full depth",
}


def page(of: Report, directory: Path) -> str:
    """All of it as HTML.

    Parameters
    ----------
    directory : where the plots are
    """
    minutes = sum(each.get("minutes", 0.0) for each in of.documents.values())
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{_TITLE}</title>\n<style>\n{_STYLE.read_text('utf-8')}</style></head><body>",
            f"<h1>{_TITLE}</h1>",
            f'<p class="soft">ldp_kafka {__version__}, {_DEPTH[of.quick]},',
            f"<time>{minutes:.1f}</time> minutes of computing</p>",
            _contents(of),
            *_summary(of),
            *(part for paper in PAPERS for part in _paper(of, paper, directory)),
            *_glossary(of),
            "</body></html>\n",
        ]
    )


def _contents(of: Report) -> str:
    papers = (
        link(_id(paper), paper)
        + items(link(each["experiment"], _about(each)) for each in of.of(paper))
        for paper in PAPERS
    )
    ends = link("summary", "Summary"), link("columns", "What the columns mean")
    return f"<nav>{items([ends[0], *papers, ends[1]])}</nav>"


def _summary(of: Report) -> Iterator[str]:
    """Counts by paper; then what does not agree, and what is not here."""
    close = f"cells within {100 * CLOSE:.0f} % of what is printed"
    head = ("", "experiments", "tables and figures", close, "claims: yes", "no", "not tried")
    rows = []
    for name, papers in [*((paper, (paper,)) for paper in PAPERS), ("all", tuple(PAPERS))]:
        tally = of.tally(*papers)
        cells = [f"{tally.shown} of {tally.of}", f"{tally.close} of {tally.printed}"]
        rows.append([name, str(tally.experiments), *cells, *map(str, tally[-3:])])
    yield '<h2 id="summary">Summary</h2>'
    yield table(head, rows)
    for title, found in (
        ("Claims that are not reproduced", _failed(of)),
        ("Experiments with cells that are farther away", _far(of)),
        ("Experiments that are left out, since a data set is missing", _lacking(of)),
        ("Tables and figures that are not here", _unmade(of)),
    ):
        lines = list(found)
        yield folded(f"{title}: {len(lines)}", items(lines)) if lines else ""


def _failed(of: Report) -> Iterator[str]:
    for name, document in of.documents.items():
        for claim in document["claims"]:
            if claim["reproduced"] is False:
                yield f"{link(name, name)}{_held(claim)}: {escape(claim['statement'])}"


def _far(of: Report) -> Iterator[str]:
    for name, document in of.documents.items():
        found = [each for each in ratios(document) if each is not None]
        far = [each for each in found if abs(each - 1) > CLOSE]
        if far:
            times = f"{min(far):.3g} to {max(far):.3g}" if len(far) > 1 else f"{far[0]:.3g}"
            yield f"{link(name, name)}: {len(far)} of {len(found)}, {times} times what is printed"


def _lacking(of: Report) -> Iterator[str]:
    for name, why in of.absent.items():
        yield f"{escape(EXPERIMENTS[name].title)} (<code>{name}</code>): {escape(why)}"


def _unmade(of: Report) -> Iterator[str]:
    for paper in PAPERS:
        for what, why in of.unmade(paper).items():
            yield f"{escape(paper)}, {what}: {escape(why)}"


def _paper(of: Report, paper: str, directory: Path) -> Iterator[str]:
    """A paper's experiments, then what their modules say of them."""
    known, notes = PAPERS[paper], dict[str, list[str]]()
    yield f'<h2 id="{_id(paper)}">{escape(paper)}</h2>'
    yield f'<p class="soft"><cite>{escape(known.title)}</cite> ({escape(known.authors)})</p>'
    for document in of.of(paper):
        yield from _experiment(document, directory)
        rows = EXPERIMENTS[document["experiment"]].rows
        module = sys.modules[getattr(rows, "func", rows).__module__]
        notes.setdefault(module.__doc__ or "", []).append(document["experiment"])
    yield f'<h3 id="{_id(paper)}-notes">{_NOTES}</h3>'
    for text, names in notes.items():
        yield folded(", ".join(names), prose(text))


def _experiment(document: Document, directory: Path) -> Iterator[str]:
    name, rows = document["experiment"], document["rows"]
    quick = document["depth"] == "quick"
    yield f'<h3 id="{name}">{escape(_about(document))}</h3>'
    parameters = ", ".join(f"{key}={value}" for key, value in document["parameters"].items())
    yield f"<p>Data: {escape(document['data'])}.</p>"
    yield f'<p class="soft"><code>ldp-kafka evaluate {name}{" --quick" * quick}</code>'
    yield f"({escape(parameters)})" if parameters else ""
    yield f"· {link(f'{_id(EXPERIMENTS[name].paper)}-notes', 'notes')}</p>"
    untried = f"not tried{' at this depth' * quick}"
    said = {
        True: '<b class="yes">yes</b>',
        False: '<b class="no">no</b>',
        None: f"<b>{untried}</b>",
    }
    yield items(
        (
            f"{said[each['reproduced']]}{_held(each)}: {escape(each['statement'])}"
            for each in document["claims"]
        ),
        "claims",
    )
    for figure, files in document["plots"].items():
        plots = "\n".join(inline(directory / file) for file in files)
        yield f"<h4>{escape(figure)}</h4>" * bool(figure) + f'<div class="plots">{plots}</div>'
    found = _rows(rows, ratios(document))
    yield folded(f"{len(rows)} rows", found) if len(rows) > _LONG else found


def _rows(rows: Sequence[Row], beside: Sequence[float | None]) -> str:
    """What all rows have alike; then a table of the rest: an error with its figure, and how far it
    is from what is printed.
    """
    names = [name for name in rows[0] if not name.endswith("_error")]
    cells = {name: [_cell(row, name) for row in rows] for name in names}
    many = [name for name in names if len(rows) > 1 and name not in TIMES]
    alike = {name: cells[name][0] for name in many if len({*cells[name]}) == 1}
    if any(beside):
        at = names.index("printed")
        names.insert(at + 2, "ours / printed")
        cells[names[at + 2]] = ["-" if each is None else _ratio(each) for each in beside]
        alike = {name: of for name, of in alike.items() if name not in names[at : at + 3]}
    told = [_head(name) + f" {each}" for name, each in alike.items() if each != "-"]
    kept = [name for name in names if name not in alike]
    lines = zip(*(cells[name] for name in kept), strict=True)
    above = f'<p class="soft">In all rows: {"; ".join(told)}</p>' if told else ""
    return above + table([_head(name) for name in kept], lines)


def _head(name: str) -> str:
    return link(f"c-{name}", name, COLUMNS[name]) if name in COLUMNS else escape(name)


def _cell(row: Row, name: str) -> str:
    value, error = row[name], row.get(f"{name}_error")
    if isinstance(value, bool):
        return "yes" if value else "no"
    told = error is not None and error > 1e-12 * abs(value)  # more than rounding leaves
    said = escape(cell(name, value)) + (f" ± {error:.2g}" if told else "")
    return f"<time>{said}</time>" if name in TIMES else said


def _ratio(of: float) -> str:
    return f"{of:.3f}" if abs(of - 1) <= CLOSE else f'<b class="no">{of:.3f}</b>'


def _held(claim: Mapping[str, Any]) -> str:
    return f" ({claim['held']} of {claim['settings']} settings)" * bool(claim["settings"])


def _about(document: Document) -> str:
    """The title without the paper's name."""
    of = EXPERIMENTS[document["experiment"]]
    return of.title.removeprefix(of.paper).lstrip(",: ")


def _id(paper: str) -> str:
    return f"paper-{paper.lower().replace(' ', '-')}"


def _glossary(of: Report) -> Iterator[str]:
    used = {name for each in of.documents.values() for row in each["rows"] for name in row}
    yield '<h2 id="columns">What the columns mean</h2>'
    yield "<p>After ± stands the standard error over runs. A dash: nothing to be said.</p><dl>"
    for name, words in COLUMNS.items():
        if name in used:
            yield f'<dt id="c-{name}">{name}</dt><dd>{escape(words)}</dd>'
    yield "</dl>"
