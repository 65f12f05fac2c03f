"""Random windows on real Spark, compared row by row with the pure operator.

python -m tests.sources.windows.random_combinations [--combinations 60] [--seed 1]

Assigner, trigger, evictor, allowed lateness, function, kinds of keys and side output are drawn at random.  Many
combinations share one query, which is restarted in the middle.  The checkpoint tells which rows, watermark and time of
the clock each batch had, so windows in processing time are compared, too.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import tidegate
from tests.sources.memory import MemoryEnumerator, MemorySource, append, load
from tests.sources.windows.combinations import combinations, without_warnings
from tests.sources.windows.replay import FIRST_SOURCE, watermark_of_spark
from tests.support.streams import finish, running, start
from tests.support.waiting import await_that
from tests.windows.traces import ms
from tidegate import WatermarkStrategy
from tidegate.sources.windows.native import AHEAD_MS
from tidegate.windows.testing import WindowHarness

A_QUERY = 12  # combinations, at most
BASES = (0, -50, 1461756862000)  # in the second, windows are from before and after 1970
ROWS, A_BATCH = 90, 60


class BoundedEnumerator(MemoryEnumerator):
    def stops(self, splits):
        return dict.fromkeys(splits, ROWS)


class BoundedSource(MemorySource):
    """Ends with the rows that are there, so its last watermark is plus infinity."""

    connector = "bounded_memory"

    def enumerator(self, state):
        return BoundedEnumerator(self.path)


def random_source(chance, folder):
    """Return a source of two splits, out of order, with rows that come late, and the event times of rows to come."""
    base, disorder = chance.choice(BASES), chance.randint(0, 12)
    times = {
        name: [
            base + number * 2 + chance.randint(0, 15) - (chance.randint(10, 60) if chance.random() < 0.1 else 0)
            for number in range(ROWS)
        ]
        for name in "ab"
    }
    path, first = str(Path(folder, "splits.json")), chance.randint(1, ROWS - 1)
    append(path, **{name: at[:first] for name, at in times.items()})
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(ms(disorder))
    kind = chance.choice([MemorySource, BoundedSource])
    source = kind(path=path, watermarks=strategy, max_rows_per_trigger=A_BATCH)
    return source, {name: at[first:] for name, at in times.items()}


class BatchOfQuery:
    """A batch by its note in the checkpoint: its watermark and time in ms, and how far it has read each source."""

    def __init__(self, note):
        lines = note.read_text().splitlines()
        told = json.loads(lines[FIRST_SOURCE - 1])
        self.watermark_ms, self.now_ms = told["batchWatermarkMs"], told["batchTimestampMs"]
        self.positions = [json.loads(line).get("positions", {}) for line in lines[FIRST_SOURCE:]]


def compared(spark, chosen, source, to_come, folder):
    """Run combinations of one kind as one query; yield each with its differences, and how many rows it gave.

    to_come: event times of rows that come before a restart of the query; without any it is not restarted.
    """
    got, checkpoint = {}, Path(folder, "checkpoint")

    def keep(batch, number):
        got[number] = batch.collect()

    with without_warnings():
        for rows in [{}, to_come] if to_come else [{}]:
            append(source.path, **rows)
            union = reduce(DataFrame.union, [combination.stream(source.read_stream(spark)) for combination in chosen])
            if chosen[0].kind == "in processing time":
                run_until_timers_fired(union, checkpoint, keep, got, source)
            else:
                finish(start(union, checkpoint, keep, availableNow=True))
        notes = sorted(Path(checkpoint, "offsets").glob("[0-9]*"), key=lambda note: int(note.name))
        batches = {int(note.name): BatchOfQuery(note) for note in notes}
        for place, combination in enumerate(chosen):
            ends = {number: (batch, batch.positions[place]) for number, batch in batches.items()}
            yield combination, *differences(combination, spark, load(source.path), got, ends)


def run_until_timers_fired(windows, checkpoint, keep, got, source):
    """Run windows in processing time, which do not end by themselves, until some batches had no rows."""
    ends = {split: len(rows) for split, rows in load(source.path).items()}

    def has_read_all():
        sources = query.lastProgress.sources if query.lastProgress else []
        reached = [json.loads(of_source.endOffset).get("positions") for of_source in sources]
        return bool(reached) and all(positions == ends for positions in reached)

    query = start(windows, checkpoint, keep, processingTime="300 milliseconds")
    with running(query):
        await_that(lambda: query.exception() or has_read_all())
        enough = len(got) + 4
        await_that(lambda: query.exception() or len(got) > enough)
    if query.exception():
        raise query.exception()


def differences(combination, spark, splits, got, batches):
    """Return in which batches Spark's rows differ from those of the pure operator, and how many rows Spark gave.

    splits: their rows.  got: Spark's rows by batch.  batches: with how far each has read the source.
    """
    assert got.keys() >= batches.keys() - {max(batches)}  # Spark may have been stopped in its last batch
    by_text, by_place = combination.groups(spark)
    expected = replayed(combination, by_place, splits, batches)
    wrong, count = [], 0
    for batch, rows in got.items():
        mine = [row for row in rows if row.number == combination.number]
        count += len(mine)
        results = [(by_text[row.key], row.start, row.end, json.loads(row["values"])) for row in mine if not row.is_late]
        late = [row.late for row in mine if row.is_late]
        for one, other in zip((results, late), expected[batch], strict=True):
            if sorted(one, key=str) != sorted(other, key=str):
                texts, expected_texts = Counter(map(str, one)), Counter(map(str, other))
                missing, more = (expected_texts - texts).elements(), (texts - expected_texts).elements()
                wrong.append(f"batch {batch} misses {[*missing][:5]} and has instead {[*more][:5]}")
    return wrong, count


def replayed(combination, groups, splits, batches):
    """Return what the pure operator makes of each batch: results, and late rows, if they are kept.

    groups: of keys, by their places.
    """
    harness, expected = WindowHarness(*combination.parts), {}
    ends, firings = dict.fromkeys(splits, 0), Counter()
    for number, (batch, positions) in batches.items():
        harness.watermark(watermark_of_spark(batch.watermark_ms, AHEAD_MS if combination.kind == "of Spark" else 0))
        harness.processing_time(batch.now_ms)
        for split in sorted(splits):
            end = positions.get(split, ends[split])
            for position, at in splits[split][ends[split] : end]:
                row, place = combination.values_of_row(position * 2 + (split == "b"))
                harness.element(groups[place], row, at)
            ends[split] = end
        results = combination.expected_results(harness.panes, firings)
        expected[number] = results, [row["n"] for row in harness.late] if combination.has_late else []
        harness.panes.clear()
        harness.late.clear()
    return expected


def queries(chosen):
    """Return combinations in lists, each of one kind, and short enough for one query."""
    by_kind = defaultdict(list)
    for combination in chosen:
        by_kind[combination.kind].append(combination)
    return [
        of_kind[begin : begin + A_QUERY] for of_kind in by_kind.values() for begin in range(0, len(of_kind), A_QUERY)
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--combinations", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    settings = {**tidegate.session_conf(worker_daemon=True), "spark.sql.streaming.minBatchesToRetain": 10_000}
    settings |= {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": 1}
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    chance, equal = random.Random(asked.seed), 0
    for chosen in queries(combinations(asked.combinations, asked.seed)):
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            source, to_come = random_source(chance, folder)
            try:
                for combination, wrong, count in compared(spark, chosen, source, to_come, folder):
                    equal += not wrong
                    print(
                        "\n    ".join([f"{'DIFFERS' if wrong else 'equal'}: {count} rows: {combination}", *wrong[:2]])
                    )
            except Exception:  # noqa: BLE001 - whatever it is, the others go on
                print(f"{traceback.format_exc()}{chosen}")
        print(f"  {len(chosen)} {chosen[0].kind}, {type(source).__name__}, in {time.monotonic() - began:.0f} s")
    print(f"seed {asked.seed}: {equal} of {asked.combinations} combinations are equal")
    sys.exit(equal < asked.combinations)


if __name__ == "__main__":
    main()
