"""Releases of single reports, and of streams, written many at a time."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from ldp_kafka.mechanisms.base import Estimate
from ldp_kafka.methods.delay import Closed
from ldp_kafka.records import Release
from ldp_kafka.runtime.wire.records import decode_json, encode_json
from ldp_kafka.runtime.wire.user_releases import write_stream_releases, write_user_releases
from ldp_kafka.statistics import Singles

ODD = [0.0, -0.0, 1 / 3, -2.5, 1e16, 1e22, 1e-7, 5e-324, 1.7e307, 123456789.123456789, 0.1 + 0.2]
GUARANTEE = {"epsilon": 0.5, "of": ['"value":null', None], "é": {}}


def _common(slot, **numbers):
    given = {"value": None, "standard_error": None, "confidence_interval": None} | numbers
    names = ("topology", "start", "end", "statistic", "strategy")
    texts = {name: f'{name} "é\\' for name in names}
    return Release(slot=slot, reports=1, guarantee=GUARANTEE, **given, **texts)


def _plain(value):
    """As floats are published: 15 digits, and null for what a vector lacks."""
    if isinstance(value, list):
        return [_plain(each) if np.isfinite(each) else None for each in value]
    return float(f"{value:.15g}")


@pytest.mark.parametrize("shape", ["numbers", "alike", "vectors"])
@pytest.mark.parametrize("users", [True, False])
def test_each_is_the_release_that_it_would_be_alone(shape, users):
    """Down to the byte, and read again as it was."""
    values, n = np.array(ODD), len(ODD)
    errors, shares = np.abs(values[::-1]), np.linspace(0, 1, n)
    if shape == "alike":
        errors, shares = np.full(n, 1 / 3), 0.25
    if shape == "vectors":
        values = np.stack([values, np.full(n, np.nan), values[::-1]], axis=1)
        errors = np.where(np.isnan(values), np.nan, 1 / 3)
    slots = [5, 5, 6, 5, 10**9, *range(n - 5)]
    links = [f"{at:032x}" if users else None for at in range(n)]
    written = write_user_releases(_common, slots, Singles(values, errors, shares), links)
    for at in range(n):
        alone = Estimate(values[at], errors[at], 1)
        low, high = alone.interval()
        expected = _common(
            slots[at],
            value=_plain(values[at].tolist()),
            standard_error=_plain(errors[at].tolist()),
            confidence_interval=[_plain(low.tolist()), _plain(high.tolist())],
        )
        reliability = _plain(np.broadcast_to(shares, n)[at])
        expected = {
            **json.loads(encode_json(expected)),
            **({"user": links[at]} if users else {}),
            "reliability": reliability,
        }
        assert written[at] == json.dumps(expected, separators=(",", ":")).encode()


def _closed(values, errors, reason=None):
    low, high = Estimate(values, errors, 1).interval()
    return Closed(7, *(np.asarray(part)[None] for part in (values, errors, low, high)), reason)


@pytest.mark.parametrize("vectors", [False, True])
def test_a_release_without_an_error_says_why(vectors):
    """Of a user and of a stream; where an error is stated nothing is said."""
    values = np.array([[1.5, np.nan], [2.5, 0.5]]) if vectors else np.array([1.5, 2.5])
    found = Singles(values, np.full(values.shape, np.nan), 0.5, None, "mixed_slots")
    common = _common(5, value=_plain(values[0].tolist()), error_reason="mixed_slots")
    alone = replace(common, user="aa", reliability=0.5)
    assert write_user_releases(_common, [5, 5], found, ["aa", "bb"])[0] == encode_json(alone)
    if not vectors:
        errors = np.array([np.nan, 1.0])
        first, second = write_stream_releases(
            _common(7), _closed(values, errors, "mixed_slots"), ["a", "b"]
        )
        said = replace(_common(7, value=1.5), user="a", error_reason="mixed_slots")
        assert first == encode_json(said)
        assert decode_json(json.loads(first)).error_reason == "mixed_slots"
        assert b"error_reason" not in second


def test_limits_are_written_as_they_are():
    ends = np.array([0.25, 1.0]), np.array([3.0, 4.5])
    found = Singles(np.array([1.5, 2.5]), np.ones(2), 0.5, ends)
    written = write_user_releases(_common, [5, 5], found, ["aa", "bb"])
    assert [json.loads(each)["confidence_interval"] for each in written] == [
        [0.25, 3.0],
        [1.0, 4.5],
    ]


def test_each_stream_s_is_the_release_that_it_would_be_alone():
    """Of any float, with an error or none, whatever the stream is called."""
    rng = np.random.default_rng(5)
    some = rng.integers(0, 2**64, 4000, np.uint64).view(np.float64)
    some = some[np.abs(some) < 1e300]  # an interval is finite, too
    near = 10.0 ** rng.integers(-6, 18, 2000) * rng.random(2000)
    values = np.concatenate([ODD, some, near, np.arange(99.0), near.round(2)])
    errors = np.abs(rng.permutation(values))
    errors[::3] = np.nan
    streams = [('"', "\\", "é", "a/b", "\n")[at % 5] + str(at) for at in range(len(values))]
    written = write_stream_releases(_common(7), _closed(values, errors), streams)
    low, high = Estimate(values, errors, 1).interval()
    said = zip(values, errors, np.stack([low, high], axis=1).tolist(), streams, strict=True)
    for found, (value, error, interval, stream) in zip(written, said, strict=True):
        known = {} if np.isnan(error) else {"standard_error": _plain(error)}
        if known:
            known["confidence_interval"] = _plain(interval)
        alone = replace(_common(7, value=_plain(value), **known), user=stream)
        assert found == encode_json(alone)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_number_must_be_finite(wrong):
    """As JSON has no other."""
    found = Singles(np.array([1.0, wrong]), np.ones(2), 0.5)
    with pytest.raises(ValueError, match="must be finite"):
        write_user_releases(_common, [1, 1], found, ["a", "b"])
    with pytest.raises(ValueError, match="must be finite"):
        write_stream_releases(_common(1), _closed(found.values, np.ones(2)), ["a", "b"])


def test_an_error_may_be_unknown_and_not_infinite():
    with pytest.raises(ValueError, match="must be finite"):
        closed = Closed(1, np.ones((1, 2)), *[np.array([[1.0, np.inf]])] * 3)
        write_stream_releases(_common(1), closed, ["a", "b"])
