"""The mechanisms' page says what the laws say."""

from __future__ import annotations

from math import exp, expm1

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.cli import main
from ldp_kafka.evaluation import guide


def test_every_mechanism_is_on_the_page():
    """Those that give epsilon alone; gaussian is named in the text, adaptive is a choice among
    them.
    """
    assert (
        guide.NUMERIC.keys()
        | guide.CATEGORICAL.keys()
        | {"gaussian", "gaussian_vector", "adaptive"}
        == lk.MECHANISMS.keys()
    )
    page = guide.page()
    assert all(f"`{name}`" in page for name in lk.MECHANISMS)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_variances_are_those_of_the_papers(epsilon):
    """On the domain [0, 1], a quarter of what the papers have on [-1, 1]."""
    e, h = exp(epsilon), expm1(epsilon / 2)
    close = {"rel": 0.02}
    assert guide.numeric("laplace", epsilon).worst == pytest.approx(2 / epsilon**2, **close)
    assert guide.numeric("duchi", epsilon).worst == pytest.approx(
        ((e + 1) / (e - 1)) ** 2 / 4, **close
    )
    assert guide.numeric("piecewise", epsilon).worst == pytest.approx(
        (1 / h + (h + 4) / (3 * h**2)) / 4, **close
    )
    assert guide.numeric("piecewise", epsilon).average == pytest.approx(
        (1 / (3 * h) + (h + 4) / (3 * h**2)) / 4, **close
    )
    assert guide.categorical("oue", epsilon, 100) == pytest.approx(4 * e / (e - 1) ** 2, **close)
    assert guide.categorical("grr", epsilon, 100) == pytest.approx((98 + e) / (e - 1) ** 2, **close)
    # g is a whole number; the hash family collides less than a random one
    assert guide.categorical("olh", epsilon, 100) <= 4 * e / (e - 1) ** 2 * 1.06


def test_variances_are_what_many_reports_show():
    """Independent of law and variance(): the spread of estimates."""
    for name in ("piecewise", "square_wave"):
        m = lk.mechanism(name, epsilon=1.0, domain=(0.0, 1.0))
        reports = m.perturb(np.full(200_000, 1.0), lk.randomness.system()).reshape(400, 500)
        spread = np.var([m.estimate(row).value for row in reports]) * 500
        assert spread <= guide.numeric(name, 1.0).worst * 1.5
    for name in guide.CATEGORICAL:
        m = lk.mechanism(name, epsilon=1.0, categories=8)
        reports = m.perturb(np.zeros(200_000, np.int64), lk.randomness.system()).reshape(
            400, 500, *([m.width] if m.width else [])
        )
        spread = np.var([m.estimate(row).value[5] for row in reports]) * 500
        # 400 estimates: 7 % each way, six times
        assert 0.6 < spread / guide.categorical(name, 1.0, 8) < 1.5, name


def test_one_command_writes_page_and_plots(tmp_path, capsys):
    assert main(["mechanisms", "--out", str(tmp_path / "page")]) == 0
    files = sorted(path.name for path in (tmp_path / "page").iterdir())
    assert files == [
        "mechanisms.md",
        "variance-categories.png",
        "variance-epsilon.png",
        "variance-numbers.png",
    ]
    assert all(path.stat().st_size > 1000 for path in (tmp_path / "page").iterdir())
    assert len(capsys.readouterr().out.splitlines()) == 4
