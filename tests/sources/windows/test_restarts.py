"""Windows over Kafka outlive their driver: what comes out is what the pure operator gives for the same batches."""

import json
import random
from pathlib import Path

import numpy as np

from tests.sources.kills import kill_while_it_works, let_end, start_module
from tests.sources.windows.driver import BUCKETS, GAP, LATENESS
from tests.support.streams import HOUR, MINUTE, NOON, new_topic
from tidegate.enumerators.planning.offset import Offset
from tidegate.windows import EventTimeSessionWindows
from tidegate.windows.testing import WindowHarness
from tidegate.windows.window import MAX_TIME, MIN_TIME

DRIVER = "tests.sources.windows.driver"
CLUSTER = "local-cluster[2,1,1024]"
HOURS, SESSIONS_AN_HOUR, ROWS_A_SESSION = 8, 15, 12


def disordered(seed):
    """Return event times of sessions with gaps between them: out of order by minutes, and some by far more."""
    dice = np.random.default_rng(seed)
    begins = NOON + np.repeat(np.arange(HOURS * SESSIONS_AN_HOUR) * HOUR // SESSIONS_AN_HOUR, ROWS_A_SESSION)
    times = begins + dice.integers(0, 2 * MINUTE, len(begins))
    times = times[np.argsort(times + dice.integers(0, 4 * MINUTE, len(times)))]
    late = dice.choice(np.arange(len(times) // 8, len(times)), 40, replace=False)
    times[late] -= dice.integers(5 * MINUTE, 40 * MINUTE, len(late))
    return times


def batches(out):
    """Return how far each batch of a checkpoint came."""
    logs = sorted(Path(out, "checkpoint", "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    return [Offset.from_json(json.loads(log.read_text().splitlines()[-1])).progress for log in logs]


def expected(topic, times, out):
    """Hand the batches that the checkpoint tells of to the pure operator; return its windows and late rows."""
    harness = WindowHarness(EventTimeSessionWindows.with_gap(GAP), allowed_lateness=LATENESS)
    begins = dict.fromkeys(range(len(times)), 0)
    for batch in batches(out):
        for partition, begin in begins.items():
            end = batch.positions.get(f"{topic}-{partition}", begin)
            for position in range(begin, end):
                harness.element(partition, {"offset": position}, int(times[partition][position]))
            begins[partition] = end
        harness.watermark(MAX_TIME if batch.ended else batch.watermark_ms or MIN_TIME)
    offsets = [(pane.key, pane.start_ms, pane.end_ms, [row["offset"] for row in pane.rows]) for pane in harness.panes]
    return (
        sorted((*window, len(rows), sum(rows)) for *window, rows in offsets),
        sorted(row["offset"] for row in harness.late),
    )


def written(spark, out):
    rows = spark.read.parquet(f"{out}/data").selectExpr(
        "partition", "unix_millis(window_start) start", "unix_millis(window_end) end", "rows", "total", "late_offset"
    )
    windows, late = [], []
    for row in rows.collect():
        if row.late_offset is None:
            windows.append((row.partition, row.start, row.end, row.rows, row.total))
        else:
            late.append(row.late_offset)
    return sorted(windows), sorted(late)


def test_windows_of_a_killed_driver_that_goes_on_in_a_cluster_are_those_of_the_pure_operator(spark, kafka, tmp_path):
    times = [disordered(seed) for seed in (1, 2)]
    topic = new_topic(kafka, *times)
    start = lambda *arguments: start_module(  # noqa: E731
        DRIVER, tmp_path, kafka.bootstrap_servers, topic, str(tmp_path), *arguments
    )
    assert kill_while_it_works(start("2"), tmp_path, random.Random(1))
    # Another number of partitions: a checkpoint keeps to its own.
    let_end(start("3", CLUSTER), tmp_path)
    windows, late = expected(topic, times, tmp_path)
    assert len(windows) > 200
    assert len(late) > 5
    assert written(spark, tmp_path) == (windows, late)
    # Windows come and go, and state does not grow: parts of buckets, and the witness.
    state = json.loads(Path(tmp_path, "state.json").read_text())
    assert max(state) <= min(BUCKETS, len(times)) + 1
