"""What one writes for a delay method after reading its paper: a loop over one stream's values, in
floating point, without state that outlives the call. It stands for the cost of the pattern and
promises nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import exp, inf
from random import SystemRandom
from typing import Any

Loop = Callable[[Any, Sequence[float]], list[float]]
RANDOM = SystemRandom()


def laplace(scale: float) -> float:
    return RANDOM.choice((-1, 1)) * RANDOM.expovariate(1 / scale)


def clipped(value: float) -> float:
    return min(max(value, 0.0), 1.0)


@dataclass
class Group:
    founder: int
    open: bool = True
    level: float = 0.0
    low: float = 0.0
    slots: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def deviation(self, value: float) -> float:
        values = [*self.values, value]
        mean = sum(values) / len(values)
        return sum(abs(each - mean) for each in values)


def ends(m: Any, founder: int, slot: int) -> bool:
    """Whether a group of this founder closes with ``slot``."""
    if m.setting == "sliding":
        return founder == slot - m.delay
    return slot % m.delay == m.delay - 1


def naive(m: Any, stream: Sequence[float]) -> list[float]:
    return [clipped(value + laplace(1 / m.epsilon)) for value in stream]


def segment_mean(m: Any, stream: Sequence[float]) -> list[float]:
    """Without the smoothing that the method does by default."""
    out: list[float] = []
    total, size = 0.0, 0
    for slot, value in enumerate(stream):
        total, size = total + value, size + 1
        place = slot if m.setting == "sliding" else slot % m.delay
        if (place + 1) % m.segment == 0 or (m.setting == "batch" and place == m.delay - 1):
            out += [clipped((total + laplace(1 / m.epsilon)) / size)] * size
            total, size = 0.0, 0
    return out


def grouped(
    m: Any,
    stream: Sequence[float],
    find: Callable[[list[Group], int, float], tuple[Group, float]],
    wide: float = 1.0,
) -> list[float]:
    """Each value into the group that ``find`` says, with what is summed of it; ``wide``: how far
    that can move.
    """
    out, groups = [0.0] * len(stream), list[Group]()
    for slot, value in enumerate(stream):
        group, summed = find(groups, slot, value)
        group.slots.append(slot)
        group.values.append(summed)
        for group in [each for each in groups if ends(m, each.founder, slot)]:
            groups.remove(group)
            noise = laplace(wide / m.parts[1])
            mean = clipped(group.low + (sum(group.values) + noise) / len(group.values))
            for each in group.slots:
                out[each] = mean
    return out


def contin_group(m: Any, stream: Sequence[float]) -> list[float]:
    return grouped(m, stream, lambda *asked: (consecutive(m, *asked), asked[-1]))


def consecutive(m: Any, groups: list[Group], slot: int, value: float) -> Group:
    if groups and groups[-1].open:
        last = groups[-1]
        if last.deviation(value) + laplace(8 / m.parts[0]) < last.level:
            return last
        last.open = False
        groups.append(Group(slot, open=False))
    else:
        groups.append(Group(slot, level=m.theta + laplace(4 / m.parts[0])))
    return groups[-1]


def pegasus_delay(m: Any, stream: Sequence[float]) -> list[float]:
    return averaged(m, stream, late=True)


def pegasus(m: Any, stream: Sequence[float]) -> list[float]:
    return averaged(m, stream, late=False)


def averaged(m: Any, stream: Sequence[float], *, late: bool) -> list[float]:
    out, groups, noisy = [0.0] * len(stream), list[Group](), list[float]()
    for slot, value in enumerate(stream):
        group = consecutive(m, groups, slot, value)
        noisy.append(value + laplace(1 / m.parts[1]))
        group.slots.append(slot)
        group.values.append(value)
        told = [noisy[each] for each in group.slots]
        for each in group.slots if late else [slot]:
            out[each] = clipped(sum(told) / len(told))
        groups[:] = [each for each in groups[-1:] if not ends(m, each.founder, slot)]
    return out


def discontin_group(m: Any, stream: Sequence[float]) -> list[float]:
    def find(groups: list[Group], slot: int, value: float) -> tuple[Group, float]:
        for group in groups:
            if group.deviation(value) + laplace(2 * m.windows.pairs / m.parts[0]) < m.theta:
                return group, value
        groups.append(Group(slot))
        return groups[-1], value

    return grouped(m, stream, find)


def buc_order(m: Any, stream: Sequence[float]) -> list[float]:
    wide = 1 / m.buckets
    right = exp(m.parts[0]) / (exp(m.parts[0]) + m.buckets - 1)

    def find(groups: list[Group], slot: int, value: float) -> tuple[Group, float]:
        bucket = min(int(value / wide), m.buckets - 1)
        if RANDOM.random() >= right:
            bucket = (bucket + RANDOM.randrange(1, m.buckets)) % m.buckets
        summed = min(max(value - bucket * wide, 0.0), wide)
        for group in groups:
            if group.low == bucket * wide:
                return group, summed
        groups.append(Group(slot, low=bucket * wide))
        return groups[-1], summed

    return grouped(m, stream, find, wide)


def comp_order(m: Any, stream: Sequence[float]) -> list[float]:
    out: list[float] = []
    scale = m.windows.pairs / m.parts[0]
    for slot, value in enumerate(stream):
        low, high = -inf, inf
        back = min(m.delay, slot) if m.setting == "sliding" else slot % m.delay
        for earlier in range(slot - back, slot):
            if value - stream[earlier] + laplace(scale) > 0:
                low = max(low, out[earlier])
            else:
                high = min(high, out[earlier])
        noisy = value + laplace(1 / m.parts[1])
        if not low <= noisy <= high:
            noisy = (max(low, 0.0) + min(high, 1.0)) / 2
        out.append(clipped(noisy))
    return out


LOOPS: dict[str, Loop] = {
    loop.__name__: loop
    for loop in (
        naive,
        segment_mean,
        pegasus,
        pegasus_delay,
        contin_group,
        discontin_group,
        comp_order,
        buc_order,
    )
}
