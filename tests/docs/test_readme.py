"""The commands of the README do what it says, from the first line to the last, in an empty folder."""

import os
import shlex
import subprocess
import sys
from collections import Counter
from contextlib import nullcontext

import pytest
from pyarrow import dataset
from pyspark.sql import SparkSession

import tidegate
from tests.support.buckets import parquet
from tests.support.command import started
from tests.support.pages import ROOT, blocks
from tests.support.streams import HOUR, MINUTE, NOON
from tests.support.waiting import PATIENCE_S
from tidegate.cli import app
from tidegate.jobs.backfill import run as backfill_run
from tidegate.servers.server import free_ports

ORDERS = {0: 4_320, 1: 4_320, 2: 4_320, 3: 720}  # by partition, one in 5 seconds
HARNESS = "harness:OutboxHarness --rule READ-1"


class Reader:
    """Types what a page says, line by line, with another port, bucket and harness than it names.

    names: what the programs have defined.
    """

    def __init__(self, bucket):
        server = bucket.server
        self._access = {
            "endpoint": server.endpoint,
            "region": server.region,
            "accessKey": server.access_key,
            "secretKey": server.secret_key,
        }
        (port,) = free_ports(1)
        self._own = {
            "localhost:9092": f"localhost:{port}",
            "--port 9092": f"--port {port}",
            "s3://bucket/": f"s3://{bucket.name}/",
            '.format("tidegate_s3")': f'.format("tidegate_s3").options(**{self._access})',
            "mypackage:MyHarness": HARNESS,
        }
        self.names = {}
        self._kafka = None

    def type(self, block):
        own = block.with_own(self._own)
        if own.language == "python":
            own.run(self.names)
            return
        for line in own.text.splitlines():
            program, *arguments = shlex.split(line, comments=True)
            if program.startswith("scripts/"):
                assert os.access(ROOT / program, os.X_OK)  # CI runs the one, and tests/jobs/demo what the other runs
            elif program == "python":
                subprocess.run([sys.executable, ROOT / arguments[0], *arguments[1:]], check=True, timeout=PATIENCE_S)
            elif arguments[0] == "kafka":
                self._kafka = started(*arguments)
                assert self._kafka.__enter__().stdout.readline()
            else:
                self._tidegate(arguments)

    def _tidegate(self, arguments):
        if "--path" in arguments:
            arguments += [text for name, value in self._access.items() for text in ("--option", f"{name}={value}")]
        app(arguments, standalone_mode=False)

    def close(self):
        if self._kafka is not None:
            self._kafka.__exit__(None, None, None)


@pytest.fixture
def reader(bucket):
    made = Reader(bucket)
    yield made
    made.close()


def test_the_readme_runs_from_top_to_bottom(reader, spark, bucket, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stops, read = [], Counter()
    monkeypatch.setattr(SparkSession, "stop", lambda session: stops.append(session))  # noqa: PLW0108 - append is no method
    monkeypatch.setattr(backfill_run, "spark_session", lambda *_: nullcontext(spark))
    for hour in range(3):
        rows = [(10 * hour + n, NOON + hour * HOUR + n * MINUTE) for n in range(10)]
        bucket.client.put_object(Bucket=bucket.name, Key=f"events/{9 - hour}.parquet", Body=parquet(rows))

    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    listener = tidegate.on_progress(spark, lambda name, _, sources: read.update({name: sources[0].planned_rows}))
    try:
        for block in blocks("README.md"):
            reader.type(block)
    finally:
        spark.streams.removeListener(listener)
        spark.conf.set("spark.sql.shuffle.partitions", partitions)

    assert stops == [spark]
    assert sorted(read.values()) == [30, sum(ORDERS.values()), sum(ORDERS.values())]
    written = dataset.dataset("orders", format="parquet").to_table(["partition"])["partition"].to_pylist()
    assert Counter(written) == ORDERS
    assert dataset.dataset("events", format="parquet").count_rows() == 30
    assert reader.names["events"].isStreaming
    assert {"window_start", "rows"} <= set(reader.names["sessions"].columns)
