"""Spark's side of a stateful processor, without Spark: state calls, timers, and batches of rows."""

# ruff: noqa: N802 - the names are Spark's
import pickle
from collections import defaultdict, deque
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo
from pyspark.sql.types import ByteType, IntegerType, LongType, StringType, StructField, StructType

from tidegate.sources.tasks import END_OF_TIME_MS
from tidegate.spark_private import to_arrow_schema
from tidegate.windows import SqlAggregates
from tidegate.windows.spark.buckets import BUCKET, NUMBER, ROWS, TASK, WITNESS, by_bucket
from tidegate.windows.spark.columns.windows import ColumnWindows
from tidegate.windows.spark.keys import comparable
from tidegate.windows.spark.processor import (
    CALL,
    MANY,
    OUTPUT,
    RESULTS,
    TIME,
    WINDOW_END,
    WINDOW_START,
    ProcessorSettings,
    WindowProcessor,
)

PACKED = StructType().add("__key_0", StringType()).add(TIME, LongType()).add("n", IntegerType())
# The types of results; all others are whole numbers.
TYPES = {"numbers": pa.list_(pa.int64()), "longest": pa.duration("us")}
LARGEST_CALL = 1_001_000  # bytes, as state is kept in parts
MOST_WAITING = 32  # calls that fit into the buffers of a socket


def plain(value):
    """Return a value of an array of NumPy as Spark has it: times in microseconds."""
    return int(value.astype(np.int64)) if isinstance(value, np.datetime64) else value


class FakeClient:
    """Answers calls in order, as Spark's client does with its server; ``waits`` counts how often it was waited for."""

    def __init__(self):
        self.answers, self.waits, self._is_waited_for = deque(), 0, True

    def call(self, row=None, status=0):
        """Make a call that Spark answers with a row."""
        self._is_waited_for = False
        self.answers.append((status, "it failed" if status else "", b"" if row is None else pickle.dumps(row)))
        assert len(self.answers) <= MOST_WAITING
        value = self._receive_proto_message()[2]
        return self._deserialize_from_bytes(value) if value else None

    def _receive_proto_message(self):
        self.waits += not self._is_waited_for
        self._is_waited_for = True
        return self.answers.popleft()

    def _deserialize_from_bytes(self, value):
        return pickle.loads(value)  # noqa: S301 - its own


class FakeMapState:
    def __init__(self, handle, name):
        self._handle, self._name = handle, name

    @property
    def values_now(self):
        return self._handle.states[self._name, self._handle.key]

    def iterator(self):
        return iter(list(self.values_now.items()))

    def getValue(self, key):
        self._handle.missed += [key] * (key not in self.values_now)
        return self._handle.client.call(self.values_now.get(key))

    def containsKey(self, key):
        return key in self.values_now

    def updateValue(self, key, value):
        assert sum(len(part) for part in (*key, *value) if isinstance(part, bytes)) < LARGEST_CALL
        self._handle.writes += 1
        self.values_now[key] = value
        self._handle.client.call()

    def removeKey(self, key):
        del self.values_now[key]
        self._handle.client.call()


