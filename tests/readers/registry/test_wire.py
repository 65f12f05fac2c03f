"""Values in Confluent's wire format, with the id in front of them or in a header."""

import uuid

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.bytes.varints import varint
from tidegate.readers.registry.wire import framed, last_header, without_id

GUID = uuid.UUID(int=7)


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 300), min_size=1, max_size=6), st.binary(max_size=9))
def test_the_id_the_message_and_the_payload_are_found(schema_id, indexes, payload):
    named = b"\0" + schema_id.to_bytes(4, "big")
    message = b"".join(varint(2 * number) for number in [len(indexes), *indexes])  # zigzag
    assert framed(named + payload, None, "avro") == (schema_id, (), payload)
    assert framed(named + message + payload, None, "protobuf") == (schema_id, tuple(indexes), payload)
    assert framed(named + b"\0" + payload, None, "protobuf") == (schema_id, (0,), payload)


@pytest.mark.parametrize("value", [b"", b"x", b"\0\0\0\0\2", b"\0\0\0\0\2\0\0"])
def test_an_id_in_a_header_leaves_the_value_to_the_payload(value):
    assert framed(value, b"\0\0\0\0\7", "avro") == (7, (), value)
    assert framed(value, b"\1" + GUID.bytes, "avro") == (str(GUID), (), value)
    assert framed(value, b"\1" + GUID.bytes + b"\4\0\2", "protobuf") == (str(GUID), (0, 1), value)
    assert framed(value, b"7", "avro") is None


@pytest.mark.parametrize("value", [None, b"", b"\0\0\0\0", b"\1\0\0\0\1x", b"\1" + GUID.bytes, b'{"at": 1}'])
def test_a_value_in_another_format_has_no_id(value):
    assert framed(value, None, "avro") is None


@given(st.binary(max_size=20))
def test_any_other_bytes_are_no_indexes_or_lie_within_the_value(data):
    found = framed(b"\0\0\0\0\1" + data, None, "protobuf")
    assert found is None or (found.message and data.endswith(found.payload))


def test_json_may_stand_behind_an_id():
    assert without_id(b"\0\0\0\0\7{}") == b"{}"
    assert [without_id(value) for value in (b"{}", b"", None)] == [b"{}", b"", None]


def test_the_last_header_of_a_name_counts():
    pair = pa.struct([("key", pa.string()), ("value", pa.binary())])
    headers = pa.array([[("a", b"1"), ("b", b"2"), ("a", b"3")], [], None, [("b", b"4")]], pa.list_(pair))
    assert last_header(headers, "a").to_pylist() == [b"3", None, None, None]
