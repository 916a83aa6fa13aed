"""What every one-value mechanism promises, its law, and the small checks they share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from math import fsum, inf, log, log1p, nan
from typing import Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.normal_form import nfc
from ldp_kafka.randomness import Randomness, check_source, use_of

__all__ = [
    "CHUNK",
    "Certificate",
    "Estimate",
    "Law",
    "Mechanism",
    "Z",
    "as_array",
    "check_categories",
    "check_codes",
    "check_domain",
    "check_epsilon",
    "check_number",
    "check_numbers",
    "check_reports",
    "check_told_apart",
    "check_values",
    "check_vectors",
    "check_whole",
    "column_of_sums",
    "exp_below",
    "frequency_variance",
    "in_chunks",
    "kind_of",
    "own",
    "report_width",
    "strangers",
    "whole",
]

CHUNK = 2**14  # rows that are perturbed at a time: what they need stays in the cache
Z = 1.959963984540054  # standard errors from the middle of a normal 95 % interval to its ends


Map = Callable[[NDArray[np.float64]], NDArray[Any]]
"""Of the reports (m,) of a law to numbers (m,)."""


class Law(NamedTuple):
    """The exact distribution of a report: P[support[i]] = weights[i] / denominator, in Python
    integers.
    """

    support: NDArray[Any]
    weights: list[int]
    denominator: int

    @classmethod
    def of(cls, found: Any) -> Law:
        """The law that a mechanism of somebody else's states, with the arithmetic of this class."""
        return cls(found.support, found.weights, found.denominator)

    def probabilities(self) -> NDArray[np.float64]:
        """The weights as floats (m,), each rounded once."""
        if self.denominator.bit_count() == 1:  # the division rounds nothing
            return np.array(self.weights, np.float64) / float(self.denominator)
        return np.array([weight / self.denominator for weight in self.weights])

    def mean(self, of: Map | None = None) -> float:
        """E[of(report)], where a report is one number; ``of`` maps the whole support at once,
        default: the report itself.

        Sums are exact and rounded once, here and below: every machine finds the same float, so
        that integers of a fingerprint may follow from it.

        Examples
        --------
        >>> law = Law(np.array([-1.0, 1.0]), [1, 3], 4)
        >>> law.mean(), law.mean(lambda y: 2 * y), law.variance()
        (0.5, 1.0, 0.75)
        """
        return fsum((self.probabilities() * self._points(of)).tolist())

    def mean_square(self, about: float = 0.0, of: Map | None = None) -> float:
        """E[(of(report) - about)^2]: the second moment, or the squared error about a true value."""
        away = self._points(of) - about
        return fsum((self.probabilities() * away * away).tolist())

    def variance(self, of: Map | None = None) -> float:
        """Var[of(report)]."""
        return self.mean_square(self.mean(of), of)

    def dot_moments(self, of: Map | None = None) -> tuple[float, float]:
        """Mean and variance by dot products, whose last digits depend on how the CPU adds: what
        releases state as their error and reliability, so it must not change by a digit.
        """
        chances, points = self.probabilities(), self._points(of)
        mean = float(chances @ points)
        return mean, float(chances @ (points - mean) ** 2)

    def _points(self, of: Map | None) -> NDArray[np.float64]:
        points = np.asarray(self.support, np.float64)
        return points if of is None else np.asarray(of(points), np.float64)


def nats(ratio: Fraction) -> float:
    """The natural logarithm of a ratio of at least 1."""
    return log1p(ratio - 1) if ratio < 2 else log(ratio)


class Certificate(NamedTuple):
    """The loss of a mechanism, computed with integers from the weights that it samples with.

    For any two inputs and any set S of reports, P[S | x] <= ratio * P[S | x'] + delta.
    """

    ratio: Fraction
    """Largest likelihood ratio of one report between any two inputs, or where ``delta`` is above 0
    the one that it is stated for: at most e^epsilon.
    """
    epsilon_effective: float
    """Its logarithm: at most epsilon."""
    delta: Fraction = Fraction(0)
    """0 for pure differential privacy."""

    @classmethod
    def of(cls, ratio: Fraction, epsilon: float, delta: Fraction = Fraction(0)) -> Certificate:
        """That of a ratio proved to be at most e^epsilon: its logarithm, exact to a float however
        close to 1 it is, and never above ``epsilon``.

        Examples
        --------
        >>> Certificate.of(1 + Fraction(1, 10**18), 1.0).epsilon_effective
        1e-18
        """
        return cls(ratio, min(nats(ratio), epsilon), delta)


