"""Many small objects of JSON lines are read as one text, to the same rows, or not at all."""

from __future__ import annotations

import gzip

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.objects.lab import InMemory
from tidegate.readers.formats.bad_records import FAIL, BadRecordPolicy
from tidegate.readers.formats.json.format import JsonFormat

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string()), ("at", pa.timestamp("us", "UTC"))])
PLAIN = (
    b'{"n":1,"text":"a","at":"2026-01-01T00:00:00Z"}',
    '{"text":"ü\\n","n":-9223372036854775808}'.encode(),
    b'{"n":null,"surplus":[1,{}]}',
    b"{}",
)
BLANK = (b"", b"  ", b"\r")
ODD = (b'{"n":"no number"}', b'{"n":1', b"[]", b'{"n":1}{"n":2}', b'{"n":00}', b'{"text":"\xff"}', b'{"n":1.5}', b'"}"')


def objects_of(lines: tuple[bytes, ...]) -> st.SearchStrategy[list[bytes]]:
    body = st.tuples(st.lists(st.sampled_from(lines), max_size=4), st.sampled_from([b"", b"\n"]))
    bodies = st.lists(body.map(lambda parts: b"\n".join(parts[0]) + parts[1]), max_size=6)
    return bodies.filter(lambda parts: b"{" in b"".join(parts))


def both(bodies: list[bytes], policy: BadRecordPolicy = FAIL, schema: pa.Schema = SCHEMA, set_aside=None):
    """Return the rows that are read together, or None, and a function that reads each object by itself."""
    store = InMemory(**{f"{number}.json": body for number, body in enumerate(bodies)})
    made = JsonFormat(store, bad_records=policy)
    batches = made.read_together(store.chunks(), schema)
    together = None if batches is None else pa.Table.from_batches(batches, schema)
    return together, lambda: pa.Table.from_batches(
        [batch for chunk in store.chunks() for batch in made.read(chunk, schema, set_aside)], schema
    )


@given(objects_of((*PLAIN, *BLANK)))
def test_plain_objects_are_read_together_to_the_same_rows(bodies):
    together, alone = both(bodies)
    assert together is not None
    assert together.equals(alone())


@given(objects_of((*PLAIN, *ODD)))
def test_odd_lines_are_read_to_the_same_rows_or_not_together(bodies):
    policy = BadRecordPolicy("PERMISSIVE")
    schema = SCHEMA.append(pa.field("_corrupt_record", pa.string()))
    together, alone = both(bodies, policy, schema)
    assert together is None or together.equals(alone())


def test_surplus_that_is_rescued_is_not_read_together():
    policy = BadRecordPolicy(rescued_column="rest")
    schema = SCHEMA.append(pa.field("rest", pa.string()))
    assert both([PLAIN[0], PLAIN[2]], policy, schema)[0] is None
    assert both([PLAIN[0], PLAIN[1]], policy, schema)[0].column("rest").null_count == 2


def test_bad_records_are_not_set_aside_by_what_was_tried():
    aside: list[dict] = []
    together, alone = both([PLAIN[0], b'{"n":"odd"}'], BadRecordPolicy(path="aside"), set_aside=aside.append)
    assert together is None
    assert aside == []
    assert alone().num_rows == 1
    assert len(aside) == 1


def test_a_null_that_the_schema_forbids_is_not_read_together():
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    assert both([b'{"n":1}', b'{"n":2}'], schema=schema)[0].column("n").to_pylist() == [1, 2]
    assert both([b'{"n":1}', b"{}"], schema=schema)[0] is None


@pytest.mark.parametrize(("lines", "read"), [(1_000, True), (400_000, False)])
def test_compressed_objects_are_read_together_unless_they_hold_much(lines, read):
    body = b"".join(orjson.dumps({"n": number, "text": "some text"}) + b"\n" for number in range(lines))
    store = InMemory(**{f"{number}.json.gz": gzip.compress(body, 1) for number in range(2)})
    batches = JsonFormat(store).read_together(store.chunks(), SCHEMA)
    assert (batches is not None) == read
    assert not read or sum(batch.num_rows for batch in batches) == 2 * lines
