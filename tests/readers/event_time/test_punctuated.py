"""Rows that contain watermarks."""

import numpy as np
import pyarrow as pa
import pytest

from tidegate.alignment.generators.split_watermark import GeneratorRun, SplitWatermark
from tidegate.errors import ContractError
from tidegate.readers.event_time.punctuated import marks_of, punctuated_by


def watermark(marks, times, **columns):
    run = GeneratorRun(punctuated_by(marks)(), SplitWatermark())
    run.add(pa.record_batch(columns), pa.array(times, pa.int64()))
    return run.end().watermark_ms


def test_a_mark_counts_also_on_a_row_without_an_event_time():
    values = pa.array([b'{"up to": 1700000000000}', b"{}"])
    assert watermark("json:/up to", [None, 5], value=values) == 1_700_000_000_000
    assert watermark("json:/up to", [None, None], value=values) == 1_700_000_000_000


def test_of_rows_that_are_marks_by_a_function_the_event_time_counts_if_there_is_one():
    def is_mark(rows):
        return rows.column("mark").to_numpy(zero_copy_only=False)

    assert watermark(is_mark, [10, 30, None], mark=pa.array([True, False, True])) == 10
    assert watermark(is_mark, [10, 30, None], mark=pa.array([False, False, True])) is None


def test_each_value_shows_its_own_unit():
    values = [
        b'{"at": "1970-01-01T00:00:07Z"}',
        b'{"at": 1700000000}',
        b'{"at": 1700000000123456}',
        b'{"at": "?"}',
        None,
    ]
    watermarks = marks_of("json:/at")(pa.record_batch({"value": pa.array(values, pa.binary())}))
    assert watermarks.to_pylist() == [7_000, 1_700_000_000_000, 1_700_000_000_123, None, None]


@pytest.mark.parametrize("marks", [[True], np.array([1.5]), np.array([True, True])])
def test_marks_of_another_shape_are_refused(marks):
    with pytest.raises(ContractError, match="expected a Boolean or an int64 for each of 1 rows"):
        watermark(lambda _: marks, [1], value=pa.array([b"x"]))
