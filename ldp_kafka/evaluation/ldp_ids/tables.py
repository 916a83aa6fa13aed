"""The tables and figures of LDP-IDS by name, each in full and in seconds. What computes them is
loaded when one is asked for.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ldp_kafka.evaluation.table import Table, lazy

__all__ = ["LDP_IDS"]


def _module(name: str) -> Any:
    from ldp_kafka.evaluation.ldp_ids import events, means, meters, orders, scale, sweeps, table_two

    known = (events, means, meters, orders, scale, sweeps, table_two)
    return {each.__name__.rpartition(".")[2]: each for each in known}[name]


_table = partial(lazy, _module)

LDP_IDS: dict[str, Table] = {
    "ldp-ids-table-2": _table(
        "LDP-IDS, Table 2: reports of a user in a slot, 200,000 users, 800 slots",
        "table_two",
        "rows",
        {"settings": ((1.0, 20),), "repetitions": 3},
        ("table_two", "claims"),
        panels=("",),
    ),
    "ldp-ids-epsilon": _table(
        "LDP-IDS, figure 4: errors against epsilon, window 20",
        "sweeps",
        "by_epsilon",
        {"epsilons": (0.5, 2.5), "streams": ("lns 1",), "repetitions": 2},
        ("orders", "of_epsilon"),
        panels=("mre", "mse", "cfpu"),
    ),
    "ldp-ids-window": _table(
        "LDP-IDS, figure 5: errors against the window, epsilon 1",
        "sweeps",
        "by_window",
        {"windows": (10, 50), "streams": ("lns 1",), "repetitions": 2},
        ("orders", "of_window"),
        panels=("mre", "mse", "cfpu"),
    ),
    "ldp-ids-data": _table(
        "LDP-IDS, figure 6: errors against users and how fast a stream moves, epsilon 1, window 30",
        "sweeps",
        "by_data",
        {
            "crowds": (10_000, 200_000),
            "steps": (0.001, 0.008),
            "speeds": (0.005, 0.08),
            "walks": ("lns 1",),
            "repetitions": 2,
        },
        ("orders", "of_data"),
        panels=("mre", "mse", "cfpu"),
    ),
    "ldp-ids-events": _table(
        "LDP-IDS, figure 7: telling slots above a threshold, epsilon 1, window 50",
        "events",
        "monitoring",
        {"streams": ("lns 1", "sin"), "repetitions": 2},
        ("events", "claims"),
        panels=("",),
    ),
    "ldp-ids-means": _table(
        "means of numbers: users divided over the window beside sw_direct and capp",
        "means",
        "rows",
        {
            "sizes": (("meters", 1000),),
            "epsilons": (0.5, 4.0),
            "windows": (4, 20),
            "repetitions": 3,
        },
        ("means", "claims"),
        panels=("",),
    ),
    "ldp-ids-meters": _table(
        "mean of 3,000 meters, epsilon 2, window 4: half-widths of 95 % intervals",
        "meters",
        "rows",
        {"slots": 100},
        ("meters", "claims"),
    ),
    "ldp-ids-scale": _table(
        "1,000,000 users, 117 categories, 432 slots, user by user: minutes and memory",
        "scale",
        "rows",
        {"methods": ("lpu", "lpa"), "users": 20_000, "slots": 40},
        ("scale", "claims"),
    ),
}
