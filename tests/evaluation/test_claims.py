"""Claims: reproduced, not reproduced, or not tried."""

from __future__ import annotations

import pytest

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.evaluation import plots
from ldp_kafka.evaluation.claims import Claim, below, claim, lines
from ldp_kafka.evaluation.plots import Line, Panel, draw


def test_a_claim_needs_its_share():
    assert claim("all", [True, True]).reproduced
    assert not claim("all", [True, False]).reproduced
    assert claim("half", [True, False], 0.5).reproduced
    assert not claim("half", [True, False, False], 0.5).reproduced


def test_a_claim_of_nothing_was_not_tried():
    assert claim("nothing", []).reproduced is None
    assert lines([claim("nothing", [])]) == ["not tried (no setting of these rows tells): nothing"]


def test_what_is_not_told_apart_is_not_below():
    assert below((1.0, 0.1), (2.0, 0.1))
    assert not below((2.0, 0.1), (1.0, 0.1))
    assert not below((1.0, 0.1), (1.2, 0.1))
    assert not below((1.0, float("inf")), (2.0, 0.1)), "one run tells nothing"


def test_lines_say_both():
    held, missed = Claim("a", 2, 2, 1.0), Claim("b", 2, 1, 1.0)
    assert [line.split(" (")[0] for line in lines([held, missed])] == [
        "reproduced",
        "not reproduced",
    ]


def test_a_plot_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    panel = Panel(
        "one",
        {"a": Line([1, 10], [0.1, 2.0], [0.01, 0.1]), "b": Line([1, 10], [0.2, 1.0])},
        "x",
        "y",
        "log",
    )
    rates = Panel("two", {"a": Line([0, 1], [0, 1])}, "x", "y", yscale="linear", diagonal=True)
    path = draw(tmp_path / "deep" / "plot.png", "Title", [panel, rates])
    assert path.read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_it_says_so(monkeypatch):
    monkeypatch.setattr(plots, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"pip install '\.\[plots\]'"):
        plots.needed()
