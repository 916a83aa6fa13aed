"""How values of a slot are added: a slow twin of `Grid` in Python's own whole numbers."""

from __future__ import annotations

from fractions import Fraction

from ldp_kafka.methods.grid import MOST, grid_of

__all__ = ["GRID", "in_steps", "mean_of", "sum_of", "total_of"]

GRID = grid_of((0.0, 10.0))
"""Of the domain that most tests have."""


def in_steps(value, grid):
    """What one event is worth, by itself."""
    steps = Fraction(value) / Fraction(2) ** grid.exponent
    return round(min(max(steps, grid.low), grid.high))


def total_of(values, grid):
    """The sum of all events in steps."""
    steps = [in_steps(value, grid) for value in values]
    above, below = (sum(max(sign * each, 0) for each in steps) for sign in (1, -1))
    return min(above, MOST) - min(below, MOST)


def sum_of(values, grid=GRID):
    """As a float, where it is one."""
    return float(total_of(values, grid) * Fraction(2) ** grid.exponent)


def mean_of(values, grid=GRID):
    """The mean, rounded down to a step."""
    return float(total_of(values, grid) // len(values) * Fraction(2) ** grid.exponent)
