"""The streams of LDP-IDS as counts."""

from __future__ import annotations

import numpy as np
import pytest

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.evaluation import data
from ldp_kafka.evaluation.ldp_ids.crowds import (
    REGIONS,
    SYNTHETIC,
    TAXIS,
    binary_counts,
    stream,
    streams_of,
)
from ldp_kafka.evaluation.streams import binary, lns, sin
from tests import needs


@pytest.mark.parametrize("name", SYNTHETIC)
def test_everybody_has_a_value_in_synthetic_streams(name):
    found = stream(name)
    assert found.counts.shape == (800, 2)
    assert (found.counts.sum(axis=1) == found.users).all()
    assert found.users == 200_000


def test_counts_are_those_of_users():
    """The same rounding as of the streams over users."""
    shares = sin(20)
    drawn = [int(slot.sum()) for slot in binary(shares, users=777, seed=1)]
    assert binary_counts(shares, 777)[:, 1].tolist() == drawn


def test_walks_are_those_of_their_seeds():
    assert (stream("lns 2", users=1000).counts == binary_counts(lns(seed=2), 1000)).all()
    assert (stream("lns 2").counts != stream("lns 3").counts).any()


def test_unknown_streams_are_refused():
    with pytest.raises(ConfigurationError, match="known: lns 1"):
        stream("lns")


def test_users_have_what_is_counted():
    """In every slot, dealt out anew, and none of them where there are fewer values than users."""
    counts = np.array([[3, 1, 0], [0, 0, 4]])
    found = streams_of(counts, 6, seed=1)
    for slot, there in enumerate(counts):
        assert [int((found[:, slot] == k).sum()) for k in (-1, 0, 1, 2)] == [2, *there]
    many = streams_of(np.array([[500, 500]] * 2), 1000, seed=1)
    assert 400 < (many[:, 0] == many[:, 1]).sum() < 600  # binomial: 6 standard deviations


def test_taxis_are_the_grid_and_its_quarters():
    with needs.data():
        data.find(REGIONS)
    regions, quarters = stream("taxi_regions"), stream("taxi_quarters")
    assert regions.users == quarters.users == TAXIS
    assert regions.counts.shape == (886, 64)
    assert regions.counts[0, :3].tolist() == [1, 13, 15]
    assert (regions.counts.sum(axis=1) <= TAXIS).all()
    grid = regions.counts.reshape(-1, 8, 8)
    assert (quarters.counts[:, 1] == grid[:, :4, 4:].sum(axis=(1, 2))).all()
    assert (quarters.counts.sum(axis=1) == regions.counts.sum(axis=1)).all()
    assert quarters.truth.sum(axis=1) == pytest.approx(1)
