"""Fixtures that start real things once for the whole run: Spark, and a Kafka broker."""

import os
import signal

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

import tidegate
from benchmarks.peers import built_in_jars
from tests.buckets import Bucket
from tests.queues import Queue, QueueServer
from tidegate.readers.s3_config import S3ConnectionConfig
from tidegate.servers import KafkaServer, S3Server

# A machine that is busy is no failure, and the same code passes or fails the same each time.
settings.register_profile("tests", deadline=None, derandomize=True)
# Looks for what no run has tried yet: pytest --hypothesis-profile=explore
settings.register_profile("explore", deadline=None)
settings.load_profile("tests")

# For the seconds that each of many Sparks lives, the second compiler costs more than it saves.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# A shell starts what runs in its background with SIGINT ignored, and children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def kafka():
    """One broker for all tests; a test that kills it restarts it."""
    with KafkaServer() as server:
        yield server


@pytest.fixture(scope="session")
def s3():
    """One S3 endpoint for all tests that do not end it."""
    with S3Server() as server:
        yield server


@pytest.fixture(scope="session")
def s3_config(s3):
    return S3ConnectionConfig(s3.endpoint, s3.region, s3.access_key, s3.secret_key, deadline_s=20)


@pytest.fixture
def bucket(s3):
    """A new bucket."""
    made = Bucket(s3)
    yield made
    made.close()


@pytest.fixture(scope="session")
def sqs():
    """One SQS endpoint for all tests."""
    with QueueServer() as server:
        yield server


@pytest.fixture
def queue(sqs):
    """A new queue."""
    return Queue(sqs)


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """A session on two cores with every source registered, and Spark's built-in Kafka source to compare with."""
    home = tmp_path_factory.mktemp("spark")
    session = (
        SparkSession.builder.master("local[2]")
        .appName("tidegate tests")
        .config("spark.jars", built_in_jars())
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.numRecentProgressUpdates", "10000")
        .config("spark.sql.warehouse.dir", str(home / "warehouse"))
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    tidegate.register(session)
    yield session
    session.stop()
