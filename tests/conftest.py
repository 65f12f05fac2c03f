"""Fixtures that start real things once for the whole run: Spark, and a Kafka broker."""

import gc
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from functools import cache
from itertools import islice
from pathlib import Path

import botocore.session
import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

import tidegate
from tests.support import class_archive
from tests.support.buckets import Bucket
from tests.support.queues import Queue, QueueServer
from tests.support.quick_run import QuickRun, share_of_examples, try_fewer
from tests.support.servers.registry_server import RegistryServer
from tidegate.jobs.demo.run import built_in_jars
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.servers import KafkaServer, S3Server

# A busy machine is no failure, and the same code passes or fails the same way each time.
settings.register_profile("tests", deadline=None, derandomize=True)
# Tries examples that no run has tried yet: pytest --hypothesis-profile=explore
settings.register_profile("explore", deadline=None)
settings.load_profile("tests")

# Checkpoints, logs and objects of tests do not outlive a run: memory takes them without waiting for a disk.
MEMORY, ENOUGH_BYTES = "/dev/shm", 6 << 30  # noqa: S108 - pytest makes folders of its own there
if os.path.isdir(MEMORY) and shutil.disk_usage(MEMORY).free > ENOUGH_BYTES:  # noqa: PTH112 - there may be none
    os.environ.setdefault("TMPDIR", MEMORY)
    tempfile.tempdir = None  # it may be known already

# Each endpoint of a test has a session of its own, for which botocore would parse its models of services anew.
botocore.session.create_loader = cache(botocore.session.create_loader)

# For the few rows of a test, code that is generated and compiled costs a fifth more than it saves.
INTERPRETED = "-Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN"
# With Spark's default, Hadoop runs ten processes, readlink and chmod, for each file of a local checkpoint.
MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
FILES = f"-Dspark.sql.streaming.checkpointFileManagerClass={MANAGER}"
os.environ.setdefault("SPARK_SUBMIT_OPTS", f"-Dspark.ui.enabled=false {INTERPRETED} {FILES}")

# Python workers find the example's connector as they would find an installed one.
EXAMPLE = Path(__file__).parents[1] / "examples" / "custom_connector"
PLANNERS = Path(__file__).parent / "support" / "planners"
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(EXAMPLE), str(PLANNERS), os.environ.get("PYTHONPATH")]))

# A shell starts what runs in its background with SIGINT ignored, and children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

START_PROGRAMS = {"examples", "jobs", "servers"}

# Tests of ten seconds and more, which wait or start Sparks of their own.  They come first: at the end, the other
# workers would have to wait for them.
LONG = (
    "sources/test_kills.py",
    "killed",
    "[FAULT-6 ",
    "TestS3::test_conforms[WHOLE-",
    "test_at_the_live_edge",
    "demo/test_demo.py",
    "docs/test_readme.py",
    "docs/test_tutorial.py",
    "migrate/test_page.py",
    "kafka/test_alignment.py",
)


def pytest_addoption(parser):
    parser.addoption("--quick", action="store_true", help="leave out what needs a Spark or a server, and what is slow")


def pytest_configure(config):
    """Make the archives that the Javas of the tests use, before workers start and inherit the options."""
    if config.option.quick:
        config.pluginmanager.register(QuickRun({"spark", "kafka", "s3", "sqs", "registry"}))
        # A test that is cut off while it starts a process never learns of that process.
        config.addinivalue_line("filterwarnings", "ignore::pytest.PytestUnraisableExceptionWarning")
    elif not config.option.collectonly:
        if not hasattr(config, "workerinput"):
            os.environ["JDK_JAVA_OPTIONS"] = class_archive.options_with_archive()
        class_archive.let_servers_use_archives()


def pytest_collection_modifyitems(config, items):
    """Let all workers end at the same time, and one of them start no Spark for the session.

    Each worker begins with an even share of the list, and then takes over the end of another worker's share.  So one
    share begins with the tests that start programs.  The others begin with the tests that need the session.  At the
    end of each share are the many tests that take next to no time.
    """
    try_fewer(share_of_examples(config), items)
    groups = {"programs": [], "session": [], "others": []}
    for item in sorted(items, key=lambda item: not any(name in item.nodeid for name in LONG)):
        starts_programs = item.nodeid.split("/")[1] in START_PROGRAMS
        group = "session" if "spark" in item.fixturenames else "programs" if starts_programs else "others"
        groups[group].append(item)
    workers = max(2, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
    session, others, ordered = groups["session"], iter(groups["others"]), []
    places = list(dict.fromkeys(item.parent.nodeid for item in session))  # whose items share what is made for a module
    for worker in range(workers):
        own = places[worker - 1 :: workers - 1]
        first = groups["programs"] if worker == 0 else [item for item in session if item.parent.nodeid in own]
        share = (len(items) - len(ordered)) // (workers - worker)
        ordered += [*first, *islice(others, max(0, share - len(first)))]
    items[:] = [*ordered, *others]


def pytest_collection_finish():
    """Leave what lives as long as the run out of each collection of garbage: they took a tenth of the time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def kafka():
    """One broker for all tests; a test that kills it restarts it."""
    # By default, a controller writes a record twice a second if nothing happens: a quarter of an idle broker's work.
    idle = {"metadata.max.idle.interval.ms": "0"}
    with KafkaServer(properties={"log.cleaner.backoff.ms": "200", **idle}) as server:
        yield server


@pytest.fixture(scope="session")
def registry():
    """One schema registry for all tests; each takes subjects of its own."""
    with RegistryServer() as server:
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
def forks(tmp_path_factory):
    """The address of a process of which the planners of the session are forks."""
    address = str(tmp_path_factory.mktemp("forks") / "socket")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()  # until it has imported what they need, they wait
        number = server.fileno()
        process = subprocess.Popen(
            [sys.executable, PLANNERS / "forks.py", str(number)], stdin=subprocess.PIPE, pass_fds=[number]
        )
    with process:
        yield address


@pytest.fixture(scope="session")
def spark(tmp_path_factory, forks):
    """A session on two cores with every source registered, and Spark's built-in Kafka source to compare with."""
    home = tmp_path_factory.mktemp("spark")
    os.environ["TIDEGATE_FORKS"] = forks
    session = (
        SparkSession.builder.master("local[2]")
        .appName("tidegate tests")
        .config("spark.sql.streaming.stopActiveRunOnRestart", "false")
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
    del os.environ["TIDEGATE_FORKS"]  # it is for the planners of this session alone
    tidegate.register(session)
    yield session
    session.stop()


@pytest.fixture
def evolving(spark):
    """The session, whose queries may add and remove sources, and name them."""
    if spark.version.startswith("4.2."):
        pytest.skip("Spark keeps names of sources from 4.3 on")
    setting = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
    spark.conf.set(setting, "true")
    yield spark
    spark.conf.unset(setting)
