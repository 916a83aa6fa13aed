"""Claims: reproduced, not reproduced, or not tried."""

from __future__ import annotations

from ldp_kafka.evaluation.claims import Claim, below, claim, lines


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
