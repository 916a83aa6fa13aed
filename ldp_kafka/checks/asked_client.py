"""The checks that a device's client must pass where a coordinator asks for a second phase: whatever
is asked, in whatever order, over whatever starts, a phase of a slot has one report, no window costs
more than epsilon, and whether there was a value does not tell whose turn it is.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from typing import Any

from ldp_kafka.checks.client_trial import (
    FIRST,
    HOUR,
    ClientTrial,
    Kept,
    key_in_environment,
    new_device,
)
from ldp_kafka.checks.failure import require
from ldp_kafka.methods.protocols.request import SECOND

__all__ = ["ASKED_CHECKS"]

_TEXT = """
topology: {name}
input: {{source: devices, slot: 1h, lateness: 0, hold: 2}}
privacy: {{method: %s, epsilon: 3.0, window: 3, categories: 4, mechanism: grr}}
output: {{statistics: [frequencies]}}
"""
_BUDGET, _WINDOW, _USERS = 3_000_000, 3, 40
_FIRST_PHASE = _BUDGET // (2 * _WINDOW)  # what a report of lba costs unasked


def _request(slot: int, cost: int, share: int = 1, of: int = 1) -> bytes:
    """As it lies in the topic."""
    at = FIRST + slot
    asked = {
        "ldp_kafka": 1,
        "type": "request",
        "id": f"{at}/{SECOND}",
        "slot": at,
        "phase": SECOND,
        "epsilon": cost,
        "deadline": at,
        "share": share,
        "of": of,
    }
    return json.dumps(asked, separators=(",", ":")).encode()


def _life(
    device: ClientTrial,
    steps: Iterable[tuple[int, dict[str, int], list[bytes]]],
) -> list[dict[str, Any]]:
    """Start a device, and in each slot have its users report, and then show it requests: what has
    left it.
    """
    kept = Kept()
    with closing(device.client(device.topology, producer=kept, **device.files)) as client:
        for slot, values, requests in steps:
            for user, value in values.items():
                client.report(value, time=(FIRST + slot) * HOUR, user=user)
            client.answer(*requests)
    found: list[dict[str, Any]] = [json.loads(message) for message in kept.left]
    return found


def one_answer(trial: ClientTrial) -> None:
    """Shown again, shown for another budget, and after a start: a phase of a slot has one
    report.
    """
    with new_device(replace(trial, text=_TEXT % "lba")) as device:
        device.provision()
        left = _life(
            device,
            [
                (slot, {"somebody": 2}, [_request(slot, cost) for cost in (400_000, 700_000)])
                for slot in range(3)
            ],
        )
        left += _life(device, [(2, {"somebody": 1}, [_request(s, 900_000) for s in range(3)])])
        said = defaultdict(set)
        for each in left:
            said[each["slot"], each["phase"]].add(json.dumps(each, sort_keys=True))
        require(len(said) > 4, "a device that is asked must answer")
        require(all(len(each) == 1 for each in said.values()), "a phase of a slot had two reports")


def no_window_costs_more(trial: ClientTrial) -> None:
    """Each slot is asked for as much as there can be, before its value comes and after it, and
    earlier slots once more.
    """
    with new_device(replace(trial, text=_TEXT % "lba")) as device:
        device.provision()
        dear = [_BUDGET // 2, _BUDGET // 2 - 1, 300_000, _BUDGET]
        left: list[dict[str, Any]] = []
        for begin in (0, 4):
            left += _life(
                device,
                [
                    (
                        slot,
                        {"somebody": slot % 4},
                        [
                            _request(max(0, slot - back), cost)
                            for back in ((0, 2, 1, -1) if slot % 3 == 2 else (0, 2, 1))
                            for cost in dear
                        ],
                    )
                    for slot in range(begin, begin + 6)
                ],
            )
        spent: dict[int, int] = defaultdict(int)
        for each in {(one["slot"], one["phase"], one.get("cost", 0)) for one in left}:
            spent[each[0]] += each[2] or _FIRST_PHASE
        most = max(
            sum(spent.get(slot + back, 0) for back in range(_WINDOW)) for slot in list(spent)
        )
        require(most <= _BUDGET, f"a window cost {most} micro-epsilon of {_BUDGET}")
        require(most > _BUDGET // 2, "a device that is asked must answer")


def a_turn_is_nobodys_value(trial: ClientTrial) -> None:
    """Two devices of one key and deployment, of which one has a value in every slot, and one in
    some: who answers on the second one answers on the first. Else who is often silent is asked more
    often, and what is estimated leans towards them.
    """
    users = [f"user {number}" for number in range(_USERS)]
    asked = [_request(slot, _BUDGET, 1, 2) for slot in range(6)]
    found = []
    with key_in_environment():
        for every in (True, False):
            with new_device(replace(trial, text=_TEXT % "lpa", own_key=False)) as device:
                device.provision()
                steps = [
                    (
                        slot,
                        {
                            user: slot % 4
                            for at, user in enumerate(users)
                            if every or slot in (0, 5) or (at + slot) % 3 == 0
                        },
                        asked[slot : slot + 1],
                    )
                    for slot in range(6)
                ]
                left = _life(device, steps)
                found.append({each["id"] for each in left if each["phase"] == SECOND})
    require(len(found[1]) > _USERS // 8, "devices that are asked must answer")
    require(found[1] <= found[0], "who has no value in a slot has a better turn in another")


ASKED_CHECKS: dict[str, Callable[[ClientTrial], None]] = {
    "a_turn_is_nobodys_value": a_turn_is_nobodys_value,
    "no_window_costs_more": no_window_costs_more,
    "one_answer": one_answer,
}
"""By name."""
