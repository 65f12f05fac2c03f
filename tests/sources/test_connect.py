"""A topic and objects, through Spark Connect."""

import json
import os
import re
import subprocess
import sys

from tests.support.buckets import Bucket
from tests.support.command import PATIENCE_S
from tests.support.streams import HOUR, NOON, even_times, every, new_topic


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
    of_windows, of_archive = report["refused"]
    assert "windows are for a DataFrame of a classic session" in of_windows
    assert "archive() copies in tasks of a classic session" in of_archive
