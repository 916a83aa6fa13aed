"""``ldp-kafka evaluate --all``: the page, and what is in its folder."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from ldp_kafka.cli import main
from ldp_kafka.evaluation.experiments import EXPERIMENTS
from ldp_kafka.evaluation.report import run
from ldp_kafka.evaluation.report.columns import TIMES
from ldp_kafka.evaluation.report.run import PAGE, report
from ldp_kafka.evaluation.report.summary import Report, ratios

pytest.importorskip("matplotlib")
FREE = ("cgm", "sppa-epsilon", "sppa-monitoring", "ldp-ids-meters", "ldp-ids-scale")
"""They need no data sets, and a second."""


def only(monkeypatch, *names):
    """These are all the experiments that there are."""
    for name in set(EXPERIMENTS) - set(names):
        monkeypatch.delitem(EXPERIMENTS, name)


def without_times(path):
    """A file's text, but for what may differ from run to run."""
    text = path.read_text("utf-8")
    if path.suffix == ".json":
        names = "|".join(sorted(TIMES))
        return re.sub(rf'"({names})": [\d.e-]+', "", text)
    return re.sub(r"<time>.*?</time>", "", text)


def test_twice_is_the_same_but_for_times(monkeypatch, tmp_path):
    """In this process, and in two others."""
    only(monkeypatch, *FREE)
    files = []
    for at, jobs in enumerate((1, 2)):
        report(tmp_path / str(at), quick=True, jobs=jobs)
        files.append({path.name: without_times(path) for path in (tmp_path / str(at)).iterdir()})
    assert {*files[0]} > {PAGE, "cgm.json", "cgm-1.svg", "ldp-ids-scale.json"}
    assert files[0] == files[1]


def test_what_is_there_is_not_made_again(monkeypatch, tmp_path):
    """But what is torn is, or what was made of something else, or lacks a plot."""
    only(monkeypatch, *FREE)
    made, evaluated = [], run.evaluated
    monkeypatch.setattr(
        run, "evaluated", lambda name, **how: made.append(name) or evaluated(name, **how)
    )
    done = []
    report(tmp_path, quick=True, progress=done.append)
    page = (tmp_path / PAGE).read_text()
    assert ({*made}, done) == ({*FREE}, [1, 2, 3, 4, 5])
    made.clear()
    report(tmp_path, quick=True)
    assert not made
    assert (tmp_path / PAGE).read_text() == page
    (tmp_path / "cgm-1.svg").unlink()
    torn = tmp_path / "ldp-ids-scale.json"
    torn.write_text(torn.read_text()[:-20])
    other = tmp_path / "ldp-ids-meters.json"
    for key, value in (("version", "0.0.1"), ("depth", "full"), ("parameters", {"slots": 99})):
        other.write_text(json.dumps({**json.loads(other.read_text()), key: value}))
        report(tmp_path, quick=True)
    assert sorted(made) == ["cgm", *["ldp-ids-meters"] * 3, "ldp-ids-scale"]


