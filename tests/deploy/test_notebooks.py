"""Every notebook runs from top to bottom, and is kept without what it has printed."""

from __future__ import annotations

import json

import pytest

from tests.deploy.code_blocks import ROOT

NOTEBOOKS = sorted((ROOT / "deploy" / "docs" / "notebooks").glob("*.ipynb"))


def test_there_are_some():
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    """Its cells in one namespace, as in a kernel; pictures that its text shows are drawn."""
    monkeypatch.chdir(tmp_path)
    names, shown = {}, []
    cells = json.loads(path.read_text("utf-8"))["cells"]
    for at, cell in enumerate(cells):
        text = "".join(cell["source"])
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
            exec(compile(text, f"{path.name}, cell {at}", "exec"), names)
        else:
            shown += [each.partition(")")[0] for each in text.split("](")[1:]]
    assert all((tmp_path / each).is_file() for each in shown)
