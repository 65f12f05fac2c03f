"""Pages of keys: as a dictionary would keep them, at the cost of the keys that a batch touches."""

import base64
import gzip
import json
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import DoubleType, StructField, StructType

from tests.sources.windows.fakes import PACKED, FakeSpark
from tests.sources.windows.test_processor import Numbers, operator_of
from tidegate.errors import OptionError
from tidegate.sources.windows import pages
from tidegate.sources.windows.keys import key_of, key_to_bytes
from tidegate.sources.windows.pages import KeyEntry, Pages
from tidegate.windows import Process
from tidegate.windows.window import MAX_TIME, MIN_TIME

BEFORE_PAGES = Path(__file__).parent / "stored_before_pages.json.gz"


class Store:
    def __init__(self):
        self.values, self.reads, self.writes = {}, 0, 0

    def read(self, kind, number):
        self.reads += 1
        return self.values.get((kind, number))

    def write(self, kind, number, value):
        self.writes += 1
        if value is None:
            self.values.pop((kind, number), None)
        else:
            self.values[kind, number] = value


class Opened:
    """Pages that are opened anew for each batch, as Spark does."""

    def __init__(self):
        self.store, self.kept = Store(), (1, 0, [])

    def batch(self, puts, event_ms=MIN_TIME, processing_ms=MIN_TIME):
        """Return the keys that are due before, and the first timers after these puts."""
        opened = Pages(self.store, *json.loads(json.dumps(self.kept)))
        due = [*opened.due(event_ms, processing_ms)]
        for key, entry in puts:
            opened.put(key, entry)
        opened.flush()
        self.kept = opened.count, opened.size, opened.first_timers
        return due, opened.next_timers()


times = st.one_of(st.none(), st.integers(0, 50), st.just(MAX_TIME), st.just(MIN_TIME))
values = st.one_of(st.none(), st.binary(min_size=1, max_size=60))
entries = st.builds(KeyEntry, times, times, values)
puts = st.lists(st.tuples(st.integers(0, 30).map(lambda n: f"key {n}".encode()), entries), max_size=40)
clocks = st.one_of(st.integers(0, 50), st.just(MAX_TIME), st.just(MIN_TIME))


@settings(max_examples=100)
@given(batches=st.lists(st.tuples(puts, clocks, clocks), max_size=8))
def test_pages_keep_what_a_dictionary_keeps_and_leave_nothing_behind(batches):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pages, "_MEAN", 60)
        patched.setattr(pages, "_BLOCK", 3)
        opened, model = Opened(), {}
        for changes, event_ms, processing_ms in batches:
            due = {
                key
                for key, entry in model.items()
                if (entry.event_timer is not None and entry.event_timer <= event_ms)
                or (entry.processing_timer is not None and entry.processing_timer <= processing_ms)
            }
            model |= dict(changes)
            model = {key: entry for key, entry in model.items() if entry.value is not None}
            found, firsts = opened.batch(changes, event_ms, processing_ms)
            assert (len(found), {*found}) == (len(due), due)
            for first, of_kind in zip(firsts, ("event_timer", "processing_timer"), strict=True):
                wanted = min((t for e in model.values() if (t := getattr(e, of_kind)) is not None), default=None)
                assert first == (wanted if wanted is None else min(wanted, MAX_TIME - 1))
            fresh = Pages(opened.store, *opened.kept)
            assert {key: fresh.get(key) for key in model} == model
        opened.batch([(key, KeyEntry()) for key in model])
        assert (opened.store.values, *opened.kept[:2]) == ({}, 1, 0)
        assert len(opened.kept[2]) <= 1


def test_a_batch_touches_the_pages_of_its_keys_whatever_is_open():
    opened = Opened()
    opened.batch([(f"key {n}".encode(), KeyEntry(n, None, b"x" * 100)) for n in range(50_000)])
    assert opened.kept[0] > 1_000
    assert max(map(len, opened.store.values.values())) < 16_000
    opened.store.reads = opened.store.writes = 0
    due, _ = opened.batch([(f"key {n}".encode(), KeyEntry(n, None, b"y" * 100)) for n in range(49_990, 50_000)], 9)
    assert len(due) == 10
    assert opened.store.writes < 20
    assert opened.store.reads < 40


def test_a_large_value_does_not_make_pages_for_itself():
    opened = Opened()
    opened.batch([(b"large", KeyEntry(1, None, b"x" * 10_000_000)), (b"small", KeyEntry(2, None, b"x"))])
    assert opened.kept[0] <= 3


@pytest.mark.parametrize(
    "key",
    [
        ("text", "\ud83d\ude00", "", None),
        (1, -(2**63), True, False),
        (1.5, 0.0, float("inf")),
        (Decimal("1.50"), Decimal("-0.000000001"), b"\x00\xff", bytearray(b"x")),
        (datetime(2026, 1, 1, 1, 2, 3, 4, timezone.utc), datetime(1, 1, 1), date(9999, 12, 31), time(1, 2, 3, 4)),  # noqa: DTZ001
        (timedelta(days=-1, microseconds=1),),
    ],
)
def test_a_key_comes_back_from_its_bytes(key):
    assert key_of(key_to_bytes(key)) == key
    assert list(map(type, key_of(key_to_bytes(key)))) == [bytes if type(v) is bytearray else type(v) for v in key]


def test_keys_that_spark_groups_have_the_same_bytes():
    assert key_to_bytes((0.0,)) == key_to_bytes((-0.0,))
    assert key_to_bytes((float("nan"),)) == key_to_bytes((-float("nan"),))
    assert key_to_bytes((1,)) != key_to_bytes((True,)) != key_to_bytes(("1",))
    with pytest.raises(OptionError, match=r"windows cannot keep the key \[\]: it is a list; convert it first"):
        key_to_bytes(([],))


def decoded(value):
    return base64.b64decode(value["b"]) if isinstance(value, dict) else value


@pytest.mark.parametrize("name", ["texts", "floats"])
def test_a_state_from_before_there_were_pages_is_read_on(name):
    with gzip.open(BEFORE_PAGES) as stored:
        before = json.load(stored)[name]
    key_type = {"texts": PACKED.fields[0], "floats": StructField("__key_0", DoubleType())}[name]
    parts = operator_of("sessions with lateness", Process(Numbers()))
    spark, never_stored = (
        FakeSpark(parts, buckets=2, packed=StructType([key_type, *PACKED.fields[1:]])) for _ in range(2)
    )
    for variable, bucket, values in before["states"]:
        spark.states[variable, bucket] = {tuple(map(decoded, key)): (decoded(value),) for key, value in values}
    spark.timers = {tuple(timer) for timer in before["timers"]}
    keys = {
        "texts": ["a", "b", None, "long" * 2000, *(f"key {n}" for n in range(20))],
        "floats": [0.0, -0.0, float("nan"), 1.5],
    }[name]
    never_stored.batch([(keys[n % len(keys)], n, n % 10) for n in range(1, 200)], MIN_TIME)
    more = [(keys[0], 195, 3), (keys[2], 300, 4)]
    for watermark, rows in [(150, more), (150, []), (MAX_TIME, [])]:
        found, wanted = spark.batch(rows, watermark), never_stored.batch(rows, watermark)
        assert sorted(map(str, found)) == sorted(map(str, wanted))
    assert (spark.stored(), spark.timers) == (0, set())
