"""Objects that are something else than their format and name say, or are damaged: at worst an error names them."""

from __future__ import annotations

import bz2
import functools
import gzip
import io
import json
import lzma
import random
import re
import subprocess
import sys
import zipfile
from decimal import Decimal
from unittest import mock

import cramjam
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from tests.readers.formats.contract import CASES, ROWS, rows_of
from tests.readers.formats.files import CODECS, MARKER, SPARKS_AVRO, avro, avro_format, logical, parquet, timed
from tests.support.bytes import bit, byte, gap, number, surplus, variable_number, varint
from tests.support.objects.lab import InMemory, held, read
from tidegate.errors import BadRecordError, ConnectorError, CorruptDataError, OptionError, OutOfMemoryError
from tidegate.readers.avro import records as avro_records
from tidegate.readers.formats.options import FormatOptions
from tidegate.readers.formats.registry import FORMATS, INFERRED
from tidegate.readers.objects.file import other_format
from tidegate.readers.objects.values import Chunk

VALUE = pa.schema([("value", pa.string())])
NAMED = {"parquet": "Parquet", "orc": "ORC", "avro": "Avro"}


@pytest.mark.parametrize("written", NAMED)
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro", "json", "csv", "text"])
def test_an_object_of_another_format_is_named_whatever_is_done_with_bad_records(file_format, written):
    if file_format == written:
        return
    content = CASES[written].write(rows_of(60), 20)
    store, factory = InMemory(content), FORMATS[file_format]
    obj = store.listed()
    made = factory.create(FormatOptions(mode="DROPMALFORMED"), store, INFERRED)
    columns = pa.schema([("value", pa.string())]) if file_format == "text" else ROWS
    looks = [lambda: made.survey(obj, "at"), lambda: [*made.read(Chunk(*obj, 0, obj.size, 1, None, None), columns)]]
    if file_format == "text":  # it has the same column always, and no times
        del looks[0]
    else:
        looks.append(lambda: made.infer([obj]))
    for look in looks:
        with pytest.raises(
            CorruptDataError, match=f"; it begins as {NAMED[written]} does: set fileFormat to {written}"
        ):
            look()


@pytest.mark.parametrize("text", [b"PAR1,PAR2\n1,2\n", b"ORC\n", b"ORC1\tORC2\r\n", b"", b"Obj"])
def test_lines_may_begin_with_the_letters_of_a_signature(text):
    assert not other_format(text)


