"""What people bring along from other libraries is taken, or refused with what is meant here."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.checks import check_method
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.step import SENT, SILENT
from tests.keys import KEY
from tests.specimens import METHODS, UNIT

LATE = ("etm", "sppa", "swp")  # report values some slots later
SOURCES = "randomness must be lk.randomness.system"


@pytest.mark.parametrize("given", [7, None, np.random.default_rng(7), np.random.RandomState(7)])
def test_what_is_no_source_of_noise(given):
    stream = np.zeros(4)
    mean = lk.protocol("lpa", epsilon=1.0, window=2, **UNIT)
    for call in (
        lambda: lk.mechanism("grr", epsilon=1.0, categories=3).perturb(np.zeros(2, int), given),
        lambda: lk.mechanism("laplace", epsilon=1.0, **UNIT).perturb(stream, given),
        lambda: lk.method("capp", epsilon=1.0, window=2, **UNIT).release(stream, given),
        lambda: lk.method("naive", epsilon=1.0, delay=2, **UNIT).release(stream, given),
        lambda: mean.run(stream[None], given),
    ):
        with pytest.raises(TypeError, match=SOURCES):
            call()


@pytest.mark.parametrize(
    ("make", "name", "given", "meant"),
    [
        (lk.mechanism, "grr", {"eps": 1.0}, "grr takes no eps (did you mean epsilon?)"),
        (lk.mechanism, "adaptive", {"k": 3}, "no k (did you mean categories?)"),
        (lk.mechanism, "laplace", {"bounds": (0, 1)}, "no bounds (did you mean domain?)"),
        (lk.method, "capp", {"w": 3}, "no w (did you mean window?)"),
        (lk.method, "sampling", {"segmet": 3}, "no segmet (did you mean segment?)"),
        (lk.method, "naive", {"k": 3}, "naive takes no k; it takes calibration, contribution,"),
        (lk.method, "naive", {"random_state": 3}, "since each call is given its noise"),
        (lk.protocol, "lpa", {"seed": 3}, "since each call is given its noise"),
    ],
)
def test_what_is_no_parameter(make, name, given, meant):
    with pytest.raises(TypeError) as caught:
        make(name, epsilon=1.0, **given)
    assert meant in str(caught.value)


@pytest.mark.parametrize("name", sorted(METHODS.keys() - set(LATE)))
def test_a_slot_without_a_value_is_silence(name):
    """Of a user; what others release stays as it is."""
    shape, rng = METHODS[name], np.random.default_rng(3)
    made = lk.method(name, epsilon=8.0, **shape)
    values = rng.random((4, 12, *[made.dimension] * bool(made.dimension))) / 4
    if made.kind == "categorical":
        values = rng.integers(0, 3, (4, 12))
    gaps = values.copy()
    gaps[1, 2:5] = -1 if made.kind == "categorical" else np.nan
    key, ids = lk.randomness.keyed(KEY), ["a", "b", "c", "d"]
    there = np.ones((4, 12), bool)
    there[1, 2:5] = False
    full = made.release(values, key, users=ids, first_slot=0)
    released = made.release(gaps, key, users=ids, first_slot=0, present=there)
    if made.pauses:
        again = made.release(gaps, key, users=ids, first_slot=0)
        assert np.array_equal(released, again, equal_nan=full.dtype.kind == "f")
    else:
        with pytest.raises((ValueError, TypeError)):
            made.release(gaps, key, users=ids, first_slot=0)
    others = [0, 2, 3]
    assert np.array_equal(full[others], released[others], equal_nan=full.dtype.kind == "f")
    silent = released[1, 2:5]
    if not (made.holds or getattr(made, "fills", False)):
        assert (np.isnan(silent) if silent.dtype.kind == "f" else silent == -1).all()


def test_a_vector_of_which_a_part_is_missing_is_none():
    made = lk.method("budget_split", epsilon=8.0, window=2, dimension=2, **UNIT)
    with pytest.raises(ValueError, match="finite"):
        made.release(np.array([[0.5, np.nan]]), lk.randomness.seeded(1))


NAMES = ["gas", "oil", "sun"]


@pytest.mark.parametrize(
    "name", ["adaptive", "grr", "hadamard", "olh", "oue", "subset_selection", "sue"]
)
def test_categories_have_names(name):
    """The same reports as of their numbers, in the order of the names."""
    numbers = np.random.default_rng(1).integers(0, 3, 200)
    texts = np.array(NAMES, object)[numbers]
    plain, named = (lk.mechanism(name, epsilon=2.0, categories=each) for each in (3, NAMES))
    source = lk.randomness.keyed(KEY).at
    where = (lk.randomness.keyed(KEY).digests(map(str, range(200))), 3, 0, np.zeros((200, 0), int))
    assert np.array_equal(
        plain.perturb(numbers, source(*where)), named.perturb(texts, source(*where))
    )
    assert np.array_equal(
        named.perturb(list(texts), source(*where)), named.perturb(texts, source(*where))
    )
    with pytest.raises(ValueError, match="names of categories"):
        named.perturb(numbers, source(*where))
    assert named.categories == 3 and named.names == tuple(NAMES)


def test_methods_and_protocols_take_names_too():
    numbers = np.random.default_rng(1).integers(-1, 3, (50, 8))
    texts = np.array([*NAMES, None], object)[numbers]
    key, where = lk.randomness.keyed(KEY), {"users": range(50), "first_slot": 2}
    plain, named = (lk.method("lpu", epsilon=2.0, window=2, categories=each) for each in (3, NAMES))
    assert np.array_equal(plain.release(numbers, key, **where), named.release(texts, key, **where))
    plain, named = (
        lk.protocol("lpa", epsilon=2.0, window=2, categories=each) for each in (3, NAMES)
    )
    assert np.array_equal(
        plain.run(numbers, key, **where).values, named.run(texts, key, **where).values
    )


@pytest.mark.parametrize(
    ("categories", "error", "match"),
    [
        (["a", "a"], lk.ConfigurationError, "name each of them once"),
        (["\u00e9", "e\u0301"], lk.ConfigurationError, "name each of them once"),
        (["a", 1], TypeError, "a whole number, or a list of names"),
        (["a"], lk.ConfigurationError, "between 2 and"),
        ("ab", TypeError, "categories must be a whole number"),
    ],
)
def test_what_are_no_names(categories, error, match):
    for make in (
        lambda: lk.mechanism("grr", epsilon=1.0, categories=categories),
        lambda: lk.method("lpu", epsilon=1.0, window=2, categories=categories),
        lambda: lk.protocol("lpa", epsilon=1.0, window=2, categories=categories),
    ):
        with pytest.raises(error, match=match):
            make()


class Loud:
    """What numpy asks says its value."""

    def __array__(self, *_, **__):
        raise ValueError("secret-word")

    def __eq__(self, other):
        raise TypeError("secret-word")

    __hash__ = None


@pytest.mark.parametrize(
    "value", ["secret-word", ["secret-word"], 7.5, b"secr\xe9t-word", Loud(), [["secret"], []]]
)
def test_what_is_no_name_is_not_shown(value):
    values = [value, "gas"]
    for call in (
        lambda: lk.mechanism("grr", epsilon=1.0, categories=NAMES).perturb(
            values, lk.randomness.seeded(1)
        ),
        lambda: lk.method("lpu", epsilon=1.0, window=2, categories=NAMES).release(
            values, lk.randomness.seeded(1)
        ),
    ):
        with pytest.raises(ValueError, match="names of categories") as caught:
            call()
        assert "secret" not in str(caught.value) and "7.5" not in str(caught.value)


def test_no_value_is_no_name():
    """Whatever stands for it, and whatever else is there."""

    class NAType:
        """As of pandas."""

        def __bool__(self):
            raise TypeError("boolean value of NA is ambiguous")

        def __eq__(self, other):
            return self

        __hash__ = None

    made = lk.method("lpu", epsilon=40.0, window=1, categories=["nan", "sun"])
    for none in (None, np.nan, NAType(), float("nan")):
        found = made.release(["sun", none, "nan"], lk.randomness.seeded(1))
        assert found.tolist() == [1, -1, 0]
    numbers = lk.mechanism("grr", epsilon=40.0, categories=["2", "1", "0"])
    assert numbers.perturb(["2", "1"], lk.randomness.seeded(1)).tolist() == [0, 1]
    for wrong in ([2, 1], ["2", 1], np.array([2, 1])):
        with pytest.raises(ValueError, match="names of categories"):
            numbers.perturb(wrong, lk.randomness.seeded(1))


def test_names_are_of_what_they_were_given_to(monkeypatch):
    shared = lk.mechanism("grr", epsilon=1.0, categories=2)
    monkeypatch.setitem(lk.MECHANISMS, "shared", lambda epsilon, categories: shared)
    first = lk.mechanism("shared", epsilon=1.0, categories=["a", "b"])
    second = lk.mechanism("shared", epsilon=1.0, categories=["b", "a"])
    plain = lk.mechanism("shared", epsilon=1.0, categories=2)
    assert (first.names, second.names, plain.names) == (("a", "b"), ("b", "a"), None)


def test_a_factory_may_take_anything(monkeypatch):
    monkeypatch.setitem(lk.MECHANISMS, "any", lambda **given: lk.mechanism("grr", **given))
    assert lk.mechanism("any", epsilon=1.0, categories=2).categories == 2


@pytest.mark.parametrize("name", sorted(lk.METHODS))
def test_what_a_hint_names_is_taken(name):
    shape = METHODS[name]
    with pytest.raises(TypeError) as caught:
        lk.method(name, epsilon=1.0, nonsense=1, **shape)
    told = str(caught.value).partition("it takes ")[2].split(", ")
    assert {"epsilon", *shape} <= set(told)
    assert not {"categories", "domain"} <= set(told)


def test_a_refused_release_changes_nothing():
    """Neither do users whose slots would do, where another one's would not."""
    made, key = lk.method("sw_direct", epsilon=1.0, window=2, **UNIT), lk.randomness.keyed(KEY)
    ids = ["a", "b", "c"]
    state = made.state(key.digests(ids))
    there = np.array([[True, True], [True, False], [False, False]])
    made.release(np.full((3, 2), 0.1), key, users=ids, first_slot=0, state=state, present=there)
    before = {name: column.copy() for name, column in state.columns.items()}
    again = np.array([[0.0, 0.9], [0.0, 0.8], [0.5, 0.6]])
    there = {"present": np.array([[False, True], [False, True], [True, True]])}
    with pytest.raises(ValueError, match="slots must increase"):
        made.release(again, key, users=ids, first_slot=0, state=state, **there)
    assert all(np.array_equal(column, before[name]) for name, column in state.columns.items())


