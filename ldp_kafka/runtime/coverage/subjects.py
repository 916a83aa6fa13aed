"""The topologies whose intervals are judged: every method that a topology can run, with every
statistic that it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ldp_kafka.methods import METHODS
from ldp_kafka.methods.runnable import names, runnable
from ldp_kafka.methods.values import VALUES
from ldp_kafka.statistics import STATISTICS, SingleStatistic
from ldp_kafka.topology import Topology, loads

__all__ = [
    "BINS",
    "DELAY",
    "DIMENSION",
    "DOMAIN",
    "FURTHER",
    "SLOTS",
    "SUBJECTS",
    "USERS",
    "WINDOW",
    "Subject",
]

SLOTS = 12
"""In a run."""
USERS = (1, 5, 30, 300, 5000)
WINDOW, EPSILON, DELAY, DIMENSION, BINS, CATEGORIES, AVERAGED = 4, 8.0, 4, 2, 4, 3, 3
DOMAIN = (10.0, 30.0)

TEXT = """
topology: t
kafka: {{bootstrap_servers: "127.0.0.1:1"}}
input: {{slot: 1s, lateness: 0, partitions: 1, format: arrow}}
privacy: {{method: {method}, {privacy}}}
output: {{statistics: [{statistic}]{output}}}
"""
_W_EVENT = f"epsilon: {EPSILON}, window: {WINDOW}"
_USER = f"level: user, epsilon: {EPSILON}, horizon: {SLOTS}"
_NUMBERS = f"domain: [{DOMAIN[0]}, {DOMAIN[1]}]"
_BALL = f"{_USER}, delta: 1.0e-5, dimension: {DIMENSION}, diameter: {DOMAIN[1]}"
_OWN = {
    "app": f"{_W_EVENT}, {_NUMBERS}, block: 4",
    "budget_split": f"{_W_EVENT}, {_NUMBERS}, dimension: {DIMENSION}, inner: capp, block: 4",
    "capp": f"{_W_EVENT}, {_NUMBERS}, block: 4",
    "cgm": f"{_USER}, {_NUMBERS}, delta: 1.0e-5",
    "cgm_pure": f"{_USER}, {_NUMBERS}",
    "cgm_vector": _BALL,
    "etm": f"{_W_EVENT}, {_NUMBERS}, delay: 2",
    "fast": f"{_USER}, {_NUMBERS}, samples: 4",
    "fast_cgm": f"{_USER}, {_NUMBERS}, samples: 4, delta: 1.0e-5",
    "gaussian_differential": f"{_USER}, {_NUMBERS}, delta: 1.0e-5",
    "gaussian_differential_vector": _BALL,
    "gaussian_direct": f"{_USER}, {_NUMBERS}, delta: 1.0e-5",
    "gaussian_direct_vector": _BALL,
    "matrix": f"level: event, epsilon: {EPSILON}, {_NUMBERS}, delta: 1.0e-5, contribution: 2",
    "sample_split": f"{_W_EVENT}, {_NUMBERS}, dimension: {DIMENSION}, inner: app, block: 4",
    "topl": f"{_W_EVENT}, {_NUMBERS}, first: 4",
}
_ORACLES = {
    ("sw_direct", "numeric"): ("duchi", "piecewise", "hybrid", "laplace"),
    ("lpu", "categorical"): ("oue", "olh", "subset_selection", "hadamard"),
}
"""Mechanisms beside a method's default one, whose laws differ: by method and kind of values."""
_MODES = {
    "budget_split": "inner: capp_s",
    "capp": "clip: 0.25",
    "matrix": "moving_mean: 4",
    "naive": "truncation: true",
    "sample_split": "inner: app_s",
    "sppa": f"dimension: {DIMENSION}",
}
"""Methods that are judged with another key too."""
FURTHER = {
    "ba_sw": ("mechanism: duchi", "mechanism: laplace"),
    "fast": ("filtered: false, interval: 3",),
    "fast_cgm": ("filtered: false, interval: 3, differential_bound: 0.3",),
}
"""Methods that have further statistics where these keys are given."""
_AVERAGED = ("app", "cgm", "sampling", "sw_direct")
"""Methods that are judged by moving averages, too."""


