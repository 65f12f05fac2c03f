"""Avro objects that are cut short, changed or no Avro at all."""

from __future__ import annotations

import io
import json
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.readers.avro_files import CODECS, MARKER, avro, logical, timed
from tests.readers.object_lab import InMemory, held, read
from tidegate.errors import CorruptDataError, ObjectGoneError
from tidegate.readers.avro_format import AvroFormat
from tidegate.readers.objects import S3Object


@pytest.mark.parametrize("size", [3, 3_000])
def test_an_object_overwritten_after_the_survey_is_gone(config, store, folder, size) -> None:
    client = config.client()
    first, second = timed(size), timed(size, codec="null", sync_interval=16_001)
    client.put_object(Bucket="data", Key="overwritten.avro", Body=second + b"x")
    etag = client.put_object(Bucket="data", Key="overwritten.avro", Body=first)["ETag"].strip('"')
    found = S3Object("overwritten.avro", len(first), etag, 0)
    made = AvroFormat(store)
    schema = pa.schema([("n", pa.int64())])
    assert read(made, found, schema).num_rows == size
    client.put_object(Bucket="data", Key="overwritten.avro", Body=second + b"x")
    sentence = r"^s3://data/overwritten.avro was overwritten after it was found$"
    for ask in (lambda: made.survey(found, "at"), lambda: read(made, found, schema), lambda: made.infer([found])):
        with pytest.raises(ObjectGoneError, match=sentence):
            ask()


@pytest.mark.parametrize("codec", CODECS)
def test_truncated_objects_are_corrupt_wherever_they_end(codec) -> None:
    content = timed(40, codec=codec, sync_interval=20)
    for end in range(1, len(content)):
        part = content[:end]
        made, found = AvroFormat(InMemory(part)), held(part)
        if part.endswith(MARKER):  # nothing tells that there were more blocks
            assert made.survey(found, "at")[0].rows < 40
            continue
        sentence = r"^s3://data/x cannot be read: it (ends|does not begin)"
        with pytest.raises(CorruptDataError, match=sentence):
            made.survey(found, "at")
        with pytest.raises(CorruptDataError, match=sentence):
            read(made, found, pa.schema([]))


@pytest.mark.parametrize(
    ("codec", "at", "sentence"),
    [
        ("null", -1, "the block at byte 227 does not end with the marker of the file"),
        ("snappy", -17, "the block at byte 229 has a checksum that does not fit"),
    ],
)
def test_a_block_proves_that_it_is_whole(codec, at, sentence) -> None:
    content = bytearray(timed(3, codec=codec))
    content[at] ^= 1
    with pytest.raises(CorruptDataError, match=f"^s3://data/x cannot be read: {sentence}$"):
        read(AvroFormat(InMemory(bytes(content))), held(bytes(content)), pa.schema([]))


@settings(max_examples=100)
@given(st.data())
def test_changed_bytes_are_corrupt_or_other_values(data: st.DataObject) -> None:
    content = bytearray(
        avro(
            [{"s": "text", "n": n, "d": Decimal(n), "u": None if n % 2 else "x"} for n in range(30)],
            data.draw(st.sampled_from(CODECS)),
            50,
            s="string",
            n=["int", "null"],
            d=logical("bytes", "decimal", precision=5),
            u=["null", "string", "long"],
        )
    )
    for at in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=5)):
        content[at] = data.draw(st.integers(0, 255))
    made, found = AvroFormat(InMemory(bytes(content))), held(bytes(content))
    schema = pa.schema([("s", pa.string()), ("n", pa.int64()), ("d", pa.decimal128(5, 0))])
    problems = []
    try:
        read(made, found, schema)
    except CorruptDataError as problem:
        problems.append(str(problem))
    assert all(each.startswith("s3://data/x cannot be read: ") and "text" not in each for each in problems)


def _with_header(schema: object, codec: str = "null") -> bytes:
    return _with_schema_text(json.dumps(schema).encode(), codec)


def _with_schema_text(schema: bytes, codec: str = "null") -> bytes:
    meta = {"avro.schema": schema, "avro.codec": codec.encode()}
    header = io.BytesIO()
    fastavro.schemaless_writer(header, {"type": "map", "values": "bytes"}, meta)
    return b"Obj\x01" + header.getvalue() + MARKER + b"\x02\x02\x02" + MARKER


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b'{"a": 1}\n', "it does not begin as Avro does"),
        (_with_header("long"), "it holds values of the type int64, not records"),
        (_with_header("nothing"), "its schema is none of Avro"),
        (_with_schema_text(b"nothing"), "its header has no schema"),
        (_with_schema_text(b"[" * 100_000), "the schema in its header is nested too deeply"),
        (_with_header({"type": "record", "name": "r", "fields": 5}), "its schema is none of Avro"),
        (
            _with_header({"type": "record", "name": "r", "fields": []}, "lzo"),
            "its codec is 'lzo'; readable are null, deflate",
        ),
        (
            _with_header({"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", "string"]}]}),
            "its schema does not fit the block at byte ",
        ),
        (
            _with_header({"type": "record", "name": "r", "fields": []}),
            "the block at byte 96 holds more than its 1 records",
        ),
    ],
)
def test_what_cannot_be_read_is_told(content, sentence) -> None:
    with pytest.raises(CorruptDataError) as error:
        AvroFormat(InMemory(content)).survey(held(content), "a")
    assert str(error.value).startswith(f"s3://data/x cannot be read: {sentence}")


@pytest.mark.parametrize("codec", CODECS)
def test_a_block_that_becomes_too_large_names_the_option(codec) -> None:
    content = avro([{"b": bytes(1_000_000)}], codec, b="bytes")
    found, schema = held(content), pa.schema([("b", pa.binary())])
    assert read(AvroFormat(InMemory(content), most_bytes=1_000_003), found, schema).num_rows == 1
    sentence = (
        r"^s3://data/x cannot be read: the block at byte \d+ takes more than 1000002 bytes decompressed; if it is "
        "sound, raise maxDecompressedBytes$"
    )
    too_small = AvroFormat(InMemory(content), most_bytes=1_000_002)
    for ask in (lambda: too_small.survey(found, "b"), lambda: read(too_small, found, schema)):
        with pytest.raises(CorruptDataError, match=sentence):
            ask()


def test_a_block_that_claims_more_bytes_than_there_are_is_not_fetched() -> None:
    header = avro([], n="long")
    content = header + b"\x02" + b"\xfe\xff\xff\xff\xff\x0f" + bytes(20 << 20)
    store = InMemory(content)
    with pytest.raises(CorruptDataError, match=f"it ends within the block at byte {len(header)}$"):
        read(AvroFormat(store), held(content), pa.schema([]))


def test_values_without_bytes_are_no_way_to_claim_memory() -> None:
    nothing = {
        "type": "array",
        "items": {"type": "record", "name": "nothing", "fields": [{"name": "n", "type": "null"}]},
    }
    for items in ({"type": "array", "items": "null"}, nothing):
        empty = avro([{"a": []}], a=items)
        assert read(AvroFormat(InMemory(empty)), held(empty), pa.schema([])).num_rows == 1
        claimed = avro([{"a": [None if items is not nothing else {"n": None}] * 9}], a=items)
        with pytest.raises(CorruptDataError, match="its schema does not fit the block at byte"):
            read(AvroFormat(InMemory(claimed)), held(claimed), pa.schema([]))
