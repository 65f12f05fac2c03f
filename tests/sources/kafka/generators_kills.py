"""Kills a driver, or its executors, while windows close by marks in a header, and compares the windows with the marks.

python -m tests.sources.kafka.generators_kills [--kills 20] [--seed 0] [--executors]
"""

import argparse
import os
import random
import signal
import tempfile
import time

from pyspark.sql import SparkSession

from tests.sources.kafka.marked_topic import complete_windows, marked_topic
from tests.sources.kills import commits, kill_while_it_works, let_end, log_of, start_module
from tests.sources.s3.kills import executors
from tests.support.waiting import await_that
from tidegate.servers import KafkaServer

CLUSTER = "local-cluster[2,1,1024]"
SPECULATIVE = ("spark.speculation=true", "spark.speculation.multiplier=1", "spark.speculation.quantile=0.5")
WINDOWS_A_KILL = 15


def start_driver(servers, topic, out, *settings):
    return start_module("tests.sources.kafka.generators_driver", out, servers, topic, str(out), *settings)


def closed(spark, out):
    """Return all windows in the output, as sorted (partition, start in seconds, rows)."""
    rows = spark.read.parquet(f"{out}/data").collect()
    return sorted((row["partition"], row["window_start"].timestamp(), row["rows"]) for row in rows)


def survive(kafka, spark, out, kills, seed):
    """Kill the driver a number of times, let it end in peace, and return how often it was really killed.

    Raises AssertionError unless the output then holds each window that marks have completed, whole and once.
    """
    dice, windows = random.Random(seed), WINDOWS_A_KILL * kills
    topic = marked_topic(kafka, windows, seed)
    killed = sum(
        kill_while_it_works(start_driver(kafka.bootstrap_servers, topic, out), out, dice) for _ in range(kills)
    )
    let_end(start_driver(kafka.bootstrap_servers, topic, out), out)
    assert closed(spark, out) == complete_windows(windows)
    return killed


def survive_without_executors(kafka, spark, out, kills, seed):
    """Kill one of two executors a number of times, with speculation on, and return how often.

    Raises AssertionError as ``survive`` does, and if a kill ends the driver.
    """
    dice, windows = random.Random(seed), WINDOWS_A_KILL * (kills + 1)
    topic = marked_topic(kafka, windows, seed)
    driver = start_driver(kafka.bootstrap_servers, topic, out, CLUSTER, *SPECULATIVE)
    killed = 0
    try:
        while killed < kills:
            before = commits(out)
            await_that(
                lambda before=before: commits(out) > before or driver.poll() is not None, 180, lambda: log_of(out)
            )
            time.sleep(dice.uniform(0, 0.6))  # the random moment itself
            if driver.poll() is not None:
                break
            running = executors(driver)
            if running:
                os.kill(dice.choice(running), signal.SIGKILL)
                killed += 1
        let_end(driver, out)
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
    assert closed(spark, out) == complete_windows(windows)
    return killed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--executors", action="store_true", help="kill executors of a cluster, not the driver")
    arguments = parser.parse_args()
    with KafkaServer() as kafka, tempfile.TemporaryDirectory() as out:
        spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
        kill = survive_without_executors if arguments.executors else survive
        killed = kill(kafka, spark, out, arguments.kills, arguments.seed)
        print(f"killed {killed} times; every window closed on its marks, whole and once")


if __name__ == "__main__":
    main()
