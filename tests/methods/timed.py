"""Checks of methods whose reports are the values, at other times: exact laws of what is published,
and the contract's checks where reports come late.
"""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from functools import partial
from itertools import product
from math import inf, log

import numpy as np

import ldp_kafka as lk
from ldp_kafka.checks import CheckFailure
from ldp_kafka.checks.deal import Deal
from ldp_kafka.checks.failure import require
from ldp_kafka.checks.method.guarantee import SLACK
from ldp_kafka.checks.method.trial import MethodTrial
from ldp_kafka.checks.methods import METHOD_CHECKS
from ldp_kafka.checks.sources import KEY, Recorder
from ldp_kafka.checks.tiny import narrow
from ldp_kafka.methods.base import SENT
from ldp_kafka.methods.batch import Batch
from ldp_kafka.randomness import keyed

SHARED = (
    "one_context_one_input",
    "own_reports_are_allowed",
    "slots_must_increase",
    "values_are_checked",
)
"""Checks of the contract that hold for these methods as they are."""


def exact_law(method, stream, draws, outputs=3):
    """What is published of one stream -> its probability: every way that its draws of a tiny
    mechanism, ``draws`` at most, can fall.
    """
    digits = np.array(list(product(range(outputs), repeat=draws)), np.intp)
    deal = Deal(digits)
    published = method.release(np.repeat(np.asarray(stream)[None], len(digits), axis=0), deal)
    # digits that were never dealt: repeats of one outcome
    real = ~((np.arange(draws) >= deal.taken[:, None]) & (digits != 0)).any(1)
    law = defaultdict(float)
    for row, probability in zip(published[real], deal.factors[real].prod(1), strict=True):
        law[row.tobytes()] += probability
    require(abs(sum(law.values()) - 1) < 1e-9, "probabilities must sum to one")
    return dict(law)


def loss(one, other):
    """Largest absolute log likelihood ratio of two laws."""
    return (
        max(abs(log(p / other[o])) for o, p in one.items()) if one.keys() == other.keys() else inf
    )


def released(method, streams, ids, *, order=None, first_slot=3, present=None):
    """(user, slot) -> value: stepped slot by slot, the users of a slot in any order, some of them
    absent.
    """
    source, found = keyed(KEY), {}
    state = method.state(source.digests(ids))
    for t in range(streams.shape[1]):
        rows = np.arange(len(ids)) if order is None else order(t)
        rows = rows if present is None else rows[present[rows, t]]
        step = method.step(
            state, Batch(rows, first_slot + t, method.bound(streams[rows, t]), source)
        )
        slots = np.full((len(rows), 1), first_slot + t) if step.slots is None else step.slots
        shape = (*slots.shape, *method.blank(0).shape[1:])
        values = method.released(np.asarray(step.answers).reshape(shape))
        for i, k in zip(*np.nonzero((step.status == SENT)[:, None] & (slots >= 0)), strict=True):
            require(
                first_slot + t - method.delay <= slots[i, k] <= first_slot + t,
                "a report is of a slot within the delay, and of none to come",
            )
            require((ids[rows[i]], slots[i, k]) not in found, "a slot is published once")
            found[ids[rows[i]], int(slots[i, k])] = values[i, k].tolist()
    return found


def release_is_step(trial):
    """`release` equals one user at a time, and a shared state whose users come in another order."""
    method, streams = trial.real(), trial.streams(6, 24)
    ids = [f"user-{i}" for i in range(len(streams))]
    whole = method.release(streams, keyed(KEY), users=ids, first_slot=3)
    require(np.isfinite(whole).sum() >= 6 * 8, "something must be published")
    want = {
        (ids[i], 3 + t): whole[i, t].tolist()
        for i, t in np.ndindex(whole.shape[:2])
        if not np.isnan(whole[i, t]).any()
    }
    alone = {}
    for i, user in enumerate(ids):
        alone |= released(trial.real(), streams[i : i + 1], [user])
    require(alone == want, "release must equal stepping one record at a time")
    mixed = released(
        method, streams, ids, order=lambda t: np.roll(np.arange(len(ids)), t)[:: 1 if t % 2 else -1]
    )
    require(mixed == want, "the order of users in a batch must not matter")


