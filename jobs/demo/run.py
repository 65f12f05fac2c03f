"""The demonstration: the same windowed count over the same skewed history, read in two ways."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.alignment.splits import SplitId
from tidegate.alignment.strategy import WatermarkStrategy
from tidegate.errors import OptionError
from tidegate.jobs.demo.windowed_count import CountRun, count_by_window
from tidegate.jobs.figures import count
from tidegate.jobs.pages.trace import Stretch
from tidegate.jobs.session import ends_on_signals, spark_session
from tidegate.servers import KafkaServer, write_history
from tidegate.sources.kafka.source import KafkaSource
from tidegate.sources.progress.query import QueryProgress

_LEAST_ROWS = 1_000
_TOPIC = "orders"
_HOUR_MS = 3_600_000
_BEGIN_MS = 1_767_225_600_000  # 2026-01-01 00:00 UTC: the same rows on every day
_HOURS = 24
_LATE_HOURS = 2
_SHARES = (10, 10, 10, 3)  # the share of the rows in each partition; the last partition is the late one
_BATCHES_BY_BACKLOG = 16.5
_MAX_DRIFT = timedelta(hours=1)
_OUT_OF_ORDERNESS = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Demo:
    """The runs, and the history that they have read."""

    history: dict[SplitId, Stretch]
    runs: tuple[CountRun, ...]


def skewed_history(rows: int) -> list[NDArray[np.int64]]:
    """Return the event times, in ms, of each partition of a topic with this number of rows.

    Three partitions hold 24 hours; the last was added late and holds the last 2 of them.
    """
    counts = [rows * share // sum(_SHARES) for share in _SHARES]
    counts[0] += rows - sum(counts)
    hours = [*[_HOURS] * (len(counts) - 1), _LATE_HOURS]
    end_ms = _BEGIN_MS + _HOURS * _HOUR_MS
    return [
        np.linspace(end_ms - length * _HOUR_MS, end_ms, number, endpoint=False).astype(np.int64)
        for number, length in zip(counts, hours, strict=True)
    ]


def run_demo(rows: int, say: Callable[[str], None]) -> Demo:
    """Start a Kafka, load it, and count its rows by window, unaligned and aligned.

    say: takes a short sentence about the current step.

    Raises ServerError when Kafka or Java cannot be started.
    """
    if rows < _LEAST_ROWS:
        raise OptionError(f"--rows is {rows}, but the demonstration needs at least {count(_LEAST_ROWS)}")
    settings = {"spark.sql.shuffle.partitions": str(os.cpu_count() or 1)}
    with ends_on_signals(), tempfile.TemporaryDirectory(prefix="tidegate-demo-") as folder:
        work = Path(folder)
        say("Starting Kafka")
        with KafkaServer() as kafka:
            say(f"Loading {count(rows)} rows")
            history = skewed_history(rows)
            stretches = {
                f"{_TOPIC}-{partition}": Stretch(int(times_ms[0]), int(times_ms[-1]))
                for partition, times_ms in enumerate(history)
            }
            kafka.create_topic(_TOPIC, len(history))
            for partition, times_ms in enumerate(history):
                write_history(kafka.bootstrap_servers, _TOPIC, partition, times_ms)
            say("Starting Spark")
            with spark_session("local[*]", "tidegate demo", work / "spark.log", settings) as spark:
                unaligned, aligned = _sources(kafka.bootstrap_servers, rows)
                # This warms up the code of both runs, so that neither pays for it.
                rows_in = aligned.read(spark).count()

                def counted(name: str, source: KafkaSource, delay: str) -> CountRun:
                    return count_by_window(
                        spark,
                        source.read_stream(spark),
                        name=name,
                        delay=delay,
                        rows_in=rows_in,
                        work=work / name,
                        on_batch=lambda batch: say(_sentence(name, batch, rows_in)),
                    )

                return Demo(
                    stretches, (counted("unaligned", unaligned, "10 minutes"), counted("aligned", aligned, "1 minute"))
                )


def _sources(bootstrap_servers: str, rows: int) -> tuple[KafkaSource, KafkaSource]:
    common: dict[str, Any] = {"bootstrap_servers": bootstrap_servers, "subscribe": (_TOPIC,)}
    common["starting_offsets"] = "earliest"
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(_OUT_OF_ORDERNESS)
    return (
        KafkaSource(**common, alignment="none", max_offsets_per_trigger=round(rows / _BATCHES_BY_BACKLOG)),
        KafkaSource(**common, watermarks=strategy.with_watermark_alignment(max_drift=_MAX_DRIFT)),
    )


def _sentence(name: str, batch: QueryProgress, rows: int) -> str:
    left = sum(progress.rows_remaining for progress in batch.source_progress)
    return f"Counting {name}: batch {batch.number}, {count(rows - left)} of {count(rows)} rows read"
