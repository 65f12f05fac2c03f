"""Flink's own windows over a Kafka topic: a Java program of ours, run by Flink's local cluster."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, cast

from tidegate.servers import kafka
from tidegate.servers.java import find_jars, find_java

VERSION = "2.2.0"
OPENED = [
    word
    for name in ("java.lang", "java.util", "java.time")
    for word in ("--add-opens", f"java.base/{name}=ALL-UNNAMED")
]
SOURCE = Path(__file__).parent / "java" / "Windows.java"


def class_path() -> list[str]:
    """Return where the jars are; they are fetched when they are not there yet."""
    group = "org.apache.flink"
    folders = [
        find_jars(f"{group}:flink-clients:{VERSION}", "FLINK_LIBS"),
        find_jars(f"{group}:flink-connector-kafka:5.0.0-2.2", "FLINK_LIBS", transitive=False),
        find_jars(f"{group}:flink-connector-base:{VERSION}", "FLINK_LIBS", transitive=False),
    ]
    (client,) = find_jars(kafka.COORDINATE, "KAFKA_LIBS").glob("kafka-clients-*.jar")
    return [*(f"{folder}/*" for folder in folders), str(client)]


def compiled(source: Path, jars: Sequence[str], folder: str) -> list[str]:
    """Compile a Java program into a folder, and return the start of the command that runs it."""
    java, path = find_java(), ":".join([folder, *jars])
    javac = str(Path(java).resolve().with_name("javac"))
    subprocess.run([javac, "-nowarn", "-d", folder, "-cp", path, str(source)], check=True, stderr=subprocess.DEVNULL)
    return [java, *OPENED, "-cp", path]


class Flink:
    """Runs the job when it is asked to."""

    def __init__(self, asks: IO[str], answers: IO[str]) -> None:
        self._asks, self._answers = asks, answers

    def seconds(self, keys: int) -> float:
        """Return the seconds from the first row to the end of a job with this number of keys."""
        print(keys, file=self._asks, flush=True)
        return next(float(line.split()[1]) for line in self._answers if line.startswith("seconds"))


@contextmanager
def running(records: str, servers: str, topic: str, cores: int) -> Iterator[Flink]:
    """Start a JVM for Flink's jobs over a topic, with the memory of the session of Spark.

    records: ``raw`` or ``json``.
    """
    with TemporaryDirectory() as folder:
        command = [
            *compiled(SOURCE, class_path(), folder),
            "-Xmx4g",
            SOURCE.stem,
            servers,
            topic,
            str(cores),
            records,
        ]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, text=True, **pipes) as process:
            try:
                yield Flink(cast("IO[str]", process.stdin), cast("IO[str]", process.stdout))
            finally:
                process.kill()
