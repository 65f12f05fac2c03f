"""Values that are skipped, whatever their type: checked against what fastavro writes."""

import io

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.readers.avro.skipping import named_types, skip

NODE = {"type": "record", "name": "n.Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
LOOP = {"type": "record", "name": "Loop", "fields": [{"name": "again", "type": "Loop"}]}
TREE = {
    "type": "record",
    "name": "Tree",
    "namespace": "of",
    "fields": [
        {"name": "leaf", "type": {"type": "enum", "name": "Leaf", "symbols": ["A", "B"]}},
        {"name": "key", "type": {"type": "fixed", "name": "Key", "size": 3}},
        {"name": "texts", "type": {"type": "map", "values": ["null", "string", "double", "boolean", "of.Key"]}},
        {"name": "more", "type": {"type": "array", "items": "Tree"}},
        {"name": "raw", "type": ["bytes", "float", "int"]},
    ],
}
LEAVES = st.sampled_from("AB")
VALUES = st.none() | st.text() | st.floats(allow_nan=False) | st.booleans() | st.binary(min_size=3, max_size=3)


def tree(more):
    return st.fixed_dictionaries(
        {
            "leaf": LEAVES,
            "key": st.binary(min_size=3, max_size=3),
            "texts": st.dictionaries(st.text(), VALUES, max_size=4),
            "more": more,
            "raw": st.binary() | st.integers(-(2**31), 2**31 - 1),
        }
    )


TREES = st.recursive(tree(st.just([])), lambda inner: tree(st.lists(inner, max_size=3)), max_leaves=8)


def rest(schema, data):
    stream = io.BytesIO(data)
    skip((schema, ""), named_types(schema), stream)
    return stream.read()


@given(TREES, st.binary(max_size=3))
def test_exactly_the_value_is_skipped(value, after):
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(TREE), value)
    assert rest(TREE, stream.getvalue() + after) == after
    if stream.getvalue():
        with pytest.raises(EOFError):
            rest(TREE, stream.getvalue()[:-1])


@given(st.binary(max_size=60))
def test_any_other_bytes_end_in_an_error_or_within_them(data):
    try:
        left = rest(TREE, data)
    except (EOFError, ValueError, LookupError, TypeError, OverflowError):
        return
    assert data.endswith(left)


def test_a_value_may_be_deeper_than_any_stack():
    assert rest(NODE, b"\x02" * 300_000 + b"\0" + b"x") == b"x"


def test_items_in_blocks_with_their_length_are_skipped_at_once():
    stream = io.BytesIO(b"\x03\x0a" + b"abcde" + b"\0" + b"x")
    skip(({"type": "array", "items": "nothing known"}, ""), {}, stream)
    assert stream.read() == b"x"


@pytest.mark.parametrize("items", ["null", {"type": "record", "name": "Empty", "fields": []}])
def test_a_number_of_items_without_bytes_is_no_way_to_claim_time(items):
    assert rest({"type": "array", "items": items}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f" + b"\0") == b""


def test_a_type_that_never_ends_is_an_error():
    with pytest.raises(ValueError):  # noqa: PT011 - it has no text
        rest(LOOP, b"abc")