def test_a_missing_data_set_is_told(monkeypatch, tmp_path, capsys):
    """It is left out, and asked for again the next time."""
    only(monkeypatch, "cgm", "capp-table-1")
    monkeypatch.setenv("LDP_KAFKA_DATA", str(tmp_path))
    out = tmp_path / "out"
    for _ in range(2):
        assert main(["evaluate", "--all", "--out", str(out), "--jobs", "1"]) == 0
        said = capsys.readouterr().out.splitlines()
        assert said[0] == "1 experiments, 1 left out, since a data set is missing"
        assert said[-1] == str(out / PAGE)
    page = (out / PAGE).read_text()
    assert "Air Quality, from https://archive.ics.uci.edu/dataset/360" in page
    assert "CAPP, Table I: its data set is missing: see capp-table-1" in page
    assert "CAPP, Figure 4: not built yet" in page


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--all"], "--all --out FOLDER"),
        (["--all", "cgm", "--out", "x"], "--all --out FOLDER"),
        (["--all", "--out", "x", "--runs", "3"], "--runs is of coverage"),
        (["cgm", "--jobs", "2"], "--jobs is of coverage"),
    ],
)
def test_what_is_asked_for_must_be_clear(arguments, said, capsys):
    assert main(["evaluate", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_the_depth(monkeypatch, capsys, tmp_path):
    """Of one experiment full where nothing is said, of all of them quick."""
    only(monkeypatch, "cgm")
    cgm, depths = EXPERIMENTS["cgm"], []
    rows = cgm.rows
    spied = cgm._replace(rows=lambda **how: depths.append(how) or rows(users=10))
    monkeypatch.setitem(EXPERIMENTS, "cgm", spied)
    one, every = ["evaluate", "cgm"], ["evaluate", "--all", "--jobs", "1", "--out"]
    for at, given in enumerate(([], ["--depth", "full"], ["--quick"], ["--depth", "quick"])):
        assert main([*one, *given]) == 0
        assert main([*every, str(tmp_path / str(at)), *given]) == 0
    full, quick = {}, dict(cgm.quick)
    assert depths == [full, quick, full, full, quick, quick, quick, quick]


class Read(HTMLParser):
    """What a page has."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.ids, self.links, self.open, self.words = [], [], [], [], ""
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in {"meta", "br"}:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            elif name in {"href", "src", "xlink:href"}:
                self.links.append(value)
            else:
                self.links += re.findall(r"url\((.*?)\)", value or "")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += data


def test_the_page_stands_by_itself(monkeypatch, tmp_path):
    """Well formed; it loads nothing, runs nothing, and each link leads to the one id that it names.
    Text is escaped. Nothing is drawn in black.
    """
    only(monkeypatch, *FREE)
    wild = EXPERIMENTS["cgm"]._replace(data="<b>&1</b>")
    monkeypatch.setitem(EXPERIMENTS, "cgm", wild)
    made = report(tmp_path, quick=True)
    page = (tmp_path / PAGE).read_text()
    read = Read(page)
    assert not {"script", "link", "img", "iframe"} & {*read.tags}
    assert len(read.ids) == len({*read.ids})
    assert {*read.links} <= {f"#{each}" for each in read.ids}
    assert {*FREE, "summary", "paper-sppa", "c-mse"} <= {*read.ids}
    assert "Data: <b>&1</b>." in read.words
    plots = [
        file for each in made.documents.values() for of in each["plots"].values() for file in of
    ]
    assert read.tags.count("svg") == len(plots) == 3
    assert "#000000" not in page
    assert "prefers-color-scheme: dark" in page
    for each in made.documents.values():
        for claim in each["claims"]:
            assert (
                f"{claim['held']} of {claim['settings']} settings): {claim['statement']}"
                in read.words
            )


def found(claims=(), **columns):
    """A document of an experiment."""
    rows = [dict(zip(columns, of, strict=True)) for of in zip(*columns.values(), strict=True)]
    return {"rows": rows, "claims": [{"reproduced": each} for each in claims]}


def test_ours_over_what_is_printed():
    """Of the column after it, where both are there."""
    of = found(
        mae=[9, 9, 9, 9], printed=[2.0, None, 0.5, 1.0], mse=[2.1, 1.0, None, 2.0], z=[1] * 4
    )
    assert ratios(of) == [1.05, None, None, 2.0]
    assert ratios(found(mse=[1.0, 2.0])) == [None, None]
    assert ratios(found()) == []


def test_the_tally():
    """Each of two papers, and both."""
    documents = {
        "sppa-tau": {**found([True, False, None]), "experiment": "sppa-tau"},
        "ldp-ids-table-2": {
            **found([True], printed=[1.0, 1.0, None, 1.0], cfpu=[1.04, 0.94, 1.0, 0.96]),
            "experiment": "ldp-ids-table-2",
        },
    }
    of = Report(True, documents, {"ldp-ids-events": "no file"})
    assert of.tally("SPPA") == (1, 1, 7, 0, 0, 1, 1, 1)
    assert of.tally("LDP-IDS") == (1, 1, 6, 2, 3, 1, 0, 0)
    assert of.tally("SPPA", "LDP-IDS") == (2, 2, 13, 2, 3, 2, 1, 1)
    assert "TICC" in of.unmade("SPPA")["Table 1"]
    assert of.unmade("SPPA")["Figure 5"] == "not built yet"
    assert of.unmade("LDP-IDS")["Figure 7"].startswith("its data set is missing")
