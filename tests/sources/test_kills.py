"""Exactly once, whatever dies: a driver with queries of every kind, then an executor of the cluster that goes on.

All of them share two Sparks, and are killed at one random moment.  The programs ``kills`` do the same with one query at
a time, many times.
"""

import json
import os
import random
import signal
from types import SimpleNamespace

import numpy as np
import pytest

import tidegate
from tests.sources.kafka.generators_kills import CLUSTER, SPECULATIVE, closed
from tests.sources.kafka.marked_topic import complete_windows, marked_topic
from tests.sources.kills import (
    await_commits,
    judge_written,
    kill_while_it_works,
    let_end,
    log_of,
    skewed_topic,
    start_module,
)
from tests.sources.s3 import kills as s3_kills
from tests.sources.windows.driver import BUCKETS, GAP, LATENESS
from tests.sources.windows.replay import replayed
from tests.support.buckets import Bucket
from tests.support.streams import HOUR, MINUTE, NOON, new_topic
from tidegate.windows import EventTimeSessionWindows
from tidegate.windows.testing import WindowHarness

pytestmark = pytest.mark.timeout(900)  # the first test waits for all that befalls the queries

PARTITIONS = "spark.sql.shuffle.partitions"
# A cluster would give up after ten executors that die.
SETTINGS = {**tidegate.session_conf(), "spark.deploy.maxExecutorRetries": "-1"}
HOURS, MARKED_WINDOWS = 8, 40
WINDOW_HOURS, SESSIONS_AN_HOUR, ROWS_A_SESSION = 6, 20, 12


def disordered(seed):
    """Return event times of sessions with gaps between them: out of order by minutes, and some by far more."""
    dice = np.random.default_rng(seed)
    begins = NOON + np.repeat(np.arange(WINDOW_HOURS * SESSIONS_AN_HOUR) * HOUR // SESSIONS_AN_HOUR, ROWS_A_SESSION)
    times = begins + dice.integers(0, 2 * MINUTE, len(begins))
    times = times[np.argsort(times + dice.integers(0, 4 * MINUTE, len(times)))]
    late = dice.choice(np.arange(len(times) // 8, len(times)), 40, replace=False)
    times[late] -= dice.integers(5 * MINUTE, 40 * MINUTE, len(late))
    return times


@pytest.fixture(scope="module")
def survived(kafka, s3, tmp_path_factory):
    """What four queries had to read, and the folders in which they wrote, after all that befell them."""
    home, dice = tmp_path_factory.mktemp("killed"), random.Random(1)
    times = [disordered(seed) for seed in (1, 2)]
    topic, counts = skewed_topic(kafka, HOURS)
    bucket = Bucket(s3)
    feeder = s3_kills.Feeder(bucket, 1)
    feeder.add(s3_kills.AT_FIRST)
    topics = {"tests.sources.windows.driver": new_topic(kafka, *times), "tests.sources.driver": topic}
    topics["tests.sources.kafka.generators_driver"] = marked_topic(kafka, MARKED_WINDOWS)
    queries = [
        (module, str(home / module), {"servers": kafka.bootstrap_servers, "topic": topic})
        for module, topic in topics.items()
    ]
    of_objects = {"path": bucket.path, "state": str(home / "state"), "files": s3_kills.FILES}
    queries.insert(0, ("tests.sources.s3.driver", str(home / "objects"), of_objects))
    folders = [out for _, out, _ in queries]

    def start(master, partitions, *others):
        settings = {**SETTINGS, PARTITIONS: partitions, **dict(setting.split("=", 1) for setting in others)}
        arguments = (master, json.dumps(settings), json.dumps(queries))
        return start_module("tests.sources.killable", home, *arguments, **s3.environment)

    with feeder.adding():
        killed = kill_while_it_works(start("local[2]", 2), home, dice, folders)
    feeder.add(s3_kills.BETWEEN_RUNS)
    # Another number of partitions: a checkpoint keeps to its own.
    driver = start(CLUSTER, 3, *SPECULATIVE)
    try:
        await_commits(driver, home, folders, dice)
        lost = dice.choice(s3_kills.executors(driver))
        os.kill(lost, signal.SIGKILL)
        let_end(driver, home)
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
    assert "Py4J" not in log_of(home)  # though the program does not stop its session
    yield SimpleNamespace(
        killed=killed,
        counts=counts,
        ids=feeder.ids,
        topics=topics,
        times=times,
        objects=home / "objects",
        rows=home / "tests.sources.driver",
        marks=home / "tests.sources.kafka.generators_driver",
        windows=home / "tests.sources.windows.driver",
    )
    bucket.close()


def test_every_record_of_a_topic_is_written_or_set_aside_once(spark, survived):
    assert survived.killed
    judge_written(spark, survived.rows, survived.counts)


def test_every_row_of_objects_that_come_meanwhile_is_written_once(spark, survived):
    assert survived.killed
    assert s3_kills.written(spark, survived.objects) == survived.ids


def test_each_window_closes_on_its_marks_once_also_with_speculative_tasks(spark, survived):
    assert survived.killed
    assert closed(spark, survived.marks) == complete_windows(MARKED_WINDOWS)


def test_windows_are_those_of_the_pure_operator_and_their_state_does_not_grow(spark, survived):
    assert survived.killed
    harness = WindowHarness(EventTimeSessionWindows.with_gap(GAP), allowed_lateness=LATENESS)
    topic = survived.topics["tests.sources.windows.driver"]
    splits = {f"{topic}-{partition}": (partition, times) for partition, times in enumerate(survived.times)}
    panes, late = replayed(harness, survived.windows / "checkpoint", splits, "offset")
    windows = sorted((*window, len(offsets), sum(offsets)) for *window, offsets in panes)
    assert len(windows) > 200
    assert len(late) > 5
    assert written_windows(spark, survived.windows) == (windows, late)
    # Windows come and go, and state does not grow: parts of buckets, and the witness.
    state = json.loads((survived.windows / "state.json").read_text())
    assert max(state) <= min(BUCKETS, len(survived.times)) + 1


def written_windows(spark, out):
    """Return windows as (partition, start, end, rows, sum of offsets), and the offsets of late rows."""
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
