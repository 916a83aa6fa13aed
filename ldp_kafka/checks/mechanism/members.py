"""The checks of what a mechanism has: its members, and the integers that it samples with."""

from __future__ import annotations

from math import inf

from ldp_kafka.checks.failure import CheckFailure, require
from ldp_kafka.checks.trial import MEMBERS, MechanismTrial, is_a
from ldp_kafka.mechanisms.base import Certificate, Law

__all__ = ["has_every_member", "tables_tell_mechanisms_apart"]


def has_every_member(trial: MechanismTrial) -> None:
    """It can be built, and what the contract and the wire call is there: `MEMBERS`, and ``domain``
    or ``categories``.
    """
    try:
        m = trial.mechanism
    except Exception as error:
        raise CheckFailure(
            f"the factory must build a mechanism from epsilon alone: {type(error).__name__}:"
            f" {error}"
        ) from error
    lacks = [
        f"`{name}`: {what}" for name, what in MEMBERS.items() if getattr(m, name, None) is None
    ]
    require(not lacks, f"the mechanism lacks {'; '.join(lacks)}")
    for name, what in MEMBERS.items():
        method = what.startswith(f"{name}(")
        require(
            callable(getattr(m, name)) == method,
            f"`{name}` must be {'a method' if method else 'a number or a pair, not a method'}:"
            f" {what}",
        )
    if trial.numeric:
        ends = tuple(m.domain)
        require(
            len(ends) == 2 and -inf < ends[0] < ends[1] < inf,
            "`domain` must be (lo, hi), finite, lo < hi",
        )
    else:
        require(
            hasattr(m, "categories"),
            "the mechanism lacks `domain`: (lo, hi), for numbers; or `categories`: how many"
            " there are",
        )
        require(
            type(m.categories) is int and m.categories >= 2,
            "`categories` must be an int of at least 2",
        )
    is_a(Certificate, m.certificate(), "certificate")
    for value in trial.inputs:
        is_a(Law, m.law(value), "law")


def tables_tell_mechanisms_apart(trial: MechanismTrial) -> None:
    """The integers that it samples with are Python ints, the same whenever it is built, and others
    for another epsilon: they are part of a topology's fingerprint.
    """
    tables = list(trial.mechanism.tables())
    require(tables and all(type(entry) is int for entry in tables), "tables must be Python ints")
    require(
        tables == list(trial.factory(trial.epsilon).tables()),
        "tables must be a function of the parameters",
    )
    require(
        tables != list(trial.factory(trial.epsilon / 2).tables()), "tables must change with epsilon"
    )
