"""The checks that every streaming method must pass.

They rest on exact enumeration (`ldp_kafka.checks.enumeration`): over a mechanism of three outputs
the law of everything that a short stream publishes is known, so the guarantee is compared with the
true loss and not with samples. The rest of the contract runs over the real mechanism with keyed
noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, partial
from math import inf, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.checks.enumeration import Outcomes, enumerate_outcomes, narrow, wide
from ldp_kafka.checks.failure import refused, require, run_all
from ldp_kafka.checks.sources import KEY, Recorder
from ldp_kafka.mechanisms import MECHANISMS
from ldp_kafka.methods.base import REFUSED, SENT
from ldp_kafka.randomness import Randomness, keyed, seeded

__all__ = ["METHOD_CHECKS", "MethodTrial", "check_method"]

SLACK = 1e-9  # of probabilities in floating point
LOUD = 987654321  # no error text may hold it


@dataclass(frozen=True)
class MethodTrial:
    """One method under test."""

    make: Callable[[Any], Any]
    window: int
    length: int = 5
    alphabet: Sequence[Any] | None = None
    draws: int | None = None

    def real(self) -> Any:
        """A fresh one over the mechanism that its class names."""
        return self.make(MECHANISMS[self.small.default_mechanism])

    @cached_property
    def small(self) -> Any:
        """One over the tiny mechanism."""
        return self.make(narrow)

    @cached_property
    def outcomes(self) -> list[Outcomes]:
        """One enumeration for each tiny mechanism and each remainder of the user's hash that may
        matter.
        """
        kinds = (narrow, wide) if self.small.kind == "numeric" else (narrow,)
        # methods for numbers report in every slot, whoever the user is
        return [
            enumerate_outcomes(
                self.make,
                self.length,
                mechanism=kind,
                alphabet=self.alphabet,
                draws=self.draws,
                hashed=hashed,
            )
            for kind in kinds
            for hashed in range(self.window if self.small.kind == "categorical" else 1)
        ]

    @cached_property
    def worst(self) -> float:
        """The largest loss over all of them and all neighbours, in nats."""
        return max(
            outcomes.loss(i, j)
            for outcomes in self.outcomes
            for i, j in outcomes.neighbours(self.window)
        )

    def streams(self, users: int, slots: int) -> NDArray[Any]:
        """Values all over the domain, the same in every run."""
        method = self.real()
        share = np.random.default_rng(5).random(
            (users, slots, *([method.dimension] if method.dimension else []))
        )
        if method.kind == "categorical":
            return np.asarray((share * method.categories).astype(np.int64))
        lo, hi = method.domain
        return np.asarray(lo + (hi - lo) * share)


def check_method(
    make: Callable[[Any], Any],
    window: int,
    *,
    length: int = 5,
    alphabet: Sequence[Any] | None = None,
    draws: int | None = None,
) -> None:
    """Run every check of `METHOD_CHECKS`.

    Parameters
    ----------
    make : mechanism factory -> a fresh method, its own parameters fixed
    window : slots in its privacy window
    length : slots of the streams that are enumerated: beyond the window, and beyond what the method
        remembers
    alphabet : values of those streams; default: the ends of the domain, or all categories (few)
    draws : the most draws of one stream; default: one a slot

    Raises
    ------
    CheckFailure : with the names of all the checks that failed in ``checks``
    """
    run_all(METHOD_CHECKS, MethodTrial(make, window, length, alphabet, draws))


def loss_within_epsilon(trial: MethodTrial) -> None:
    """No outcome is more than e^epsilon times likelier under one stream than under a neighbour, and
    all that is published follows from the mechanism's outputs.
    """
    require(
        trial.worst <= trial.small.epsilon + SLACK,
        "the exact loss over neighbouring streams must not exceed epsilon (it is"
        f" {trial.worst:.3f})",
    )


def guarantee_is_true(trial: MethodTrial) -> None:
    """The guarantee states window, calibration and an epsilon that the exact loss keeps; sound
    calibration promises what was asked for.
    """
    method = trial.real()
    stated = method.guarantee
    require(stated.window == trial.window, "the guarantee must state the window")
    require(stated.calibration == method.calibration, "the guarantee must state the calibration")
    require(
        trial.worst <= stated.epsilon + SLACK,
        "the exact loss must not exceed the guarantee's epsilon",
    )
    require(
        stated.calibration != "sound" or stated.epsilon <= method.epsilon,
        "a sound method must guarantee the epsilon it was given",
    )


def input_reaches_output(trial: MethodTrial) -> None:
    """The reports depend on the values at all: a tenth of one report's budget is lost at least."""
    method = trial.real()
    require(trial.worst >= 0.1 * method.spend / 1e6, "some input must show in some output")