def _zipped(text: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("x", text)
    return stream.getvalue()


COMPRESSED = {
    "gzip": gzip.compress, "zstd": lambda text: bytes(cramjam.zstd.compress(text)), "bzip2": bz2.compress,
    "zip": _zipped, "xz": lzma.compress, "lz4": lambda text: bytes(cramjam.lz4.compress(text)),
}  # fmt: skip


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro", "json", "csv", "text"])
def test_an_object_whose_name_does_not_say_that_it_is_compressed_is_refused_by_the_codec(file_format, codec):
    case = CASES[file_format]
    store = InMemory(COMPRESSED[codec](case.write(case.rows(60), 20)))
    made = FORMATS[file_format].create(FormatOptions(mode="DROPMALFORMED"), store, INFERRED)
    with pytest.raises(CorruptDataError, match=f"^s3://data/x .*; it begins as {codec} does: only text is read"):
        read(made, store.listed(), case.rows(1).schema)


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("file_format", ["json", "csv", "text"])
def test_text_in_another_encoding_is_refused_by_its_name(file_format, encoding, compress):
    key = "x.gz" if compress is gzip.compress else "x"
    store = InMemory(**{key: compress('\ufeff{"value":"1"}\n'.encode(encoding))})
    made = FORMATS[file_format].create(FormatOptions(mode="DROPMALFORMED"), store, INFERRED)
    with pytest.raises(CorruptDataError, match=f"^s3://data/{key} is text in {encoding[:6].upper()} by its byte order"):
        read(made, store.listed(key), VALUE)


def test_a_zstd_window_that_is_too_large_is_named_and_no_reason_to_skip_the_object():
    content = bytes.fromhex("28B52FFD00A8490000") + b'{"a": 1}\n'
    store = InMemory(**{"x.zst": content})
    made = FORMATS["json"].create(FormatOptions(), store, INFERRED)
    with pytest.raises(ConnectorError, match=r"^s3://data/x.zst: its zstd window is larger than 128 MiB"):
        read(made, store.listed("x.zst"), pa.schema([("a", pa.int64())]))


IN_LITTLE_MEMORY = """
import resource
from pathlib import Path
import pyarrow as pa
from tests.support.objects.lab import InMemory, read
from tidegate.errors import OutOfMemoryError
from tidegate.readers.decompression import SizeLimit, decompress
from tidegate.readers.formats.options import FormatOptions
from tidegate.readers.formats.registry import FORMATS, INFERRED

content = bytes.fromhex("28B52FFD0088490000") + b'{"a": 1}\\n'  # its window is 128 MiB
store, schema = InMemory(**{"x.zst": content}), pa.schema([("a", pa.int64())])
json = FORMATS["json"].create(FormatOptions(), store, INFERRED)
asks = [lambda: decompress("zstd", memoryview(content), SizeLimit(1 << 30, "an option"))]
asks.append(lambda: read(json, store.listed("x.zst"), schema))
for ask in asks:
    ask()
limit = (64 << 20) + int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for ask in asks:
    try:
        ask()
    except OutOfMemoryError as problem:
        print(problem)
"""


def test_a_window_for_which_memory_is_too_little_is_no_reason_to_skip_the_object():
    asked = subprocess.run([sys.executable, "-c", IN_LITTLE_MEMORY], check=True, capture_output=True, text=True)
    assert asked.stdout == f"{OutOfMemoryError()}\ns3://data/x.zst {OutOfMemoryError()}\n"


@pytest.mark.parametrize("said", ["Allocation error : not enough memory", "ERROR_allocation_failed"])
def test_what_arrow_says_of_too_little_memory_is_no_damage(said):
    store = InMemory(CASES["parquet"].write(rows_of(8), 4))
    made = FORMATS["parquet"].create(FormatOptions(), store, INFERRED)
    with (
        mock.patch.object(pq.ParquetFile, "iter_batches", side_effect=OSError(said)),
        pytest.raises(OutOfMemoryError, match=r"^s3://data/x takes more memory to decode than this process may have"),
    ):
        read(made, store.listed(), ROWS)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_warning_names_an_object_that_has_none_of_the_columns(file_format, caplog):
    store = InMemory(CASES[file_format].write(rows_of(8), 4))
    made = FORMATS[file_format].create(FormatOptions(), store, INFERRED)
    assert read(made, store.listed(), VALUE).to_pylist() == [{"value": None}] * 8
    assert read(made, store.listed(), pa.schema([*VALUE, ("n", pa.int64())])).num_rows == 8
    assert read(made, store.listed(), pa.schema([])).num_rows == 8
    assert caplog.messages == ["s3://data/x has none of the columns value: its rows are null"]


OLD = """
    select id, date'0001-01-01' day, array(named_struct('day', date'1000-01-01')) days, date'1582-10-04' last,
        timestamp'0001-01-01 00:00:00.5' at, map('k', timestamp'1582-10-04 23:59:59.999999') times,
        timestamp_ntz'0001-01-01 00:00:00' ntz, date'2024-02-29' today, cast(null as date) none
    from range(3)
"""
WRITTEN = {
    "parquet": ("parquet", {"datetimeRebaseModeInWrite": "LEGACY", "outputTimestampType": "TIMESTAMP_MICROS"}),
    "int96": ("parquet", {"int96RebaseModeInWrite": "LEGACY", "outputTimestampType": "INT96"}),
    "avro": (SPARKS_AVRO, {"datetimeRebaseModeInWrite": "LEGACY"}),
}


@pytest.fixture
def old_calendar(spark, tmp_path):
    """Return the function that writes rows as Spark did before version 3."""

    def write(way: str, sql: str, **more: str) -> bytes:
        source, options = WRITTEN[way]
        room = "avro" if way == "avro" else "parquet"
        confs = {f"spark.sql.{room}.{name}": value for name, value in options.items()} | more
        before = {name: spark.conf.get(name) for name in confs}
        for name, value in confs.items():
            spark.conf.set(name, value)
        spark.sql(sql).coalesce(1).write.format(source).save(str(tmp_path / way))
        for name, value in before.items():
            spark.conf.set(name, value)
        (path,) = (tmp_path / way).glob("part-*")
        return path.read_bytes()

    return write


@pytest.mark.parametrize("way", WRITTEN)
def test_old_dates_and_times_that_spark_wrote_in_the_julian_calendar_are_read_as_spark_reads_them(
    spark, tmp_path, old_calendar, way
):
    # In an object with INT96, dates have a key of their own, which this one lacks.
    content = old_calendar(way, OLD.replace("date'0", "date'2").replace("date'1", "date'2") if way == "int96" else OLD)
    name = "avro" if way == "avro" else "parquet"
    made, obj = CASES[name].made(InMemory(content)), held(content)
    theirs = spark.read.format(WRITTEN[way][0]).load(str(tmp_path / way))
    schema = made.infer([obj])
    assert from_arrow_schema(schema) == theirs.schema
    rows = read(made, obj, schema).to_pylist()
    assert rows == theirs.toArrow().to_pylist()
    (first, *_) = made.survey(obj, "at")
    assert first.times.min_ms == first.times.max_ms == -62_135_596_799_500


def test_old_times_of_another_zone_are_refused_and_never_shifted(old_calendar):
    zone = {"spark.sql.session.timeZone": "Europe/Berlin"}
    content = old_calendar("parquet", "select 1 id, timestamp'1700-01-01 00:00:00' at", **zone)
    made, obj = CASES["parquet"].made(InMemory(content)), held(content)
    with pytest.raises(CorruptDataError, match=r"^s3://data/x cannot be read: it has timestamps before 1900, .*Berlin"):
        read(made, obj, made.infer([obj]))
    assert read(made, obj, pa.schema([("id", pa.int32())])).to_pylist() == [{"id": 1}]


def test_values_since_1900_are_read_of_any_zone_and_without_a_key_none_is_turned():
    table = pa.table({"at": pa.array([-1, 5], pa.timestamp("us", "UTC")), "day": pa.array([-200_000, 5], pa.date32())})
    keys = {"org.apache.spark.version": "3.5.0", "org.apache.spark.timeZone": "Asia/Tokyo"}
    for legacy, day in (({}, -200_000), ({"org.apache.spark.legacyDateTime": ""}, -200_009)):
        stream = io.BytesIO()
        pq.write_table(table.replace_schema_metadata({**keys, **legacy}), stream)
        made, obj = CASES["parquet"].made(InMemory(stream.getvalue())), held(stream.getvalue())
        rows = read(made, obj, table.schema.remove_metadata())
        assert rows.column("at").equals(table.column("at"))
        assert rows.column("day").cast(pa.int32()).to_pylist() == [day, 5]
    old = pa.table({"day": table["day"], "at": pa.array([-(10**16), 5], pa.timestamp("us", "UTC"))})
    content = parquet(old.replace_schema_metadata({"org.apache.spark.sql.parquet.row.metadata": "{}"}))
    made, obj = CASES["parquet"].made(InMemory(content)), held(content)
    days = read(made, obj, pa.schema([("day", pa.date32())])).column("day")
    assert days.cast(pa.int32()).to_pylist() == [-200_009, 5]
    with pytest.raises(CorruptDataError, match=r"timestamps before 1900, .* the time zone 'unknown'"):
        made.survey(obj, "at")
    content = parquet(table)
    assert read(CASES["parquet"].made(InMemory(content)), held(content), table.schema).equals(table)


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
