"""Random windows: drawn, described to Spark, and what their functions make of the rows of a firing."""

from __future__ import annotations

import random
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

from pyspark.sql import functions as f

import tidegate
from tests.sources.windows.kinds import KINDS, value_of
from tests.windows.traces import assigner_of, evictor_of, ms, random_trace, trigger_of
from tidegate.sources.windows.choice import why_operator
from tidegate.windows import (
    AggregateFunction,
    Process,
    ProcessWindowFunction,
    ValueStateDescriptor,
    WindowOperator,
)

SLOWER = 100  # a clock leaps by the length of a batch, so windows in processing time are so much longer
NUMBERED = "numbered"
MOST_KEYS = max(map(len, KINDS.values()))


@contextmanager
def without_warnings():
    """Let global windows keep state for ever."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "GlobalWindows with .* keeps state for ever")
        yield


class RowsInOrder(ProcessWindowFunction):
    def process(self, key, context, elements):
        return [{"rows": [row["n"] for row in elements], "watermark": context.current_watermark()}]


class CountAndSum(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + 1, accumulator[1] + value["value"]

    def get_result(self, accumulator):
        return {"count": accumulator[0], "sum": accumulator[1]}

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class WithWatermark(ProcessWindowFunction):
    def process(self, key, context, elements):
        return [{"results": list(elements), "watermark": context.current_watermark()}]


class Numbered(ProcessWindowFunction):
    """Numbers the firings of a key, in its state over all windows."""

    def process(self, key, context, elements):
        number = context.global_state().get_state(ValueStateDescriptor("number"))
        number.update((number.value() or 0) + 1)
        return [{"number": number.value()}]


class NumberedInWindow(ProcessWindowFunction):
    """Numbers the firings of a window, in its state."""

    def process(self, key, context, elements):
        number = context.window_state().get_state(ValueStateDescriptor("number"))
        number.update((number.value() or 0) + 1)
        return [{"number": number.value(), "rows": len(elements)}]

    def clear(self, context):
        context.window_state().get_state(ValueStateDescriptor("number")).clear()


def least(one, other):
    return min(one, other, key=lambda row: (row["value"], row["n"]))


def reduced(rows):
    return [reduce(least, rows)] if rows else []


def counted(rows):
    return {"count": len(rows), "sum": sum(row["value"] for row in rows)}


def sql_of(rows):
    known = [row["maybe"] for row in rows if row["maybe"] is not None]
    return {
        "count": len(rows),
        "sum": sum(known) if known else None,
        "least": min(known, default=None),
        "greatest": max(known, default=None),
        "mean": sum(known) / len(known) if known else None,
        "even": sum(number % 2 == 0 for number in known),
    }


SQL = {
    "count": "count(*)",
    "sum": "sum(maybe)",
    "least": "min(maybe)",
    "greatest": "max(maybe)",
    "mean": "avg(maybe)",
    "even": "count_if(maybe % 2 = 0)",
}


class Firing(NamedTuple):
    """A firing of the pure operator; number: of those of its key, or of its window, so far."""

    rows: list
    watermark: int
    number: int


COUNTED = "count bigint, sum bigint"
FUNCTIONS = {
    "rows": (
        lambda w: w.process(RowsInOrder(), "rows array<bigint>, watermark bigint"),
        lambda firing: [{"rows": [row["n"] for row in firing.rows], "watermark": firing.watermark}],
    ),
    "aggregate": (
        lambda w: w.aggregate(CountAndSum(), schema=COUNTED),
        lambda firing: [counted(firing.rows)],
    ),
    "aggregate, process": (
        lambda w: w.aggregate(
            CountAndSum(), WithWatermark(), schema=f"results array<struct<{COUNTED}>>, watermark bigint"
        ),
        lambda firing: [{"results": [counted(firing.rows)], "watermark": firing.watermark}],
    ),
    "reduce": (
        lambda w: w.reduce(least).drop("split", "position", "timestamp"),
        lambda firing: reduced(firing.rows),
    ),
    "reduce, process": (
        lambda w: w.reduce(
            least, WithWatermark(), schema="results array<struct<value bigint, n bigint>>, watermark bigint"
        ),
        lambda firing: [
            {"results": [{"value": row["value"], "n": row["n"]}], "watermark": firing.watermark}
            for row in reduced(firing.rows)
        ],
    ),
    NUMBERED: (
        lambda w: w.process(Numbered(), "number bigint"),
        lambda firing: [{"number": firing.number}],
    ),
    "numbered in window": (
        lambda w: w.process(NumberedInWindow(), "number bigint, rows bigint"),
        lambda firing: [{"number": firing.number, "rows": len(firing.rows)}],
    ),
    "sql": (lambda w: w.aggregate(**SQL), lambda firing: [sql_of(firing.rows)]),
}
"""The results of windows, and what they are by all rows of a firing."""


@dataclass(frozen=True)
class Combination:
    """Random windows.  assigner, trigger, evictor: as in ``tests.windows.traces``; keys: their kinds."""

    number: int
    assigner: list
    trigger: list | None
    evictor: list | None
    lateness: int
    function: str
    keys: tuple[str, ...]
    buckets: int
    has_late: bool

    @property
    def parts(self):
        return assigner_of(self.assigner), trigger_of(self.trigger), evictor_of(self.evictor), ms(self.lateness)

    @property
    def names(self):
        return [f"key_{number}" for number in range(len(self.keys))]

    @property
    def slower(self):
        return SLOWER if self.assigner[0] == "dynamic-processing" else 1

    @property
    def kind(self):
        """Return which query has it: windows of Spark, of event time, or of processing time."""
        assigner, trigger, evictor, lateness = self.parts
        late = "late" if self.has_late else None
        if self.function == "sql" and why_operator(assigner, trigger, evictor, lateness, late) is None:
            return "of Spark"
        with without_warnings():
            operator = WindowOperator(assigner, Process(RowsInOrder()), trigger, evictor, lateness)
        return "in processing time" if operator.processing_time else "in event time"

    def stream(self, rows):
        """Return the windows over the rows of a source, in columns that all combinations have."""
        assigner, trigger, evictor, lateness = self.parts
        windows = tidegate.windowed(self._with_values(rows), self.names, "timestamp").window(assigner)
        windows = windows.allowed_lateness(lateness).buckets(self.buckets)
        windows = windows if trigger is None else windows.trigger(trigger)
        windows = windows if evictor is None else windows.evictor(evictor)
        windows = windows.side_output_late("late") if self.has_late else windows
        results = FUNCTIONS[self.function][0](windows)
        window = {"start": f.unix_millis("window_start"), "end": f.unix_millis("window_end")}
        of_windows = {*self.names, "window_start", "window_end", "output", "late_row"}
        return results.select(
            f.lit(self.number).alias("number"),
            f.to_json(f.struct(*self.names)).alias("key"),
            *(f.when(f.lit(self.function != NUMBERED), time).alias(name) for name, time in window.items()),
            f.to_json(
                f.struct(*(name for name in results.columns if name not in of_windows)), {"ignoreNullFields": "false"}
            ).alias("values"),
            (f.col("late_row.n") if self.has_late else f.lit(None).cast("bigint")).alias("late"),
            f.expr("output = 'late'" if self.has_late else "false").alias("is_late"),
        )

    def _with_values(self, rows):
        """Return rows with the columns of ``values_of_row``, and keys."""
        numbered = rows.withColumn("n", f.expr("position * 2 + IF(split = 'b', 1, 0)"))
        values = {"value": "n * 7 % 31", "gap": f"(1 + n * 5 % 13) * {self.slower}"}
        values["maybe"] = "IF(n % 11 = 3, NULL, n * 17 % 23)"
        values = numbered.withColumns({name: f.expr(text) for name, text in values.items()})
        return self._with_keys(values, f"(n * 13 DIV 4) % {MOST_KEYS}")

    def _with_keys(self, rows, place):
        return rows.withColumns(dict(zip(self.names, (value_of(kind, place) for kind in self.keys), strict=True)))

    def values_of_row(self, number):
        """Return what functions read of a row, by its number, and at which place its keys are."""
        maybe = None if number % 11 == 3 else number * 17 % 23
        row = {"n": number, "value": number * 7 % 31, "gap": (1 + number * 5 % 13) * self.slower, "maybe": maybe}
        return row, number * 13 // 4 % MOST_KEYS

    def expected_results(self, panes, firings):
        """Return the results of panes: group of keys, start, end, and values.

        firings: a counter that goes on from the panes before.
        """
        results = []
        for key, start, end, rows, watermark_ms in panes:
            # Timers of one time fire in any order.
            window = (None, None) if self.function == NUMBERED else (start, end)
            firings[key, window] += 1
            values = FUNCTIONS[self.function][1](Firing(rows, watermark_ms, firings[key, window]))
            results += [(key, *window, value) for value in values]
        return results

    def groups(self, spark):
        """Return the number of its group for each text of a key, and for each place of a key, by Spark's own groups."""
        text = f.to_json(f.struct(*self.names))
        members = f.collect_list(f.struct("id", text)).alias("members")
        keys = self._with_keys(spark.range(MOST_KEYS), "id")
        # Spark's groups have a value of their own, such as 0.0 for -0.0.
        grouped = keys.groupBy(*self.names).agg(members).select("members", text)
        by_text, by_place = {}, {}
        for number, (members, own) in enumerate(grouped.collect()):
            by_text |= {text: number for _, text in members} | {own: number}
            by_place |= {place: number for place, _ in members}
        return by_text, by_place


