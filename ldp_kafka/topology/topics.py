"""The topics that a topology needs, as data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ldp_kafka.topology.model import Topology

__all__ = ["TABLES", "Topic", "topics"]

TABLES = (("perturb", "perturb"), ("collect", "collect"), ("collect", "merge"))
"""(role whose group keeps it, table)."""

_LOG = {"cleanup.policy": "delete"}
# The broker's clock holds the watermark back: a device's own could close every slot
_DEVICES = {**_LOG, "message.timestamp.type": "LogAppendTime"}
# Small segments and a low ratio keep recovery short; never compact,delete: quiet open state would
# expire
_STATE = {
    "cleanup.policy": "compact",
    "segment.bytes": str(64 * 2**20),
    "min.cleanable.dirty.ratio": "0.1",
}


class Topic(NamedTuple):
    """A topic of ours."""

    name: str
    partitions: int
    config: dict[str, str]
    """In Kafka's spelling; what is not here is left to the broker, retention among it."""
    purpose: str
    side: str
    """``edge`` or ``collector``: on whose cluster it lies."""

    def as_json(self) -> dict[str, Any]:
        """The same for machines."""
        return dict(self._asdict())


def topics(topology: Topology) -> list[Topic]:
    """All that ``ldp-kafka topics`` creates: someone else's raw topic is not among it."""
    sources = topology.input.partitions
    if topology.devices:
        return [
            Topic(
                topology.device_reports_topic,
                sources,
                dict(_DEVICES),
                "perturbed values, one a message, from devices",
                "collector",
            ),
            *_collected(topology),
        ]
    out = (
        [
            Topic(
                topology.raw_topic,
                sources,
                dict(_LOG),
                "values, keyed by user: what never leaves the edge",
                "edge",
            )
        ]
        if topology.input.create
        else []
    )
    out += [
        Topic(
            topology.dead_letters_topic,
            1,
            dict(_LOG),
            "where the edge's bad records are and why, without their values",
            "edge",
        ),
        Topic(
            topology.changelog("perturb", "perturb"),
            sources,
            dict(_STATE),
            "state of the users",
            "edge",
        ),
        Topic(
            topology.reports_topic,
            sources,
            dict(_LOG),
            "perturbed values: all that crosses the trust line",
            "collector",
        ),
    ]
    return out + _collected(topology)


def _collected(topology: Topology) -> list[Topic]:
    """What the collector makes of reports, wherever they come from."""
    sources = topology.input.partitions
    return [
        Topic(
            topology.partials_topic,
            1,
            dict(_LOG),
            "what one source has to say of a slot; one partition, so that slots are released in"
            " order",
            "collector",
        ),
        Topic(
            topology.releases_topic,
            sources,
            dict(_LOG),
            "published statistics with their errors",
            "collector",
        ),
        Topic(
            topology.collector_dead_letters_topic,
            1,
            dict(_LOG),
            "reports that could not be counted",
            "collector",
        ),
        Topic(
            topology.changelog("collect", "collect"),
            sources,
            dict(_STATE),
            "open windows of each source",
            "collector",
        ),
        Topic(
            topology.changelog("collect", "merge"),
            1,
            dict(_STATE),
            "slots that wait for all sources",
            "collector",
        ),
    ]
