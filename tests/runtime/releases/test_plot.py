"""The picture: something is drawn of every kind of release, and files are whole or not there."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.runtime.releases import plot as plots
from ldp_kafka.runtime.releases.plot import check_plot, plot
from tests.runtime.releases.made import HOUR, above, release, shares
from tests.runtime.releases.test_lists import ALL as VECTORS

pytest.importorskip("matplotlib")


@pytest.fixture
def drawn(monkeypatch):
    """The figure that is saved."""
    from matplotlib.figure import Figure

    saved, save = [], Figure.savefig

    def keep(figure, *args, **more):
        saved.append(figure)
        save(figure, *args, **more)

    monkeypatch.setattr(Figure, "savefig", keep)
    return saved


def panels(figure):
    return [axis for axis in figure.axes if axis.get_visible()]


def ends_of(axis):
    """The ends of the error bars (n, 2), in the order of the points."""
    [bars] = axis.containers
    [lines] = bars[2]
    return np.array([segment[:, 1] for segment in lines.get_segments()])


def heights(axis):
    [bars] = axis.containers
    return bars[0].get_ydata().tolist()


@pytest.mark.parametrize("ending", plots.FORMATS)
def test_a_mean_over_time(tmp_path, drawn, ending):
    """Values and intervals as released; a slot without one is a gap."""
    made = [
        release(2, 3.0, confidence_interval=[1.0, 6.0]),
        release(1, 10.0),
        release(3, None, confidence_interval=None, standard_error=None, reports=0),
    ]
    path = tmp_path / f"x.{ending}"
    assert plot(path, made, HOUR, title="meters", caption="Guarantee: none.") == []
    start = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[ending]
    assert path.read_bytes().startswith(start)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    [axis] = panels(drawn[0])
    assert heights(axis) == [10.0, 3.0]
    assert ends_of(axis).tolist() == [[8.0, 12.0], [1.0, 6.0]]
    assert axis.get_ylabel() == "mean"
    assert drawn[0].texts[-1].get_text().startswith("Bars: 95 % intervals. Guarantee: none.")


def test_a_panel_each_number(tmp_path, drawn):
    """Named, on one scale; the crowd's first."""
    made = [release(slot, float(slot), "per_user", user=user) for slot in (1, 2) for user in "ba"]
    made += [shares(slot, [0.2, 0.7], categories=["maps", "mail"]) for slot in (1, 2)]
    plot(tmp_path / "x.png", made, HOUR, title="t", caption="c")
    titles = [axis.get_title(loc="left") for axis in panels(drawn[0])]
    assert titles == ["maps", "mail", "a", "b"]
    maps, mail, *_ = panels(drawn[0])
    assert maps.get_ylim() == mail.get_ylim()
    assert maps.get_ylim()[0] < 0.1 < 0.8 < maps.get_ylim()[1]
    assert heights(mail) == [0.7, 0.7]


def test_many_users_are_said_to_be_left_out(tmp_path, drawn):
    made = [release(1, 1.0, "per_user", user=f"{user:02}") for user in range(30)]
    [note] = plot(tmp_path / "x.png", made, HOUR, title="t", caption="c")
    assert note == "per_user: 12 of 30 are shown."
    assert len(panels(drawn[0])) == 12
    assert note in drawn[0].texts[-1].get_text().replace("\n", " ")


def test_events_are_probabilities(tmp_path, drawn):
    made = [above(1, 1, 0.02), above(2, 0, 0.25)]
    plot(tmp_path / "x.png", made, HOUR, title="t", caption="c")
    [axis] = panels(drawn[0])
    assert heights(axis) == [0.98, 0.25]
    assert axis.get_ylabel() == "probability above 5"
    assert axis.get_ylim() == pytest.approx((-0.05, 1.05))


def test_the_newest_distribution(tmp_path, drawn):
    """Over its bins; one without reports is passed over."""
    edges = [0.0, 5.0, 20.0]
    made = [
        shares(2, [0.25, 0.75], statistic="distribution", edges=edges),
        shares(1, [0.5, 0.5], statistic="distribution", edges=edges),
        shares(3, None, statistic="distribution", edges=edges),
    ]
    plot(tmp_path / "x.png", made, HOUR, title="t", caption="c")
    [axis] = panels(drawn[0])
    bars = [(patch.get_x(), patch.get_width(), patch.get_height()) for patch in axis.patches]
    assert bars == [(0.0, 5.0, 0.25), (5.0, 15.0, 0.75)]
    assert "1970-01-01T02:00:00Z" in axis.get_title(loc="left")


def test_a_distribution_that_is_held_without_an_error(tmp_path, drawn):
    """Its bins are drawn, and no bars of length 0; so is a mean's value."""
    without = {"standard_error": None, "confidence_interval": None, "error_reason": "no_reports"}
    made = [
        shares(1, [0.25, 0.75], statistic="distribution", edges=[0.0, 5.0, 20.0], **without),
        release(1, 3.0, **without),
        release(2, 4.0),
    ]
    plot(tmp_path / "x.png", made, HOUR, title="t", caption="c")
    bins, mean = panels(drawn[0])
    assert [bar.get_height() for bar in bins.patches] == [0.25, 0.75]
    [lines] = mean.containers[0][2]
    without, with_one = lines.get_segments()
    assert without.size == 0 and with_one[:, 1].tolist() == [2.0, 6.0]


def test_each_number_of_a_list_has_a_panel(tmp_path, drawn):
    """Bars where intervals are; how many have none, and why, is said below."""
    [note] = plot(tmp_path / "x.png", VECTORS, HOUR, title="t", caption="c")
    assert note == "mean: 2 of 5 state no error (clipped)."
    first, second = panels(drawn[0])
    assert [axis.get_title(loc="left") for axis in (first, second)] == ["0", "1"]
    assert (heights(first), heights(second)) == ([1.5, 1.5], [-2.0, -2.0, 3.0])
    [lines] = second.containers[0][2]
    assert [len(each) for each in lines.get_segments()] == [2, 0, 2]
    assert note in drawn[0].texts[-1].get_text().replace("\n", " ")


def test_what_cannot_be_drawn(tmp_path, monkeypatch):
    """Said before anything is read, or with the file that it is about."""
    with pytest.raises(ConfigurationError, match="must end in png, svg, pdf"):
        check_plot(tmp_path / "x.jpg")
    with pytest.raises(ConfigurationError, match="no release to draw"):
        plot(tmp_path / "x.png", [], HOUR, title="t", caption="c")
    far = tmp_path / "no" / "x.png"
    with pytest.raises(ConfigurationError, match="cannot be written: No such file"):
        plot(far, [release(1)], HOUR, title="t", caption="c")
    only_nulls = [release(1, None, confidence_interval=None, standard_error=None, reports=0)]
    plot(tmp_path / "nulls.png", [*only_nulls, release(10**9)], HOUR, title="t", caption="c")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigurationError, match=r"pip install '\.\[plots\]'"):
        check_plot(tmp_path / "x.png")
