"""One key, many uses: what was found from outside when two methods, budgets or batches shared their
words, kept as attacks that must not succeed.
"""

from __future__ import annotations

import itertools
from math import exp, sqrt

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.checks.sources import Listener
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.protocols import Request
from ldp_kafka.methods.step import SENT
from tests.keys import KEY
from tests.mutants.deaf import Deaf
from tests.specimens import MECHANISMS
from tests.specimens import METHODS as SPECIMENS

USERS = 4000
IDS = [f"meter-{i}" for i in range(USERS)]


def release(values, epsilon=0.1, domain=(0.0, 1.0), name="sw_direct", slot=5):
    """One report of each user."""
    method = lk.method(name, epsilon=epsilon, window=1, domain=domain)
    source = lk.randomness.keyed(KEY)
    return method.release(values[:, None], source, users=IDS, first_slot=slot)[:, 0]


def found_in_two_domains(values, source):
    """The share of values that two answers of epsilon .1 each tell to a twentieth of the domain.
    Where two Square Waves, over [0, 1] and [-1, 1], answer with the same words and both come near
    the value, the distance of their answers on the unit scale is (x - 1) / 2; where neither does,
    it is 0.
    """
    near, far = (
        lk.mechanism("square_wave", epsilon=0.1, domain=domain).perturb(values, source)
        for domain in ((0.0, 1.0), (-1.0, 1.0))
    )
    distance = near - far
    guess = np.where((distance < 0) & (distance >= -0.5), 2 * distance + 1, 0.5)
    return (np.abs(guess - values) <= 0.05).mean()


def test_two_answers_find_no_values():
    """No more than epsilon .2 allows; with the same words it is more than half of them."""
    values = np.random.default_rng(1).random(USERS)
    source = lk.randomness.keyed(KEY)
    bound = source.at(source.digests(IDS), 5, 0, np.zeros((USERS, 0), np.int64))
    allowed = 0.1 * exp(0.2)
    assert found_in_two_domains(values, bound) <= allowed + 3 * sqrt(
        allowed * (1 - allowed) / USERS
    )
    assert found_in_two_domains(values, Deaf(bound)) > 0.5


@pytest.mark.parametrize("missing", [("users",), ("first_slot",), ("users", "first_slot")])
def test_a_release_says_whose_and_when(missing):
    """Two batches at the default first slot, or two crowds with default ids, would be a test of
    equality on raw values.
    """
    method = lk.method("sw_direct", epsilon=1.0, window=1, domain=(0.0, 1.0))
    named = {"users": ["a", "b"], "first_slot": 3}
    for name in missing:
        del named[name]
    with pytest.raises(ValueError, match="users= and first_slot="):
        method.release(np.zeros((2, 3)), lk.randomness.keyed(KEY), **named)
    for source in (lk.randomness.seeded(1), lk.randomness.system()):
        assert method.release(np.zeros((2, 3)), source, **named).shape == (2, 3)


def test_equal_values_are_not_told_by_equal_reports():
    """Of other slots, other users, another method, another budget: each against the first."""
    values = np.full(USERS, 0.25)
    base = release(values)
    alike = {
        "slot": release(values, slot=6),
        "budget": release(values, epsilon=0.2),
        "method": release(values, name="ipp"),
    }
    # a report has 1,024 and more outputs, of which none has a fiftieth
    assert {what: (base == other).mean() for what, other in alike.items()} == {
        what: pytest.approx(0.0, abs=0.02) for what in alike
    }


def heard(method, values):
    """The words that a method draws of these users and slots."""
    ear = Listener(lk.randomness.keyed(KEY))
    method.release(values, ear, users=IDS[: len(values)], first_slot=42)
    return ear.heard


def test_no_two_methods_share_a_word():
    """Of all that are built, each with two budgets: one key, the same users, the same slots. Those
    that shared draws would share hundreds; words of 32 bits meet by chance, but not three times in
    one of 3,000 pairs of a thousand words (1e-8).
    """
    rng, words = np.random.default_rng(3), {}
    for name, parameters in SPECIMENS.items():
        for epsilon in (2.0, 4.0):
            method = lk.method(name, epsilon=epsilon, **parameters)
            shape = (6, 40, *([method.dimension] if method.dimension else []))
            low = getattr(method, "categories", None)
            values = rng.random(shape) if low is None else rng.integers(0, low, shape)
            words[name, epsilon] = heard(method, values)
            assert words[name, epsilon], name
    for one, other in itertools.combinations(words, 2):
        assert len(words[one] & words[other]) < 3, (one, other)


def test_no_two_mechanisms_share_a_word():
    """The same for mechanisms by themselves, each with two budgets and, of numbers, two domains."""
    users = lk.randomness.keyed(KEY).digests(IDS[:50])
    words = {}
    for name, parameters in MECHANISMS.items():
        every = [parameters]
        if "domain" in parameters:
            every.append({**parameters, "domain": (0.0, 2.0)})
        for epsilon in (0.7, 1.4):
            for own in every:
                mechanism = lk.mechanism(name, epsilon=epsilon, **own)
                ear = Listener(
                    lk.randomness.keyed(KEY).at(users, 3, 0, np.zeros((50, 0), np.int64))
                )
                values = np.zeros((50, 2) if "dimension" in own else 50)
                if "categories" in own:
                    values = values.astype(np.int64)
                mechanism.perturb(values, ear)
                # the adaptive one is one of the others
                kind = type(mechanism).__name__
                words[kind, epsilon, str(own)] = ear.heard
    assert len(words) >= 2 * (len(MECHANISMS) - 1)
    for one, other in itertools.combinations(words, 2):
        assert words[one].isdisjoint(words[other]), (one, other)


