"""A topology that is well, as Prometheus sees it, with slots of any length: what alerts must be
quiet about.

A batch of each slot comes some time after the slot's end, never the same, and is worked off in an
eighth of a slot. Halfway each worker is started again, as for a new version.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import NamedTuple

__all__ = ["SHAPES", "Shape", "healthy", "notation"]

LATE = (1 / 30, 1 / 6, 1 / 12)  # slots from a slot's end to its batch, in turn
BUSY = 1 / 8  # slots for which a batch is worked off
FIRST = 1 / 4  # slots for which the first start works off what had come before it
HOP = 4  # slots of a window, in the topology that has some

Series = dict[str, list[float | None]]
"""By name and labels: a sample a step, None where there is none."""


class Shape(NamedTuple):
    """A length of slots, and how long it is looked at; seconds."""

    slot: int
    step: int
    length: int

    @property
    def times(self) -> range:
        return range(0, self.length, self.step)

    def last(self, time: int) -> int | None:
        """When the last batch has come by then; None: none has."""
        number = time // self.slot
        came = [
            at
            for each in (number - 1, number)
            if each > 0 and (at := int(self.slot * (each + LATE[each % 3]))) <= time
        ]
        return max(came, default=None)


HOUR, DAY = 3600, 86400
SHAPES = {
    "1s": Shape(1, 60, 4 * HOUR),
    "1h": Shape(HOUR, 120, 30 * HOUR),
    "1d": Shape(DAY, 1800, 10 * DAY),
}


def healthy(shape: Shape) -> Series:
    """All that an alert looks at."""
    restart = shape.length // 2 // shape.step * shape.step

    def over(sample: Callable[[int], float | None]) -> list[float | None]:
        return [None if time == restart else sample(time) for time in shape.times]

    def watermark(time: int) -> float | None:
        last = shape.last(time)
        if last is None or last < restart < time:  # it is known again with the next batch
            return None
        return last // shape.slot * shape.slot - 1

    def idle(time: int) -> float:
        begun = restart if time > restart else 0
        return min(time - begun, time - (shape.last(time) or begun))

    def window(time: int) -> float:
        """How long what comes once a window has not come."""
        begun = restart if time > restart else 0
        came = shape.last(time) or 0
        number = came // shape.slot // HOP * HOP
        at = int(shape.slot * (number + LATE[number % 3])) if number else 0
        return time - max(begun, at if at <= time else 0)

    def lag(time: int) -> float:
        if shape.slot <= shape.step:
            return 5000 if time % HOUR < 420 else 300
        if time < FIRST * shape.slot:
            return 40_000
        last = shape.last(time)
        return 0 if last is None or time - last > BUSY * shape.slot else 40_000

    def counted(before: float, after: float = 0) -> list[float | None]:
        """What was counted long ago, and is zero after the restart."""
        return over(lambda time: before if time < restart else after)

    made: Series = {
        'up{job="ldp-kafka",instance="p"}': [float(time != restart) for time in shape.times],
        'up{job="ldp-kafka",instance="c"}': [float(time != restart) for time in shape.times],
    }
    for role, hop, own in (
        (
            "perturb",
            1,
            {
                "ldp_spent_ratio{%s}": over(lambda _: 1.0),
                "ldp_refused_total{%s}": counted(7),
                "ldp_requests_refused_total{%s}": counted(3),
                'ldp_requests_dropped_total{%s,reason="ahead"}': counted(3),
                'ldp_requests_dropped_total{%s,reason="repeated"}': over(float),
                "ldp_relay_dropped_total{%s}": counted(3),
                "ldp_relay_held_back_seconds{%s}": over(lambda time: idle(time) % shape.slot),
                "ldp_watermark_timestamp_seconds{%s}": over(watermark),
            },
        ),
        (
            "collect",
            HOP,
            {
                "ldp_second_reports_total{%s}": counted(2),
                "ldp_unanswered_total{%s}": counted(3),
                "ldp_overdue_total{%s}": counted(3),
            },
        ),
    ):
        labels = f'topology="t",role="{role}",method="m",instance="{role[0]}",job="ldp-kafka"'
        own |= {
            'ldp_guarantee_info{%s,calibration="sound",epsilon="1",level="w-event"}': over(
                lambda _: 1
            ),
            'ldp_dead_letters_total{%s,reason="time"}': counted(3),
            "ldp_idle_seconds{%s}": over(idle if hop == 1 else window),
            "ldp_outage_seconds{%s}": over(lambda _: 0),
            "ldp_start_timestamp_seconds{%s}": over(lambda time: restart if time > restart else 0),
            "ldp_slot_seconds{%s}": over(lambda _: shape.slot),
            "ldp_hop_slots{%s}": over(lambda _, hop=hop: hop),
            "ldp_lag_messages{%s}": over(lag),
        }
        made |= {name % labels: samples for name, samples in own.items()}
    return made


def notation(samples: Sequence[float | None]) -> str:
    """As promtool reads it."""
    words = []
    for value, group in groupby(samples):
        more = len(list(group)) - 1
        said = "_" if value is None else f"{value:g}" if value < 1e5 else f"{value:.0f}"
        words.append(f"{said}x{more}" if value is not None else f"_x{more + 1}")
    return " ".join(words)
