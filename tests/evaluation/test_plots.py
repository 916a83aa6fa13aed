"""Plots: what is on them, and that nothing is cut off."""

from __future__ import annotations

from math import nan

import pytest

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.evaluation import plots
from ldp_kafka.evaluation.plots import Line, Panel, draw, draw_apart

pytest.importorskip("matplotlib")

ERRORS = Panel(
    "one",
    {"a": Line([1, 10], [0.1, 2.0], [0.01, 0.1]), "b": Line([1, 10], [0.2, 1.0])},
    "x",
    "y",
    "log",
)
RATES = Panel("two", {"b": Line([0, 1], [0, 1])}, "x", "y", yscale="linear", diagonal=True)
LONG = "a method of a paper, at so many users, smoothed and clipped to the domain " * 2


@pytest.fixture
def figures(monkeypatch):
    """Those that are drawn, in place of their files."""
    from matplotlib.figure import Figure

    found = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: found.append(figure))
    return found


def test_a_plot_is_drawn(tmp_path):
    (path,) = draw(tmp_path / "deep" / "plot", "Title", [ERRORS, RATES])
    assert path.name == "plot.png"
    assert path.read_bytes().startswith(b"\x89PNG")


def test_panels_apart_are_the_same_bytes_again(tmp_path):
    """Their texts are texts; no id of one is an id of the other."""
    once, again = (draw_apart(tmp_path / at / "plot", "", [ERRORS, RATES]) for at in "12")
    assert [path.name for path in once] == ["plot-1.svg", "plot-2.svg"]
    assert [path.read_bytes() for path in once] == [path.read_bytes() for path in again]
    assert ">two</text>" in once[1].read_text()


def test_a_line_looks_alike_in_all_panels(figures, tmp_path):
    draw_apart(tmp_path / "plot", "", [ERRORS, RATES])
    (a, b), (same,) = (
        [made.lines[0].get_color() for made in figure.axes[0].containers] for figure in figures
    )
    assert same == b != a


@pytest.mark.parametrize("drawing", [draw, draw_apart])
def test_no_title_is_cut_off(drawing, figures, tmp_path):
    """Neither a figure's nor a panel's, nor does a long legend take the panel's room."""
    from matplotlib.text import Text

    lines = {f"{LONG[:40]} {at}": Line([1, 2], [1, at]) for at in range(1, 12)}
    drawing(tmp_path / "plot", LONG, [Panel(LONG, lines, "x", "y")])
    (figure,) = figures
    figure.draw_without_rendering()
    boxes = [
        text.get_window_extent()
        for text in figure.findobj(Text)
        if text.get_text().startswith(LONG[:20])
    ]
    assert len(boxes) == len(lines) + (2 if drawing is draw else 1)
    for box in boxes:
        assert 0 <= box.x0 <= box.x1 <= figure.bbox.width
        assert 0 <= box.y0 <= box.y1 <= figure.bbox.height
    assert figure.axes[0].get_window_extent().height > 1.5 * figure.dpi


def test_a_line_without_a_point_is_not_in_the_legend(figures, tmp_path):
    none = {"none": Line([], []), "nan": Line([1, 2], [nan, nan])}
    draw(tmp_path / "plot", "", [ERRORS._replace(lines={**none, **ERRORS.lines})])
    draw(tmp_path / "plot", "", [ERRORS._replace(lines=none)])
    (legend,) = figures[0].legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b"]
    assert not figures[1].legends


def test_without_matplotlib_it_says_so(monkeypatch):
    monkeypatch.setattr(plots, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"pip install '\.\[plots\]'"):
        plots.needed()
