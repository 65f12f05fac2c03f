"""Pages of keys: as a dictionary would keep them, at the cost of the keys that a batch touches."""

import base64
import gzip
import json
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import DoubleType, StructField, StructType

from tests.windows.spark.fakes import PACKED
from tests.windows.spark.pairs import SQL, Numbers, spark_of
from tidegate.errors import CheckpointError
from tidegate.windows import Aggregate, Process
from tidegate.windows.spark import pages, state
from tidegate.windows.spark.keys import hashes
from tidegate.windows.spark.pages import EVENT, NEVER, PROCESSING, Kept, Pages
from tidegate.windows.window import MAX_TIME, MIN_TIME

STORED = Path(__file__).parent / "stored.json.gz"


SCHEMA = pa.schema([("key", pa.string()), (EVENT, pa.int64()), (PROCESSING, pa.int64()), ("value", pa.binary())])


class Store:
    def __init__(self):
        self.values, self.reads, self.writes = {}, 0, 0

    def read(self, kind, numbers):
        self.reads += len(numbers)
        return {number: self.values[kind, number] for number in numbers if (kind, number) in self.values}

    def write(self, kind, number, value):
        self.writes += 1
        if value is None:
            self.values.pop((kind, number), None)
        else:
            self.values[kind, number] = value


class Opened:
    """Pages that are opened anew for each batch, as Spark does."""

    def __init__(self):
        self.store, self.kept = Store(), Kept()

    def batch(self, puts, event_ms=MIN_TIME, processing_ms=MIN_TIME):
        """Set the rows of keys; return the rows that were read, by key, and the first timers afterwards."""
        opened = Pages(self.store, SCHEMA, ["key"], Kept(*json.loads(json.dumps(self.kept))))
        keys = pa.table({"key": pa.array(puts, pa.string())})
        rows = (row.values() for row in opened.touched(keys, event_ms, processing_ms).to_pylist())
        read = {key: tuple(others) for key, *others in rows}
        left = {key: row for key, row in {**read, **puts}.items() if row is not None}
        columns = [[*left], *zip(*left.values(), strict=True)] if left else [[]] * 4
        opened.replace(pa.table([pa.array(*pair) for pair in zip(columns, SCHEMA.types, strict=True)], schema=SCHEMA))
        self.kept = opened.kept
        return read, opened.next_timers()


timers = st.one_of(st.just(NEVER), st.integers(0, 50), st.just(NEVER - 1), st.just(MIN_TIME))
rows = st.one_of(st.none(), st.tuples(timers, timers, st.one_of(st.none(), st.binary(max_size=60))))
puts = st.dictionaries(st.integers(0, 30).map("key {}".format), rows, max_size=40)
clocks = st.one_of(st.integers(0, 50), st.just(MAX_TIME), st.just(MIN_TIME))


@settings(max_examples=100)
@given(batches=st.lists(st.tuples(puts, clocks, clocks), max_size=8))
def test_pages_keep_what_a_dictionary_keeps_and_leave_nothing_behind(batches):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pages, "_MEAN", 60)
        patched.setattr(pages, "_LARGE_MEAN", 240)
        patched.setattr(pages, "_STREAK", 1)
        patched.setattr(pages, "_BLOCK", 3)
        opened, model = Opened(), {}
        for changes, event_ms, processing_ms in batches:
            limits = min(event_ms, NEVER - 1), min(processing_ms, NEVER - 1)
            due = {key for key, row in model.items() if row[0] <= limits[0] or row[1] <= limits[1]}
            read, firsts = opened.batch(changes, event_ms, processing_ms)
            assert read.items() <= model.items()
            assert read.keys() >= due | (changes.keys() & model.keys())
            model = {key: row for key, row in {**model, **changes}.items() if row is not None}
            wanted = (min((row[kind] for row in model.values()), default=NEVER) for kind in (0, 1))
            assert firsts == tuple(None if first == NEVER else first for first in wanted)
        opened.batch(dict.fromkeys(model))
        assert (opened.store.values, *opened.kept[:2]) == ({}, 1, 0)
        assert len(opened.kept[2]) <= 1


def values_of(numbers, byte):
    return {f"key {n}": (n, NEVER, byte * 100) for n in numbers}


def test_a_batch_touches_the_pages_of_its_keys_whatever_is_open():
    opened = Opened()
    opened.batch(values_of(range(50_000), b"x"))
    assert opened.kept[0] > 1_000
    assert max(map(len, opened.store.values.values())) < 20_000
    opened.store.reads = opened.store.writes = 0
    read, _ = opened.batch(values_of(range(49_990, 50_000), b"y"), 9)
    assert read.keys() >= {f"key {n}" for n in range(10)}
    assert opened.store.writes < 30
    assert opened.store.reads < 60


def test_pages_are_large_while_batches_touch_most_of_them():
    opened = Opened()
    for _ in range(2):
        opened.batch(values_of(range(20_000), b"x"))
    assert opened.kept[0] > 1_000
    opened.batch(values_of(range(20_000), b"x"))
    assert opened.kept[0] < 400
    opened.batch(values_of(range(10), b"x"))
    assert opened.kept[0] > 1_000


