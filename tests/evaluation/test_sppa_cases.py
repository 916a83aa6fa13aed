"""What sorting undoes, and maps of velocity."""

from __future__ import annotations

import numpy as np
import pytest

from ldp_kafka.evaluation import sppa_cases
from ldp_kafka.evaluation.sppa_cases import cleaned, journeys


def test_sorting_undoes_an_order_and_a_lag():
    truth = journeys(3, 60)
    assert (np.diff(truth) >= 0).all()
    blocks = truth.reshape(3, 15, 4)[:, :, ::-1].reshape(3, 60)
    assert cleaned(blocks, truth) == (0.0, 0)
    late = np.concatenate([np.zeros((3, 5)), truth[:, :-5]], axis=1)
    assert cleaned(late, truth) == (0.0, 5)
    error, _ = cleaned(truth + 0.1, truth)
    assert error > 1e-3, "what is no value of the stream stays wrong"


def test_etm_is_undone_and_sppa_is_not():
    rows = sppa_cases.cleaning(40)
    assert all(each.reproduced for each in sppa_cases.of_cleaning(rows))
    hidden = [dict(row, left=0.5) for row in rows]
    assert not any(each.reproduced for each in sppa_cases.of_cleaning(hidden))


def test_maps_are_in_the_order_of_the_paper():
    rows = sppa_cases.maps(("trips",))
    near, fast = sppa_cases.of_maps(rows)
    assert (near.reproduced, fast.reproduced) == (True, False)
    turned = [dict(row, distance=-row["distance"], fastest=row["method"] == "etm") for row in rows]
    assert [each.reproduced for each in sppa_cases.of_maps(turned)] == [False, True]


@pytest.mark.parametrize("at", [0, 1])
def test_pictures_have_the_truth_in_them(at):
    experiment = sppa_cases.EXPERIMENTS[at]
    (draw,) = experiment.figures.values()
    first, *others = draw(experiment.rows(**experiment.quick))
    if at:
        assert first.title == "true"
        assert all(panel.image.shape == first.image.shape == (60, 60) for panel in others)
    else:
        assert list(first.lines) == ["true", "released", "cleaned"]
