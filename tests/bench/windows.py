"""Delay methods on one core: values released a second, beside a loop over one stream's values and
beside what is asked of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

import ldp_kafka as lk
from ldp_kafka.methods.batch import Batch
from tests.bench.measure import Figure, cores, interleave, pin, ratio, say
from tests.bench.window_loops import LOOPS
from tests.keys import KEY

STREAMS = 1024
MOVE = 0.02  # of a stream in a slot, a standard deviation in lengths of the domain
LEAST = {10: 1.0, 100: 0.3}  # M values/s, of one core
FAST = ("naive", "segment_mean", "contin_group", "discontin_group", "buc_order")
"""Of which so much is asked."""


def walks(streams: int, slots: int) -> np.ndarray:
    """Random walks (streams, slots) inside 0..1, which begin again where they began."""
    rng = np.random.default_rng(1)
    there = rng.random((streams, 1)) + np.cumsum(rng.normal(0, MOVE, (streams, slots // 2)), 1)
    folded = np.abs((there + 1) % 2 - 1)
    return np.concatenate([folded, folded[:, ::-1]], axis=1)


def stepping(m: lk.DelayMethod, streams: int) -> Callable[[], None]:
    """A call takes ``delay`` more slots of all streams, with keyed noise, and releases as many."""
    source = lk.randomness.keyed(KEY)
    hop, rows = m.windows.hop, np.arange(streams)
    state = m.state(source.digests([str(each) for each in rows]))
    values = np.ascontiguousarray(m.bound(walks(streams, 2 * max(m.delay, 50))).T)
    slots = itertools.count(0, m.delay)

    def call() -> None:
        begin = next(slots)
        for slot in range(begin, begin + m.delay, hop):
            at = slot % len(values)
            m.step(state, Batch(rows, slot, values[at : at + hop], source))

    return call


def measure(*, quick: bool = False) -> list[Figure]:
    pin(cores()[0])
    streams, rounds, least = (64, 2, 0.001) if quick else (STREAMS, 5, 0.1)
    say(f"windows: {rounds} rounds of {streams:,} streams")
    figures = []
    for name, delay, setting in itertools.product(LOOPS, LEAST, ("batch", "sliding")):
        m = lk.method(name, epsilon=1.0, delay=delay, domain=(0.0, 1.0), setting=setting)
        stream = walks(1, 2 * delay)[0].tolist()
        work = {
            "ours": stepping(m, streams),
            "loop": lambda m=m, loop=LOOPS[name], stream=stream: loop(m, stream),
        }
        taken = interleave(work, rounds, least)
        ours = [streams * delay / seconds / 1e6 for seconds in taken["ours"]]
        loop = [len(stream) / seconds / 1e6 for seconds in taken["loop"]]
        what, asked = f"{name}, {setting}, delay {delay}", LEAST[delay]
        figures += [
            Figure(
                "windows",
                what,
                "M values/s",
                tuple(ours),
                f">= {asked:g}" if name in FAST else "",
                "keyed",
            ),
            ratio("windows", f"{what} / a loop in Python", ours, loop),
        ]
        if name in FAST:
            figures.append(
                ratio("windows", f"{what} / what is asked", ours, [asked] * rounds, ">= 1")
            )
    return figures