class Estimate(NamedTuple):
    """What reports say of the values behind them."""

    value: Any
    """A mean (float) or frequencies (categories,); NaN without reports."""
    standard_error: Any
    """Of the noise, given the values; where asked, also of which of a population reported. With
    ``limits`` made of a law: their distance before they are cut, over 3.92. None where it cannot be
    said, infinite without reports.
    """
    reports: int
    limits: tuple[Any, Any] | None = None
    """The 95 % interval (low, high), where it is not the normal one of the standard error."""
    reason: str | None = None
    """Why the error cannot be said, where it is None: a word of
    `ldp_kafka.methods.unstated.UNSTATED`.
    """
    chance_above: Callable[[float], Any] | None = None
    """Of a threshold, the probability that the truth is above it, where the law is not normal."""
    variance: Any = None
    """Of the value, without bias, where the standard error is not its root but made of limits: what
    is decided by, since limits are wider where reports cannot tell.
    """

    @property
    def square(self) -> Any:
        """The ``variance``, or the square of the standard error where that is its root."""
        return self.standard_error**2 if self.variance is None else self.variance

    @classmethod
    def unknown(cls, numbers: int) -> Estimate:
        """That of so many numbers, without reports."""
        return cls(np.full(numbers, nan), np.full(numbers, inf), 0)

    def interval(self) -> tuple[Any, Any]:
        """The 95 % confidence interval: ``limits``, or the normal one of the standard error."""
        if self.limits is not None:
            return self.limits
        return self.value - Z * self.standard_error, self.value + Z * self.standard_error

    def on(self, domain: tuple[float, float]) -> Estimate:
        """Of means on the unit scale that state an error and no ``chance_above``, the same on a
        domain's.
        """
        lo, hi = domain
        limits, variance = self.limits, self.variance
        return self._replace(
            value=lo + self.value * (hi - lo),
            standard_error=self.standard_error * (hi - lo),
            limits=limits and (lo + limits[0] * (hi - lo), lo + limits[1] * (hi - lo)),
            variance=variance if variance is None else variance * (hi - lo) * (hi - lo),
        )

    def first(self, count: int) -> Estimate:
        """The frequencies of the first ``count`` categories."""
        limits, variance, chance = self.limits, self.variance, self.chance_above
        return self._replace(
            value=self.value[:count],
            standard_error=self.standard_error[:count],
            limits=limits and (limits[0][:count], limits[1][:count]),
            chance_above=chance and (lambda threshold: chance(threshold)[:count]),
            variance=variance if variance is None else variance[:count],
        )