class Subject(NamedTuple):
    """One method with one statistic."""

    method: str
    """With its mechanism, or one more key, where it is not as by default."""
    statistic: str
    privacy: str
    """Keys of the topology's section, but for the method."""
    output: str = ""

    @property
    def base(self) -> str:
        """The method without its mechanism."""
        return self.method.partition(" ")[0]

    @property
    def topology(self) -> Topology:
        """Whose releases are judged."""
        return loads(TEXT.format(**{**self._asdict(), "method": self.base}), f"{self.method}.yaml")

    @property
    def categorical(self) -> bool:
        """Whether its values are categories."""
        return "categories:" in self.privacy

    @property
    def vector(self) -> bool:
        """Whether its values are vectors."""
        return "dimension:" in self.privacy

    @property
    def ball(self) -> bool:
        """Whether these are of a ball around 0."""
        return "diameter:" in self.privacy

    @property
    def shares(self) -> bool:
        """Whether its releases are shares, of categories or bins."""
        return STATISTICS[self.statistic].by_category or STATISTICS[self.statistic].binned

    @property
    def places(self) -> range:
        """Of the numbers of a release."""
        if self.shares:
            return range(CATEGORIES if self.categorical else BINS)
        return range(DIMENSION if self.vector else 1)

    @property
    def numbers(self) -> list[str]:
        """What the numbers of a release are of, where each is judged by itself."""
        if not self.shares:
            return [""] * len(self.places)
        return [f"{'category' if self.categorical else 'bin'} {at}" for at in self.places]

    @property
    def crowds(self) -> tuple[int, ...]:
        """Users that it is judged with. Where the others' reports are in no release, of few alone;
        where each release is of one user, not of so many that releases could not be read.
        """
        if self.curated:
            return USERS[:1]
        if not self.single:
            return USERS
        return USERS[:-1] if self.shrunk else (30,)

    @property
    def shrunk(self) -> bool:
        """Whether a user's release is drawn to the crowd's mean."""
        found = METHODS.get(self.base)
        return self.single and found is not None and found.shrinks

    @property
    def single(self) -> bool:
        """Whether a release is of one user or stream."""
        return issubclass(STATISTICS[self.statistic], SingleStatistic) or self.curated

    @property
    def curated(self) -> bool:
        """Whether a curator releases each stream."""
        return STATISTICS[self.statistic].curated


def _subjects() -> Iterator[Subject]:
    for name in names():
        for kind in VALUES:
            found = runnable(name, kind)
            if found is None or found.kind != kind:
                continue
            privacy = _OWN.get(name) or f"{_W_EVENT}, {_values(kind)}"
            for statistic in found.statistics:
                output = f", bins: {BINS}" if STATISTICS[statistic].binned else ""
                if found.windows and name not in _OWN:
                    privacy = f"level: event, epsilon: {EPSILON}, {_NUMBERS}, delay: {DELAY}"
                if STATISTICS[statistic].curated:
                    privacy += ", trust: curator"
                made = Subject(name, statistic, privacy, output)
                yield made
                if name in _MODES:
                    key = _MODES[name]
                    yield Subject(f"{name} ({key})", statistic, _with(privacy, key), output)
                if "cover" in found.parameters and statistic == found.statistics[0]:
                    yield Subject(f"{name} (cover)", statistic, f"{privacy}, cover: true")
                if name in _AVERAGED and not output:
                    smooth = f", smooth: {{moving_average: {AVERAGED}}}"
                    yield Subject(f"{name} (moving_average)", statistic, privacy, smooth)
                for keys in FURTHER.get(name, ()):
                    made = Subject(f"{name} ({keys})", statistic, f"{privacy}, {keys}")
                    every = made.topology.method.statistics
                    yield from (made._replace(statistic=each) for each in every)
                for mechanism in () if made.single or output else _ORACLES.get((name, kind), ()):
                    with_it = f"{privacy}, mechanism: {mechanism}"
                    yield Subject(f"{name} ({mechanism})", statistic, with_it, output)


def _with(privacy: str, key: str) -> str:
    """With a key in place of the one of its name, if there is any."""
    name = key.partition(":")[0]
    return ", ".join([*(one for one in privacy.split(", ") if not one.startswith(f"{name}:")), key])


def _values(kind: str) -> str:
    return _NUMBERS if kind == "numeric" else f"categories: {CATEGORIES}"


SUBJECTS: tuple[Subject, ...] = tuple(_subjects())
"""All of them, by the names of methods."""
