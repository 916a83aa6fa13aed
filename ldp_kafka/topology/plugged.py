"""A topology whose mechanism or method is of a plug-in: its contract, before any value is read."""

from __future__ import annotations

from ldp_kafka.errors import ConfigurationError, TopologyError
from ldp_kafka.mechanisms import MECHANISMS
from ldp_kafka.plugins import plugin_of
from ldp_kafka.topology.model import Topology

__all__ = ["try_plugins"]


def try_plugins(topology: Topology) -> None:
    """TopologyError where a plug-in's mechanism or method breaks the contract that can be tried in
    a moment: see `ldp_kafka.checks.start`.
    """
    if not topology.plugged:
        return
    from ldp_kafka.checks.failure import CheckFailure
    from ldp_kafka.checks.start import try_mechanism, try_method

    privacy, method = topology.privacy, topology.method
    factory = MECHANISMS.get(privacy.mechanism)

    def mechanism(epsilon: float) -> object:
        assert factory is not None, "a plug-in's mechanism is registered"
        return factory(epsilon, method.values.unit)

    try:
        if plugin_of(privacy.mechanism) is not None:
            where = "privacy.mechanism"
            try_mechanism(mechanism, method.mechanism.epsilon)
        if plugin_of(privacy.method) is not None:
            where = "privacy.method"
            try_method(privacy.maker, method.window, own_noise=method.own_noise)
            where = "privacy"
            _ = topology.fingerprint
    except CheckFailure as failure:
        raise TopologyError.together(
            [
                TopologyError(f"breaks the contract of a plug-in: {line}", key=where)
                for line in str(failure).splitlines()
            ]
        ) from None
    except (ConfigurationError, TypeError, ValueError) as error:
        raise TopologyError(f"cannot be bound to its parameters: {error}", key=where) from None