class Mechanism(Protocol):
    """A randomizer of one value, vectorised.

    ``perturb`` is tied to ``law`` by `ldp_kafka.checks.check_mechanism`; the certificate, the bias
    and the variance follow from ``law`` alone.

    All that is listed here, and ``domain`` (lo, hi) where values are numbers or ``categories``
    (int) where they are categories, is what `check_mechanism` calls and what runs on the wire; a
    whole example is in `ldp_kafka.checks`. To try one in `ldp_kafka.method` on arrays, ``epsilon``,
    ``domain`` or ``categories``, ``perturb`` and ``law`` are enough; keyed noise needs ``tables``
    too. `ldp_kafka.method` and `protocol` refuse one that by its ``epsilon``, its certificate or,
    without one, its law spends more than it is asked for. It must refuse an epsilon that is no
    positive finite number when it is built, with a ValueError or TypeError.

    Optional: ``hides_spread`` (see `estimate_support`), and ``width``. That is the bytes of a
    report of packed bits: reports are then uint8 (n, width), and ``scale`` is 1. Where it is 0 or
    not there a report is a number.
    """

    @property
    def epsilon(self) -> float:
        """The budget that it was built with, nats."""

    @property
    def scale(self) -> float:
        """A power of two: every report is a whole multiple of it; 1 for categories."""

    def perturb(self, values: NDArray[Any], randomness: Randomness) -> NDArray[Any]:
        """Reports for values (n,), each drawn by itself: a function of its value and of its row of
        ``randomness.within(use).words(n, k)``, with the same k whatever the values; ``use`` names
        the mechanism and all that shapes its reports (`ldp_kafka.randomness.use_of`).

        Numbers outside the domain are clamped to it. ValueError or TypeError, whose text shows no
        value, where one is not finite or is no category. ``values`` are left as they are.
        """

    def law(self, value: Any) -> Law:
        """The exact law of the report of one value: the same outputs, in the same order, all with
        positive weights, for every value. Refuses what ``perturb`` refuses.
        """

    def certificate(self) -> Certificate:
        """The exact loss."""

    def support(self, reports: NDArray[Any]) -> NDArray[np.int64]:
        """Additive integer sums of reports, the number of them first: all that an estimate needs.
        Sums of supports are supports of unions.
        """

    def estimate(self, reports: NDArray[Any], *, population: bool = False) -> Estimate:
        """`estimate_support` of the reports' support."""

    def estimate_support(self, support: NDArray[np.int64], *, population: bool = False) -> Estimate:
        """Unbiased for the discrete law. ``population=True`` adds the sampling error of users drawn
        from a larger population.

        A support may be that of 2**40 reports, so products of its sums belong into Python ints or
        floats. Without reports: NaN with infinite error. A mechanism whose reports cannot tell how
        far values lie apart declares ``hides_spread = True``: its error given the values may then
        be above the noise's where they differ.
        """

    @property
    def index_range(self) -> tuple[int, int]:
        """Least and greatest report in units of ``scale``."""

    def tables(self) -> Sequence[int]:
        """The integers that it samples with, Python ints: part of a topology's fingerprint, so a
        function of the parameters that changes with epsilon.
        """


def in_chunks(
    draw: Callable[[NDArray[Any], Randomness, int], NDArray[Any]],
    values: NDArray[Any],
    randomness: Randomness,
    rows: int = CHUNK,
) -> NDArray[Any]:
    """Reports for values, drawn ``rows`` values at a time: ``draw(values, randomness, first)`` for
    a part that begins at row ``first`` of the randomness.
    """
    if len(values) <= rows:
        return draw(values, randomness, 0)
    start = draw(values[:rows], randomness, 0)
    out = np.empty((len(values), *start.shape[1:]), start.dtype)
    out[:rows] = start
    for first in range(rows, len(values), rows):
        part = slice(first, first + rows)
        out[part] = draw(values[part], randomness, first)
    return out


def column_of_sums(sums: NDArray[np.integer]) -> NDArray[np.int64]:
    """Sums (n,), each of which has noise of its own. TypeError unless whole numbers, ValueError
    unless (n,): the rows of a table would share their words.
    """
    given = as_array(sums, "iu", "sums must be whole numbers")
    if given.ndim != 1:
        raise ValueError("sums must be a column (n,)")
    return given.astype(np.int64, copy=False)


def kind_of(drawing: Any) -> str:
    """The name by which noise is bound to the class of what draws it: its own in this package, with
    its module elsewhere, so that a class of somebody else's draws other words than ours of the same
    name.

    Examples
    --------
    >>> from ldp_kafka.mechanisms import SquareWave
    >>> kind_of(SquareWave(1.0, (0.0, 1.0)))
    'SquareWave'
    >>> Theirs = type("SquareWave", (SquareWave,), {"__module__": "theirs"})
    >>> kind_of(Theirs(1.0, (0.0, 1.0)))
    'theirs.SquareWave'
    """
    kind = type(drawing)
    return kind.__qualname__ if _is_ours(kind) else f"{kind.__module__}.{kind.__qualname__}"


def _is_ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == __name__.partition(".")[0]


def strangers(*parts: Any) -> list[str]:
    """`kind_of` those that are of no class of this package."""
    return [kind_of(part) for part in parts if not _is_ours(type(part))]


def check_told_apart(mechanism: Any, randomness: Randomness) -> None:
    """ConfigurationError where words are repeated for a mechanism that has no ``tables``: two of
    one class and budget could not be told apart, and would draw the same words.
    """
    if randomness.repeats and not hasattr(mechanism, "tables"):
        raise ConfigurationError(
            "keyed noise is bound to the integers that a mechanism samples with:"
            f" {kind_of(mechanism)} must have tables(), or be drawn with lk.randomness.system()"
        )