def test_a_large_value_does_not_make_pages_for_itself():
    opened = Opened()
    opened.batch({"large": (1, NEVER, b"x" * 10_000_000), "small": (2, NEVER, b"x")})
    assert opened.kept[0] <= 3


KEYS = [
    pa.array(["", "a", "b", "ab", "ba", "\N{SNOWMAN}", None, "a" * 5_000]),
    pa.array([b"", b"\x00", b"\x00\x00", None]),
    pa.array([0, 1, -1, 2**62, None]),
    pa.array([1, 2, None], pa.int16()),
    pa.array([0.0, 1.5, float("nan"), None]),
    pa.array([True, False, None]),
    pa.array([Decimal("1.50"), Decimal("-0.01"), Decimal("99999999999999999999.99"), None]),
    pa.array([datetime(2026, 1, 1, tzinfo=timezone.utc), None], pa.timestamp("us", "UTC")),
    pa.array([date(1, 1, 1), None]),
    pa.array([timedelta(days=-1), None]),
    pa.nulls(1),
]


def test_the_hash_of_a_key_never_changes_and_does_not_depend_on_its_place():
    found = []
    for values in KEYS:
        of_column = hashes(pa.table({"key": values}))
        assert len({*of_column.tolist()}) == len(values)
        assert hashes(pa.table({"key": values.slice(1)})).tolist() == of_column[1:].tolist()
        found.append(of_column)
    of_two = hashes(pa.table({"one": ["a", "b"], "two": ["b", "a"]}))
    assert of_two[0] != of_two[1]
    # State is found by them: if this differs, a checkpoint of an earlier version loses its keys.
    assert blake2b(np.concatenate([*found, of_two]).tobytes(), digest_size=8).hexdigest() == "28ad95e9ec55adab"


SESSIONS, TUMBLING = "sessions with lateness", "tumbling with lateness"
STATES = {
    "texts by key": (SESSIONS, Process(Numbers())),
    "floats by key": (SESSIONS, Process(Numbers())),
    "texts in columns": (SESSIONS, Aggregate(SQL)),
    "floats in columns": (TUMBLING, Aggregate(SQL)),
    "texts with a trigger": ("sessions continuous", Aggregate(SQL)),
    "floats with a trigger": ("counted with lateness", Aggregate(SQL)),
    "texts by the clock": ("sessions by clock continuous", Aggregate(SQL)),
    "floats by the clock": ("by clock counted", Aggregate(SQL)),
    "texts of all times": ("global purging at the end", Aggregate(SQL)),
    "texts by both clocks": ("tumbling fired by clock", Aggregate(SQL)),
    "texts with a time-out": ("tumbling with a time-out", Aggregate(SQL)),
}


def keys_of(name):
    if name.startswith("floats"):
        return [0.0, -0.0, float("nan"), 1.5]
    return ["a", "b", None, "long" * 2000, *(f"key {n}" for n in range(20))]


def begun(name):
    """Return windows with the state that is stored."""
    key_type = StructField("__key_0", DoubleType()) if name.startswith("floats") else PACKED.fields[0]
    spark = spark_of(*STATES[name], buckets=2, packed=StructType([key_type, *PACKED.fields[1:]]))
    keys = keys_of(name)
    spark.batch([(keys[n % len(keys)], n, n % 10) for n in range(1, 200)], MIN_TIME, 3)
    return spark


def stored_now():
    """Return what ``stored.json.gz`` holds: with a new number of the layout, write it anew."""

    def encoded(value):
        return {"b": base64.b64encode(value).decode()} if isinstance(value, bytes) else value

    return {
        name: {
            "states": [
                (*place, [([*map(encoded, key)], encoded(value)) for key, (value,) in values.items()])
                for place, values in spark.states.items()
            ],
            "timers": sorted(spark.timers),
        }
        for name in STATES
        for spark in [begun(name)]
    }


def decoded(value):
    return base64.b64decode(value["b"]) if isinstance(value, dict) else value


def stored_of(name):
    with gzip.open(STORED) as stored:
        before = json.load(stored)[name]
    spark = begun(name)
    for variable, bucket, values in before["states"]:
        spark.states[variable, bucket] = {tuple(map(decoded, key)): (decoded(value),) for key, value in values}
    spark.timers = {tuple(timer) for timer in before["timers"]}
    return spark


@pytest.mark.parametrize("name", STATES)
def test_a_stored_state_is_read_on_until_its_layout_has_another_number(name):
    spark, never_stored, keys = stored_of(name), begun(name), keys_of(name)
    for watermark, now, rows in [(150, 5, [(keys[0], 195, 3), (keys[2], 300, 4)]), (150, 6, []), (MAX_TIME, 50, [])]:
        found, wanted = spark.batch(rows, watermark, now), never_stored.batch(rows, watermark, now)
        assert sorted(map(str, found)) == sorted(map(str, wanted))
    assert (spark.stored(), spark.timers) == (0, set())


@pytest.mark.parametrize(("layout", "age"), [(5, "an older"), (7, "a newer")])
def test_a_state_of_another_layout_is_refused(monkeypatch, layout, age):
    monkeypatch.setattr(state, "_LAYOUT", layout)
    spark = begun("texts by key")
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match=f"holds windows of {age} version of tidegate, .* begin with a new"):
        spark.batch([("a", 1, 1)], MIN_TIME, 4)
