"""Exactly once, whatever dies: a planner, the driver, a Python worker, an executor of a cluster, and a broker.

All queries share two Sparks, and are killed at random moments, which KILLS_SEED in the environment chooses.
"""

import json
import os
import signal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import tidegate
from tests.sources.killable import commits
from tests.sources.kills import (
    AT_FIRST,
    BETWEEN_RUNS,
    Feeder,
    await_commits,
    closed,
    complete_windows,
    ending,
    judge_written,
    kill_while_it_works,
    let_end,
    log_of,
    marked_topic,
    skewed_topic,
    start_module,
    written_before_the_commit,
    written_ids,
)
from tests.support.buckets import Bucket
from tests.support.command import await_that, descendants, dice_of_kills
from tests.support.streams import HOUR, MINUTE, NOON, archive_topic, delete_before, new_topic
from tests.windows.spark.driver import BUCKETS, GAP, LATENESS
from tests.windows.spark.replay import replayed
from tidegate.readers.places.place import Place
from tidegate.sources.s3.options import S3ConnectionOptions
from tidegate.windows import EventTimeSessionWindows
from tidegate.windows.testing import WindowHarness

# The first test waits for all that befalls the queries; one process runs them all, the one that has the session.
pytestmark = [pytest.mark.timeout(900), pytest.mark.usefixtures("spark")]

PARTITIONS = "spark.sql.shuffle.partitions"
# A cluster would give up after ten executors that die.
SETTINGS = {**tidegate.session_conf(), "spark.deploy.maxExecutorRetries": "-1"}
SPECULATIVE = ("spark.speculation=true", "spark.speculation.multiplier=1", "spark.speculation.quantile=0.5")
HOURS, MARKED_WINDOWS = 10, 28
LOCAL_CLUSTER = "local-cluster[2,1,1024]"
WINDOW_HOURS, SESSIONS_AN_HOUR, ROWS_A_SESSION = 6, 20, 12
OBJECTS_A_BATCH = 10
# What the command lines of processes below the driver have in them.
KINDS = {
    "planner": "python_streaming_source_runner",
    "worker": "pyspark.daemon",
    "executor": "CoarseGrainedExecutorBackend",
}