def own(mechanism: Any, randomness: Randomness) -> Randomness:
    """The source as this mechanism alone uses it: under one key two mechanisms, or one with two
    budgets or domains, draw independent words even where users, slots and integers are the same.
    """
    context = _CONTEXTS.get(mechanism)
    if context is None:
        context = _CONTEXTS[mechanism] = use_of(
            kind_of(mechanism),
            mechanism.epsilon,
            getattr(mechanism, "domain", None),
            getattr(mechanism, "categories", None),
            [int(number) for number in mechanism.tables()],
        )
    return check_source(randomness).within(context)


_CONTEXTS: WeakKeyDictionary[Any, bytes] = WeakKeyDictionary()


def report_width(mechanism: Any) -> int:
    """The optional ``width`` of a `Mechanism`."""
    return int(getattr(mechanism, "width", 0))


def frequency_variance(mechanism: Any, frequency: float) -> float | None:
    """The exact variance of one report's estimate of a category of this frequency, where the
    mechanism for categories offers ``variance``; it is no part of what a `Mechanism` must have.
    """
    variance = getattr(mechanism, "variance", None)
    return None if variance is None else float(variance(frequency))


def expected_support(
    mechanism: Any, frequencies: NDArray[np.float64], reports: int
) -> NDArray[np.int64] | None:
    """The support of so many reports of such frequencies (categories,), as it is on average, where
    the mechanism offers ``expected``; None else, as above.
    """
    expected = getattr(mechanism, "expected", None)
    return None if expected is None else np.asarray(expected(frequencies, reports), np.int64)


def check_epsilon(epsilon: Any) -> float:
    """``epsilon`` as a float in (0, inf); TypeError or ConfigurationError otherwise."""
    number = check_number(epsilon, "epsilon")
    if not 0 < number < inf:  # the positive form keeps NaN out
        raise ConfigurationError("epsilon must be positive and finite")
    return number


def check_number(value: Any, name: str) -> float:
    """``value`` as a float, NaN and infinities included; TypeError unless a number,
    ConfigurationError for a whole number beyond all floats.
    """
    if isinstance(value, bool | np.bool) or not isinstance(
        value, int | float | np.integer | np.floating
    ):
        raise TypeError(f"{name} must be a number")
    try:
        return float(value)
    except OverflowError as error:
        raise ConfigurationError(f"{name} must be finite, as a float too") from error


