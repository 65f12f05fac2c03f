"""Windows over Kafka outlive their driver: what comes out is what the pure operator gives for the same batches."""

import json
import random
from pathlib import Path

import numpy as np

from tests.sources.kills import kill_while_it_works, let_end, start_module
from tests.sources.windows.driver import BUCKETS, GAP, LATENESS
from tests.sources.windows.replay import replayed
from tests.support.streams import HOUR, MINUTE, NOON, new_topic
from tidegate.windows import EventTimeSessionWindows
from tidegate.windows.testing import WindowHarness

DRIVER = "tests.sources.windows.driver"
CLUSTER = "local-cluster[2,1,1024]"
HOURS, SESSIONS_AN_HOUR, ROWS_A_SESSION = 6, 20, 12


def disordered(seed):
    """Return event times of sessions with gaps between them: out of order by minutes, and some by far more."""
    dice = np.random.default_rng(seed)
    begins = NOON + np.repeat(np.arange(HOURS * SESSIONS_AN_HOUR) * HOUR // SESSIONS_AN_HOUR, ROWS_A_SESSION)
    times = begins + dice.integers(0, 2 * MINUTE, len(begins))
    times = times[np.argsort(times + dice.integers(0, 4 * MINUTE, len(times)))]
    late = dice.choice(np.arange(len(times) // 8, len(times)), 40, replace=False)
    times[late] -= dice.integers(5 * MINUTE, 40 * MINUTE, len(late))
    return times


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
    harness = WindowHarness(EventTimeSessionWindows.with_gap(GAP), allowed_lateness=LATENESS)
    splits = {f"{topic}-{partition}": (partition, of_partition) for partition, of_partition in enumerate(times)}
    panes, late = replayed(harness, tmp_path / "checkpoint", splits, "offset")
    windows = sorted((*window, len(offsets), sum(offsets)) for *window, offsets in panes)
    assert len(windows) > 200
    assert len(late) > 5
    assert written(spark, tmp_path) == (windows, late)
    # Windows come and go, and state does not grow: parts of buckets, and the witness.
    state = json.loads(Path(tmp_path, "state.json").read_text())
    assert max(state) <= min(BUCKETS, len(times)) + 1
