"""Faults of every kind, over every method, on clusters of 1 and 3 nodes: no report is second, missing or different, nor a release, nor a state; nobody is over budget; no event is lost."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from tests.broker.chaos import faults
from tests.broker.chaos.run import play, schedule, seed
from tests.runtime.test_methods import STREAMS

FAULTS = int(os.environ.get("LDP_KAFKA_FAULTS", "1000"))


def dealt(number: int, hands: int) -> list[list[str]]:
    """All methods in so many hands: every worker of a round runs one of each of its methods, so smaller ones come again sooner."""
    methods = list(STREAMS)
    random.Random(number).shuffle(methods)
    return [methods[at::hands] for at in range(hands)]


def test_faults_of_every_kind(can_start, tmp_path, prefix):
    """Two rounds on one node and one on three, each with a third of the methods."""
    number = seed()
    order = schedule(random.Random(number), faults.ONE_NODE)
    half = len(order) // 2 + (order[len(order) // 2] is faults.join)  # which comes with the leave before it
    of = [(1, order[:half]), (1, order[half:]), (3, schedule(random.Random(number), faults.THREE_NODES))]
    rounds = [
        play(tmp_path / str(at), f"{prefix}-{at}", nodes, methods, kinds, number + at)
        for at, ((nodes, kinds), methods) in enumerate(zip(of, dealt(number, len(of)), strict=True))
    ]
    assert sum(len(each.faults) for each in rounds) >= 40
    assert all(each.clean for each in rounds), "\n".join(map(str, rounds))


@pytest.mark.long
def test_a_thousand_faults(can_start, tmp_path, prefix):
    """Rounds over and over, with other hands, until there were enough; LDP_KAFKA_PROGRESS names a file that tells how it goes."""
    number, done, wrong, at = seed(), 0, [], 0
    progress = Path(os.environ.get("LDP_KAFKA_PROGRESS", tmp_path / "progress.txt"))

    def told(text: str) -> None:
        with progress.open("a") as out:
            out.write(f"{time.strftime('%H:%M:%S')} [{done} faults] {text}\n")

    while done < FAULTS:
        nodes, methods = (1, 1, 3)[at % 3], dealt(number + at // 6, 6)[at % 6]
        of = [*(faults.ONE_NODE if nodes == 1 else faults.THREE_NODES * 2), *faults.LONG]
        made = play(tmp_path / str(at), f"{prefix}-{at}", nodes, methods, schedule(random.Random(number + at), of), number + at, told)
        done, at = done + len(made.faults), at + 1
        if not made.clean:
            wrong.append(str(made))
    assert not wrong, "\n".join(wrong)
