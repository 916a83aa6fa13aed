"""Typical settings of every registered name: what the suites are parametrised over. A new
mechanism, method or protocol is one line here.
"""

from __future__ import annotations

from functools import partial

import ldp_kafka as lk

__all__ = [
    "DELAY_METHODS",
    "HALVES",
    "MATRICES",
    "MECHANISMS",
    "METHODS",
    "MORE_MECHANISMS",
    "PAIR",
    "PUBLISHED",
    "STREAM_METHODS",
    "TRIPLE",
    "UNIT",
    "WINDOWS",
    "method",
]

UNIT = {"domain": (0.0, 1.0)}
WIDE = {"domain": (-3.0, 7.0), "epsilon": 3.0}
LIFE, LATE = {"horizon": 20, **UNIT}, {"delay": 3, **UNIT}
CODES, DELTA = {"categories": 4}, {"delta": 1e-5}
BALL = {"horizon": 20, **DELTA, "dimension": 2, "diameter": 1.0}

# --- each name once

MECHANISMS = {
    "adaptive": CODES,
    "duchi": UNIT,
    "gaussian": UNIT | DELTA,
    "gaussian_vector": {"dimension": 2, **DELTA},
    "grr": CODES,
    "hadamard": CODES,
    "hybrid": UNIT,
    "laplace": UNIT,
    "olh": CODES,
    "oue": CODES,
    "piecewise": UNIT,
    "square_wave": UNIT,
    "subset_selection": CODES,
    "sue": CODES,
}
"""Name -> what it is built with beside epsilon."""

METHODS = {
    name: LATE if issubclass(kind, lk.DelayMethod) else {"window": 3, **UNIT}
    for name, kind in lk.METHODS.items()
} | {
    "budget_split": {"window": 3, **UNIT, "dimension": 2},
    "cgm": LIFE | DELTA,
    "cgm_pure": LIFE,
    "cgm_vector": BALL,
    "etm": {"window": 3, **UNIT, "delay": 2},
    "fast": {**LIFE, "samples": 5},
    "fast_cgm": {**LIFE, "samples": 5, **DELTA},
    "gaussian_differential": LIFE | DELTA,
    "gaussian_differential_vector": BALL,
    "gaussian_direct": LIFE | DELTA,
    "gaussian_direct_vector": BALL,
    "lpu": {"window": 3, "categories": 3},
    "matrix": {"window": 3, **UNIT, **DELTA},
    "sample_split": {"window": 3, **UNIT, "dimension": 2},
}
"""The same; what is not named here has one window of numbers, or one delay."""

# --- what the contract looks at beside: shapes in which a fault could hide

INTERVAL = {"domain": (-1.0, 1.0)}
MORE_MECHANISMS = {
    "duchi": [INTERVAL],
    "grr": [{"categories": n} for n in (2, 4, 16, 300)],
    "hadamard": [{"categories": n} for n in (2, 4, 16, 100, 300)],
    "hybrid": [INTERVAL],
    "laplace": [INTERVAL],
    "olh": [*({"categories": n} for n in (2, 4, 16)), {"categories": 4, "prime": 11}],
    "oue": [{"categories": n} for n in (2, 9)],
    "piecewise": [INTERVAL],
    "square_wave": [UNIT],
    "subset_selection": [{"categories": n} for n in (2, 5)],
    "sue": [{"categories": n} for n in (2, 5)],
}
"""Name -> what it is built with beside epsilon: of those with a pure guarantee for one number or
category.
"""

