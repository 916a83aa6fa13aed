"""What can be released of the reports of a method: one file a statistic."""

from __future__ import annotations

from ldp_kafka.statistics.base import CrowdStatistic, Singles, SingleStatistic, Statistic
from ldp_kafka.statistics.distribution import Distribution
from ldp_kafka.statistics.events import ABOVE, Above, above
from ldp_kafka.statistics.frequencies import DECIDED, LARGEST, NUMBERS, Frequencies
from ldp_kafka.statistics.mean import Mean
from ldp_kafka.statistics.per_stream import DRIFT, PerStream
from ldp_kafka.statistics.per_user import PerUser
from ldp_kafka.statistics.prediction import (
    EvenPrediction,
    Prediction,
    ProtocolPrediction,
    StreamPrediction,
    reporting,
)
from ldp_kafka.statistics.selection import Selection
from ldp_kafka.statistics.user_means import UserMeans

__all__ = [
    "ABOVE",
    "DECIDED",
    "DRIFT",
    "LARGEST",
    "NUMBERS",
    "STATISTICS",
    "Above",
    "CrowdStatistic",
    "Distribution",
    "EvenPrediction",
    "Frequencies",
    "Mean",
    "PerStream",
    "PerUser",
    "Prediction",
    "ProtocolPrediction",
    "Selection",
    "SingleStatistic",
    "Singles",
    "Statistic",
    "StreamPrediction",
    "UserMeans",
    "above",
    "reporting",
]

STATISTICS: dict[str, type[Statistic]] = {
    "distribution": Distribution,
    "frequencies": Frequencies,
    "mean": Mean,
    "per_stream": PerStream,
    "per_user": PerUser,
    "user_means": UserMeans,
}
