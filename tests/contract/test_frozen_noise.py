"""The noise of every name and setting is the one that was recorded: its uses of a key, its words,
and the answers that are made of them. A change of a use would draw all noise of a key anew.

`frozen_noise.json` holds for every registered name, in every setting of the contract's specimens,
the distinct uses under which one run draws, in order; and digests of the keyed words, with the
context of each, and of the answers to a keyed and to a seeded source. Answers are compared to eight
digits. Record it anew, after a change that is meant to change noise, with
``python -m tests.contract.test_frozen_noise``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.mechanisms import MECHANISMS as MADE
from tests import test_key_uses
from tests.contract import test_delay, test_hashing, test_mechanisms, test_methods
from tests.keys import KEY
from tests.methods import test_gaussian_and_cgm
from tests.specimens import MATRICES

FILE = Path(__file__).with_name("frozen_noise.json")
USERS, SLOTS, FIRST = 24, 12, 60  # a slot in which all windows begin
IDS = [f"u{user}" for user in range(USERS)]
EPSILONS = (0.05, 8.0)
SHAPES = {
    "codes": {"categories": 3, "oracle": "grr"},
    "bits": {"categories": 4, "oracle": "oue"},
    "numbers": {"domain": (-3.0, 7.0), "oracle": "duchi"},
    "bins": {"domain": (0.0, 1.0), "bins": 4},
}


class Heard:
    """A source that notes the uses, the contexts and the words of all draws from another one."""

    def __init__(self, source: Any, use: str = "", notes: Any = None, context: Any = ()) -> None:
        self.source, self.private, self.repeats = source, source.private, source.repeats
        self.use, self.context = use, context
        self.uses, self.words_of = ({}, sha256()) if notes is None else notes

    def _next(self, source: Any, use: str, context: Any) -> Heard:
        return Heard(source, use, (self.uses, self.words_of), context)

    def within(self, context: bytes) -> Heard:
        use = f"{self.use}.{context.hex()[:16]}".lstrip(".")
        return self._next(self.source.within(context), use, self.context)

    def digests(self, users: Any) -> Any:
        return self.source.digests(users)

    def at(self, users: Any, slot: Any, phase: int, bound: Any) -> Heard:
        slots = np.broadcast_to(np.asarray(slot), (len(users),)).tolist()
        context = (users.tolist(), slots, phase, np.asarray(bound).tolist())
        return self._next(self.source.at(users, slot, phase, bound), self.use, context)

    def words(self, n: int, k: int = 1, *, first: int = 0) -> Any:
        found = self.source.words(n, k, first=first)
        if n:
            self.uses[self.use] = None
            said = [self.use, self.context, n, k, first, found.tolist()]
            self.words_of.update(json.dumps(said).encode())
        return found


def answered(*arrays: Any) -> str:
    """A digest of answers, numbers to eight digits."""
    lists = [np.asarray(each).tolist() for each in arrays if each is not None]
    text = json.dumps(json.loads(json.dumps(lists), parse_float=lambda x: f"{float(x):.8g}"))
    return sha256(text.encode()).hexdigest()[:32]


def values_of(made: Any, shape: tuple[int, ...]) -> Any:
    """Streams that move, some of them far, in the domain of a mechanism, a method or a protocol."""
    rng = np.random.default_rng(3)
    low, high = getattr(made, "domain", None) or (0.0, 1.0)
    if getattr(made, "dimension", None):
        shape = (*shape, made.dimension)
    elif getattr(made, "domain", None) is None:
        return rng.integers(0, getattr(made, "categories", 3), shape)
    return low + (high - low) * rng.beta(2, 3, shape).round(3)


def of_mechanism(made: Any, source: Any) -> str:
    values = values_of(made, (USERS * SLOTS,))
    users = source.digests([f"{user}/{slot}" for user in IDS for slot in range(SLOTS)])
    bound = np.arange(len(users))[:, None]
    return answered(made.perturb(values, source.at(users, FIRST, 0, bound)))


def of_method(made: Any, source: Any) -> str:
    values = values_of(made, (USERS, SLOTS))
    return answered(made.release(values, source, users=IDS, first_slot=FIRST))


def of_protocol(made: Any, source: Any) -> str:
    trace = made.run(values_of(made, (USERS, SLOTS)), source, users=IDS, first_slot=FIRST)
    return answered(trace.values, trace.strategy, trace.reports, trace.spent)


def mechanisms() -> Iterator[tuple[str, dict[str, Any]]]:
    for table in (test_mechanisms.SPECIMENS, test_hashing.SPECIMENS):
        for name, shapes in table.items():
            for shape in shapes:
                yield from ((name, {"epsilon": epsilon, **shape}) for epsilon in EPSILONS)
    for name, epsilon, shape in test_mechanisms.SHAPES:
        yield name, {"epsilon": epsilon, **shape}
    for name, shape in test_key_uses.MECHANISMS.items():
        yield from ((name, {"epsilon": epsilon, **shape}) for epsilon in (0.7, 1.4))


def methods() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, shapes in test_methods.SPECIMENS.items():
        for shape, _ in shapes:
            for window in test_methods.WINDOWS:
                yield name, {"epsilon": 1.0, "window": window, **shape}
    for name, (shape, _) in test_methods.FINITE.items():
        yield name, {"epsilon": 1.0, "window": 2, "calibration": "published", **shape}
    for name, shapes in test_delay.SPECIMENS.items():
        yield from ((name, {**test_delay.UNIT, **shape}) for shape, _ in shapes)
    for name, shape in test_key_uses.SPECIMENS.items():
        yield from ((name, {"epsilon": epsilon, **shape}) for epsilon in (2.0, 4.0))
    yield from (("matrix", {**test_delay.UNIT, **shape}) for shape in MATRICES)


def protocols() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, kind in lk.PROTOCOLS.items():
        for shape, given in SHAPES.items():
            if shape != "bins" or kind.distributions:
                yield from (
                    (name, {"epsilon": epsilon, "window": window, **given})
                    for epsilon, window in ((1.0, 2), (6.0, 4))
                )


def lives() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Of the specimens over a user's life, which are made by functions."""
    for name, life in test_gaussian_and_cgm.SPECIMENS.items():
        yield f"life/{name}", lambda life=life: life.make(MADE[life.mechanism])


