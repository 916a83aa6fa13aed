"""The error of a check that fails, and helpers that raise it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

__all__ = ["CheckFailure", "Told", "refused", "require", "run_all"]

Trial = TypeVar("Trial")
Told = Callable[[str, str | None], None]
"""Takes the name of a check and, where it failed, the reason."""


class CheckFailure(AssertionError):  # noqa: N818 - the contract's word for it
    """A mechanism or method breaks its contract.

    Parameters
    ----------
    message : what must hold, and how it did not
    checks : names of the checks that failed, in the contract's order; empty while a single check
        runs
    """

    def __init__(self, message: str, checks: tuple[str, ...] = ()) -> None:
        self.checks = checks
        super().__init__(message)


def require(holds: Any, message: str) -> None:
    """CheckFailure with the message unless it holds."""
    if not holds:
        raise CheckFailure(message)


def refused(call: Callable[[], Any], what: str, *, hidden: Iterable[str] = ()) -> None:
    """CheckFailure unless the call raises ValueError or TypeError whose text shows nothing
    ``hidden``.
    """
    try:
        call()
    except (ValueError, TypeError) as error:
        text = str(error)
        require(
            not any(part in text for part in hidden), f"{what}: the error must not show the value"
        )
    else:
        raise CheckFailure(f"{what}: must be refused with a ValueError or TypeError")


def run_all(
    checks: Mapping[str, Callable[[Trial], None]], trial: Trial, told: Told | None = None
) -> None:
    """Every check of a contract; one CheckFailure that names all that failed. An unforeseen error
    inside a check is a failure too. ``told`` is called after each check, with its name and error.
    """
    failed: dict[str, Exception] = {}
    for name, check in checks.items():
        try:
            check(trial)
        except CheckFailure as failure:
            failed[name] = failure
        # whatever a broken specimen raises, the other checks still run
        except Exception as error:  # noqa: BLE001
            failed[name] = error
        if told is not None:
            told(name, None if name not in failed else said(failed[name]))
    if failed:
        lines = [f"{name}: {said(error)}" for name, error in failed.items()]
        raise CheckFailure("\n".join(lines), tuple(failed)) from next(iter(failed.values()))


def said(error: Exception) -> str:
    """What a failure says, and of which kind it is where no check foresaw it."""
    return str(error) if isinstance(error, CheckFailure) else f"{type(error).__name__}: {error}"
