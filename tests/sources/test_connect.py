"""Several sources at once: a topic and objects in one query and in a group, and through Spark Connect."""

import json
import os
import re
import subprocess
import sys
from datetime import datetime, timezone

import numpy as np

from tests.support.buckets import Bucket
from tests.support.command import PATIENCE_S
from tests.support.kafka.lab import Lab, Record, encode
from tests.support.pages import blocks
from tests.support.streams import (
    HOUR,
    MINUTE,
    NOON,
    available_now,
    even_times,
    every,
    milliseconds,
    new_topic,
)


def test_a_spark_connect_client_reads_aligned_and_sizes_its_batches_without_a_listener(kafka, s3, tmp_path):
    topic = new_topic(kafka, even_times(NOON, NOON + 3 * HOUR, 3000), even_times(NOON + 2 * HOUR, NOON + 3 * HOUR, 500))
    bucket = Bucket(s3)
    bucket.put("a.txt", b"one\ntwo\n")
    bucket.put("b.txt", b"three\n")
    bucket.close()
    objects = {
        "path": bucket.path,
        "fileFormat": "text",
        "eventTime": "lastModified",
        **bucket.options,
        "stateLocation": f"s3://{bucket.name}/state",
    }
    client = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.sources.connect",
            kafka.bootstrap_servers,
            topic,
            json.dumps(objects),
            str(tmp_path),
        ],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},  # of the server, which the client starts
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert client.returncode == 0, client.stderr[-3000:]
    assert "Failed to remove the listener" not in client.stderr
    # PySpark's own client may release an answer in the background after it has closed the session.
    assert {*re.findall(r"SparkConnect(\w+)Handler\.handle", client.stderr)} <= {"ReleaseExecute"}
    assert "SESSION_CLOSED" not in client.stderr or "SparkConnectReleaseExecuteHandler" in client.stderr
    report = json.loads(client.stdout)
    assert report["batch"] == 3500
    assert report["typed"] == [20, "struct<n:int>"]
    assert [tuple(row) for row in report["rows"]] == every([3000, 500])
    assert report["texts"] == ["one", "three", "two"]
    assert report["batches"] >= 4  # one an hour, and the first holds 1,000 rows at most
    assert report["watermark"] == "2023-11-15T14:59:52.799000+00:00"
    assert "windows are for a DataFrame of a classic session" in report["windows"]


IN_AN_OBJECT = 30 * MINUTE  # an object is read whole


def test_an_archive_without_offsets_is_cut_at_an_event_time(spark, kafka, bucket, tmp_path):
    """The objects hold four hours, and the topic has the records from the second hour on, out of order."""
    times, cut_ms = even_times(NOON, NOON + 6 * HOUR, 360), NOON + 3 * HOUR
    for hour in range(4):
        here = slice(60 * hour, 60 * hour + 60)
        bucket.put_rows(f"{hour}.parquet", list(zip(range(360)[here], times[here].tolist(), strict=True)))
    numbers = np.arange(120, 360)
    numbers[59], numbers[62] = numbers[62], numbers[59]
    topic = new_topic(kafka, [])
    Lab(kafka).append(topic, encode([Record(int(times[number]), value=b"%06d" % number) for number in numbers]))
    cut, earlier = (datetime.fromtimestamp(at / 1000, timezone.utc).isoformat() for at in (cut_ms, cut_ms - 3 * MINUTE))
    own = {
        "2026-11-01T00:00:00Z": cut,
        "startingTimestamp=cut": f"startingTimestamp='{earlier}'",
        "localhost:9092": kafka.bootstrap_servers,
        'subscribe="orders"': f'subscribe="{topic}"',
        "s3://lake/orders": bucket.path,
        "s3://lake/state": str(tmp_path / "state"),
        '.format("tidegate_s3")': f'.format("tidegate_s3").options(**{bucket.options})',
    }
    names = {"spark": spark}
    recipe = [block for block in blocks("docs/archive.md") if "unionByName" in block.text]
    recipe[0].with_own(own).run(names)
    run = available_now(names["orders"], tmp_path / "checkpoint")
    assert sorted(row["id"] for row in run.all_rows) == [*range(360)]
    assert run.furthest_ahead(lambda row: milliseconds(row["at"])) <= HOUR + IN_AN_OBJECT

    recipe[0].with_own({**own, "s3://lake/state": str(tmp_path / "state of both")}).run(names)
    overlapping = names["older"].unionByName(names["newer"]).withWatermark("at", "2 hours")
    run = available_now(overlapping.dropDuplicatesWithinWatermark(["id"]), tmp_path / "checkpoint of both")
    assert sorted(row["id"] for row in run.all_rows) == [*range(360)]
    assert sum(progress.numInputRows for progress in run.progress.values()) > 360
