"""Faults of the matrix mechanism."""

from __future__ import annotations

import numpy as np

from ldp_kafka.mechanisms.gaussian_sums import GaussianSums
from ldp_kafka.methods import Matrix
from ldp_kafka.methods.delay.base import VALUE
from ldp_kafka.methods.delay.matrix import UNIT, root
from ldp_kafka.methods.values import FIXED
from ldp_kafka.randomness import system
from tests.mutants import breaks

LOSS, MOVES, GUARANTEE = "loss_within_budget", "moves_are_as_proved", "guarantee_is_what_was_asked"
TELL = "outputs_tell_all"


@breaks(LOSS, of=Matrix, window=2)
@breaks(MOVES, of=Matrix, window=2)
@breaks(GUARANTEE, of=Matrix, window=2)
class ForOneColumn:
    """The sensitivity of an event for the columns of a window."""

    @property
    def moved(self):
        return int(sum(entry**2 for entry in root(self.bands)) ** 0.5) + 1


@breaks(MOVES, of=Matrix, bands=4)
class ForgetsTheRowsBehindTheWindow:
    """A value goes on in the rows of later ones."""

    @property
    def moved(self):
        run = np.cumsum(root(self.bands))[: self.window]
        return int((run.astype(float) ** 2).sum() ** 0.5) + 1


@breaks(MOVES, of=Matrix, bands=4)
class CountsOneRow:
    def prepare(self):
        super().prepare()
        self.adder = GaussianSums(self.epsilon, self.delta, self.adder.reach, self.window)


@breaks(MOVES, of=Matrix, contribution=0.5)
class ForHalfAContribution:
    def prepare(self):
        super().prepare()
        adder = self.adder
        self.adder = GaussianSums(self.epsilon, self.delta, adder.reach // 2, adder.dimension)


@breaks(MOVES, of=Matrix, bands=4)
class FeedsRowsBack:
    """Rows of rows: a value never ends."""

    def _noisy(self, window, sums, some):
        window.ring("ahead")[0, some] += sums // 2
        return super()._noisy(window, sums, some)


@breaks(GUARANTEE, of=Matrix)
class PromisesMore:
    @property
    def guarantee(self):
        return super().guarantee._replace(delta=self.delta / 2)


@breaks(TELL, of=Matrix, bands=3)
class OffTheGrid:
    """Noise of a grid on rows that lie on a finer one."""

    def _noisy(self, window, sums, some):
        unit = self.adder.unit
        return super()._noisy(window, sums, some) + sums % unit / (UNIT * FIXED)


@breaks(TELL, of=Matrix, bands=3)
class KnowsTheTruth:
    """What is taken off a noisy row are the values themselves."""

    def _noisy(self, window, sums, some):
        known = window.ring("known")
        known[:, some] = window.ring("ahead")[:, some] / (UNIT * FIXED)
        return super()._noisy(window, sums, some)


@breaks(TELL, of=Matrix)
class ClipsByTheTruth:
    def _noisy(self, window, sums, some):
        noisy = super()._noisy(window, sums, some)
        return np.minimum(noisy, sums / (UNIT * FIXED) + 0.1)


@breaks("noise_is_bound_to_its_input", of=Matrix)
class BindsNothing:
    def _noisy(self, window, sums, some):
        noisy = self.adder.perturb(sums, window.at_random(some, VALUE, np.zeros_like(sums)))
        return noisy * (self.adder.unit / (UNIT * FIXED))


@breaks("noise_is_keyed", of=Matrix)
class DrawsAnewOnReplay:
    def _noisy(self, window, sums, some):
        return self.adder.perturb(sums, system()) * (self.adder.unit / (UNIT * FIXED))


@breaks("release_is_step", of=Matrix, bands=4)
class ForgetsItsBandsOnRestart:
    """Rows go on in the process that began them, and not in the state."""

    def _of(self, window, values, some):
        if not hasattr(self, "begun"):
            window.ring("ahead")[:] = 0
        self.begun = True
        return super()._of(window, values, some)


@breaks("releases_are_the_matrix", of=Matrix, bands=4)
class StatesTheErrorOfOneValue:
    """As if noise were on sums and not on a root of them."""

    def _variances(self, count):
        return np.full(len(count), super()._variances(np.array([1]))[0])


@breaks("releases_are_the_matrix", of=Matrix, bands=4)
class HasARowTooFew:
    def prepare(self):
        super().prepare()
        self._taps[self.bands - 2] = 0