def influence_is_true(trial: MethodTrial) -> None:
    """No more reports than ``influence`` change their law, given the reports before them, when
    values change inside one window.
    """
    stated = trial.real().guarantee.influence
    for outcomes in trial.outcomes:
        reached = max(outcomes.reached(i, j) for i, j in outcomes.neighbours(trial.window))
        require(
            reached <= stated,
            "a window of changed values must not reach more reports than the influence says",
        )


def one_context_one_input(trial: MethodTrial) -> None:
    """Noise is bound to the input: no two draws of a user have one context and different inputs,
    and no user draws twice from one slot and phase.
    """
    for outcomes in trial.outcomes:
        seen: dict[tuple[int, int], list[tuple[NDArray[np.int64], NDArray[Any]]]] = {}
        drawn: dict[tuple[int, int], list[NDArray[np.intp]]] = {}
        for draw in outcomes.draws:
            seen.setdefault((draw.slot, draw.phase), []).append((draw.bound, draw.inputs))
            drawn.setdefault((draw.slot, draw.phase), []).append(draw.rows)
        for rows in drawn.values():
            every = np.concatenate(rows)
            require(
                len(every) == len(np.unique(every)),
                "a user's draws in one slot must differ in phase",
            )
        for parts in seen.values():
            bound, inputs = (
                np.concatenate([b for b, _ in parts]),
                np.concatenate([x for _, x in parts]),
            )
            both = np.column_stack([bound, np.asarray(inputs, np.float64).view(np.int64)])
            require(
                _distinct(bound) == _distinct(both),
                "noise must be bound to the mechanism's input: one context had several",
            )


def release_is_step(trial: MethodTrial) -> None:
    """`release` equals one record at a time, one user at a time, and a shared state whose users
    come in another order.
    """
    method, streams = trial.real(), trial.streams(6, 12)
    ids = [f"user-{i}" for i in range(len(streams))]
    whole = method.release(streams, keyed(KEY), users=ids, first_slot=3)
    require(whole.shape == streams.shape, "release must keep the shape of its streams")
    for i, user in enumerate(ids):
        alone, source = trial.real(), keyed(KEY)
        state = alone.state(source.digests([user]))
        singles = [
            _stepped(alone, state, np.array([0]), 3 + t, streams[i, t : t + 1], source=source)
            for t in range(streams.shape[1])
        ]
        require(
            _same(method, whole[i : i + 1], np.stack(singles, axis=1)),
            "release must equal stepping one record at a time",
        )
    require(
        np.array_equal(
            whole[0],
            method.release(streams[0], keyed(KEY), users=ids[:1], first_slot=3),
            equal_nan=_floats(whole),
        ),
        "one stream must be released as it is among others",
    )
    source = keyed(KEY)
    state, mixed = method.state(source.digests(ids)), np.empty_like(whole)
    for t in range(streams.shape[1]):
        order = np.roll(np.arange(len(ids)), t)[:: 1 if t % 2 else -1]
        mixed[order, t] = _stepped(method, state, order, 3 + t, streams[order, t], source=source)
    require(_same(method, whole, mixed), "the order of users in a batch must not matter")


