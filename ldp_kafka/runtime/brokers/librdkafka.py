"""The librdkafka of the confluent-kafka wheel, called directly: its mock cluster is not offered to
Python.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import importlib.util
from pathlib import Path

from ldp_kafka.errors import BrokerError, ConfigurationError
from ldp_kafka.version import install

__all__ = ["ALREADY_EXISTS", "librdkafka", "new_handle"]

ALREADY_EXISTS = 36  # RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS
_PRODUCER = 0  # RD_KAFKA_PRODUCER


@functools.cache
def librdkafka() -> ctypes.CDLL:
    """The library that confluent_kafka itself uses, with the C signatures used here."""
    library = ctypes.CDLL(_library_path())
    pointer, text, integer = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    signatures: dict[str, tuple[type | None, list[type]]] = {
        "rd_kafka_conf_new": (pointer, []),
        "rd_kafka_conf_set": (integer, [pointer, text, text, text, ctypes.c_size_t]),
        "rd_kafka_conf_destroy": (None, [pointer]),
        "rd_kafka_new": (pointer, [integer, pointer, text, ctypes.c_size_t]),
        "rd_kafka_destroy": (None, [pointer]),
        "rd_kafka_err2name": (text, [integer]),
        "rd_kafka_mock_cluster_new": (pointer, [pointer, integer]),
        "rd_kafka_mock_cluster_destroy": (None, [pointer]),
        "rd_kafka_mock_cluster_bootstraps": (text, [pointer]),
        "rd_kafka_mock_topic_create": (integer, [pointer, text, integer, integer]),
        "rd_kafka_mock_group_initial_rebalance_delay_ms": (None, [pointer, ctypes.c_int32]),
    }
    for name, (result, arguments) in signatures.items():
        try:
            function = getattr(library, name)
        except AttributeError as error:
            raise ConfigurationError(
                f"the embedded broker needs {name}, which this librdkafka lacks: install a newer"
                " confluent-kafka wheel"
            ) from error
        function.restype, function.argtypes = result, arguments
    return library


def _library_path() -> str:
    spec = importlib.util.find_spec("confluent_kafka")
    if spec is None or spec.origin is None:
        raise ConfigurationError(f"the embedded broker needs confluent-kafka: {install('kafka')}")
    package = Path(spec.origin).parent
    for folder in (package.with_name("confluent_kafka.libs"), package / ".dylibs"):
        # Not librdkafka++: the C++ wrapper lies beside it.
        for path in sorted(folder.glob("librdkafka[-.]*")):
            return str(path)
    # A confluent-kafka built from source uses the system's library.
    if system := ctypes.util.find_library("rdkafka"):
        return system
    raise ConfigurationError(
        "the embedded broker needs the librdkafka of the confluent-kafka wheel; this installation"
        " has none"
    )


def new_handle(library: ctypes.CDLL) -> int:
    """A client handle: the mock cluster runs on its queue and ends with it."""
    why = ctypes.create_string_buffer(512)
    conf = library.rd_kafka_conf_new()
    # Below errors there is only the notice that this client has no broker, which is the point of
    # it.
    library.rd_kafka_conf_set(conf, b"log_level", b"3", why, len(why))
    handle: int | None = library.rd_kafka_new(_PRODUCER, conf, why, len(why))
    if not handle:
        library.rd_kafka_conf_destroy(conf)
        raise BrokerError(
            f"librdkafka could not start the embedded broker: {why.value.decode(errors='replace')}"
        )
    return handle
