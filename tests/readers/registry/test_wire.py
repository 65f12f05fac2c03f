import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.bytes.varints import varint
from tidegate.readers.registry.wire import message_indexes, schema_id_of


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 300), min_size=1, max_size=6), st.binary(max_size=9))
def test_the_id_the_message_and_its_begin_are_found(schema_id, indexes, message):
    header = b"\0" + struct.pack(">I", schema_id)
    encoded = b"".join(varint(2 * number) for number in [len(indexes), *indexes])  # zigzag
    value = header + encoded + message
    assert schema_id_of(value) == schema_id
    assert message_indexes(value) == (tuple(indexes), len(header + encoded))
    assert message_indexes(header + b"\0" + message) == ((0,), 6)


@pytest.mark.parametrize("value", [None, b"", b"\0\0\0\0", b"\1\0\0\0\1x", b'{"at": 1}'])
def test_a_value_in_another_format_has_no_id(value):
    assert schema_id_of(value) is None


@given(st.binary(max_size=20))
def test_any_other_bytes_are_no_indexes_or_lie_within_the_value(data):
    try:
        indexes, begin = message_indexes(b"\0\0\0\0\1" + data)
    except (ValueError, IndexError):
        return
    assert indexes
    assert begin <= 5 + len(data)
