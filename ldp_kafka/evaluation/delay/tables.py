"""The tables of the delay methods by name, each in full and in seconds. What computes them is
loaded when one is asked for.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ldp_kafka.evaluation.table import Table, lazy

__all__ = ["DELAY"]


def _module(name: str) -> Any:
    from ldp_kafka.evaluation.delay import all_methods, clipping, parameters

    known = (all_methods, clipping, parameters)
    return {each.__name__.rpartition(".")[2]: each for each in known}[name]


_table = partial(lazy, _module)

DELAY: dict[str, Table] = {
    "delay-methods": _table(
        "delay windows, figures 2 and 3: errors of all methods, public domains, all clipped",
        "all_methods",
        "rows",
        {
            "streams": ("covid19_death",),
            "epsilons": (0.5, 1.0),
            "delays": (10,),
            "repeats": 5,
        },
        ("all_methods", "claims"),
        panels=("published", "sound", "smoothed"),
    ),
    "delay-clipping": _table(
        'delay windows, Table III: what clipping to the domain gives of the "30 times"',
        "clipping",
        "rows",
        {"streams": ("covid19_death",), "epsilons": (0.1,), "repeats": 5},
        ("clipping", "claims"),
        panels=("",),
    ),
    "delay-parameters": _table(
        "delay windows: every public theta and number of buckets beside smoothed segments",
        "parameters",
        "rows",
        {
            "streams": ("covid19_death",),
            "epsilons": (1.0,),
            "delays": (10,),
            "repeats": 5,
        },
        ("parameters", "claims"),
        panels=("",),
    ),
}
