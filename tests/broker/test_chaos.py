"""Faults of every kind, over every method, on clusters of 1 and 3 nodes: no report is second,
missing or different, nor a release, nor a state; nobody is over budget; no event is lost.
"""

from __future__ import annotations

import itertools
import os
import random
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.broker.chaos import faults
from tests.broker.chaos.run import play, schedule, seed
from tests.runtime.test_methods import STREAMS

# see `World.stable`
pytestmark = pytest.mark.filterwarnings("ignore:list_groups:DeprecationWarning")
FAULTS = int(os.environ.get("LDP_KAFKA_FAULTS", "1000"))


def dealt(number: int, hands: int) -> list[list[str]]:
    """All methods in so many hands: every worker of a round runs one of each of its methods, so
    smaller ones come again sooner.
    """
    methods = list(STREAMS)
    random.Random(number).shuffle(methods)
    return [methods[at::hands] for at in range(hands)]


def test_faults_of_every_kind(can_start, tmp_path, prefix):
    """Two rounds on one node and one on three, each with a third of the methods."""
    number = seed()
    order = schedule(random.Random(number), faults.ONE_NODE)
    # which comes with the leave before it
    half = len(order) // 2 + (order[len(order) // 2] is faults.join)
    of = [
        (1, order[:half]),
        (1, order[half:]),
        (3, schedule(random.Random(number), faults.THREE_NODES)),
    ]
    rounds = [
        play(tmp_path / str(at), f"{prefix}-{at}", nodes, methods, kinds, number + at)
        for at, ((nodes, kinds), methods) in enumerate(zip(of, dealt(number, len(of)), strict=True))
    ]
    assert sum(len(each.faults) for each in rounds) >= 40
    assert all(each.clean for each in rounds), "\n".join(map(str, rounds))


@pytest.mark.long
def test_a_thousand_faults(can_start, tmp_path, prefix):
    """Rounds over and over, two at a time, with other hands, until there were enough;
    LDP_KAFKA_PROGRESS names a file that tells how it goes.
    """
    number, done, wrong, rounds = seed(), [], [], itertools.count()
    progress, writing = (
        Path(os.environ.get("LDP_KAFKA_PROGRESS", tmp_path / "progress.txt")),
        threading.Lock(),
    )

    def keep_on() -> None:
        while len(done) < FAULTS and len(wrong) < 5:
            with writing:
                at = next(rounds)

            def told(text: str, at: int = at) -> None:
                with writing, progress.open("a") as out:
                    out.write(
                        f"{time.strftime('%H:%M:%S')} [{len(done)} faults] round {at}: {text}\n"
                    )

            nodes, methods = (1, 1, 3)[at % 3], dealt(number + at // 6, 6)[at % 6]
            of = [*(faults.ONE_NODE if nodes == 1 else faults.THREE_NODES * 2), *faults.LONG]
            try:
                made = play(
                    tmp_path / str(at),
                    f"{prefix}-{at}",
                    nodes,
                    methods,
                    schedule(random.Random(number + at), of),
                    number + at,
                    told,
                )
            except Exception:  # one round is none, and is said; the others go on
                told(traceback.format_exc())
                wrong.append(f"round {at}: {traceback.format_exc()}")
                continue
            done.extend(made.faults)
            wrong.extend([] if made.clean else [str(made)])

    with ThreadPoolExecutor(2) as pool:
        for each in [pool.submit(keep_on) for _ in range(2)]:
            each.result()
    assert not wrong, "\n".join(wrong)