Run = tuple[Callable[[], Any], Callable[[Any, Any], str]]
CASES: dict[str, Run] = {
    f"{kind}/{name} {json.dumps(given, sort_keys=True)}": (
        lambda make=make, name=name, given=given: make(name, **given),
        run,
    )
    for kind, make, table, run in (
        ("mechanism", lk.mechanism, mechanisms, of_mechanism),
        ("method", lk.method, methods, of_method),
        ("protocol", lk.protocol, protocols, of_protocol),
    )
    for name, given in table()
} | {name: (make, of_method) for name, make in lives()}


def drawn(case: str) -> dict[str, str]:
    """The uses and the digests of one setting."""
    make, run = CASES[case]
    made, heard = make(), Heard(lk.randomness.keyed(KEY))
    keyed = run(made, heard)
    return {
        "uses": " ".join(heard.uses),
        "words": heard.words_of.hexdigest()[:32],
        "keyed": keyed,
        "seeded": run(make(), lk.randomness.seeded(7)),
    }


@pytest.mark.parametrize("kind", ["mechanism", "method", "protocol", "life"])
def test_every_setting_draws_the_noise_that_it_drew(kind):
    """Each setting whose uses, words or answers are others is named, with what differs."""
    recorded, others = json.loads(FILE.read_text()), {}
    for case in [case for case in CASES if case.startswith(f"{kind}/")]:
        found = drawn(case)
        assert found["uses"], case
        if differ := [key for key in found if found[key] != recorded[case][key]]:
            others[case] = differ
    assert others == {}


def test_every_registered_name_is_recorded_and_no_other():
    assert json.loads(FILE.read_text()).keys() == CASES.keys()
    for kind, registry in (
        ("mechanism", lk.MECHANISMS), ("method", lk.METHODS), ("protocol", lk.PROTOCOLS),
    ):  # fmt: skip
        named = {case.split("/")[1].split()[0] for case in CASES if case.startswith(f"{kind}/")}
        assert named == set(registry)


if __name__ == "__main__":
    lines = [f"{json.dumps(case)}: {json.dumps(drawn(case))}" for case in CASES]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
