"""What Kafka needs to run here: a Java, and Kafka's jars, which Maven brings once."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from ldp_kafka.errors import BrokerError, ConfigurationError

__all__ = ["DEFAULT_VERSION", "artefacts", "cache", "java"]

DEFAULT_VERSION = "4.3.1"
JAVA = 17

_POM = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>ldp_kafka</groupId>
  <artifactId>broker</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>{version}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId>
      <artifactId>slf4j-simple</artifactId>
      <version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
"""


def artefacts(version: str = DEFAULT_VERSION) -> Path:
    """Return the directory of Kafka's jars; Maven brings them once into ``~/.cache/ldp_kafka``
    (LDP_KAFKA_CACHE in its place).

    Raises
    ------
    ConfigurationError : Maven is missing
    BrokerError : Maven could not bring them (the text says where its log is)

    """
    libs = cache() / f"kafka-{version}" / "libs"
    if libs.exists():
        return libs
    maven = shutil.which("mvn")
    if maven is None:
        raise ConfigurationError(
            f"Apache Kafka {version} is downloaded by Maven, and mvn is not on the PATH: install"
            " Maven, or use a broker of your own"
        )
    libs.parent.mkdir(parents=True, exist_ok=True)
    log = libs.parent / "mvn.log"
    # Beside its place and moved there when complete: an interrupted download is never taken for a
    # whole one.
    with tempfile.TemporaryDirectory(dir=libs.parent) as temporary, log.open("wb") as out:
        (Path(temporary) / "pom.xml").write_text(_POM.format(version=version))
        command = [
            maven,
            "-q",
            "-B",
            "dependency:copy-dependencies",
            "-DincludeScope=runtime",
            "-DoutputDirectory=libs",
        ]
        done = subprocess.run(  # noqa: S603
            command, cwd=temporary, stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=False
        )
        if done.returncode:
            raise BrokerError(f"Maven could not download Apache Kafka {version}; log: {log}")
        # Another process may have been first: then its copy is as good.
        with suppress(OSError):
            (Path(temporary) / "libs").rename(libs)
    return libs


def cache() -> Path:
    """Where everything lies that can be had again: LDP_KAFKA_CACHE, or ``~/.cache/ldp_kafka``."""
    return Path(
        os.environ.get("LDP_KAFKA_CACHE") or Path.home() / ".cache" / "ldp_kafka"
    ).absolute()


def java() -> str:
    """Return the Java to run Kafka with: of JAVA_HOME, or the PATH.

    Raises
    ------
    ConfigurationError : there is none, or it is older than 17

    """
    home = os.environ.get("JAVA_HOME")
    program = shutil.which(str(Path(home) / "bin" / "java") if home else "java")
    if program is None:
        raise ConfigurationError(
            f"Apache Kafka needs Java {JAVA} or later, and"
            f" {'JAVA_HOME has no bin/java' if home else 'java is not on the PATH'}"
        )
    answer = subprocess.run(  # noqa: S603
        [program, "-version"], capture_output=True, text=True, check=False
    )
    found = re.search(r'version "(\d+)', answer.stderr)
    if found is None or int(found[1]) < JAVA:
        raise ConfigurationError(
            f"Apache Kafka needs Java {JAVA} or later, and {program} is"
            f" {found[1] if found else 'of no known version'}"
        )
    return program