def users_are_apart(trial: MethodTrial) -> None:
    """What one user publishes does not change when others report other values, or at other times,
    or not at all.
    """
    method, streams = trial.real(), trial.streams(5, 12)
    ids = [f"user-{i}" for i in range(len(streams))]
    whole = method.release(streams, keyed(KEY), users=ids)
    for i in range(len(ids)):
        other = (
            np.flip(streams, axis=0).copy() if i != len(ids) // 2 else np.roll(streams, 1, axis=0)
        )
        other[i] = streams[i]
        again = method.release(other, keyed(KEY), users=ids)
        require(
            np.array_equal(whole[i], again[i], equal_nan=_floats(whole)),
            "other users' values must not reach a user's reports",
        )
        source = keyed(KEY)
        state, mine = method.state(source.digests(ids)), np.empty_like(whole[:1])
        for t in range(streams.shape[1]):
            present = np.array([j for j in range(len(ids)) if j == i or (j + t) % 3])
            mixed = _stepped(method, state, present, t, streams[present, t], source=source)
            mine[:, t] = mixed[present == i]
        require(
            _same(method, whole[i : i + 1], mine),
            "which other users report must not reach a user's reports",
        )


def noise_is_keyed(trial: MethodTrial) -> None:
    """The same key, users, slots and values give the same reports; another of any of them gives
    others.
    """
    method, streams = trial.real(), trial.streams(64, 12)
    ids = [f"user-{i}" for i in range(len(streams))]

    def release(
        values: NDArray[Any] = streams,
        key: bytes = KEY,
        users: Sequence[str] = ids,
        first_slot: int = 0,
    ) -> NDArray[Any]:
        return np.asarray(method.release(values, keyed(key), users=users, first_slot=first_slot))

    base = release()
    same = _floats(base)
    require(np.array_equal(base, release(), equal_nan=same), "a replay must give the same reports")
    require(
        np.array_equal(base[::-1], release(streams[::-1], users=ids[::-1]), equal_nan=same),
        "noise must belong to the user, not to the row",
    )
    require(
        not np.array_equal(base, release(key=KEY[::-1]), equal_nan=same),
        "another key must give other reports",
    )
    require(
        not np.array_equal(base, release(users=[f"other-{user}" for user in ids]), equal_nan=same),
        "another user must get other noise",
    )
    require(
        not np.array_equal(base, release(first_slot=100 * trial.window), equal_nan=same),
        "another slot must get other noise",
    )
    constant = np.repeat(streams[:, :1], streams.shape[1], axis=1)
    held = release(constant)
    sent = ~np.isnan(held) if same else held >= 0
    require(
        any(len(np.unique(row[kept])) > 1 for row, kept in zip(held, sent, strict=True)),
        "the same value in another slot must get other noise",
    )


