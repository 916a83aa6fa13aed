"""Who spent more than the budget."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

import numpy as np

from ldp_kafka.accounting import LifetimeLedger, micro
from ldp_kafka.methods import DelayMethod
from ldp_kafka.randomness import Ids
from ldp_kafka.runtime import local
from ldp_kafka.runtime.stages.perturb import make_perturb
from tests.broker.flow import Flow
from tests.broker.judge.verdict import told

__all__ = ["over", "overspent"]


def over(spent: Iterable[Counter[int]], run: int, budget: int) -> int:
    """Of how many users what they spent in some run of slots is more than the budget."""
    return sum(
        any(
            sum(by[slot + ahead] for ahead in range(run) if slot + ahead in by) > budget
            for slot in list(by)
        )
        for by in spent
    )


def overspent(flow: Flow, raw, expected: local.Run, book, seen: dict[str, set], paid) -> int:
    """Users who, in some run of slots, spent more than the budget: what the ledger charged, or what
    theirs said, and once more for every report beyond the true one.
    """
    method = flow.topology.method
    if isinstance(method, DelayMethod):
        return _of_windows(flow, owner(flow, raw), seen)
    real = users(flow, raw)
    truth = told(record.value for partition in expected.reports for record in partition)
    spent: dict[bytes, Counter[int]] = defaultdict(Counter)
    for of in (book, paid):
        for user, by in of.items():
            if user not in real:  # shrinkage tries the method on users of its own
                continue
            for slot, cost in by.items():
                spent[user][slot] = max(spent[user][slot], cost)
    lifetime = isinstance(method.ledger, LifetimeLedger)
    again = {name: len(found - truth.get(name, set())) for name, found in seen.items()}
    if any(again.values()):
        owners = owner(flow, raw)
        for name, times in again.items():
            if times and name in owners:
                user, slot = owners[name]
                spent[user][slot] += times * (1 if lifetime else method.cost)
    if lifetime:
        totals = [sum(by.values()) for by in spent.values()]
        return sum(
            total > method.ledger.reports or method.ledger.lost(total) > method.ledger.budget
            for total in totals
        )
    return over(spent.values(), method.ledger.run, method.ledger.budget)


def users(flow: Flow, raw) -> set[bytes]:
    """Digests of all who are in the raw log."""
    return {digest.tobytes() for digests, _ in _read(flow, raw) for digest in digests}


def owner(flow: Flow, raw) -> dict[str, tuple[bytes, int]]:
    """Whose report, and of which slot, an id is: as only the edge can tell."""
    randomness, method = flow.noise(), flow.topology.method
    # a segment's mean is of its slots without a value, too
    ahead = method.delay if isinstance(method, DelayMethod) else 0
    found: dict[str, tuple[bytes, int]] = {}
    for digests, times in _read(flow, raw):
        for back in range(-ahead, method.delay + 1):
            slots = times // flow.topology.input.slot_ms - back
            for digest, slot in zip(digests, slots.tolist(), strict=True):
                at = np.array([slot])
                for phase in range(max(1, method.dimension)):
                    if method.in_phase(at, phase).all():
                        name = randomness.report_ids(digest[None], at, phase).tobytes().hex()
                        found[name] = (digest.tobytes(), slot)
    return found


def _read(flow: Flow, raw) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Digests and times of the events of each message."""
    randomness = flow.noise()
    reader = make_perturb(flow.topology, 0, randomness).reader
    for log in raw:
        for message in log:
            if (events := reader.read(message.value).events) is not None:
                yield randomness.digests(Ids.of(events.users.texts())), events.times


def _of_windows(flow: Flow, owners: dict[str, tuple[bytes, int]], seen: dict[str, set]) -> int:
    """Users who, in some run of ``window`` slots, spent more than the budget where each user's edge
    releases windows: every report that was ever seen is charged, and two under one id are two.
    """
    method = flow.topology.method
    assert isinstance(method, DelayMethod)
    spent: dict[bytes, Counter[int]] = defaultdict(Counter)
    for name, said in seen.items():
        if name in owners:
            user, slot = owners[name]
            spent[user][slot] += method.spend * len(said)
    return over(spent.values(), method.window, micro(method.epsilon))