class FakeSpark:
    """Runs batches as transformWithState does: rows by key first, then the timers that are due."""

    def __init__(
        self,
        operator,
        *,
        late=None,
        buckets=3,
        time_mode="EventTime",
        packed=PACKED,
        event_times=True,
        ahead_ms=None,
        outputs=None,
    ):
        self.states, self.timers, self.key, self.writes = defaultdict(dict), set(), None, 0
        self.client = self._statefulProcessorApiClient = FakeClient()
        self.missed = []  # Spark prints a warning for each
        self.buckets = buckets
        columns, packed = ("__key_0", TIME, "n", "one"), StructType([*packed, StructField("one", ByteType())])
        function = getattr(operator.function, "function", None)
        aggregates = function.aggregates if isinstance(function, SqlAggregates) else {}
        texts = {name: f"{of_rows.function}({of_rows.argument})" for name, of_rows in aggregates.items()}
        names = texts or ["numbers"]
        results = {name: TYPES.get(name, pa.int64()) for name in names}
        keys = {"key": "__key_0"}
        settings = ProcessorSettings(
            operator,
            operator.description,
            buckets,
            packed,
            keys,
            columns,
            results,
            late,
            ("n",),
            outputs or {},
            event_times,
            ahead_ms,
            time_mode,
            texts,
            in_columns=ColumnWindows.takes(operator, to_arrow_schema(packed)),
        )
        self._names = [*keys, WINDOW_START, WINDOW_END, *results]
        self._outputs = {OUTPUT: RESULTS} if late is not None or outputs else {}
        self.time_mode = time_mode
        self.key_type, self.number_type = to_arrow_type(packed[0].dataType), to_arrow_type(packed[2].dataType)
        self.processor = WindowProcessor(settings)
        self.processor.init(self)

    def restarted(self, operator, *, buckets=None):
        """Return a Spark that goes on with the state of this one."""
        again = FakeSpark(operator, buckets=buckets or self.buckets)
        again.states, again.timers = self.states, self.timers
        return again

    def getMapState(self, name, key_schema, value_schema):
        return FakeMapState(self, name)

    def registerTimer(self, time):
        assert (self.key, time) not in self.timers
        self.timers.add((self.key, time))
        self.client.call()

    def deleteTimer(self, time):
        self.timers.remove((self.key, time))
        self.client.call()

    def batch(self, rows, watermark_ms, now_ms=0):
        """Take rows (key, time in ms, n), and return results, as dicts; ``reported`` has what the calls reported."""
        values = SimpleNamespace(
            getCurrentWatermarkInMs=lambda: min(watermark_ms, END_OF_TIME_MS),
            getCurrentProcessingTimeInMs=lambda: now_ms,
        )
        results = []
        for bucket, arrived in self._packed(rows).items():
            self.key = bucket
            results += [
                r.asDict(recursive=True) for r in self.processor.handleInputRows((bucket,), iter(arrived), values)
            ]
        time = min(watermark_ms, END_OF_TIME_MS) if self.time_mode == "EventTime" else now_ms
        for bucket, due in sorted(timer for timer in self.timers if timer[1] <= time):
            self.key = bucket
            expired = ExpiredTimerInfo(due)
            results += [r.asDict(recursive=True) for r in self.processor.handleExpiredTimer((bucket,), values, expired)]
            self.timers.remove((bucket, due))  # Spark would warn of a timer that is gone
        assert not [timer for timer in self.timers if timer[1] <= time]
        assert not self.client.answers
        self.reported = [r[CALL] for r in results if CALL in r]
        return [one for r in results if CALL not in r for one in (self._each(r[MANY]) if MANY in r else [r])]

    def _each(self, arrays):
        """Return the results of a row that holds many."""
        columns = ([*map(plain, column)] for column in arrays.values())
        rows = zip(*columns, strict=True)
        return [{**dict(zip(self._names, row, strict=True)), **self._outputs} for row in rows]

    def stored(self):
        """Return the number of values, without those of the witness."""
        return sum(len(values) for (_, bucket), values in self.states.items() if bucket != WITNESS)

    def _packed(self, rows):
        if not rows:
            return {}
        keys, times, numbers = zip(*rows, strict=True)
        # As in Spark, equal keys of floats are in one bucket.
        places = np.array([sum(map(ord, str(key).lstrip("-"))) % self.buckets for key in keys])
        of_places = np.arange(self.buckets, dtype=np.int32)
        table = pa.table(
            {
                "__key_0": pa.array(keys, self.key_type),
                TIME: pa.array(times, pa.int64()),
                "n": pa.array(numbers, self.number_type),
                "one": pa.array([1] * len(rows), pa.int8()),
            }
        )
        table = comparable(table, ["__key_0"] if pa.types.is_floating(self.key_type) else [])
        rows_by_bucket = defaultdict(list)
        # Two tasks gave two batches each; the last comes first, since Spark does not order them.
        most = -(-len(rows) // 4)
        for part in reversed(range(-(-len(rows) // most))):
            chosen = slice(part * most, (part + 1) * most)
            for row in by_bucket(table[chosen], places[chosen], of_places, *divmod(part, 2)).to_pylist():
                rows_by_bucket[row[BUCKET]].append({TASK: row[TASK], NUMBER: row[NUMBER], ROWS: row[ROWS]})
        return rows_by_bucket
