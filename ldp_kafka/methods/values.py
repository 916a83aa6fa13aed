"""What the values of a stream are: numbers of a public range, or categories; how they become the
integers that a method works on, and how what was reported becomes values again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import (
    Estimate,
    as_array,
    check_categories,
    check_codes,
    check_domain,
    check_numbers,
    coded,
)

__all__ = ["FIXED", "VALUES", "Categories", "CategoriesOrNone", "Numbers", "Values"]

# one length of the domain in fixed point: what feeds keyed noise is an integer, the same on every
# CPU
FIXED = 2**32
# from 0, of an end of the domain: squares of reports many times as wide are finite
FARTHEST = 2.0**480


class Values(ABC):
    """What a `Method` asks of the kind of its values."""

    domain: tuple[float, float]
    """Of numbers only: AttributeError for categories."""
    categories: int
    """Of categories only: AttributeError for numbers."""
    names: tuple[str, ...] | None = None
    """Of categories, where values are given by name."""

    @property
    @abstractmethod
    def unit(self) -> Any:
        """What a mechanism is made for, beside its epsilon."""

    @abstractmethod
    def checked(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of any shape, if all are such as `bound` takes."""

    @abstractmethod
    def bound(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Values (n,) as the integers that a method works on: see `Method.bound`."""

    def coded(self, values: Any) -> Any:
        """Names of categories as their numbers; all else as it is."""
        return values

    @abstractmethod
    def present(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of the values of streams, of any shape, there are; the others stand for none."""

    @abstractmethod
    def outside(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of the values (n,) or (n, dimension) `bound` clamps."""

    @abstractmethod
    def released(self, answers: NDArray[Any]) -> NDArray[Any]:
        """A mechanism's answers on the scale of the values."""

    @abstractmethod
    def gaps(self, released: NDArray[Any], sent: NDArray[np.bool_]) -> NDArray[Any]:
        """What is published of rows (n, ...) of which some were sent, with the mark of a gap for
        the others.
        """

    @abstractmethod
    def estimate(self, found: Estimate) -> Estimate:
        """A mechanism's estimate on the scale of the values."""


class Numbers(Values):
    """Numbers of a public range: a mechanism sees the unit domain."""

    def __init__(
        self, name: str, domain: tuple[float, float] | None, categories: int | None
    ) -> None:
        if domain is None or categories is not None:
            raise ConfigurationError(f"{name} needs a domain (lo, hi) and no categories")
        self.domain = check_domain(domain)
        if not max(map(abs, self.domain)) <= FARTHEST:
            raise ConfigurationError(
                "domain must lie within 2**480 of 0: reports are wider, and their squares must"
                " be finite"
            )

    @property
    def unit(self) -> tuple[float, float]:
        return 0.0, 1.0

    def checked(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Finite numbers."""
        numbers = check_numbers(values)
        if not np.isfinite(numbers).all():
            raise ValueError("values must be finite")
        return numbers

    def bound(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """In units of 2**-32 of the domain."""
        lo, hi = self.domain
        scaled = np.clip(self.checked(values), lo, hi)
        scaled -= lo
        scaled *= FIXED / (hi - lo)
        bound: NDArray[np.int64] = np.minimum(scaled, FIXED, out=scaled).astype(np.int64)
        return bound

    def present(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """NaN stands for none."""
        return ~np.isnan(values) if values.dtype.kind == "f" else np.ones(values.shape, np.bool_)

    def outside(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Of a vector: whether any coordinate is."""
        lo, hi = self.domain
        found: NDArray[np.bool_] = (values < lo) | (values > hi)
        return np.asarray(found.any(axis=1)) if found.ndim > 1 else found

    def released(self, answers: NDArray[Any]) -> NDArray[Any]:
        """On the scale of the domain."""
        lo, hi = self.domain
        return np.asarray(lo + answers * (hi - lo))

    def gaps(self, released: NDArray[Any], sent: NDArray[np.bool_]) -> NDArray[Any]:
        """NaN, in each coordinate of a vector."""
        there = sent.reshape(-1, *[1] * (released.ndim - 1))
        return np.where(there, released, np.nan)

    def estimate(self, found: Estimate) -> Estimate:
        """A mean."""
        return found.on(self.domain)


class Categories(Values):
    """Category numbers, which are reported as such or as bits, one a category."""

    def __init__(
        self, name: str, domain: tuple[float, float] | None, categories: int | None
    ) -> None:
        if categories is None or domain is not None:
            raise ConfigurationError(f"{name} needs categories and no domain")
        self.categories = check_categories(categories)

    @property
    def unit(self) -> int:
        return self.categories

    def coded(self, values: Any) -> Any:
        return coded(values, self.names)

    def checked(self, values: NDArray[Any]) -> NDArray[Any]:
        """Category numbers: by the extremes."""
        codes = as_array(values, "iu", "categories must be integers")
        if codes.size:
            check_codes(np.array([codes.min(), codes.max()]), self.categories)
        return codes

    def bound(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Themselves."""
        return check_codes(values, self.categories)

    def present(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """-1 stands for none."""
        return np.asarray(values != -1)

    def outside(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """None: what is no category is refused."""
        return np.zeros(len(values), np.bool_)

    def released(self, answers: NDArray[Any]) -> NDArray[Any]:
        """Themselves."""
        return answers

    def gaps(self, released: NDArray[Any], sent: NDArray[np.bool_]) -> NDArray[Any]:
        """-1; packed bits one by one."""
        if released.ndim == 2:
            bits = np.unpackbits(released, axis=1, count=self.unit).view(np.int8)
            return np.where(sent[:, None], bits, np.int8(-1))
        return np.where(sent, released, -1)

    def estimate(self, found: Estimate) -> Estimate:
        """Frequencies."""
        return found


class CategoriesOrNone(Categories):
    """The same, and "none", the number behind them: a mechanism perturbs it as a category, it is no
    value, and its frequency is not said.
    """

    @property
    def unit(self) -> int:
        return self.categories + 1

    def estimate(self, found: Estimate) -> Estimate:
        """Frequencies among all who reported, with a value or without."""
        return found.first(self.categories)


VALUES: dict[str, type[Numbers | Categories]] = {"numeric": Numbers, "categorical": Categories}
"""By `Method.kind`."""
