"""SPARK: Spark drivers in processes of their own."""

from __future__ import annotations

from tidegate.conformance.lab.lab import Lab, after
from tidegate.conformance.lab.spark.driver import another_driver, read_on_cluster
from tidegate.conformance.lab.spark.stream import folder
from tidegate.conformance.rules import Tier, rule


@rule("SPARK-10", tier=Tier.SPARK, witness=("a task that was tried again",))
def a_cluster_reads_it_also_when_tasks_fail(lab: Lab) -> None:
    lab.two_splits(*after(*range(6)))
    source = lab.source(minPartitions="2")
    lab.tell("stream on two executors, where every first attempt of a task fails")
    driver = another_driver(lab, read_on_cluster, source, lab.harness.key_column, str(folder(lab)))
    keys, is_repeated = driver.result()
    if is_repeated:
        lab.saw("a task that was tried again")
    lab.compare(keys, in_order=False)
