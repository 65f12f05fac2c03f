"""SPARK: Spark drivers in processes of their own."""

from __future__ import annotations

from pyspark.errors import PySparkException

from tidegate.conformance.abilities import Ability
from tidegate.conformance.declaring import rule
from tidegate.conformance.errors import SkippedError
from tidegate.conformance.lab.lab import BEGIN_MS, SECOND_MS, Lab
from tidegate.conformance.lab.spark.driver import Delivered, another_driver, read_by_connect, read_on_cluster
from tidegate.conformance.lab.spark.stream import folder
from tidegate.conformance.rules import Level, Tier

__all__ = ["check_a_cluster_reads_it_also_when_tasks_fail", "check_spark_connect_reads_it"]


def _written(lab: Lab) -> None:
    for number in range(2 if lab.can(Ability.MANY_SPLITS) else 1):
        lab.split(*(BEGIN_MS + n * SECOND_MS + number for n in range(6)))


@rule(
    "SPARK-10",
    "a cluster reads it, also when tasks fail",
    tier=Tier.SPARK,
    purpose="On a cluster, tasks run in processes that share nothing with the driver. Spark tries failed tasks again, "
    "often elsewhere.",
    tested="A stream runs on a new driver with two executors. Every task fails after its first rows, and Spark tries "
    "it again.",
    passes="Every row is delivered once.",
    look_at=(
        "fields of the source: only values that can be pickled, such as options, and no open resources",
        "files, environment or module variables of the planner process that the reader needs",
        "a reader that takes away or marks the rows that it reads",
    ),
    witness=("a task that was tried again",),
    source="Source: it travels to the planner process and to every executor; SplitReader.read: after a failure",
)
def check_a_cluster_reads_it_also_when_tasks_fail(lab: Lab) -> None:
    """Stream on two executors."""
    _written(lab)
    source = lab.source(minPartitions="2")
    lab.tell("stream on two executors, where every first attempt of a task fails")
    with another_driver(lab) as driver:
        delivered: Delivered = driver.call(read_on_cluster, source, lab.harness.key_column, str(folder(lab)))
    if delivered.retries:
        lab.saw("a task that was tried again")
    lab.tell(f"{len(delivered.keys)} rows came from {delivered.executors} executors")
    lab.compare(delivered.keys, in_order=False)


@rule(
    "SPARK-11",
    "Spark Connect reads it",
    level=Level.SHOULD,
    tier=Tier.SPARK,
    purpose="Notebooks and managed Spark services use clients without Java. A source that needs SparkContext does not "
    "work there.",
    tested="A Spark Connect client, with a server of its own, runs a stream with Trigger.AvailableNow.",
    passes="Every row is delivered once.",
    look_at=(
        "fields of the source that pickle cannot take from the client to the server",
        "any use of sparkContext",
    ),
    source="Source: it travels to the planner process and to every executor",
)
def check_spark_connect_reads_it(lab: Lab) -> None:
    """Stream through Spark Connect."""
    try:
        from pyspark.sql.connect import session  # noqa: F401 - says what is not installed
    except (ImportError, PySparkException) as missing:
        raise SkippedError(f"Spark Connect is not installed: {missing}") from None
    _written(lab)
    source = lab.source()
    lab.tell("stream through Spark Connect")
    with another_driver(lab) as client:
        keys: list[str] = client.call(
            read_by_connect, source, lab.harness.key_column, str(folder(lab)), str(folder(lab))
        )
    lab.compare(keys, in_order=False)
