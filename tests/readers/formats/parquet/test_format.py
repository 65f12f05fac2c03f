"""Parquet objects, compared with those that pyarrow and Spark read from the same bytes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.readers.formats.files import parquet
from tests.support.objects.lab import InMemory, held, read
from tidegate.errors import CorruptDataError
from tidegate.readers.formats.parquet.format import ParquetFormat
from tidegate.readers.objects.values import ChunkSurvey, TimeRange


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"x" * 100 + b"\xff\x00\x00\x00PAR1", "its footer would have 263 bytes, and it has 108"),
        (b"x" * 100 + b"\x10\x00\x00\x00PAR1", "is no Parquet that can be read: "),
        (b"x" * 100 + b"\x10\x00\x00\x00PARE", "its footer is encrypted"),
        (b'{"a": 1}\n' * 10, "it does not end as Parquet does"),
    ],
)
def test_what_is_no_parquet_is_reported(content, sentence) -> None:
    store = InMemory(**{"no parquet": content})
    with pytest.raises(CorruptDataError) as error:
        ParquetFormat(store).survey(store.listed("no parquet"), "at")
    assert str(error.value).startswith("s3://data/no parquet ")
    assert sentence in str(error.value)


def test_int96_is_an_instant_and_is_read_for_its_times() -> None:
    moments = pa.array([5_000_001, None, -1], pa.timestamp("us"))
    content = parquet(
        pa.table({"n": [1, 2, 3], "s": pa.StructArray.from_arrays([moments], ["at"])}),
        use_deprecated_int96_timestamps=True,
    )
    store, obj = InMemory(content), held(content)
    made = ParquetFormat(store)
    schema = made.infer([obj])
    assert schema.field("s").type == pa.struct([("at", pa.timestamp("us", "UTC"))])
    assert made.survey(obj, "s.at") == [ChunkSurvey(0, obj.size, 3, TimeRange(-1, 5_000), 1)]
    column = read(made, obj, schema).column("s").combine_chunks()
    assert column.field("at").view(pa.int64()).to_pylist() == [5_000_001, None, -1]