def combinations(count, seed):
    """Return random combinations."""
    chance = random.Random(seed)
    return [_combination(number, chance) for number in range(count)]


def _combination(number, chance):
    trace = random_trace(chance)
    assigner = ["ALIGNED" if part == "NATURAL" else part for part in trace["assigner"]]
    plain = chance.random() < 0.15 and assigner[0] in ("tumbling-event", "sliding-event")
    merges = assigner[0].startswith(("session", "dynamic"))
    functions = [name for name in FUNCTIONS if name not in ({"numbered in window"} if merges else ())]
    return Combination(
        number,
        [assigner[0], *(_slowed(part) if "processing" in assigner[0] else part for part in assigner[1:])],
        None if plain else _slowed_trigger(trace["trigger"]),
        None if plain else trace["evictor"],
        0 if plain else trace["lateness"],
        "sql" if plain else chance.choice(functions),
        tuple(chance.choice(list(KINDS)) for _ in range(chance.choice([1, 1, 2, 3]))),
        chance.choice([1, 4, 64]),
        not plain and chance.random() < 0.6,
    )


def _slowed(part):
    return part * SLOWER if type(part) is int else part


def _slowed_trigger(trigger):
    if trigger is None:
        return None
    name, *parts = (_slowed_trigger(part) if isinstance(part, list) else part for part in trigger)
    if name == "continuous-processing":
        return [name, parts[0] * SLOWER]
    return [name, parts[0], parts[1] * SLOWER, *parts[2:]] if name == "timeout" else [name, *parts]