SEGMENTS = [  # with room for the last report that a window can reach
    ({**UNIT, "segment": 2}, {"length": 8, "draws": 4}),
    ({**UNIT, "segment": 3}, {"length": 9, "draws": 3}),
    ({**UNIT, "segment": 2, "position": 1}, {"length": 8, "draws": 4}),
    ({**WIDE, "segment": 2, "position": 0}, {"length": 6, "draws": 3}),
]
COVERED = {**UNIT, "cover": True}
BLOCKS = [({**own, "block": 2}, how) for own, how in SEGMENTS]
ENDS, APART = {"alphabet": (0.0, 1.0)}, {"alphabet": (-3.0, 2.0, 7.0)}
PAIR, TRIPLE = ((0.0, 0.0), (1.0, 1.0)), ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
MIXED = ((-3.0, -3.0), (7.0, 7.0), (-3.0, 2.0))
TWO, THREE = {**UNIT, "dimension": 2}, {**UNIT, "dimension": 3}
_PAIRS = {"draws": 6, "alphabet": PAIR}
STREAM_METHODS = {
    "app": [({**UNIT, "block": block}, {"length": 3 + block}) for block in (2, 1, 3)],
    "app_s": BLOCKS,
    "ba_sw": [
        (UNIT, {"length": 4, "draws": 8}),
        (WIDE, {"length": 3, "draws": 6, **APART}),
    ],
    "budget_split": [
        ({**TWO, "inner": "ipp"}, {"length": 4, "draws": 8, "alphabet": PAIR}),
        (TWO, {"length": 4, "draws": 8, "alphabet": PAIR}),
        ({**TWO, "inner": "capp", "block": 2}, {"length": 4, "draws": 8, "alphabet": PAIR}),
        (
            {**WIDE, "dimension": 2, "inner": "app", "block": 3},
            {"length": 3, "draws": 6, "alphabet": MIXED},
        ),
        ({**THREE, "inner": "ipp"}, {"length": 2, "draws": 6, "alphabet": TRIPLE}),
        ({**TWO, "inner": "sampling", "segment": 2}, _PAIRS | {"length": 6}),
        ({**TWO, "inner": "ipp_s", "segment": 2}, _PAIRS | {"length": 6}),
    ],
    "capp": [
        ({**UNIT, "block": 2}, {}),
        ({**UNIT, "block": 1}, {}),
        ({**UNIT, "block": 3}, {"length": 6}),
        ({**UNIT, "block": 2}, {"length": 4, "alphabet": (0.0, 0.4, 1.0)}),
        ({**UNIT, "block": 2, "clip": 1.0}, {}),
        ({**UNIT, "block": 2, "clip": -0.4}, {}),
        (WIDE, {"length": 6}),
    ],
    "capp_s": [*BLOCKS, ({**UNIT, "segment": 2, "block": 2, "clip": 0.1}, SEGMENTS[0][1])],
    "ipp": [(UNIT, {}), ({"domain": (-3.0, 7.0)}, {"length": 4, **APART})],
    "ipp_s": SEGMENTS,
    "lpu": [
        ({"categories": 2}, {}),
        ({"categories": 3}, {"length": 4}),
        ({"categories": 2, "cover": True}, {"length": 4}),
    ],
    "pegasus_local": [
        ({**UNIT, "block": 3, "theta": 0.4}, {"length": 4, "draws": 6}),
        ({**UNIT, "block": 1}, {"length": 4}),
        ({**UNIT, "block": 2, "theta": 0.5}, {"length": 5, "draws": 7}),
        ({**WIDE, "block": 2, "theta": 0.3}, {"length": 4, "draws": 6, **APART}),
    ],
    "pm_direct": [(UNIT, {"length": 4}), (COVERED, {"length": 4})],
    "sample_split": [
        ({**TWO, "inner": "capp", "block": 2}, {"length": 6, "alphabet": PAIR}),
        (TWO, {"alphabet": PAIR}),
        ({**TWO, "inner": "ipp"}, {"length": 6, "alphabet": PAIR}),
        ({**THREE, "inner": "app", "block": 2}, {"length": 6, "alphabet": TRIPLE}),
        ({**WIDE, "dimension": 2, "inner": "ipp"}, {"length": 4, "alphabet": MIXED}),
        ({**TWO, "inner": "sampling", "segment": 2}, _PAIRS | {"length": 8}),
        ({**TWO, "inner": "capp_s", "segment": 2, "block": 2}, _PAIRS | {"length": 8}),
    ],
    "sampling": [
        *SEGMENTS,
        ({**COVERED, "segment": 2}, {"length": 6, "draws": 3}),
        ({**COVERED, "segment": 2, "position": 1}, {"length": 6, "draws": 3}),
    ],
    "sw_direct": [
        (UNIT, {}),
        ({"domain": (-3.0, 7.0)}, {"length": 4, **APART}),
        (COVERED, {"length": 4}),
    ],
    "topl": [({**UNIT, "first": 2}, {"length": 4}), ({**WIDE, "first": 1}, {"length": 4, **APART})],
}
"""Name -> what to build it with beside epsilon 1 and a window, and what to enumerate; its twins are
built with the first.
"""
WINDOWS = (1, 2, 3)