def users_are_apart(trial):
    """What one user publishes does not change when others report other values, or not at all."""
    method, streams = trial.real(), trial.streams(5, 24)
    ids = [f"user-{i}" for i in range(len(streams))]
    want = released(method, streams, ids)
    for i, user in enumerate(ids):
        other = np.roll(streams, 1, axis=1)
        other[i] = streams[i]
        present = np.random.default_rng(i).random(streams.shape[:2]) < 0.7
        present[i] = True
        for found in (
            released(method, other, ids),
            released(method, streams, ids, present=present),
        ):
            require(
                {k: v for k, v in found.items() if k[0] == user}
                == {k: v for k, v in want.items() if k[0] == user},
                "users must be apart",
            )


def ledger_holds(trial):
    """Whatever slots a user reports in, its draws in no run of slots cost more than the budget; and
    they are billed to a slot that the user reported in.
    """
    budget = int(Decimal(repr(float(trial.real().epsilon))) * 1_000_000)
    for share in (1, 2, 3):
        method, users, slots = trial.real(), 20, 60
        method.spend = max(1, budget // share)
        source, present = (
            Recorder(keyed(KEY)),
            np.random.default_rng(share).random((users, slots)) < 0.95,
        )
        state, streams = (
            method.state(source.digests([str(i) for i in range(users)])),
            trial.streams(users, slots),
        )
        for t in range(slots):
            rows = np.flatnonzero(present[:, t])
            method.step(state, Batch(rows, t, method.bound(streams[rows, t]), source))
        names, cost = state.users[:, 1].tolist(), np.zeros((users, slots), np.int64)
        for user, slot, *_ in source.draws:
            require(present[names.index(user), slot], "a draw is billed to a slot of the user's")
            cost[names.index(user), slot] += method.spend
        require(cost.sum() > 0, "something must be drawn")
        for t in range(slots):
            require(
                (cost[:, max(0, t - method.run + 1) : t + 1].sum(1) <= budget).all(),
                "no run of slots may spend more than the budget",
            )


def noise_is_keyed(trial):
    """The same key, users, slots and values give the same releases; another of any of them gives
    others, and so does the same stretch of values later on.
    """
    method = trial.real()
    part = trial.streams(64, 3 * getattr(method, "advance", method.delay + 1))
    streams = np.concatenate([part] * 6, axis=1)
    ids, length = [f"user-{i}" for i in range(len(streams))], streams.shape[1]

    def release(values=streams, key=KEY, users=ids, first_slot=0):
        return method.release(values, keyed(key), users=users, first_slot=first_slot)

    base = release()
    require(np.array_equal(base, release(), equal_nan=True), "a replay must give the same releases")
    require(
        np.array_equal(base[::-1], release(streams[::-1], users=ids[::-1]), equal_nan=True),
        "noise must belong to the user, not to the row",
    )
    require(
        not np.array_equal(base, release(key=KEY[::-1]), equal_nan=True),
        "another key must give other releases",
    )
    require(
        not np.array_equal(base, release(users=[f"other-{user}" for user in ids]), equal_nan=True),
        "another user must get other noise",
    )
    alike = release(np.repeat(streams[:1], 64, axis=0))
    require(
        not np.array_equal(alike, alike[[0] * 64], equal_nan=True),
        "each user must get noise of its own",
    )
    turns = base.reshape(len(ids), 6, length // 6, *base.shape[2:])[:, 1:-1]
    require(
        (turns[:, 1:] != turns[:, :-1])[~np.isnan(turns[:, 1:] + turns[:, :-1])].mean() > 0.05,
        "the same values in other slots must get other noise",
    )


CHECKS = {name: METHOD_CHECKS[name] for name in SHARED} | {
    f.__name__: f for f in (noise_is_keyed, release_is_step, users_are_apart, ledger_holds)
}


def trial_of(kind, window, **parameters):
    """One of `CHECKS`' subjects; a method by name or class."""
    make = partial(lk.method, kind) if isinstance(kind, str) else kind
    shape = {"domain": (0.0, 1.0), "epsilon": 1.0} | parameters
    return MethodTrial(lambda mechanism: make(mechanism=mechanism, window=window, **shape), window)


def tiny(kind, window, mechanism=narrow, **parameters):
    """The method over a tiny mechanism."""
    return trial_of(kind, window, **parameters).make(mechanism)


def within(bound, epsilon):
    """CheckFailure where an exact loss is above epsilon."""
    if not bound <= epsilon + SLACK:
        raise CheckFailure(f"the exact loss must not exceed epsilon (it is {bound:.3f})")
