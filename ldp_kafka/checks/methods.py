"""The contract of any streaming method: one that reports slot by slot, or that releases windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter, signature
from typing import Any

from ldp_kafka.checks.delay import DELAY_CHECKS, DelayTrial
from ldp_kafka.checks.failure import Told, run_all
from ldp_kafka.checks.method import METHOD_CHECKS, MethodTrial

__all__ = ["check_method"]

ALPHABET = (0.0, 0.5, 1.0)
BY_PLACE = (
    Parameter.POSITIONAL_ONLY,
    Parameter.POSITIONAL_OR_KEYWORD,
    Parameter.VAR_POSITIONAL,
)


def check_method(
    make: Callable[..., Any],
    window: int = 1,
    *,
    length: int = 5,
    alphabet: Sequence[Any] | None = None,
    draws: int | None = None,
    told: Told | None = None,
) -> None:
    """Run every check of `METHOD_CHECKS`, or of `DELAY_CHECKS` for a method that releases windows.

    Parameters
    ----------
    make : mechanism factory -> a fresh method, its own parameters fixed; without an argument for a
        method with noise of its own (`Method.own_noise`)
    window : slots in its privacy window; a method with noise of its own says it itself
    length : slots of the streams that are enumerated: beyond the window, and beyond what the method
        remembers
    alphabet : values of those streams; default: the ends of the domain, or all categories (few); of
        windows shares of the domain, 0, 1/2 and 1
    draws : the most draws of one stream; default: one a slot; of windows see `DelayTrial`
    told : called after each check with its name and, where it failed, the reason

    Raises
    ------
    CheckFailure : with the names of all the checks that failed in ``checks``
    TypeError : ``make`` takes no mechanism, and its method draws through one

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> settings = {"epsilon": 1.0, "delay": 2, "domain": (0.0, 1.0)}
    >>> check_method(lambda: lk.method("naive", **settings), length=3)
    """
    if any(each.kind in BY_PLACE for each in signature(make).parameters.values()):
        run_all(METHOD_CHECKS, MethodTrial(make, window, length, alphabet, draws), told)
        return
    if not (made := make()).own_noise:
        raise TypeError(f"make must take a mechanism factory: {made.name} draws through one")
    run_all(DELAY_CHECKS, DelayTrial(make, length, alphabet or ALPHABET, draws), told)