def test_a_step_leaves_out_who_has_no_value():
    """As a responder's does: nothing is charged, and nothing drawn."""
    for made in (
        lk.method("sw_direct", epsilon=1.0, window=2, **UNIT),
        lk.protocol("lbu", epsilon=1.0, window=2, **UNIT).responder(),
    ):
        source = lk.randomness.keyed(KEY)
        state, values = made.state(source.digests(["a", "b"])), made.bound(np.array([0.9, 0.0]))
        there = np.array([True, False])
        step = made.step(state, Batch(np.arange(2), 0, values, source, there))
        assert step.status.tolist() == [SENT, SILENT]
        assert (state.columns["spent"][:2] > 0).tolist() == [True, False]


def test_true_is_no_category():
    with pytest.raises(TypeError, match="categories must be integers"):
        lk.method("lpu", epsilon=1.0, window=1, categories=2).release(
            np.array([True, False]), lk.randomness.seeded(1)
        )


def test_a_source_is_looked_at_with_users_too():
    for made in (
        lk.method("capp", epsilon=1.0, window=2, **UNIT),
        lk.method("naive", epsilon=1.0, delay=2, **UNIT),
    ):
        with pytest.raises(TypeError, match=SOURCES):
            made.release(np.zeros(3), 7, users=["a"], first_slot=0)


def test_any_method_is_checked_by_one_function():
    check_method(partial(lk.method, "naive", epsilon=1.0, delay=2, **UNIT), length=3)
    with pytest.raises(TypeError, match="make must take a mechanism factory"):
        check_method(lambda: lk.method("sw_direct", epsilon=1.0, window=2, **UNIT))