def ledger_holds(trial: MethodTrial) -> None:
    """Whatever one report costs and whichever slots a user reports in, no run of window + memory
    slots exceeds the budget; nothing that would fit is refused; only what is sent is drawn.
    """
    budget = int(Decimal(repr(float(trial.real().epsilon))) * 1_000_000)
    for share in (1, 2, 3):
        method, users, slots = trial.real(), 20, 60
        method.spend = max(1, budget // share)
        run = method.run
        streams, present = (
            trial.streams(users, slots),
            np.random.default_rng(share).random((users, slots)) < 0.7,
        )
        source = Recorder(keyed(KEY))
        state = method.state(source.digests([str(i) for i in range(users)]))
        cost, sent = np.zeros((users, slots), np.int64), 0
        for t in range(slots):
            rows = np.flatnonzero(present[:, t])
            status = np.asarray(
                method.step(state, rows, t, method.bound(streams[rows, t]), source).status
            )
            cost[rows[status == SENT], t] = method.cost
            sent += int((status == SENT).sum())
            drawn = {(user, at) for user, at, *_ in source.draws}
            held = cost[:, max(0, t - run + 1) : t + 1].sum(1)
            require(
                (held <= budget).all(),
                "no run of window + memory slots may spend more than the budget",
            )
            require(
                (held[rows[status == REFUSED]] + method.cost > budget).all(),
                "nothing may be refused that the budget would allow",
            )
            require(
                len(drawn) == sent,
                "noise must be drawn for reports that are sent, and for no other: a draw that is"
                " thrown away is still a draw",
            )


def own_reports_are_allowed(trial: MethodTrial) -> None:
    """At its own cost a report, a method that reports in every slot is never refused."""
    method, source = trial.real(), seeded(1)
    streams = trial.streams(8, 40)
    state = method.state(source.digests([str(i) for i in range(8)]))
    for t in range(40):
        status = np.asarray(
            method.step(state, np.arange(8), t, method.bound(streams[:, t]), source).status
        )
        require((status != REFUSED).all(), "a method must not be refused what it plans to spend")


def slots_must_increase(trial: MethodTrial) -> None:
    """A repeated or earlier slot of any user in a batch is refused, and nothing is drawn or changed
    for anyone.
    """
    method, source, streams = trial.real(), Recorder(keyed(KEY)), trial.streams(4, 3)
    state = method.state(source.digests([str(i) for i in range(4)]))
    bound = method.bound(streams[:, 0])
    method.step(state, np.arange(2), 5, bound[:2], source)
    method.step(state, np.arange(1), 7, bound[:1], source)
    before, drawn = (
        {name: column.copy() for name, column in state.columns.items()},
        len(source.draws),
    )
    for slot in (7, 6, 5, 0):
        refused(
            partial(method.step, state, np.array([2, 0, 3]), slot, bound[:3], source),
            "a slot that is not later than a user's last",
        )
        require(len(source.draws) == drawn, "a refused slot must draw nothing")
        require(
            all(np.array_equal(column, before[name]) for name, column in state.columns.items()),
            "a refused slot must change no user's state",
        )


def values_are_checked(trial: MethodTrial) -> None:
    """Numbers outside the domain count as its ends; what is not finite, or no category, is refused
    without being shown.
    """
    method = trial.real()
    if method.kind == "categorical":
        for bad in (-LOUD, -1, method.categories, LOUD):
            refused(
                partial(method.release, np.array([0, bad]), seeded(1)),
                "a number that is no category",
                hidden=[str(LOUD)],
            )
        refused(
            lambda: method.release(np.array([0.0, 1.0]), seeded(1)),
            "categories that are not whole numbers",
        )
        return
    lo, hi = method.domain
    wide, inside = hi - lo, lo + 0.3141592653 * (hi - lo)
    shape = (-1, method.dimension) if method.dimension else -1
    many = max(1, method.dimension)
    outside, ends = (
        np.repeat(each, many).reshape(shape)
        for each in ([hi + 4 * wide, lo - 5 * wide, inside, hi + wide], [hi, lo, inside, hi])
    )
    require(
        np.array_equal(
            method.release(outside, seeded(3)), method.release(ends, seeded(3)), equal_nan=True
        ),
        "values outside the domain must be clamped to it",
    )
    for bad in (nan, inf, -inf):
        refused(
            partial(method.release, np.resize([inside, bad], 2 * many).reshape(shape), seeded(1)),
            "a value that is not finite",
            hidden=[str(inside)[:8]],
        )


METHOD_CHECKS: dict[str, Callable[[MethodTrial], None]] = {
    "loss_within_epsilon": loss_within_epsilon,
    "guarantee_is_true": guarantee_is_true,
    "input_reaches_output": input_reaches_output,
    "influence_is_true": influence_is_true,
    "one_context_one_input": one_context_one_input,
    "release_is_step": release_is_step,
    "users_are_apart": users_are_apart,
    "noise_is_keyed": noise_is_keyed,
    "ledger_holds": ledger_holds,
    "own_reports_are_allowed": own_reports_are_allowed,
    "slots_must_increase": slots_must_increase,
    "values_are_checked": values_are_checked,
}


def _stepped(
    method: Any,
    state: Any,
    rows: NDArray[np.intp],
    slot: int,
    values: NDArray[Any],
    *,
    source: Randomness,
) -> NDArray[Any]:
    """One step, published as `release` publishes it."""
    return np.asarray(
        method.published(method.step(state, rows, slot, method.bound(values), source))
    )


def _same(method: Any, released: NDArray[Any], stepped: NDArray[Any]) -> bool:
    """Whether what steps published is what `release` made of it: the last report stands where a
    method holds it.
    """
    return np.array_equal(
        released,
        method.held(stepped) if getattr(method, "holds", False) else stepped,
        equal_nan=_floats(released),
    )


def _distinct(table: NDArray[np.int64]) -> int:
    """Number of different rows."""
    if not table.shape[1]:
        return 1
    ordered = table[np.lexsort(table.T)]
    return 1 + int((ordered[1:] != ordered[:-1]).any(1).sum())


def _floats(published: NDArray[Any]) -> bool:
    return published.dtype.kind == "f"