def whole(value: Any, name: str) -> int:
    """``value`` as an int; TypeError unless it is a whole number."""
    if type(value) is int:  # as most are, and a union of types takes ten times as long
        return value
    if isinstance(value, bool | np.bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be a whole number")
    return int(value)


def check_whole(value: Any, name: str, least: int, most: int) -> int:
    """``value`` as an int in ``least``..``most``; TypeError or ConfigurationError otherwise."""
    if not least <= whole(value, name) <= most:
        raise ConfigurationError(f"{name} must lie between {least} and {most}")
    return int(value)


def check_categories(categories: int) -> int:
    """``categories`` as an int in 2..2**20; TypeError or ConfigurationError otherwise."""
    return check_whole(categories, "categories", 2, 2**20)


def as_array(values: Any, kinds: str, message: str) -> NDArray[Any]:
    """``values`` as an array of one of these kinds of numpy's; TypeError with this message, and
    nothing behind it, where they are none. What numpy says of them shows them, so values are made
    arrays here and nowhere else.
    """
    try:
        given = np.asarray(values)
    except (TypeError, ValueError, OverflowError):
        given = None
    if given is None or given.dtype.kind not in kinds:
        raise TypeError(message)
    return given


def coded(values: Any, names: Sequence[str] | None) -> Any:
    """Names of categories, of any shape, as their numbers: -1 for None and NaN, as pandas has them
    where there is none. Without ``names`` the values, as they are.

    Raises
    ------
    ValueError : one is no name of these, or no text at all; none is shown

    Examples
    --------
    >>> coded(["sun", None, "gas"], ("gas", "sun")).tolist()
    [1, -1, 0]
    """
    if names is None:
        return values
    numbers = {nfc(name): at for at, name in enumerate(names)}
    found = None
    try:  # a list of texts and NaN would become texts
        given = values if isinstance(values, np.ndarray) else np.array(values, object)
        found = [_code(each, numbers) for each in given.ravel().tolist()]
    except Exception:  # noqa: BLE001, S110 - what objects raise may show them
        pass
    if found is None or None in found:
        raise ValueError("values must be names of categories, as they were given")
    return np.array(found, np.int64).reshape(given.shape)


def _code(value: Any, numbers: Mapping[str, int]) -> int | None:
    """Of one value; None where it is none."""
    if isinstance(value, str):
        return numbers.get(nfc(str.__str__(value)))
    missing = value is None or (isinstance(value, float) and value != value)  # noqa: PLR0124
    return -1 if missing or type(value).__name__ in ("NAType", "NaTType") else None


def check_codes(values: Any, categories: int) -> NDArray[np.int64]:
    """Category numbers (n,) as int64; TypeError unless integers, ValueError outside 0..categories -
    1 (the value is not shown) or unless (n,).
    """
    codes = as_array(values, "iu", "categories must be integers")
    if codes.ndim != 1:  # the rows of a table would share their words, and with them their noise
        raise ValueError("values must be a column (n,)")
    if len(codes) and not (codes.min() >= 0 and codes.max() < categories):
        raise ValueError(f"categories must run from 0 to {categories - 1}")
    return codes.astype(np.int64, copy=False)


def check_numbers(values: Any) -> NDArray[np.float64]:
    """Numbers of any shape as float64; TypeError, which shows none of them, unless numbers. Whether
    they are finite is seen by whoever maps them.

    Examples
    --------
    >>> check_numbers([1, 2.5])
    array([1. , 2.5])
    >>> check_numbers(["12 pounds"])
    Traceback (most recent call last):
    TypeError: values must be numbers
    """
    return as_array(values, "fiub", "values must be numbers").astype(np.float64, copy=False)


def check_values(values: Any) -> NDArray[np.float64]:
    """`check_numbers` of a column; ValueError unless (n,)."""
    given = check_numbers(values)
    if given.ndim != 1:  # the rows of a table would share their words, and with them their noise
        raise ValueError("values must be a column (n,)")
    return given


def check_vectors(values: Any, dimension: int) -> NDArray[np.float64]:
    """`check_numbers` of vectors; ValueError unless (n, dimension)."""
    given = check_numbers(values)
    if given.ndim != 2 or given.shape[1] != dimension:
        raise ValueError("values must be vectors: (n, dimension)")
    return given


def check_reports(reports: NDArray[Any], outputs: int) -> NDArray[np.int64]:
    """Reports (n,) as int64; TypeError unless integers, ValueError outside 0..outputs - 1 or unless
    (n,): what is none must not be counted as another one.
    """
    given = as_array(reports, "iu", "reports must be integers")
    if given.ndim != 1 or (len(given) and not (given.min() >= 0 and given.max() < outputs)):
        raise ValueError(f"reports must be a column (n,) of numbers from 0 to {outputs - 1}")
    return given.astype(np.int64, copy=False)


def check_domain(domain: tuple[float, float]) -> tuple[float, float]:
    """``domain`` as (lo, hi), finite, lo < hi; TypeError or ConfigurationError otherwise."""
    ends = domain.tolist() if isinstance(domain, np.ndarray) else domain
    # what else has two items may have them in no order, or be bytes
    if not isinstance(ends, tuple | list):
        raise TypeError("domain must be (lo, hi)")
    if len(ends) != 2:
        raise ConfigurationError("domain must be (lo, hi)")
    lo, hi = (check_number(end, "each end of domain") for end in ends)
    if not -inf < lo < hi < inf:
        raise ConfigurationError("domain must be (lo, hi) with lo < hi, both finite")
    if not 2.0**-900 < hi - lo < inf:  # mechanisms and methods divide up to 2**32 by the length
        raise ConfigurationError(
            "domain must not be so wide or so narrow that its length, or one over it, overflows"
        )
    return lo, hi


@lru_cache(maxsize=64)
def exp_below(epsilon: float) -> Fraction:
    """A rational just below e^epsilon: a partial sum of its series, rounded down to 2**-64.

    Examples
    --------
    >>> 0 < 2.718281828459045235361 - float(exp_below(1.0)) + 1e-15 < 1e-14
    True
    """
    x = Fraction(epsilon)
    term = total = Fraction(1)
    for k in range(1, 40 + 4 * int(epsilon)):
        term = term * x / k
        total += term
    return Fraction(int(total * 2**64), 2**64)
