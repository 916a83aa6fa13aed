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
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.broker.chaos.fault import Fault, NotHeld, Then
from tests.broker.chaos.faults import JOIN, LONG, ONE_NODE, THREE_NODES
from tests.broker.chaos.faults import WINDOWS as OVER_WINDOWS
from tests.broker.chaos.run import Round, play, schedule, seed
from tests.broker.passed import note, passed
from tests.broker.test_methods import ASKED, CURATED, EDGES, NAMES, WINDOWS

# see `Questions.group`
pytestmark = pytest.mark.filterwarnings("ignore:list_groups:DeprecationWarning")
AT_ONCE = 3  # rounds: each keeps a third of a core busy
FAULTS = int(os.environ.get("LDP_KAFKA_FAULTS", "1000"))


def dealt(number: int, hands: int) -> list[list[str]]:
    """All methods in so many hands: every worker of a round runs one of each of its methods, so
    smaller ones come again sooner. Each of up to six hands has a protocol whose coordinator asks,
    and a curator; some have windows at the edge.
    """
    rnd = random.Random(number)
    asked = list(ASKED)
    methods, asking, windows = list(NAMES), asked[:hands], [*CURATED]
    rnd.shuffle(methods)
    rnd.shuffle(asking)
    rnd.shuffle(windows)
    windows += EDGES
    asking += asked[hands:]
    return [[*methods[at::hands], *asking[at::hands], *windows[at::hands]] for at in range(hands)]


def parts(order: list[Fault], count: int) -> Iterator[list[Fault]]:
    """So many, about as long as each other; a join stays with the leave before it."""
    first = 0
    for number in range(1, count + 1):
        end = len(order) * number // count
        end += end < len(order) and order[end] is JOIN
        yield order[first:end]
        first = end


def test_a_fault_that_takes_too_long_has_not_held():
    """What became of it is in the text."""

    def does(_: object) -> str:
        time.sleep(0.02)
        return "it slept"

    assert Fault("quick", does, then=Then.NOTHING)(None) == "it slept"
    with pytest.raises(NotHeld, match=r"may take 0\.01 s: it slept"):
        Fault("slow", does, then=Then.NOTHING, within=0.01)(None)


def test_faults_of_every_kind(can_start, tmp_path, prefix):
    """Four rounds on one node and two on three, each with a sixth of the methods."""
    number = seed()
    of = [
        (nodes, kinds)
        for nodes, count, every in ((1, 4, ONE_NODE), (3, 2, THREE_NODES))
        for kinds in parts(schedule(random.Random(number), every), count)
    ]

    def one(at: int) -> Round:
        (nodes, kinds), methods = of[at], dealt(number, len(of))[at]
        return play(tmp_path / str(at), f"{prefix}-{at}", nodes, methods, kinds, number + at)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        rounds = list(pool.map(one, range(len(of))))
    assert Counter(kind for _, kinds in of for kind in kinds) == Counter(ONE_NODE + THREE_NODES)
    assert sum(len(each.faults) for each in rounds) >= 40
    assert not [str(each) for each in rounds if not each.clean]
    asked = [each.verdicts[name] for each in rounds for name in ASKED if name in each.verdicts]
    assert len(asked) == len(ASKED)
    assert sum(verdict.published for verdict in asked) > 0
    assert sum(verdict.late for verdict in asked) > 0  # of slots that passed while nobody asked
    played = {name: verdict for each in rounds for name, verdict in each.verdicts.items()}
    assert played.keys() >= {*CURATED, *EDGES}
    assert all(played[name].releases > 0 for name in (*CURATED, *EDGES))
    assert all(played[name].reports > 0 for name in EDGES)


@pytest.mark.long
def test_a_thousand_faults(can_start, tmp_path, prefix):
    """Rounds over and over with other hands."""
    number = seed()

    def planned(at: int) -> tuple[int, list[str], list[Fault]]:
        nodes = (1, 1, 3)[at % 3]
        of = ONE_NODE if nodes == 1 else THREE_NODES * 2
        return nodes, dealt(number + at // 6, 6)[at % 6], [*of, *LONG]

    many(tmp_path, prefix, number, FAULTS, planned)


@pytest.mark.long
def test_two_hundred_faults_over_windows(can_start, tmp_path, prefix):
    """The same where every topology has windows, at a curator or at the edge; two hands in turn."""

    def planned(at: int) -> tuple[int, list[str], list[Fault]]:
        nodes = (1, 1, 3)[at % 3]
        three = [fault for fault in THREE_NODES if not fault.asks]
        return nodes, [*WINDOWS][at % 2 :: 2], [*(OVER_WINDOWS if nodes == 1 else three * 2), *LONG]

    many(tmp_path, prefix, seed(), min(200, FAULTS), planned)


def many(
    tmp: Path,
    prefix: str,
    number: int,
    faults: int,
    planned: Callable[[int], tuple[int, list[str], list[Fault]]],
) -> None:
    """Rounds over and over, until there were enough faults, those of earlier runs included (see
    `tests.broker.passed`); LDP_KAFKA_PROGRESS names a file that tells how it goes.

    Parameters
    ----------
    number : the seed
    planned : of each round the nodes, the methods and the faults
    """
    test = os.environ["PYTEST_CURRENT_TEST"].split("::")[-1].split()[0]
    faults -= passed(test)
    done, wrong, rounds = [], [], itertools.count()
    progress, writing = (
        Path(os.environ.get("LDP_KAFKA_PROGRESS", tmp / "progress.txt")),
        threading.Lock(),
    )

    def keep_on() -> None:
        while len(done) < faults and len(wrong) < 5:
            with writing:
                at = next(rounds)

            def told(text: str, at: int = at) -> None:
                with writing, progress.open("a") as out:
                    out.write(
                        f"{time.strftime('%H:%M:%S')} [{len(done)} faults] round {at}: {text}\n"
                    )

            nodes, methods, of = planned(at)
            order = schedule(random.Random(number + at), of)
            try:
                made = play(
                    tmp / str(at), f"{prefix}-{at}", nodes, methods, order, number + at, told
                )
            except Exception:  # one round is none, and is said; the others go on
                told(traceback.format_exc())
                wrong.append(f"round {at}: {traceback.format_exc()}")
                continue
            done.extend(made.faults)
            if made.clean:
                note(test, len(made.faults), str(made))
            else:
                wrong.append(str(made))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for each in [pool.submit(keep_on) for _ in range(AT_ONCE)]:
            each.result()
    assert not wrong, "\n".join(wrong)
