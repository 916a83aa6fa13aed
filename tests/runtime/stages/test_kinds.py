"""What holds of every kind of stage: neither groups of messages nor crashes change what it says or
what it holds; and what breaks a rule of one of them is told from it.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from random import Random

import pytest

from tests.depth import depth
from tests.fold.conftest import _small  # noqa: F401
from tests.fold.judge import Pure
from tests.fold.test_equivalence import folded
from tests.runtime.shapes import KINDS
from tests.runtime.stages.crashes import differs, names_of, of_kind, over_crashes
from tests.runtime.stages.twins import TWINS

SEEN = {
    "perturb": "reports late duplicates",
    "settle": "reports late",
    "cover": "reports late",
    "delay": "windows late reports",
    **dict.fromkeys(("curate", "known", "ticked"), "windows late releases"),
    "answer": "reports late duplicates requests requests_late requests_refused",
    "answer_at_close": "reports late requests requests_late requests_refused",
    "collect": "reports repeated partials",
    "merge": "releases repeated",
    "phases": "",
    "devices": "reports repeated partials",
}
"""What the logs of a kind have in them."""
SEEDS = range(depth(2, 150))


@cache
def straight(kind, seed):
    """The stage, a log cut into runs, and what one owner makes of it."""
    stage, log = KINDS[kind](seed)
    runs, random, at = [], Random(seed), 0
    while at < len(log):
        size = random.choice((1, 1, 2, 3, 7))
        runs.append(log[at : at + size])
        at += size
    return stage, runs, Pure(stage, runs)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_together_or_one_by_one(kind):
    """Messages give the same bytes and counts, and lead to the same state, however they are cut
    into runs.
    """
    stage, runs, pure = straight(kind, 0)
    log = [message for run in runs for message in run]
    for sizes in ([1] * len(log), [len(log)]):
        assert folded(stage, log, sizes) == pure.whole


@pytest.mark.parametrize("kind", KINDS)
def test_crashes_between_any_two_records_of_a_snapshot(kind):
    """Nothing is lost, nothing is said otherwise or of one name twice, and each owner holds what
    one alone would.
    """
    seen = Counter()
    for seed in SEEDS:
        stage, runs, pure = straight(kind, seed)
        over_crashes(stage, runs, seed, pure)
        names = names_of(stage, pure.records)
        assert len(names) == len(set(names))
        seen.update(pure.counts)
    assert all(seen[name] for name in SEEN[kind.partition("/")[0]].split()), seen


def is_found(twin, kind, seed):
    stage, runs, pure = straight(kind, seed)
    return differs(of_kind(twin, stage), runs, seed, pure)


@pytest.mark.parametrize(("twin", "kind"), TWINS)
def test_broken_twins_are_found(twin, kind):
    """By what they say, or hold, over crashes."""
    assert any(is_found(twin, kind, seed) for seed in range(40))
