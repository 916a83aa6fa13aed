"""Methods side by side on one's own streams, and beside a constant, which needs no report.

Each target has one true number a place, and one estimate of it: what was released last, at first
the domain's midpoint, clipped to the domain. The error is the root mean square over all places that
have a true number. A user's releases are as they were reported, not drawn to a crowd's mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldp_kafka.accounting.words import at_most, did_you_mean
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.evaluation.claims import below
from ldp_kafka.evaluation.experiment import Row, Rows, drawn, measured, values_of, where
from ldp_kafka.evaluation.experiments import as_plain, text
from ldp_kafka.mechanisms.base import check_domain
from ldp_kafka.methods import SENT, Method
from ldp_kafka.methods.contract import check_slots
from ldp_kafka.methods.protocols import PROTOCOLS, Protocol
from ldp_kafka.methods.runnable import Runnable, names, runnable
from ldp_kafka.methods.streams import Streams
from ldp_kafka.named import method, protocol
from ldp_kafka.plugins import find
from ldp_kafka.randomness import Randomness, seeded

__all__ = [
    "CONSTANT",
    "CROWD",
    "SLOTS",
    "WINDOWS",
    "Verdict",
    "lines",
    "panels",
    "rows",
    "verdicts",
]

SLOTS, WINDOWS = "one user's slots", "one user's window means"
CROWD = "the crowd's mean of a slot"
TARGETS = (SLOTS, WINDOWS, CROWD)
CONSTANT, ANY = "constant", "any"
"""What needs no report, and the level of its guarantee."""
MANY = 2**18  # values that are released together


def rows(
    streams: ArrayLike,
    methods: Sequence[str],
    epsilons: Sequence[float],
    *,
    window: int,
    domain: tuple[float, float],
    parameters: Mapping[str, Any] | None = None,
    repeats: int = 10,
    seed: int = 0,
) -> list[Row]:
    """The error of every method at every epsilon, target by target.

    Parameters
    ----------
    streams : (users, T), NaN where a user has no value
    methods : names of methods and protocols. One that releases windows is there at two levels: its
        own, of one slot, and that of ``window`` slots, which is the others'
    epsilons : of whatever a method's guarantee is of
    window : slots of the privacy window, and of the means of windows
    domain : (lo, hi), public: never taken from the streams
    parameters : further ones, by name, for each method that takes them: its own, and the
        ``mechanism``. ``delay`` is ``window`` where it is not given, and ``horizon`` T
    repeats : runs with other noise, at least 2
    seed : of the noise; methods draw by contexts of their own, and so does one at two epsilons

    Returns
    -------
    rows with ``target``, ``epsilon``, ``level`` of the guarantee, ``method``, ``rmse`` in the unit
    of the values, its standard error over repeats ``rmse_error``, and ``ratio`` to that of the
    constant, which is the domain's midpoint. The crowd's mean is a target where there are several
    users, the means of windows where ``window`` is above 1

    Raises
    ------
    ConfigurationError : streams are no such table, or shorter than the window; a method is unknown,
        for other values, or lacks a parameter; a parameter is taken by none; a protocol is asked
        for and there is one user
    """
    values, (lo, hi) = np.asarray(streams, np.float64), check_domain(domain)
    if values.ndim != 2 or np.isnan(values).all() or np.isinf(values).any():
        raise ConfigurationError("streams must be (users, T), finite numbers or NaN, not all NaN")
    people, slots = values.shape
    if not check_slots(window, "window") <= slots:
        raise ConfigurationError(f"the streams have {slots:,} slots, and the window {window:,}")
    if not (repeats > 1 and len(methods) and len(epsilons)):
        raise ConfigurationError("give a method, an epsilon, and two repeats, or more of them")
    if people == 1 and (crowds := [name for name in methods if name in PROTOCOLS]):
        raise ConfigurationError(
            f"{', '.join(crowds)} releases the mean of a crowd, and there is one user: leave it"
            " out, or cut the series into users (--slice, users=)"
        )
    further = dict(parameters or {})
    common = {"delay": window} | ({} if "sigma" in further else {"horizon": slots}) | further
    kinds = _kinds(methods, further)
    contest = [
        (name, epsilon, made)
        for epsilon in dict.fromkeys(epsilons)
        for name, kind in kinds.items()
        for made in _made(kind, window, {"epsilon": epsilon, "domain": (lo, hi)}, common)
    ]
    truths = _targets(values, window) | ({CROWD: _means(values, 0)} if people > 1 else {})
    truths = {target: each for target, each in truths.items() if not np.isnan(each).all()}

    def error(estimates: NDArray[np.float64], truth: NDArray[np.float64]) -> float:
        return float(np.nanmean((np.clip(estimates, lo, hi) - truth) ** 2) ** 0.5)

    flat = {name: error(np.full(each.shape, (lo + hi) / 2), each) for name, each in truths.items()}
    table: list[Row] = []
    for name, epsilon, made in contest:
        found = list(_estimates(made, values, window, repeats, seed))
        for target in truths.keys() & found[0].keys():
            row: Row = {"target": target, "epsilon": epsilon, "level": _level(made), "method": name}
            row |= measured(rmse=[error(each[target], truths[target]) for each in found])
            table.append(row | {"ratio": row["rmse"] / (flat[target] or np.nan)})
    constants: list[Row] = [
        {"target": target, "epsilon": epsilon, "level": ANY, "method": CONSTANT}
        | {"rmse": flat[target], "rmse_error": 0.0, "ratio": 1.0}
        for target, epsilon in values_of(table, "target", "epsilon")
    ]
    order = [*dict.fromkeys(epsilons)]
    return sorted(
        constants + table,
        key=lambda row: (TARGETS.index(row["target"]), order.index(row["epsilon"])),
    )


def _kinds(wanted: Sequence[str], parameters: Mapping[str, Any]) -> dict[str, Runnable]:
    """What is known of each method, which takes single numbers; each parameter is taken by one."""
    kinds = {}
    for name in dict.fromkeys(wanted):
        find(name)
        kind = runnable(name, "numeric")
        if kind is None:
            raise ConfigurationError(
                f"unknown method {name!r}{did_you_mean(name, names())}; known: {', '.join(names())}"
            )
        if "dimension" in kind.needed:
            raise ConfigurationError(f"{name} is for lists of numbers, and values are single ones")
        kinds[name] = kind
    # with a contribution a guarantee would be of less than whole values; these are no lists
    known = {"mechanism"}.union(*(kind.parameters for kind in kinds.values()))
    known -= {"contribution", "dimension"}
    for one in parameters:
        if one not in known:
            raise ConfigurationError(
                f"unknown parameter {one!r}{did_you_mean(one, known)}; of these methods there are:"
                f" {', '.join(sorted(known))}"
            )
    for name, kind in kinds.items():
        if missing := sorted({*kind.needed} - {*parameters, "delay", "horizon"}):
            raise ConfigurationError(
                f"{name} needs a value of {', '.join(missing)} too (--parameter, parameters=)"
            )
    return kinds


def _made(
    kind: Runnable, window: int, given: dict[str, Any], further: Mapping[str, Any]
) -> Iterator[Method | Protocol]:
    """A method at each level that it is compared at; sound, as all are by default."""
    mine = given | {name: each for name, each in further.items() if name in kind.parameters}
    crowd = kind.name in PROTOCOLS
    if "mechanism" in further and not kind.own_noise:
        mine["oracle" if crowd else "mechanism"] = further["mechanism"]
    make: Callable[..., Any] = protocol if crowd else method
    for span in sorted({1, window} if kind.windows else {window}):
        try:
            yield make(kind.name, **mine, **({} if kind.level == "user" else {"window": span}))
        except (ConfigurationError, TypeError) as error:
            said = f"{kind.name} at epsilon {at_most(given['epsilon'])}: {error}"
            raise ConfigurationError(said) from None


def _level(made: Method | Protocol) -> str:
    """What its guarantee is of: only equal ones are compared."""
    promised = (made.responder() if isinstance(made, Protocol) else made).guarantee
    failure = f", delta {at_most(promised.delta)}" if promised.delta else ""
    return f"{promised.level}{failure}{', time only' * (promised.protects == 'time')}"


def _targets(slots: NDArray[np.float64], window: int) -> dict[str, NDArray[np.float64]]:
    """Of (..., T): the slots, and the means of consecutive windows."""
    if window == 1:
        return {SLOTS: slots}
    whole = slots[..., : slots.shape[-1] // window * window]
    return {SLOTS: slots, WINDOWS: _means(whole.reshape(*slots.shape[:-1], -1, window), -1)}


def _means(values: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """Of what there is; NaN where nothing is."""
    there = ~np.isnan(values)
    count = there.sum(axis=axis)
    total = np.where(there, values, 0.0).sum(axis=axis)
    return np.asarray(np.where(count, total / np.maximum(count, 1), np.nan))


def _estimates(
    made: Method | Protocol, values: NDArray[np.float64], window: int, repeats: int, seed: int
) -> Iterator[dict[str, NDArray[np.float64]]]:
    """What is known of each target, repeat by repeat."""
    if isinstance(made, Protocol):
        reader = made.responder()
        for at in range(repeats):
            trace = made.run(values, seeded(seed + at), with_spent=False)
            yield {CROWD: reader.held(trace.values.T)[0]}
        return
    together = max(1, MANY // values.size)
    for first in range(0, repeats, together):
        copies = min(together, repeats - first)  # of all users, each with noise of its own
        whole = np.tile(values, (copies, 1))
        released, crowds = _released(made, whole, copies, seeded(seed + first))
        standing = np.where(np.isnan(whole), np.nan, made.held(released))
        for each, crowd in zip(standing.reshape(copies, *values.shape), crowds, strict=True):
            yield _targets(each, window) | ({} if crowd is None else {CROWD: crowd})


def _released(
    made: Method, values: NDArray[np.float64], copies: int, source: Randomness
) -> tuple[NDArray[np.float64], Sequence[Any]]:
    """What is released of users, and of each copy of a crowd its means (T,), or None where nothing
    is.
    """
    there = ~np.isnan(values)
    filled = np.where(there, values, made.domain[0])
    if "mean" not in made.statistics or len(values) == copies:
        return made.release(filled, source, present=there), [None] * copies
    taken = Streams(made, made.bound, filled, source, None, None, there)
    state = made.state(taken.digests)
    steps = [made.step(state, batch) for batch in taken.batches()]
    means = np.full((copies, len(steps)), np.nan)
    for slot, step in enumerate(steps):
        for at, rows_of in enumerate(np.split(np.arange(len(values)), copies)):
            sent = rows_of[step.status[rows_of] == SENT]
            if len(sent):
                means[at, slot] = made.crowd(made.support(step.answers[sent])).value
    return np.stack([made.published(step) for step in steps], axis=1), list(made.held(means))


class Verdict(NamedTuple):
    """Which method to take for one target, at one level and epsilon."""

    target: str
    epsilon: float
    level: str
    take: str | None
    """None: nothing is clearly better than the constant."""
    said: str
    """The same as a sentence, with how much better it is."""


def verdicts(found: Rows) -> list[Verdict]:
    """What follows from the `rows`: of the methods of one level that are clearly better than the
    constant (`claims.below`) which errs least, and by how much less than the next one and than
    the constant.
    """
    made = []
    for target, epsilon, level in values_of(found, "target", "epsilon", "level"):
        if level == ANY:
            continue
        part = where(found, target=target, level=level)
        (flat,) = where(found, target=target, epsilon=epsilon, method=CONSTANT)
        ranks = sorted(where(part, epsilon=epsilon), key=lambda row: row["rmse"])
        best = next((row for row in ranks if _below(row, flat)), ranks[0])
        others = [row for row in ranks if row is not best]
        take = best["method"] if _below(best, flat) else None
        said = _left(best, flat, part) if take is None else _taken(best, others[:1], flat)
        said = f"{target}, {level}, epsilon {at_most(epsilon)}: {said}"
        made.append(Verdict(target, epsilon, level, take, said))
    return made


def _below(row: Row, other: Row) -> bool:
    return below((row["rmse"], row["rmse_error"]), (other["rmse"], other["rmse_error"]))


def _taken(best: Row, following: Rows, flat: Row) -> str:
    """How much better it is."""
    said = []
    for row in (*following, flat):
        name = "the constant" if row is flat else row["method"]
        less = f"{100 * (1 - best['rmse'] / row['rmse']):.0f} % below {name}"
        said.append(less if _below(best, row) else f"not told apart from {name}")
    return f"take {best['method']}, RMSE {best['rmse']:.4g}: {', '.join(said)}"


def _left(best: Row, flat: Row, part: Rows) -> str:
    """Why no method is worth a report, and from which of the epsilons on one is."""
    said = (
        f"nothing is clearly better than the constant, RMSE {flat['rmse']:.4g}; nearest is"
        f" {best['method']}, RMSE {best['rmse']:.4g}"
    )
    enough = [row for row in part if _below(row, flat)]
    if not enough:
        return said
    first = min(enough, key=lambda row: (row["epsilon"], row["rmse"]))
    return f"{said}; at epsilon {at_most(first['epsilon'])} {first['method']} is better"


def lines(found: Rows) -> list[str]:
    """The `rows` as a table for each target, and their `verdicts` below them."""
    made: list[str] = []
    for target in values_of(found, "target"):
        part = as_plain(where(found, target=target))
        for row in part:
            del row["target"]
        made += [target, *text(part), ""]
    return [*made, *(each.said for each in verdicts(found))]


panels = drawn("epsilon", "rmse", "RMSE", each=("target",), lines=("method", "level"))
"""A panel for each target."""
