"""Parquet and ORC objects that are too large to be fetched as a whole."""

from __future__ import annotations

import itertools
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from tests.readers.formats.files import orc_file, orc_format, parquet, parquet_format
from tests.support.objects.lab import GONE, InMemory, chunk, held, read
from tidegate.errors import ObjectGoneError
from tidegate.readers.formats.typed import TypedFormat
from tidegate.readers.objects.values import SMALL_BYTES, TimeRange

ROWS = 1_200_000
RANDOM = np.random.default_rng(7)
TABLE = pa.table(
    {
        "at": pa.array(np.arange(ROWS) * 1000, pa.timestamp("us", "UTC")),
        "x": RANDOM.random(ROWS),
        "y": RANDOM.random(ROWS),
    }
)


@pytest.fixture(scope="module", params=[parquet_format, orc_format])
def large(request) -> tuple[type[TypedFormat], bytes]:
    """A format, and its object with several groups of rows."""
    if request.param is parquet_format:
        content = parquet(TABLE, ROWS // 4, use_dictionary=False, compression="none")
    else:
        content = orc_file(TABLE, stripe_size=8 << 20, batch_size=50_000)
    assert len(content) > 2 * SMALL_BYTES
    return request.param, content


def test_only_the_columns_asked_for_are_fetched_of_a_large_object(large) -> None:
    made_of, content = large
    store, obj = InMemory(content), held(content)
    made = made_of(store)
    assert read(made, obj, TABLE.select(["y"]).schema).column("y").equals(TABLE.column("y"))
    assert sum(end - start for start, end in store.asked) < obj.size / 1.8
    assert max(end - start for start, end in store.asked) <= SMALL_BYTES
    store.asked.clear()
    surveys = made_of(store, chunk_bytes=1).survey(obj, "at")
    assert sum(end - start for start, end in store.asked) < obj.size / 1.8
    assert len(store.asked) == 1 or made_of is orc_format  # its statistics tell the times
    assert len(surveys) > 2
    starts = np.cumsum([0, *(survey.rows for survey in surveys)]).tolist()
    assert [survey.times for survey in surveys] == [TimeRange(a, b - 1) for a, b in itertools.pairwise(starts)]
    store.asked.clear()
    assert read(made, obj, TABLE.schema, surveys[1].start, surveys[1].end).num_rows == surveys[1].rows
    assert sum(end - start for start, end in store.asked) < surveys[1].end - surveys[1].start + (128 << 10)


def test_only_the_leaf_of_a_struct_is_fetched_for_its_times() -> None:
    texts = pa.array([f"1970-01-01T00:00:{second:02}Z" for second in range(50)] * 200)  # statistics do not tell them
    noise = pa.array([RANDOM.bytes(300) for _ in texts])
    content = parquet(pa.table({"s": pa.StructArray.from_arrays([texts, noise], ["at", "noise"])}))
    store, obj = InMemory(content), held(content)
    (survey,) = parquet_format(store, "iso8601").survey(obj, "s.at")
    assert survey.times == TimeRange(0, 49_000)
    assert sum(end - start for start, end in store.asked) < obj.size / 10


def test_a_group_too_large_to_be_held_is_fetched_bit_by_bit() -> None:
    content = parquet(TABLE, ROWS // 4, use_dictionary=False, compression="none")
    store, obj = InMemory(content), held(content)
    with mock.patch.multiple("tidegate.readers.formats.parquet", HELD_BYTES=1 << 20, STREAMED_BYTES=3 << 20):
        rows = read(parquet_format(store), obj, TABLE.schema)
    assert rows.column("x").equals(TABLE.column("x"))
    assert max(end - start for start, end in store.asked) < 3 << 20  # a page of Parquet is read as a whole


def test_an_object_overwritten_while_it_is_read_is_gone(large) -> None:
    made_of, content = large
    store = InMemory(content)
    batches = made_of(store).read(chunk(store.listed()), TABLE.schema)
    with mock.patch.multiple("tidegate.readers.formats.parquet", HELD_BYTES=0):
        next(batches)
        store.gone = True
        with pytest.raises(ObjectGoneError, match=f"^{GONE}$"):
            list(batches)
