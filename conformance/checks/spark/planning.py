"""SPARK: the calls of Spark's planner process, without a Spark session."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    ReadMinRows,
)

from tidegate.conformance.abilities import Ability
from tidegate.conformance.lab.lab import Lab, after
from tidegate.conformance.lab.planning import LabClock
from tidegate.conformance.lab.spark.planner import CORES, ReadBatch, stream_by_limit
from tidegate.conformance.rules import Tier, rule
from tidegate.enumerators.contract import SupportsCost
from tidegate.readers.contract import ReadTask

_MAX_ROWS = 3


def _written(lab: Lab) -> int:
    """Write rows, wait until all can be discovered, and return their number."""
    lab.two_splits(*after(*range(5)))
    lab.wait_until_discovered(lab.source())
    return len(lab.rows)


@rule("SPARK-8", tier=Tier.SPARK)
def every_read_limit_is_kept(lab: Lab) -> None:
    rows = _written(lab)
    source = lab.source()
    limits: list[ReadLimit] = [ReadAllAvailable(), ReadMaxRows(_MAX_ROWS), ReadMinRows(1)]
    with closing(source.as_stream().enumerator(None)) as enumerator:
        if isinstance(enumerator, SupportsCost):
            limits += [ReadMaxBytes(1), ReadMaxFiles(1)]
    with closing(lab.elsewhere()) as planner:
        for limit in limits:
            lab.tell(f"plan and read with {limit}")
            batches: list[ReadBatch] = planner.call(stream_by_limit, source, limit, rows)
            keys = [lab.keys(batch.read) for batch in batches]
            lab.compare([key for batch in keys for key in batch], in_order=lab.can(Ability.ROW_POSITIONS))
            most = max(map(len, keys))
            if isinstance(limit, ReadMaxRows) and lab.can(Ability.ROW_POSITIONS):
                lab.expect(
                    most <= _MAX_ROWS, f"a batch has {most} rows, though no more than {_MAX_ROWS} were asked for"
                )
            if isinstance(limit, ReadAllAvailable):
                lab.expect(most == rows, f"ReadAllAvailable should read {rows} rows in one batch, but reads {most}")


@rule("SPARK-9", tier=Tier.SPARK)
def partitions_are_the_same_whenever_they_are_asked_for(lab: Lab) -> None:
    _written(lab)
    source = lab.source(minPartitions="3")
    with closing(lab.elsewhere()) as planner:
        batches: list[ReadBatch] = planner.call(stream_by_limit, source, ReadMaxRows(_MAX_ROWS))
    lab.compare([key for batch in batches for key in lab.keys(batch.read)], in_order=False)
    with closing(lab.open_run(source.as_stream(), LabClock().clocks, CORES)) as run:
        for number, batch in enumerate(batches):
            _expect_same(lab, f"the partitions of batch {number}, asked for twice", batch.tasks, batch.again)
            now = run.tasks(batch.start, batch.end)
            _expect_same(lab, f"the partitions of batch {number}, asked for in two processes", batch.tasks, now)
            empty = run.tasks(batch.end, batch.end)
            lab.expect(not empty, f"between an offset and itself there are {len(empty)} partitions: {empty}")
            state = batch.end.get("enumerator")
            read = [batch_read for task in now for batch_read in source.reader(state).read(task)]
            first, again = sorted(lab.keys(batch.read)), sorted(lab.keys(read))
            lab.expect(first == again, f"batch {number} reads {first}, but {again} after its planner has ended")
            nothing = lab.keys(source.reader(state).read(ReadTask(())))
            lab.expect(not nothing, f"a task without ranges gives the rows {nothing[:3]}")


def _expect_same(lab: Lab, what: str, first: Sequence[ReadTask], second: Sequence[ReadTask]) -> None:
    # Only a read shows whether the details are the same.
    ranges, other = ([task.ranges for task in tasks] for tasks in (first, second))
    if ranges == other:
        return
    number = next((n for n, (a, b) in enumerate(zip(ranges, other, strict=False)) if a != b), -1)
    shown = f"{ranges[number]} and {other[number]}" if number >= 0 else f"{len(ranges)} and {len(other)} of them"
    raise lab.fail(f"{what}, are not the same: {shown}")
