"""Programs that run again and again lose no row of a partition that trails the others by nearly the max drift."""

import json
import runpy
import sys

import pytest
from kafka import KafkaProducer
from pyarrow import dataset
from pyspark.sql import SparkSession

from tests.docs.test_recipes import HOURLY, SHARED
from tests.support.pages import ROOT, blocks
from tests.support.streams import HOUR, MINUTE, NOON, new_topic

STEP = MINUTE // 2


@pytest.fixture
def in_session(spark, monkeypatch, tmp_path):
    """Programs run in the Spark of all tests."""
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    yield tmp_path
    spark.conf.set("spark.sql.shuffle.partitions", partitions)


def tutorial(servers, topic, folder):
    program, _ = (block for block in blocks("docs/tutorial.md") if block.language == "python")
    own = {"localhost:9092": servers, '"subscribe", "orders"': f'"subscribe", "{topic}"', '"30 min': '"60 min'}
    own |= {f'"{name}"': f'"{folder}/{name}"' for name in ("counts", "checkpoint", "orders.html")}
    program.with_own(own | {'"31 min': '"61 min'}).run({})


def deployed(servers, topic, folder):
    program = str(ROOT / "examples/deploy/count_orders.py")
    sys.argv[1:] = [servers, topic, folder]
    runpy.run_path(program)


def hourly(servers, topic, folder):
    names = {"spark": SparkSession.active()}
    own = {"localhost:9092": servers, 'subscribe="orders"': f'subscribe="{topic}"'}
    own |= {"/lake/checkpoints/counts": f"{folder}/checkpoint", "/lake": folder}
    for block in (SHARED, HOURLY):
        block.with_own(own).run(names)


def write(kafka, topic, partitions):
    """Write an order for every half minute of each partition's time; return how many."""
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=20)
    written = 0
    for partition, (begin, end) in enumerate(partitions):
        for at in range(begin, end, STEP):
            value = json.dumps({"at": at // 1000, "country": "DE", "amount": 1}).encode()
            producer.send(topic, value=value, partition=partition, timestamp_ms=at)
            written += 1
    producer.close()
    return written


@pytest.mark.parametrize("run", [tutorial, deployed, hourly])
def test_a_program_that_runs_again_loses_no_row_of_a_partition_that_trails(run, kafka, spark, in_session, monkeypatch):
    monkeypatch.setattr(sys, "argv", [""])
    folder, topic = str(in_session), new_topic(kafka, [], [])
    trails = NOON + 61 * MINUTE
    written = write(kafka, topic, [(NOON, NOON + 2 * HOUR), (NOON, trails)])
    run(kafka.bootstrap_servers, topic, folder)
    written += write(kafka, topic, [(NOON + 2 * HOUR, NOON + 3 * HOUR), (trails, NOON + 3 * HOUR)])
    run(kafka.bootstrap_servers, topic, folder)
    rows = dataset.dataset(f"{folder}/counts", format="parquet").to_table().to_pylist()
    still_open = spark.read.format("statestore").load(f"{folder}/checkpoint").selectExpr("sum(value.count)").first()[0]
    assert sum(row.get("orders") or row["count"] for row in rows) + still_open == written