def disordered(seed):
    """Return event times of sessions with gaps between them: out of order by minutes, and some by far more."""
    dice = np.random.default_rng(seed)
    begins = NOON + np.repeat(np.arange(WINDOW_HOURS * SESSIONS_AN_HOUR) * HOUR // SESSIONS_AN_HOUR, ROWS_A_SESSION)
    times = begins + dice.integers(0, 2 * MINUTE, len(begins))
    times = times[np.argsort(times + dice.integers(0, 4 * MINUTE, len(times)))]
    late = dice.choice(np.arange(len(times) // 8, len(times)), 40, replace=False)
    times[late] -= dice.integers(5 * MINUTE, 40 * MINUTE, len(late))
    return times


def folders_of_java(home):
    """Return the settings of temporary folders as YARN has them, below which no path of a Unix socket has room."""
    folder = home / ("of_a_container_of_yarn_" * 4)
    folder.mkdir(exist_ok=True)
    return {f"spark.{process}.extraJavaOptions": f"-Djava.io.tmpdir={folder}" for process in ("driver", "executor")}


@pytest.fixture(scope="module")
def own_bucket(s3):
    bucket = Bucket(s3)
    yield bucket
    bucket.close()


@pytest.fixture(scope="module")
def survived(kafka, s3, own_bucket, tmp_path_factory):
    """What four queries had to read, and the folders in which they wrote, after all that befell them."""
    home, dice = tmp_path_factory.mktemp("killed"), dice_of_kills()
    times = [disordered(seed) for seed in (1, 2)]
    topic, counts = skewed_topic(kafka, HOURS)
    lake = Place(f"s3://{own_bucket.name}/lake", S3ConnectionOptions(**own_bucket.connection).connection)
    more = {"tests.sources.driver": {"archive": lake.location}}
    archive_topic(kafka, topic, lake)
    for partition, count in enumerate(counts):
        delete_before(kafka, topic, count // 2, partition)
    feeder = Feeder(own_bucket, 1)
    feeder.add(AT_FIRST)
    topics = {"tests.windows.spark.driver": new_topic(kafka, *times), "tests.sources.driver": topic}
    topics["tests.sources.driver:start_marked"] = marked_topic(kafka, MARKED_WINDOWS)
    of_topics = [
        (
            module,
            str(home / module.rpartition(":")[2]),
            {"servers": kafka.bootstrap_servers, "topic": topic, **more.get(module, {})},
        )
        for module, topic in topics.items()
    ]
    objects = home / "objects"
    of_objects = {"path": own_bucket.path, "state": str(home / "state"), "files": OBJECTS_A_BATCH}
    folders = [str(objects), *(out for _, out, _ in of_topics)]

    def start(master, partitions, *others, ends):
        given = {PARTITIONS: partitions, **dict(setting.split("=", 1) for setting in others)}
        queries = [("tests.sources.driver:start_objects", str(objects), {**of_objects, "ends": ends}), *of_topics]
        arguments = (master, json.dumps({**SETTINGS, **folders_of_java(home), **given}), json.dumps(queries))
        return start_module("tests.sources.killable", home, *arguments, **s3.environment)

    def numbers_of_commits():
        return {Path(folder).name: commits(folder) for folder in folders}

    def is_struck(kind):
        processes = descendants(driver.pid, KINDS[kind])
        if not processes:
            return False
        try:
            os.kill(dice.choice(processes), signal.SIGKILL)
        except ProcessLookupError:  # it has just ended
            return False
        return True

    def strike(kind):
        await_that(lambda: driver.poll() is not None or is_struck(kind), state=lambda: log_of(home))
        assert driver.poll() is None, log_of(home)

    driver = start("local[2]", 2, ends=False)
    with ending(driver):
        await_commits(driver, home, [objects], dice)
        strike("planner")
        with feeder.adding():  # what comes now is found by a query that runs
            killed = kill_while_it_works(driver, home, dice, folders)
    assert killed, log_of(home)
    committed = [numbers_of_commits()]
    skipped = written_before_the_commit(home / "tests.windows.spark.driver")
    feeder.add(BETWEEN_RUNS)
    # Another number of partitions: a checkpoint keeps to its own.
    driver = start(LOCAL_CLUSTER, 3, *SPECULATIVE, ends=True)
    with ending(driver):
        await_commits(driver, home, folders, dice)
        committed.append(numbers_of_commits())
        strike("worker")
        strike("executor")
        kafka.kill()
        kafka.restart()
        let_end(driver, home)
    committed.append(numbers_of_commits())
    return SimpleNamespace(
        committed=committed,
        log=(home / "driver.log").read_text(),
        counts=counts,
        ids=feeder.ids,
        topics=topics,
        times=times,
        objects=objects,
        rows=home / "tests.sources.driver",
        marks=home / "start_marked",
        windows=home / "tests.windows.spark.driver",
        skipped=skipped,
    )


def test_every_query_is_killed_before_its_last_batches(survived):
    """The driver, and later the executor, were killed while each query was at work."""
    at_the_driver, at_the_executor, at_the_end = survived.committed
    assert min(at_the_driver.values()) > 0
    for query, batches in at_the_end.items():
        assert at_the_driver[query] < at_the_executor[query] < batches, query


def test_a_driver_that_does_not_stop_its_session_ends_without_errors_of_its_bridge_to_java(survived):
    assert "Py4J" not in survived.log


def test_every_record_of_a_topic_is_written_or_set_aside_once(spark, survived):
    """An archive has its first half, and Kafka the other one."""
    judge_written(spark, survived.rows, survived.counts)


def test_every_row_of_objects_that_come_meanwhile_is_written_once(spark, survived):
    assert written_ids(spark, survived.objects) == survived.ids


def test_each_window_closes_on_its_marks_once_also_with_speculative_tasks(spark, survived):
    assert closed(spark, survived.marks) == complete_windows(MARKED_WINDOWS)


def test_windows_are_those_of_the_pure_operator_and_their_state_does_not_grow(spark, survived):
    harness = WindowHarness(EventTimeSessionWindows.with_gap(GAP), allowed_lateness=LATENESS)
    topic = survived.topics["tests.windows.spark.driver"]
    splits = {f"{topic}-{partition}": (partition, times) for partition, times in enumerate(survived.times)}
    panes, late = replayed(harness, survived.windows / "checkpoint", splits, "offset", survived.skipped)
    windows = sorted((*window, len(offsets), sum(offsets)) for *window, offsets in panes)
    assert len(windows) > 200
    assert len(late) > 5
    assert written_windows(spark, survived.windows) == (windows, late)
    # Windows come and go, and state does not grow: of each bucket a header, timers and a page, and the witness.
    state = json.loads((survived.windows / "state.json").read_text())
    assert max(state) <= 3 * min(BUCKETS, len(survived.times)) + 1


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