class SquareWave(lk.MECHANISMS["square_wave"]):
    """Somebody else's, of the name and with the tables of ours."""


class Response(lk.MECHANISMS["grr"]):
    """Somebody else's that binds its words to nothing but what they were bound to before."""

    def perturb(self, values, randomness):
        return np.where(randomness.words(len(values))[:, 0] < 2**31, values, 0)


class Other(Response):
    """Another one."""


class Untold:
    """A response of its own, without tables; two that differ in ``top`` have one law."""

    def __init__(self, epsilon, categories, *, top):
        self.epsilon, self.categories, self.top = epsilon, categories, top

    def law(self, value):
        weights = [1] * self.categories
        weights[value] = 2
        return lk.Law(np.arange(self.categories), weights, sum(weights))

    def perturb(self, values, randomness):
        low = randomness.words(len(values))[:, 0] < 2**32 // (self.categories + 1)
        return np.where(low != self.top, values, 0)

    def support(self, reports):
        return np.array([len(reports), *np.bincount(reports, minlength=self.categories)])


class Direct(lk.METHODS["sw_direct"]):
    """Somebody else's method, of the name of ours."""


NUMERIC, CATEGORIES = {"window": 1, "domain": (0.0, 1.0)}, {"window": 1, "categories": 3}


def test_a_class_of_somebody_elses_shares_no_word_with_another():
    """Nor with ours of its name."""
    values, codes = np.full((50, 4), 0.5), np.zeros((50, 4), np.int64)
    ours = heard(lk.method("sw_direct", epsilon=1.0, **NUMERIC), values)
    theirs = heard(lk.method("sw_direct", epsilon=1.0, mechanism=SquareWave, **NUMERIC), values)
    own = heard(Direct(epsilon=1.0, mechanism=lk.MECHANISMS["square_wave"], **NUMERIC), values)
    assert ours and ours.isdisjoint(theirs) and ours.isdisjoint(own)
    for make in (lk.method, lk.protocol):
        words = []
        for kind in (Response, Other):
            taken = {"mechanism" if make is lk.method else "oracle": kind}
            made, ear = (
                make("lpu", epsilon=1.0, **taken, **CATEGORIES),
                Listener(lk.randomness.keyed(KEY)),
            )
            run = made.release if make is lk.method else made.run
            run(codes, ear, users=IDS[:50], first_slot=40)
            words.append(ear.heard)
        assert words[0] and words[0].isdisjoint(words[1])


def test_what_cannot_be_told_apart_has_no_keyed_noise():
    """Two mechanisms of one class, budget and law may turn one word into unlike answers: where they
    answered alike it was the truth.
    """
    for make, used, run in ((lk.method, "mechanism", "release"), (lk.protocol, "oracle", "run")):
        made = make("lpu", epsilon=1.0, **{used: lambda *a: Untold(*a, top=True)}, **CATEGORIES)
        named = {"users": ["a", "b"], "first_slot": 0}
        with pytest.raises(ConfigurationError, match=r"Untold must have tables\(\)"):
            getattr(made, run)(np.zeros((2, 3), np.int64), lk.randomness.keyed(KEY), **named)
        for source in (lk.randomness.system(), lk.randomness.seeded(1)):
            if make is lk.method:  # a protocol also reads what was reported
                assert made.release(np.zeros((2, 3), np.int64), source, **named).shape == (2, 3)


def test_a_use_is_the_same_everywhere():
    """It enters noise, so it may not change from machine to machine, nor from version to version
    without a new fingerprint.
    """
    method = lk.method("capp", epsilon=1.5, window=3, domain=(-1.0, 0.1), block=2)
    again = lk.method("capp", epsilon=1.5, window=3, domain=(-1.0, 0.1), block=2)
    assert method.use == again.use
    assert len(method.use) == 32
    given = {"epsilon": 1.5, "window": 3, "domain": (-1.0, 0.1), "block": 2}
    changes = {"epsilon": 1.6, "window": 4, "domain": (-1.0, 0.2), "block": 3}
    changes |= {"calibration": "published"}
    others = [lk.method("capp", **{**given, name: value}) for name, value in changes.items()]
    assert len({method.use, *(other.use for other in others)}) == 6


@pytest.mark.parametrize("phase", [0, 1])
def test_an_answer_is_bound_to_its_weight_table(phase, monkeypatch):
    """Two tables of one budget, as a mechanism may have had them in two versions, share no words:
    an edge that folds a slot again after a change must not answer it with the same noise.
    """

    def words():
        protocol = lk.protocol("lba", epsilon=1.0, window=2, categories=4, oracle="grr")
        responder, heard = protocol.responder(), Listener(lk.randomness.keyed(KEY))
        state, rows = responder.state(heard.digests(IDS[:400])), np.arange(400)
        codes, there, history = rows % 4, np.ones(400, np.bool_), responder.history()
        responder.first(state, Batch(rows, 5, codes, heard, there), history)
        if phase:
            heard.heard.clear()
            asked = Request(5, protocol.terms.second)
            step = responder.second(
                state, Batch(rows, asked.slot, codes, heard, there), asked, history
            )
            assert (step.status == SENT).all()
        return set(heard.heard)

    before = words()
    assert words() == before
    assert len(before) == 400
    grr = lk.MECHANISMS["grr"]
    real = grr.tables
    monkeypatch.setattr(
        grr, "tables", lambda self: (*list(real(self))[:-1], list(real(self))[-1] + 1)
    )
    assert not words() & before
