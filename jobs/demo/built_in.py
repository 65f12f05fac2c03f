"""Spark's own Kafka source in the demonstration: its jars, and its progress as that of a source of tidegate.

Spark's progress has the offsets of each partition.  The demonstration has written the history itself, so it knows the
event time at every offset.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version

import numpy as np
from numpy.typing import NDArray

from tidegate.enumerators.planning.source_progress import SourceProgress
from tidegate.servers.java import find_jars
from tidegate.sources.progress.query import QueryProgress

# Resolved one by one, because PySpark already has their dependencies.  That of Spark itself also loads in Spark 4.3.
_SOURCE = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
_JARS = (
    _SOURCE,
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.0",
)


def built_in_jars() -> str:
    """Return the jars of Spark's built-in Kafka source as ``spark.jars`` takes them.

    ``SPARK_KAFKA_LIBS`` may point to a folder that holds them.

    Raises ServerError if Maven Central cannot be reached.
    """
    folders = [find_jars(coordinate, "SPARK_KAFKA_LIBS", transitive=False) for coordinate in _JARS]
    return ",".join(sorted({str(jar) for folder in folders for jar in folder.glob("*.jar")}))


def built_in_release() -> str:
    """Name Spark's Kafka source by its own release, and by PySpark's if that is another one."""
    release, of_spark = _SOURCE.rpartition(":")[2], version("pyspark")
    named = f"Spark's own Kafka source ({release}"
    return f"{named})" if _minor(release) == _minor(of_spark) else f"{named}, which loads in Spark {of_spark})"


def _minor(release: str) -> list[str]:
    return re.findall(r"\d+", release)[:2]


def as_progress(batch: QueryProgress, topic: str, history: Sequence[NDArray[np.int64]]) -> QueryProgress:
    """Return a batch of Spark's own source with the progress that tidegate's source would show of it.

    history: the event times of each partition in ms, by offset.
    """
    if batch.source.progress is not None:
        return batch
    ends: Mapping[str, int] = batch.source.stored[topic]
    by_split = {}
    for partition, times_ms in enumerate(history):
        end = ends[str(partition)]
        left = len(times_ms) - end
        by_split[f"{topic}-{partition}"] = ("reading", int(times_ms[end]) if left else None, left)
    progress = SourceProgress.from_json(
        {
            **dict.fromkeys(("watermark", "bound", "low", "heldBy", "groupBound", "spread", "mostBehind")),
            **dict.fromkeys(("oldestEventTime", "currentFetchEventTimeLag")),
            **dict.fromkeys(("eventTimeLag", "lateRows", "lateRowsTotal", "lookups", "peeks", "inexactSplits"), 0),
            "splits": {},
            "paused": {},
            "timeToDeletion": {},
            "lateSplits": [],
            "plannedRows": batch.rows,
            "rowsRemaining": sum(left for _, _, left in by_split.values()),
            "bySplit": by_split,
        }
    )
    return replace(batch, sources=(replace(batch.source, progress=progress),))
