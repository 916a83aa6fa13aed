"""The checks of a mechanism's exact laws and of the loss that it certifies: algebra."""

from __future__ import annotations

from fractions import Fraction

from ldp_kafka.checks.failure import require
from ldp_kafka.checks.laws import rows, worst_ratio
from ldp_kafka.checks.trial import MechanismTrial
from ldp_kafka.mechanisms.base import exp_below, nats

__all__ = ["certificate_is_true", "law_is_exact"]


def law_is_exact(trial: MechanismTrial) -> None:
    """Weights are positive Python ints that sum to the denominator; the same distinct outputs are
    possible for every input.
    """
    support = rows(trial.laws[0].support)
    require(len(set(support)) == len(support), "the outputs of a law must be distinct")
    for law in trial.laws:
        require(
            rows(law.support) == support,
            "the possible outputs must be the same, in the same order, for every input",
        )
        require(len(law.weights) == len(support), "a law must have one weight for each output")
        require(
            all(type(weight) is int for weight in [*law.weights, law.denominator]),
            "weights and denominator must be Python ints",
        )
        require(min(law.weights) > 0, "every output must be possible for every input")
        require(sum(law.weights) == law.denominator, "weights must sum to the denominator")


def certificate_is_true(trial: MechanismTrial) -> None:
    """The certified ratio is at most e^epsilon and at least the worst that the probed laws show;
    some pair comes within 2 % of its logarithm.
    """
    certificate = trial.mechanism.certificate()
    require(type(certificate.ratio) is Fraction, "the certified ratio must be a Fraction")
    require(
        1 < certificate.ratio <= exp_below(trial.epsilon),
        "the certified ratio must lie between 1 and e^epsilon",
    )
    require(
        0 < certificate.epsilon_effective <= trial.epsilon,
        "the effective epsilon must lie in (0, epsilon]",
    )
    require(
        abs(certificate.epsilon_effective - nats(certificate.ratio)) <= 1e-9 * trial.epsilon,
        "the effective epsilon must be the logarithm of the certified ratio",
    )
    laws = [*trial.laws, *map(trial.mechanism.law, trial.many)]
    worst = max(max(worst_ratio(a, b), worst_ratio(b, a)) for a in trial.laws for b in laws)
    require(
        worst <= certificate.ratio,
        "two probed laws must not differ by more than the certified ratio",
    )
    require(
        nats(worst) >= 0.98 * nats(certificate.ratio),
        "a pair of probes must come within 2 % of the certified loss: a certificate is computed,"
        " not declared",
    )
