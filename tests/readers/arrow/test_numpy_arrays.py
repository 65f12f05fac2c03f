"""Arrow's own conversions, which import pandas, are the oracle."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidegate.readers.arrow.arrays import are_null, int64_values, integers

INT64 = st.integers(-(2**63), 2**63 - 1)
CUTS = st.integers(0, 20)


@given(st.lists(INT64 | st.none(), max_size=30), CUTS, CUTS)
def test_numbers_and_nulls_go_both_ways_also_in_a_slice(values, start, rows):
    array = pa.array(values, pa.int64()).slice(start, rows)
    numbers, nulls = int64_values(array), are_null(array)
    assert [None if null else number for number, null in zip(numbers.tolist(), nulls, strict=True)] == array.to_pylist()
    back = integers(numbers, pa.int64(), nulls)
    back.validate(full=True)
    assert back.equals(array)
