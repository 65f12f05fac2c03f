"""Damaged objects: the worst is an error that names the object."""

from __future__ import annotations

import functools
import io
import json
import random
import re
from decimal import Decimal
from unittest import mock

import fastavro
import pyarrow as pa
import pytest

from tests.readers.formats.contract import CASES, ROWS, rows_of
from tests.readers.formats.files import CODECS, MARKER, avro, avro_format, logical, timed
from tests.support.bytes import bit, byte, gap, number, surplus, variable_number, varint
from tests.support.objects.lab import InMemory, held, read
from tidegate.errors import BadRecordError, ConnectorError, CorruptDataError, OptionError
from tidegate.readers.avro import records as avro_records

MUTANTS = 40


def _avro(codec: str) -> bytes:
    rows = [{"at": n * 10**6, "n": None if n % 7 == 0 else n, "s": f"text {n}", "d": Decimal(n)} for n in range(60)]
    return avro(
        rows, codec, 300, at=logical("long", "timestamp-micros"), n=["int", "null"], s="string",
        d=logical("bytes", "decimal", precision=9),
    )  # fmt: skip


@functools.cache
def seeds(file_format: str) -> list[bytes]:
    """Return sound objects of a format."""
    case = CASES[file_format]
    match file_format:
        case "avro":
            return [*map(_avro, ("null", "null", "deflate", "snappy", "bzip2", "xz"))]
        case "json":
            nested = pa.array([{"a": n, "b": [str(n)] * (n % 3)} for n in range(60)])
            return [case.write(rows_of(60), 60), case.write(rows_of(60).append_column("nested", nested), 60)]
        case "csv":
            content = case.write(rows_of(60), 60)
            return [content, content.replace(b"text ", b'"a, \\"quoted\\" ').replace(b"\n", b'"\n')]
        case _:
            return [case.write(case.rows(60), 60), "grüße\r\n".encode() * 20]


def mutant(file_format: str, seed: int) -> bytes:
    """Return a damaged object of a format."""
    dice = random.Random(f"{file_format} {seed}")
    made = bytearray(dice.choice(seeds(file_format)))
    damages = (byte, byte, byte, bit, bit, number, variable_number, gap, surplus)
    for _ in range(dice.choice((1, 1, 1, 2, 2, 3, 5, 9))):
        dice.choice(damages)(made, dice.randrange(len(made) - 1), dice)
    if dice.random() < 0.03:
        del made[dice.randrange(len(made) + 1) :]
    return bytes(made)


@pytest.mark.parametrize("file_format", ["avro", "json", "csv", "text"])
def test_a_damaged_object_is_read_or_refused_by_its_name(file_format: str) -> None:
    problems: list[str] = []
    for number_of in range(MUTANTS):
        content, case = mutant(file_format, number_of), CASES[file_format]
        made, obj = case.made(InMemory(content)), held(content)
        schema = case.rows(1).schema if file_format == "text" else ROWS
        looks = [lambda: read(made, obj, schema), lambda: read(made, obj, made.infer([obj]))]  # noqa: B023 - called here
        if file_format != "text":
            looks.append(lambda: made.survey(obj, "at"))  # noqa: B023 - called here
        for look in looks if content else ():
            try:
                look()
            except (BadRecordError, CorruptDataError) as problem:  # noqa: PERF203 - an error is expected
                problems.append(str(problem))
            except OptionError:  # a column has another type
                pass
    assert problems or file_format == "text"
    assert all("s3://data/x" in problem and not re.search(r"text \d", problem) for problem in problems)


@pytest.mark.parametrize("codec", CODECS)
def test_truncated_objects_are_corrupt_wherever_they_end(codec) -> None:
    content = timed(40, codec=codec, sync_interval=20)
    for end in range(1, len(content)):
        part = content[:end]
        made, obj = avro_format(InMemory(part)), held(part)
        if part.endswith(MARKER):  # nothing shows that there were more blocks
            assert made.survey(obj, "at")[0].rows < 40
            continue
        sentence = r"^s3://data/x cannot be read: (it ends|it does not begin|the block at byte \d+ is cut off$)"
        with pytest.raises(CorruptDataError, match=sentence):
            made.survey(obj, "at")
        with pytest.raises(CorruptDataError, match=sentence):
            read(made, obj, pa.schema([]))


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
        read(avro_format(InMemory(bytes(content))), held(bytes(content)), pa.schema([]))


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
        (_with_header("nothing"), "its schema is not a valid Avro schema"),
        (_with_schema_text(b"nothing"), "its header has no schema"),
        (b"Obj\x01\x02" + varint(2**46), "it ends within its header, or that is broken"),
        (b"Obj\x01\x02" + varint(2**64 - 2), "it ends within its header, or that is broken"),
        (_with_schema_text(b"[" * 100_000), "the schema in its header is nested too deeply"),
        (_with_header({"type": "record", "name": "r", "fields": 5}), "its schema is not a valid Avro schema"),
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
def test_what_cannot_be_read_is_reported(content, sentence) -> None:
    with pytest.raises(CorruptDataError) as error:
        avro_format(InMemory(content)).survey(held(content), "a")
    assert str(error.value).startswith(f"s3://data/x cannot be read: {sentence}")


@pytest.mark.parametrize("codec", CODECS)
def test_a_block_that_becomes_too_large_names_the_option(codec) -> None:
    content = avro([{"b": bytes(1_000_000)}], codec, b="bytes")
    obj, schema = held(content), pa.schema([("b", pa.binary())])
    assert read(avro_format(InMemory(content), most_bytes=1_000_003), obj, schema).num_rows == 1
    sentence = (
        r"^s3://data/x cannot be read: the block at byte \d+ takes more than 1000002 bytes decompressed; if it is "
        "sound, raise maxDecompressedBytes$"
    )
    too_small = avro_format(InMemory(content), most_bytes=1_000_002)
    for ask in (lambda: too_small.survey(obj, "b"), lambda: read(too_small, obj, schema)):
        with pytest.raises(CorruptDataError, match=sentence):
            ask()


def test_a_block_that_claims_more_bytes_than_there_are_is_not_fetched() -> None:
    header = avro([], n="long")
    content = header + b"\x02" + b"\xfe\xff\xff\xff\xff\x0f" + bytes(20 << 20)
    store = InMemory(content)
    with pytest.raises(CorruptDataError, match=f"the block at byte {len(header)} is cut off$"):
        read(avro_format(store), held(content), pa.schema([]))


@pytest.mark.parametrize("call", ["fastavro.schemaless_reader", "pa.array"])
def test_too_little_memory_is_no_damage(call) -> None:
    content = avro([{"n": 1}], n="int")
    made, obj = avro_format(InMemory(content)), held(content)
    schema = made.infer([obj])
    library, _, name = call.partition(".")
    of_records = mock.MagicMock(wraps=getattr(avro_records, library), **{f"{name}.side_effect": MemoryError})
    for class_name in ("ArrowInvalid", "ArrowTypeError"):
        setattr(of_records, class_name, getattr(pa, class_name))
    sentence = (
        r"^s3://data/x cannot be read: the block at byte \d+ takes more memory to decode than this process may have"
    )
    with (
        mock.patch.object(avro_records, library, of_records),
        pytest.raises(ConnectorError, match=sentence + r"; raise spark.executor.pyspark.memory"),
    ):
        read(made, obj, schema)
