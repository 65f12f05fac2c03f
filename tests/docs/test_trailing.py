"""Programs that run again and again lose no row of a partition that trails the others by nearly the max drift."""

import json
import re
import runpy
import sys
from datetime import timedelta

import pytest
from kafka import KafkaProducer
from pyarrow import dataset
from pyspark.sql import SparkSession

from tests.docs.test_recipes import HOURLY, SHARED
from tests.support.pages import ROOT, blocks
from tests.support.streams import HOUR, MINUTE, NOON, new_topic
from tidegate.sources.options import parse_duration

DEPLOYED = ROOT / "examples/deploy/count_orders.py"
STEP = MINUTE // 2


@pytest.fixture
def in_session(spark, monkeypatch, tmp_path):
    """Programs run in the Spark of all tests."""
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    yield tmp_path
    spark.conf.set("spark.sql.shuffle.partitions", partitions)


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


def duration(pattern, text):
    (found,) = set(re.findall(pattern, text))
    return parse_duration(found)


def test_a_program_that_runs_again_waits_for_its_max_drift_and_a_minute_for_disorder():
    tutorial, _ = (block.text for block in blocks("docs/tutorial.md") if block.language == "python")
    for program in (tutorial, SHARED.text + HOURLY.text, DEPLOYED.read_text()):
        delay = duration(r'withWatermark\("\w+", "(.*?)"\)', program)
        assert delay - duration(r'"maxDrift"[:,] "(.*?)"', program) == timedelta(minutes=1)


def test_so_it_loses_no_row_of_a_partition_that_trails(kafka, spark, in_session, monkeypatch):
    folder, topic = str(in_session), new_topic(kafka, [], [])
    monkeypatch.setattr(sys, "argv", [DEPLOYED.name, kafka.bootstrap_servers, topic, folder])
    trails = NOON + 61 * MINUTE
    written = write(kafka, topic, [(NOON, NOON + 2 * HOUR), (NOON, trails)])
    runpy.run_path(str(DEPLOYED))
    written += write(kafka, topic, [(NOON + 2 * HOUR, NOON + 3 * HOUR), (trails, NOON + 3 * HOUR)])
    runpy.run_path(str(DEPLOYED))
    rows = dataset.dataset(f"{folder}/counts", format="parquet").to_table().to_pylist()
    still_open = spark.read.format("statestore").load(f"{folder}/checkpoint").selectExpr("sum(value.count)").first()[0]
    assert sum(row["count"] for row in rows) + still_open == written