_FIRST = "ba_sw budget_split ipp ipp_s lpu pm_direct sampling sw_direct topl"
PUBLISHED = {name: STREAM_METHODS[name][0] for name in _FIRST.split()} | {
    "pegasus_local": (
        {**UNIT, "block": 2, "theta": 0.4, "epsilon": 8.0},
        {"length": 3, "draws": 7},
    ),
    "sample_split": STREAM_METHODS["sample_split"][2],
}
"""Those whose published calibration has a finite loss; with room for the last report that a window
can reach.
"""

SLIDING, POINT = {"setting": "sliding"}, {"noise": "point"}
EVERY = {"smooth": False, "truncation": {"interval": 1, "thresholds": 2}}
OFTEN = {"smooth": False, "truncation": {"interval": 2, "thresholds": 3}}
HALVES = {"smooth": False, "truncation": {"interval": 1, "thresholds": 2, "sample": 50}}
GROUPS = [
    ({"delay": 2, "theta": 0.7}, {}),
    ({"delay": 3, "theta": 0.4, "epsilon": 20.0, **SLIDING}, {}),
    ({"delay": 4, "theta": 1.0, "contribution": 0.5, "smooth": True}, {}),
    ({"delay": 2, **WIDE, **SLIDING}, {}),
    ({"delay": 3, "theta": 0.7, "window": 3, "contribution": 0.5}, {"length": 4}),
]
DELAY_METHODS = {
    "adapub": [
        ({"delay": 2}, {}),
        ({"delay": 3, "epsilon": 20.0, **SLIDING}, {}),
        ({"delay": 4, "contribution": 0.5, "smooth": True}, {}),
        ({"delay": 2, **WIDE, **SLIDING}, {"length": 4}),
        ({"delay": 12}, {}),
        ({"delay": 3, "window": 2}, {"length": 4}),
        ({"delay": 4, "epsilon": 0.1}, {"length": 4}),
        ({"delay": 1}, {}),
    ],
    "buc_order": [
        ({"delay": 2, "buckets": 3}, {}),
        ({"delay": 3, "buckets": 2, "smooth": True, **SLIDING}, {}),
        ({"delay": 3, "buckets": 4, **POINT, **WIDE, **SLIDING}, ENDS),
        ({"delay": 5, "contribution": 0.25}, {"alphabet": (0.0, 0.25, 0.5)}),
        ({"delay": 1, "buckets": 1}, {}),
        ({"delay": 2, "buckets": 2, "window": 3, **SLIDING}, {"length": 4}),
        ({"delay": 2, "buckets": 2, **EVERY}, {"length": 4}),
        ({"delay": 4, "buckets": 2, **HALVES}, {"length": 4}),
        ({"delay": 3, "buckets": 2, **POINT, "smooth": "median"}, {"length": 4}),
    ],
    "comp_order": [
        ({"delay": 3}, ENDS),
        ({"delay": 2, **SLIDING}, {"length": 4}),
        ({"delay": 5, "contribution": 0.5}, {"alphabet": (0.2, 0.7)}),
        ({"delay": 3, "smooth": True, **WIDE, **SLIDING}, ENDS),
        ({"delay": 1}, ENDS),
        ({"delay": 2, "window": 2, **SLIDING}, {"length": 4}),
        ({"delay": 2, **EVERY}, {"length": 5}),
    ],
    "contin_group": [
        *(*GROUPS, ({"delay": 3, **POINT}, {}), ({"delay": 12, "theta": 0.0}, {})),
        *(({"delay": 2, "theta": 0.7, **EVERY}, {}), ({"delay": 2, **POINT, **EVERY}, {})),
        *(({"delay": 2, **HALVES}, {}), ({"delay": 5, **POINT, **WIDE, **HALVES}, ENDS)),
        ({"delay": 3, **POINT, "smooth": "median", **SLIDING}, {}),
    ],
    "discontin_group": [
        ({"delay": 5, "theta": 0.7}, ENDS),
        ({"delay": 2, "theta": 0.4, **SLIDING}, {"length": 4}),
        ({"delay": 3, "theta": 0.4, "epsilon": 20.0, **SLIDING}, ENDS),
        ({"delay": 3, "theta": 1.0, "contribution": 0.5, "smooth": True}, {"length": 4}),
        ({"delay": 2, **POINT, **WIDE, **SLIDING}, ENDS),
        ({"delay": 4, "theta": 0.7, "window": 2}, {"length": 4}),
        ({"delay": 2, "theta": 0.7, **EVERY}, {"length": 4}),
        ({"delay": 3, "theta": 0.7, **HALVES}, {"length": 4}),
        (
            {"delay": 4, "theta": 0.7, **POINT, **HALVES, "smooth": "median"},
            {"length": 4, **ENDS},
        ),
        ({"delay": 3, "theta": 0.7, **POINT, "smooth": "median"}, {"length": 4}),
    ],
    "dpi": [
        ({"delay": 2, "synopses": 3}, {}),
        ({"delay": 3, "synopses": 4, "smooth": True, **WIDE, **SLIDING}, {}),
        ({"delay": 5, "synopses": 8, "contribution": 0.25}, {"alphabet": (0.0, 0.25, 0.5)}),
        ({"delay": 2, "synopses": 4, "window": 3}, {"length": 4}),
        ({"delay": 1, "synopses": 4}, ENDS),
    ],
    "naive": [
        ({"delay": 2}, {}),
        ({"delay": 3, "smooth": True, **WIDE, **SLIDING}, {}),
        ({"delay": 1, "contribution": 0.5}, {}),
        ({"delay": 2, "window": 3}, {}),
        ({"delay": 2, **WIDE, **OFTEN}, {}),
        ({"delay": 1, "window": 2, **OFTEN}, {"length": 4}),
    ],
    "pegasus": [
        *(GROUPS[0], GROUPS[1], GROUPS[2], ({"delay": 2, **EVERY}, {"length": 4})),
        ({"delay": 3, "theta": 0.7, **HALVES}, {}),
        ({"delay": 3, "smooth": "median", **SLIDING}, {}),
    ],
    "pegasus_delay": [GROUPS[0], GROUPS[3], GROUPS[4], ({"delay": 3, "smooth": "median"}, {})],
    "segment_mean": [
        ({"delay": 3, "segment": 2}, {}),
        ({"delay": 3, "segment": 2, **SLIDING}, {}),
        ({"delay": 2, "segment": 2, "smooth": False, **WIDE, **SLIDING}, {}),
        ({"delay": 4, "segment": 1, "contribution": 0.5}, {}),
        ({"delay": 3, "segment": 3, "window": 4, **SLIDING}, {}),
        ({"delay": 2, "segment": 2, **OFTEN}, {}),
        ({"delay": 4, "segment": 3, "window": 2, **HALVES}, {}),
    ],
    "truncate": [
        ({"delay": 2, "thresholds": 3}, {}),
        ({"delay": 2, "thresholds": 3, "interval": 2, "smooth": True, **SLIDING}, {}),
        (
            {"delay": 3, "thresholds": 4, "contribution": 0.3, **SLIDING},
            {"alphabet": (0.0, 0.3, 0.6)},
        ),
        ({"delay": 5, "thresholds": 8, **WIDE}, {}),
        ({"delay": 2, "thresholds": 2, "interval": 2, "window": 3}, {"length": 4}),
        ({"delay": 1, "thresholds": 2, "interval": 3}, {}),
    ],
}
"""Name -> what to build it with beside epsilon 1 on [0, 1], and what to enumerate."""


MATRICES = [
    {**DELTA, "bands": 4},
    {**DELTA, "bands": 3, "window": 2, "domain": (-3.0, 7.0)},
    {**DELTA, "bands": 2, "moving_mean": 3},
    {**DELTA, "bands": 1, "moving_mean": 1, "contribution": 0.5},
    {**DELTA, "bands": 5, "window": 3, "moving_mean": 2, "epsilon": 4.0},
    {**DELTA, "moving_mean": 24},
]
"""What `matrix` is built with beside epsilon 1 on [0, 1]."""


def method(kind, mechanism, **settings):
    """One, by name or class, over a mechanism that is every mechanism of the method."""
    make = partial(lk.method, kind) if isinstance(kind, str) else kind
    scout = {"scout": mechanism} if "first" in settings else {}
    return make(mechanism=mechanism, **{"epsilon": 1.0, **settings}, **scout)
