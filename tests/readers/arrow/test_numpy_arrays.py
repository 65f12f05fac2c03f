"""Arrow's own conversions, which import pandas, are the oracle."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidegate.readers.arrow.numpy_arrays import are_null, int64_values, integers, repeated, repeated_text

INT64 = st.integers(-(2**63), 2**63 - 1)
WIDTHS = {32: np.int32, 64: np.int64}
KINDS = st.sampled_from([pa.int32(), pa.int64(), pa.timestamp("us", "UTC"), pa.date32()])
CUTS = st.integers(0, 20)


@given(st.lists(INT64 | st.none(), max_size=30), CUTS, CUTS)
def test_numbers_and_nulls_go_both_ways_also_in_a_slice(values, start, rows):
    array = pa.array(values, pa.int64()).slice(start, rows)
    numbers, nulls = int64_values(array), are_null(array)
    assert [None if null else number for number, null in zip(numbers.tolist(), nulls, strict=True)] == array.to_pylist()
    back = integers(numbers, pa.int64(), nulls)
    back.validate(full=True)
    assert back.equals(array)


@given(st.lists(INT64, max_size=30), KINDS)
def test_numbers_without_nulls_have_the_wanted_type(values, kind):
    numbers = np.array(values, np.int64).astype(WIDTHS[kind.bit_width])
    made = integers(numbers, kind)
    assert made.null_count == 0
    assert made.type == kind
    assert made.equals(pa.array(numbers).view(kind))


@given(st.integers(-(2**31), 2**31 - 1), KINDS, CUTS)
def test_a_number_is_repeated(value, kind, rows):
    made = repeated(value, kind, rows)
    assert made.equals(pa.array([value] * rows, pa.int64()).cast(f"int{kind.bit_width}").view(kind))


@given(st.text(max_size=5), CUTS)
def test_a_text_is_repeated(value, rows):
    made = repeated_text(value, rows)
    made.validate(full=True)
    assert made.equals(pa.array([value] * rows, pa.string()))
