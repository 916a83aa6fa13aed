"""From a YAML file to a `Topology`, or to one error that names the line and the key of everything
that is wrong.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path as FilePath
from typing import Any

from ldp_kafka import plugins
from ldp_kafka.accounting.words import instant
from ldp_kafka.errors import ConfigurationError, TopologyError
from ldp_kafka.methods.protocols.processing import Processing
from ldp_kafka.methods.runnable import runnable
from ldp_kafka.normal_form import nfc
from ldp_kafka.topology.document import Document, Unset, key_text, read
from ldp_kafka.topology.durations import parse_duration
from ldp_kafka.topology.model import Edge, Input, KafkaSide, Output, Privacy, Runtime, Topology
from ldp_kafka.topology.paths import Path, parse_path
from ldp_kafka.topology.plugged import try_plugins
from ldp_kafka.topology.schema import problems as schema_problems
from ldp_kafka.topology.schema import with_defaults
from ldp_kafka.topology.sections import EVENTS, TICKS, frozen

__all__ = ["load", "loads", "place_in", "text_of"]

_COMMON = (
    "method",
    "mechanism",
    "epsilon",
    "window",
    "domain",
    "categories",
    "calibration",
    "level",
    "trust",
)
_OF_RAW = (
    "topic",
    "relay",
    "sources",
    "create",
    "format",
    "user",
    "value",
    "time",
    "events",
    "time_unit",
    "coerce",
    "partitioning",
    "gaps",
)
RELAY_IDLE = "30s"
"""``input.idle`` where it is not given and ``input.relay`` is."""
REKEY = "rekey"
"""``input.relay`` where each event is copied to the partition of its user."""
_KEY = re.compile(r"\[([0-9]+)\]|([^.\[\]]+)")


def load(path: str | os.PathLike[str]) -> Topology:
    """The topology in a YAML file.

    Raises
    ------
    TopologyError : a line ``file:line: key: what must hold`` for everything that is wrong with it
    ConfigurationError : it cannot be read

    """
    return loads(text_of(path), os.fspath(path))


def text_of(path: str | os.PathLike[str], kind: str = "topology") -> str:
    """The text of a file of this kind.

    Raises
    ------
    TopologyError : it is no text
    ConfigurationError : it cannot be read

    """
    file = os.fspath(path)
    try:
        return FilePath(path).read_text("utf-8")
    except OSError as error:
        raise ConfigurationError(f"cannot read the {kind} {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise TopologyError(f"a {kind} must be UTF-8 text", file=file) from None


def loads(text: str, file: str = "<string>") -> Topology:
    """The topology in a text; paths in it are relative to ``file``.

    Examples
    --------
    >>> topology = loads('''
    ... topology: meters
    ... input: {slot: 1h}
    ... privacy: {method: sw_direct, epsilon: 1.0, window: 10, domain: [0, 100]}
    ... output: {statistics: [mean]}
    ... ''')
    >>> topology.raw_topic, topology.input.partitions, topology.guarantee.epsilon
    ('meters.raw', 2, 1.0)
    >>> loads("topology: meters")
    Traceback (most recent call last):
        ...
    ldp_kafka.errors.TopologyError: <string>:1: input: must be given
    <string>:1: privacy: must be given
    <string>:1: output: must be given

    """
    document = read(text, file, os.environ)
    work = _Work(document)
    topology = work.topology()
    if work.found or topology is None:
        raise TopologyError.together(
            error for _, error in sorted(work.found, key=lambda item: item[1].line or 0)
        )
    return topology


def place_in(file: str, *paths: Path) -> tuple[int | None, str]:
    """Line and key of the first of these paths that a file has, or of the last; for what is found
    wrong when the file is read already. No line where it cannot be read any more.
    """
    try:
        document = read(FilePath(file).read_text("utf-8"), file, os.environ)
    except (OSError, UnicodeDecodeError, TopologyError):
        return None, key_text(paths[-1])
    path = next((each for each in paths if each in document.lines), paths[-1])
    _, found = document.problem(path, "")
    return found.line, found.key


class _Work:
    """One document on its way; ``found`` is what is wrong so far."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.found = list(document.problems)
        # before the schema is asked: it lists the names that are registered
        self.found += self._plugin_problems()
        self.found += [
            (path, error)
            for path, error in schema_problems(document)
            if path not in document.unread
        ]

    def topology(self) -> Topology | None:
        """The topology; None after a problem that kept it from being made."""
        data = self.document.data
        if not isinstance(data, dict):
            return None
        given = with_defaults(
            {name: section for name, section in data.items() if isinstance(section, dict)}
        )
        name = "unnamed" if self._touched("topology") else data["topology"]
        makers: dict[str, Callable[[dict[str, Any], str], Any]] = {
            "kafka": self.kafka,
            "input": self.input,
            "privacy": self.privacy,
            "output": self.output,
            "edge": self.edge,
            "runtime": self.runtime,
        }
        made = {
            section: self._section(section, make, given[section], name)
            for section, make in makers.items()
        }
        if any(section is None for section in made.values()) or self._touched("topology"):
            return None
        edge_kafka, collector_kafka = made.pop("kafka")
        try:
            topology = Topology(
                name=name,
                file=self.document.file,
                edge_kafka=edge_kafka,
                collector_kafka=collector_kafka,
                plugins=tuple(data.get("plugins", ())),
                **made,
            )
            try_plugins(topology)
        except TopologyError as error:
            self._locate(error)
            return None
        return topology

    def _plugin_problems(self) -> Iterator[tuple[Path, TopologyError]]:
        """Why a plug-in, or the mechanism or method that it is needed for, cannot be had."""
        data = self.document.data if isinstance(self.document.data, dict) else {}
        privacy = data.get("privacy")
        listed, privacy = data.get("plugins"), privacy if isinstance(privacy, dict) else {}
        modules = listed if isinstance(listed, list) else []
        for at, module in enumerate(modules):
            if isinstance(module, str):
                try:
                    plugins.load(module)
                except ConfigurationError as error:
                    yield self.document.problem(("plugins", at), str(error))
        for key in ("mechanism", "method"):
            name = privacy.get(key)
            try:
                plugins.find(name)
            except ConfigurationError as error:
                yield self.document.problem(("privacy", key), str(error))
            plugin = plugins.plugin_of(name) if isinstance(name, str) else None
            if plugin and not plugin.by_entry_point and plugin.module not in modules:
                yield self.document.problem(
                    ("privacy", key), f"{name} is of {plugin.module}: list it under plugins"
                )

    def _section(
        self,
        section: str,
        make: Callable[[dict[str, Any], str], Any],
        given: dict[str, Any],
        name: str,
    ) -> Any:
        """A section made, unless something in it, or its absence, is already a problem."""
        if self._touched(section):
            return None
        try:
            return make(given, name)
        except TopologyError as error:
            self._locate(error)
            return None

    def _touched(self, name: str) -> bool:
        return any(path[:1] == (name,) for path, _ in self.found)

    def _locate(self, error: TopologyError) -> None:
        """Take the problems in, each with the line of its key."""
        for problem in error.problems:
            path: Path = tuple(
                int(index) if index else name for index, name in _KEY.findall(problem.key)
            )
            self.found.append(self.document.problem(path, problem.reason))

    def kafka(self, given: dict[str, Any], _: str) -> tuple[KafkaSide, KafkaSide]:
        def side(*path: str) -> KafkaSide:
            own = given[path[0]] if path else {}
            try:
                return KafkaSide(
                    own.get("bootstrap_servers", given["bootstrap_servers"]),
                    frozen(given["client"] | own.get("client", {})),
                )
            except TopologyError as error:
                raise TopologyError(
                    error.reason, key=".".join(("kafka", *path, "bootstrap_servers"))
                ) from None

        if "edge" not in given:
            both = side()
            return both, both
        return side("edge"), side("collector")

    def input(self, given: dict[str, Any], name: str) -> Input:
        mine = self.document.data["input"]
        if given["source"] == "devices":
            wrong = [
                TopologyError(
                    "must not be given where source is devices: there is no raw topic",
                    key=f"input.{key}",
                )
                for key in _OF_RAW
                if key in mine
            ]
            if wrong:
                raise TopologyError.together(wrong)
        elif given["relay"]:
            if "topic" not in mine:
                raise TopologyError(
                    "must be given where relay is true: someone else's, which is copied",
                    key="input.topic",
                )
            # what has another default there
            given |= {"create": mine.get("create", False), "idle": mine.get("idle", RELAY_IDLE)}
            if given["relay"] == REKEY:
                others = {"partitioning": "murmur2", "per_slot": "last"}
                given |= {key: mine.get(key, other) for key, other in others.items()}
        if self._curated and given["partitions"] > 1:
            given["partitioning"] = mine.get("partitioning", "murmur2")
        given["rekey"], given["relay"] = given["relay"] == REKEY, bool(given["relay"])
        given.setdefault("closing", self._closing(given))
        user = given.pop("user")
        fields: dict[str, Any] = {key: self._path(key, given.pop(key)) for key in ("value", "time")}
        if isinstance(user, list):
            fields["parts"] = tuple(self._path(f"user[{at}]", part) for at, part in enumerate(user))
        fields["user"] = () if isinstance(user, list) else self._path("user", user)
        if "events" in given:
            fields["events"] = self._path("events", given.pop("events"))
        start = given.pop("start", None)
        streams = tuple(nfc(str(each)) for each in given.pop("streams", ()))
        slot, idle, ahead = given.pop("slot"), given.pop("idle"), given.pop("max_ahead")
        topic = given.pop("topic", f"{name}.raw")
        idle_ms = None if idle == "off" else parse_duration(idle)
        return Input(
            topic=topic,
            **fields,
            slot_ms=parse_duration(slot),
            idle_ms=idle_ms,
            max_ahead_ms=parse_duration(ahead),
            streams=streams,
            start_ms=None if start is None else self._instant("start", start),
            **given,
        )

    @property
    def _curated(self) -> bool:
        privacy = self.document.data.get("privacy")
        return isinstance(privacy, dict) and privacy.get("trust") == "curator"

    def _path(self, key: str, text: str) -> Path:
        if key == "events" and text == "$":
            return ()
        try:
            return parse_path(text)
        except ConfigurationError as error:
            raise TopologyError(str(error), key=f"input.{key}") from None

    def _closing(self, given: dict[str, Any]) -> str:
        """What closes slots where nothing says so: of a curator, and where presence is hidden,
        ticks, if workers write them.
        """
        privacy = self.document.data.get("privacy")
        covers = isinstance(privacy, dict) and privacy.get("cover") is True
        return TICKS if (self._curated or covers) and given["create"] else EVENTS

    def _instant(self, key: str, text: str) -> int:
        try:
            return instant(text)
        except ValueError as error:
            raise TopologyError(str(error), key=f"input.{key}") from None

    def privacy(self, given: dict[str, Any], _: str) -> Privacy:
        own = {key: value for key, value in given.items() if key not in _COMMON}
        categories, domain = given.get("categories"), given.get("domain")
        names = tuple(categories) if isinstance(categories, list) else None
        method = runnable(given["method"], "numeric" if categories is None else "categorical")
        assert method is not None, "the schema names what can be run"
        # -0.0 is 0.0: one fingerprint
        return Privacy(
            method=given["method"],
            mechanism=given.get("mechanism", method.default_mechanism),
            epsilon=float(given["epsilon"]),
            window=given.get("window"),
            domain=(None if domain is None else (float(domain[0]) + 0.0, float(domain[1]) + 0.0)),
            categories=len(names) if names is not None else categories,
            category_names=names,
            calibration=given["calibration"],
            level=given["level"],
            trust=given["trust"],
            parameters=frozen(own),
        )

    def output(self, given: dict[str, Any], _: str) -> Output:
        events, smooth = given["events"], given["smooth"]
        return Output(
            tuple(given["statistics"]),
            given["shrinkage"],
            None if events is None else float(events["above"]),
            Processing(**(given["postprocess"] or {})),
            given["bins"],
            1 if smooth is None else smooth["moving_average"],
        )

    def edge(self, given: dict[str, Any], _: str) -> Edge:
        return Edge(
            self._beside(given["key_file"] or None),
            self._beside(given["budget_file"]),
            given["deployment"],
        )

    def _beside(self, text: str | None) -> FilePath | Unset | None:
        """A path that is written relative to the file, where it is known."""
        if text is None or isinstance(text, Unset):
            return text
        return FilePath(self.document.file).parent / FilePath(text).expanduser()

    def runtime(self, given: dict[str, Any], _: str) -> Runtime:
        timeout = given.pop("session_timeout")
        return Runtime(
            **given | {"snapshot_seconds": float(given["snapshot_seconds"])},
            session_timeout_ms=parse_duration(timeout),
        )
