"""Checks of methods that protect a user's whole stream, by their own step code: what goes into each
draw, and what is published of scripted draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

import ldp_kafka as lk
from ldp_kafka.accounting.composition import gaussian_epsilon
from ldp_kafka.checks import CheckFailure
from ldp_kafka.checks.failure import require
from ldp_kafka.checks.method.trial import MethodTrial
from ldp_kafka.checks.methods import METHOD_CHECKS
from ldp_kafka.checks.sources import KEY, Recorder
from ldp_kafka.mechanisms import MECHANISMS
from ldp_kafka.methods.base import REFUSED, SENT, SILENT
from ldp_kafka.methods.batch import Batch
from ldp_kafka.randomness import keyed

TINY = 1e-9  # of a sensitivity: z is a float
LEVELS = (0.0, 0.02, 0.05, 0.1, 0.4, 0.5, 0.6, 0.9, 0.95, 1.0)


class Spy:
    """A mechanism that remembers what it was given, before it clamps it."""

    def __init__(self, real):
        self._real, self.inputs = real, []

    def __getattr__(self, name):
        return getattr(self._real, name)

    def perturb(self, values, randomness):
        if len(values):
            self.inputs.append(np.array(values))
        return self._real.perturb(values, randomness)


class Script(Spy):
    """A mechanism that says what it was told to, whatever it is given: the k-th draw
    of each user.
    """

    def perturb(self, values, randomness):
        low, high = self._real.index_range
        turn = len(self.inputs)
        if len(values):
            self.inputs.append(np.array(values))
        one = np.random.default_rng(1000 + turn).integers(low // 4, high // 4) * self._real.scale
        return np.full(len(values), one)


@dataclass(frozen=True)
class Life:
    """One method under test: ``make`` takes a mechanism factory."""

    make: object
    mechanism: str = "gaussian"

    def over(self, kind):
        made = []

        def factory(*args):
            made.append(kind(MECHANISMS[self.mechanism](*args)))
            return made[-1]

        method = self.make(factory)
        return method, made[-1]

    @cached_property
    def real(self):
        return self.make(MECHANISMS[self.mechanism])


class Trial(MethodTrial):
    """The contract's trial of a method whose mechanism takes a delta, without what is held between
    reports.
    """

    def real(self):
        made = self.make(MECHANISMS[self.make.mechanism])
        made.holds = False
        return made

    another = real


def trial(life):
    class Make:
        mechanism = life.mechanism

        def __call__(self, factory):
            return life.make(factory)

    return Trial(Make(), 1)


def adversaries(slots, rng):
    """Pairs of streams (pairs, 2, slots) in shares of the domain: constant, alternating, stepping
    apart and together at several speeds, and random.
    """
    t = np.arange(slots)
    lines = [np.full(slots, level) for level in (0.0, 0.5, 1.0)]
    lines += [np.where(t % 2 == k, a, b) for a in LEVELS for b in LEVELS for k in (0,) if a != b]
    lines += [np.where((t // 2 + k) % 2, a, 1 - a) for a in (0.0, 0.1, 0.4) for k in (0, 1)]
    lines += [
        np.clip(start + speed * t, 0, 1) for start in (0.0, 0.5) for speed in (0.02, 0.05, 0.1, 0.3)
    ]
    lines = np.array(lines)
    picked = rng.integers(len(lines), size=(600, 2))
    fixed = np.stack([lines[picked[:, 0]], lines[picked[:, 1]]], axis=1)
    mirrored = np.stack([lines, 1 - lines], axis=1)
    random = rng.random((200, 2, slots))
    corners = np.round(rng.random((200, 2, slots)))
    return np.concatenate([mirrored, fixed, random, corners])


def inputs_of(life, streams, present):
    """What each of the draws of each stream (n, slots) was given: (n, slots), NaN where nothing was
    drawn; all streams report, or not, together.
    """
    method, spy = life.over(Spy)
    lo, hi = method.domain
    source = keyed(KEY)
    state = method.state(source.digests([str(i) for i in range(len(streams))]))
    given = np.full(streams.shape, np.nan)
    for t in np.flatnonzero(present):
        values = (
            lo + (hi - lo) * streams[:, t]
            if getattr(method, "change", "additive") == "additive"
            else lo * (hi / lo) ** streams[:, t]
        )
        before = len(spy.inputs)
        status = method.step(
            state, Batch(np.arange(len(streams)), int(t), method.bound(values), source)
        ).status
        sent = np.asarray(status) == SENT
        if sent.any():
            require(len(spy.inputs) == before + 1, "one draw a report")
            given[sent, t] = spy.inputs[-1]
    return method, spy, given


def draws_move_within_the_budget(life):
    """For any two streams: no draw's mean moves by more than the sensitivity, and all of them
    together lose no more than is promised.
    """
    rng = np.random.default_rng(11)
    for presence in (1.0, 0.6):
        reports = life.real.window
        slots = 2 * reports + 8
        pairs = adversaries(slots, rng)
        present = rng.random(slots) < presence
        method, spy, given = inputs_of(life, pairs.reshape(-1, slots), present)
        moved = given[0::2] - given[1::2]
        require(
            (np.isnan(given[0::2]) == np.isnan(given[1::2])).all(),
            "which slots are reported must not depend on values",
        )
        squares = np.nan_to_num(moved) ** 2
        require(
            squares.max() <= 1 + TINY,
            "the mean of a draw must not move by more than 1 (it moves by"
            f" {squares.max() ** 0.5:.3f})",
        )
        require(
            (squares.sum(1) <= reports + TINY).all(),
            "all draws together must not move by more than the root of their number",
        )
        if method.delta:
            lost = gaussian_epsilon(squares.sum(1).max() ** 0.5 / spy.sigma, method.delta)
        else:  # given the reports before, a draw loses its move times the epsilon of a length
            one = spy.certificate().epsilon_effective
            lost = (squares**0.5).sum(1).max() * one * (1 - TINY)
        require(
            lost <= method.guarantee.epsilon,
            "what is lost at delta must not exceed the guarantee's epsilon",
        )


def guarantee_is_what_was_asked(life):
    """A sound method promises the (epsilon, delta) it was given for what it was given for: its
    proof's sensitivity put through Balle and Wang, or without a delta the sum of all reports.
    """
    method = life.real
    stated = method.guarantee
    require(
        stated.level == "user" and stated.window == method.window == stated.influence,
        "level and reports must be stated",
    )

    def lost(reports):
        if stated.delta:
            return gaussian_epsilon(reports**0.5 / method.mechanism.sigma, stated.delta)
        return reports * method.mechanism.certificate().epsilon_effective

    require(
        lost(method.window) <= stated.epsilon, "so many reports must not lose more than is stated"
    )
    refresh = getattr(method, "refresh", method.window)
    require(lost(refresh) <= method.epsilon, "what is refreshed together must keep epsilon")
    require(
        refresh < method.window or stated.epsilon <= method.epsilon,
        "all reports must keep the epsilon that was given for them",
    )


def outputs_tell_all(life):
    """All that is published, and when, follows from the mechanism's outputs: with scripted outputs
    every stream gives the same.
    """
    rng, slots = np.random.default_rng(3), 40
    streams = adversaries(slots, rng)[:, 0]
    method, _ = life.over(Script)
    lo, hi = method.domain
    source = keyed(KEY)
    state = method.state(source.digests([str(i) for i in range(len(streams))]))
    for t in range(slots):
        step = method.step(
            state,
            Batch(np.arange(len(streams)), t, method.bound(lo + (hi - lo) * streams[:, t]), source),
        )
        require(
            len(np.unique(step.status)) == 1,
            "whether a slot is reported must follow from outputs alone",
        )
        require(
            len(np.unique(step.answers)) == 1, "what is reported must follow from outputs alone"
        )


def noise_is_bound_to_its_input(life):
    """No two draws of one user in one slot with one context have different inputs, whatever its
    values were.
    """
    slots, lives = 8, 200
    rows = np.arange(lives)
    streams = np.round(np.random.default_rng(0).random((lives, slots)) * 4) / 4
    method, spy = life.over(Spy)
    source = Recorder(keyed(KEY))
    state = method.state(source.digests(["one"] * lives))
    lo, hi = method.domain
    for t in range(slots):
        method.step(state, Batch(rows, t, method.bound(lo + (hi - lo) * streams[:, t]), source))
    inputs = np.concatenate(spy.inputs).tolist()
    require(len(source.draws) == len(inputs), "every draw must have a context")
    seen = {}
    for context, given in zip(source.draws, inputs, strict=True):
        require(
            seen.setdefault(context, given) == given,
            "noise must be bound to the mechanism's input: one context had several",
        )
    require(len(set(seen.values())) > 2, "inputs must differ at all")


def silent_ever_after(life):
    """A user makes as many reports as are allowed, in whichever slots; after that it is refused for
    ever, and nothing is drawn for it.
    """
    method, users = life.real, 30
    slots = 6 * getattr(method, "horizon", method.window) + 10
    present = np.random.default_rng(5).random((users, slots)) < 0.5
    source = Recorder(keyed(KEY))
    state = method.state(source.digests([str(i) for i in range(users)]))
    sent, refused = np.zeros(users, int), np.zeros(users, int)
    lo, hi = method.domain
    for t in range(slots):
        rows = np.flatnonzero(present[:, t])
        values = np.random.default_rng(t).random(len(rows))
        step = method.step(state, Batch(rows, t, method.bound(lo + (hi - lo) * values), source))
        require(
            (np.asarray(step.answers)[step.status != SENT] == 0).all(), "what is not sent must be 0"
        )
        require(
            (step.status[refused[rows] > 0] == REFUSED).all() or method.holds,
            "who was refused must stay refused",
        )
        require(
            not (step.status == SILENT).any() or method.holds,
            "a method that reports every slot is never silent by itself",
        )
        sent[rows[step.status == SENT]] += 1
        refused[rows[step.status == REFUSED]] += 1
        require(
            not (sent > method.window).any(),
            "no user may make more reports than are allowed in its life",
        )
        require(
            ((sent == method.window) | (refused == 0)).all(),
            "nothing may be refused that the budget would allow",
        )
        require(
            len(source.draws) == sent.sum(),
            "noise must be drawn for reports that are sent, and for no other",
        )
        require(
            method.ledger.largest(state) <= method.ledger.budget,
            "what is shown as spent must not exceed the budget",
        )
    require(
        (sent == method.window).all() and refused.all(),
        "the streams must be long enough to use the budget up",
    )
    require(
        method.ledger.largest(state) >= 0.9 * method.ledger.budget,
        "a budget that is used up must show as used up",
    )


LIFE_CHECKS = {
    check.__name__: check
    for check in (
        draws_move_within_the_budget,
        guarantee_is_what_was_asked,
        outputs_tell_all,
        noise_is_bound_to_its_input,
        silent_ever_after,
    )
}
SHARED = (
    "release_is_step",
    "users_are_apart",
    "noise_is_keyed",
    "slots_must_increase",
    "values_are_checked",
)
for name in SHARED:
    LIFE_CHECKS[name] = lambda life, check=METHOD_CHECKS[name]: check(trial(life))


def fails(life):
    """Names of the checks that a method fails."""
    found = []
    for name, check in LIFE_CHECKS.items():
        try:
            check(life)
        except CheckFailure:
            found.append(name)
    return found


def life(name, mechanism="gaussian", **parameters):
    """Of a registered method."""
    given = {"domain": (0.0, 1.0), **parameters}
    if mechanism == "gaussian":
        given = {"epsilon": 1.0, "delta": 1e-5, **given}
    return Life(lambda factory: lk.method(name, mechanism=factory, **given), mechanism)
