"""Avro objects against the values that were written, and against Spark's own reading of the same bytes."""

from __future__ import annotations

import io
import itertools
import json
import pickle
import re
import uuid
from datetime import date, datetime, time, timedelta, timezone
from decimal import Context, Decimal
from unittest import mock

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tests.readers.object_lab import InMemory, Recorded, chunk, held, laid, read
from tidegate.errors import CorruptDataError, ObjectGoneError, OptionError
from tidegate.readers.avro_format import AvroFormat
from tidegate.readers.bad_records import BadRecordPolicy
from tidegate.readers.object_store import SMALL_BYTES, ObjectStore
from tidegate.readers.objects import ChunkSurvey, S3Object, TimeRange

CODECS = ["null", "deflate", "snappy", "bzip2", "xz"]  # the writer lacks zstandard, which is read as Spark writes it
SPARKS_OWN = "org.apache.spark.sql.avro.AvroFileFormat"
MARKER = bytes(range(16))
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
UTC_US = pa.timestamp("us", "UTC")


@pytest.fixture
def store(config):
    return Recorded(config, "data")


@pytest.fixture(scope="module")
def bucket(server):
    return server.folder / "data"


def avro(rows, codec="null", sync_interval=16_000, **types) -> bytes:
    """Return a file of rows with one field for each type."""
    fields = [{"name": name, "type": kind} for name, kind in types.items()]
    schema = {"type": "record", "name": "row", "namespace": "tests", "fields": fields}
    stream = io.BytesIO()
    fastavro.writer(stream, schema, rows, codec, sync_interval, sync_marker=MARKER)
    return stream.getvalue()


def timed(count: int, step: int = 1, **options) -> bytes:
    return avro([{"n": n, "at": moment(n * step)} for n in range(count)], n="long", at=MILLIS, **options)


def moment(ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=ms)


_numbers = itertools.count()  # names of one length, so that files are as long each time


def _logical(kind, logical, **more):
    return {"type": kind, "logicalType": logical, **more}


def _fixed(size, **more):
    return {"type": "fixed", "name": f"fixed{next(_numbers):08}", "size": size, **more}


def _decimals(precision, scale):
    most = 10**precision - 1
    return st.integers(-most, most).map(lambda number: Decimal(number).scaleb(-scale, Context(prec=38)))


def _moments(step, zone=timezone.utc):
    days = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))  # noqa: DTZ001 - the zone is added
    return days.map(lambda at: at.replace(microsecond=at.microsecond // step * step, tzinfo=zone))


def _milliseconds(at: time) -> int:
    return ((at.hour * 60 + at.minute) * 60 + at.second) * 1000 + at.microsecond // 1000


def _same(value):
    return value


# A type, values as the writer takes them, and what Spark makes of each; None stays None.
_SIMPLE = [
    lambda: ("boolean", st.booleans(), _same),
    lambda: ("int", st.integers(-(2**31), 2**31 - 1), _same),
    lambda: ("long", st.integers(-(2**63), 2**63 - 1), _same),
    lambda: ("float", st.floats(width=32, allow_nan=False), _same),
    lambda: ("double", st.floats(allow_nan=False), _same),
    lambda: ("bytes", st.binary(max_size=5), _same),
    lambda: ("string", st.text(st.characters(exclude_categories=["Cs"]), max_size=5), _same),
    lambda: (["int", "long"], st.integers(-(2**63), 2**63 - 1), _same),
    lambda: (["double", "float"], st.floats(allow_nan=False), _same),
    lambda: (_fixed(3), st.binary(min_size=3, max_size=3), _same),
    lambda: ({"type": "enum", "name": f"enum{next(_numbers):08}", "symbols": ["A", "B"]}, st.sampled_from("AB"), _same),
    lambda: (_logical("int", "date"), st.dates(), _same),
    lambda: (_logical("int", "time-millis"), st.times().map(lambda at: at.replace(microsecond=0)), _milliseconds),
    lambda: (MILLIS, _moments(1000), _same),
    lambda: (_logical("long", "timestamp-micros"), _moments(1), _same),
    lambda: (_logical("long", "local-timestamp-millis"), _moments(1000, None), _same),
    lambda: (_logical("long", "local-timestamp-micros"), _moments(1, None), _same),
    lambda: (_logical("bytes", "decimal", precision=5, scale=2), _decimals(5, 2), _same),
    lambda: (_fixed(16, logicalType="decimal", precision=38, scale=0), _decimals(38, 0), _same),
    lambda: (_logical("string", "uuid"), st.uuids(), str),
]


def _array(inner):
    kind, values, expected = inner
    return {"type": "array", "items": kind}, st.lists(values, max_size=3), lambda some: [*map(expected, some)]


def _map(inner):
    kind, values, expected = inner
    made = st.dictionaries(st.text("abc", max_size=2), values, max_size=3)
    return {"type": "map", "values": kind}, made, lambda some: [(key, expected(each)) for key, each in some.items()]


def _optional(inner):
    kind, values, expected = inner
    kinds = kind if isinstance(kind, list) else [kind]
    if "null" in kinds:
        return inner
    return [*kinds, "null"], st.none() | values, lambda value: None if value is None else expected(value)


def _record(inners):
    fields = {f"f{index}": inner for index, inner in enumerate(inners)}
    kind = {"type": "record", "name": f"record{next(_numbers):08}"}
    kind["fields"] = [{"name": name, "type": each[0]} for name, each in fields.items()]
    values = st.fixed_dictionaries({name: each[1] for name, each in fields.items()})
    return kind, values, lambda row: {name: each[2](row[name]) for name, each in fields.items()}


def _union(members):
    """Members are called by name, so that the writer takes the one that is meant."""
    names = ["double", "string", "boolean", "long", "bytes"][: len(members) + 1]
    values = [st.floats(allow_nan=False), st.text("xyz"), st.booleans(), st.integers(-9, 9), st.binary(max_size=2)]
    drawn = [each.map(lambda value, name=name: (name, value)) for name, each in zip(names, values, strict=False)]

    def expected(told):
        return {f"member{at}": told[1] if name == told[0] else None for at, name in enumerate(names)}

    return names, st.one_of(drawn), expected


kinds = st.recursive(
    st.sampled_from(_SIMPLE).map(lambda make: make()),
    lambda inner: (
        inner.map(_array)
        | inner.map(_map)
        | inner.map(_optional)
        | st.lists(inner, min_size=1, max_size=3).map(_record)
        | st.lists(st.none(), min_size=1, max_size=4)
        .map(_union)
        .flatmap(lambda made: st.sampled_from([made, _optional(made)]))
    ),
    max_leaves=4,
)


@settings(max_examples=50)
@given(st.data())
def test_any_survey_gives_each_row_once_and_the_times_of_its_chunks(data: st.DataObject) -> None:
    kind, values, expected = data.draw(kinds)
    rows = data.draw(st.lists(st.tuples(values, st.none() | st.integers(-9, 9)), max_size=12))
    content = avro(
        [{"c": value, "s": {"at": None if ms is None else moment(ms)}} for value, ms in rows],
        data.draw(st.sampled_from(CODECS)),
        data.draw(st.integers(1, 40)),
        c=kind,
        s={"type": "record", "name": "timed", "fields": [{"name": "at", "type": ["null", MILLIS]}]},
    )
    made = AvroFormat(InMemory(content), None, data.draw(st.integers(1, 2 * len(content))))
    found = held(content)
    schema = made.infer([found])
    with mock.patch.multiple("tidegate.readers.avro_format", REQUEST_BYTES=data.draw(st.integers(1, 100))):
        surveys = made.survey(found, "S.at")
        tables = [read(made, found, schema, each.start, each.end) for each in surveys]

    assert [each.start for each in surveys] == [0, *(each.end for each in surveys)][: len(surveys)]
    assert surveys[-1].end == found.size
    assert [table.num_rows for table in tables] == [each.rows for each in surveys]
    delivered = [row["c"] for table in tables for row in table.to_pylist()]
    assert delivered == [expected(value) for value, _ in rows]
    times = [ms for _, ms in rows]
    for each in surveys:
        mine = [ms for ms in times[: each.rows] if ms is not None]
        assert each.times == (TimeRange(min(mine), max(mine)) if mine else None)
        assert each.rows_without_time == each.rows - len(mine)
        del times[: each.rows]


@settings(max_examples=60)
@given(st.data())
def test_any_cuts_give_each_row_once(data: st.DataObject) -> None:
    content = timed(60, codec=data.draw(st.sampled_from(CODECS)), sync_interval=data.draw(st.integers(1, 200)))
    found = held(content)
    made = AvroFormat(InMemory(content))
    begins = [at.end() for at in re.finditer(re.escape(MARKER), content)]
    near = st.builds(int.__add__, st.sampled_from(begins), st.sampled_from([-17, -16, -1, 0, 1]))
    cuts = sorted(data.draw(st.lists(st.integers(0, found.size) | near, max_size=5)))
    cuts = [min(cut, found.size) for cut in cuts]
    schema = pa.schema([("n", pa.int64())])
    pairs = zip([0, *cuts], [*cuts, found.size], strict=True)
    tables = [read(made, found, schema, start, end) for start, end in pairs]
    assert pa.concat_tables(tables).column("n").to_pylist() == [*range(60)]


def test_what_spark_reads_is_what_is_read(spark, tmp_path) -> None:
    types = {
        "id": "long",
        "at": MILLIS,
        "ntz": ["null", _logical("long", "local-timestamp-micros")],
        "u": ["null", "int", "string", _logical("long", "timestamp-micros"), {"type": "fixed", "name": "F", "size": 3}],
        "w": [_logical("int", "date"), "long"],
        "x": ["float", "double"],
        "d": ["null", _logical("bytes", "decimal", precision=20, scale=3)],
        "not_d": {"type": "fixed", "name": "short", "size": 2},
        "day": _logical("int", "date"),
        "clock": _logical("int", "time-millis"),
        "id2": _logical("string", "uuid"),
        "void": "null",
        "m": {
            "type": "map",
            "values": [
                "null",
                {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "inner",
                        "fields": [
                            {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
                            {"name": "f", "type": ["F", "null"]},
                            {"name": "again", "type": {"type": "array", "items": "tests.E"}},
                        ],
                    },
                },
            ],
        },
    }
    unions = [None, 5, "text", datetime(2024, 2, 29, 12, 30, 1, 123_456, timezone.utc), b"abc"]
    rows = [
        {
            "id": number,
            "at": datetime(1969, 12, 31, 23, 59, 59, 999_000, timezone.utc) + timedelta(milliseconds=number),
            "ntz": datetime(2024, 2, 29, 12, 30, 1, 123_456) if number % 2 else None,  # noqa: DTZ001 - it has none
            "u": unions[number % 5],
            "w": 2**40 + number,
            "x": 0.1,
            "d": Decimal(number).scaleb(-3) if number % 3 else None,
            "not_d": b"\x00\xff",
            "day": date(1500 + number, 1, 1),
            "clock": time(1, 2, 3),
            "id2": uuid.UUID(int=number),
            "void": None,
            "m": {"k": None, "l": [{"e": "B", "f": None, "again": ["A"]}, {"e": "A", "f": b"123", "again": []}]},
        }
        for number in range(20)
    ]
    content = avro(rows, "snappy", 100, **types)
    path = tmp_path / "x.avro"
    path.write_bytes(content)
    made, found = AvroFormat(InMemory(content)), held(content)
    schema = made.infer([found])
    frame = spark.read.format(SPARKS_OWN).load(str(path))
    assert StructType.fromJson(from_arrow_schema(schema).jsonValue()) == frame.schema
    assert read(made, found, schema).to_pylist() == frame.toArrow().to_pylist()


def test_what_spark_wrote_is_read(spark, tmp_path) -> None:
    frame = spark.sql(
        "select id, timestamp_millis(id) at, cast(id as decimal(9, 2)) d, array(named_struct('a', id)) s from range(50)"
    ).coalesce(1)
    for codec in ("uncompressed", "deflate", "snappy", "zstandard", "bzip2", "xz"):
        frame.write.format(SPARKS_OWN).option("compression", codec).save(str(tmp_path / codec))
        (path,) = (tmp_path / codec).glob("*.avro")
        content = path.read_bytes()
        made, found = AvroFormat(InMemory(content)), held(content)
        assert made.survey(found, "at") == [ChunkSurvey(0, found.size, 50, TimeRange(0, 49))]
        assert read(made, found, made.infer([found])).to_pylist() == frame.toArrow().to_pylist()


def test_a_small_object_costs_one_request_and_none_when_no_time_is_asked_for(store, bucket) -> None:
    found = laid(bucket, timed(2))
    made = AvroFormat(store)
    (survey,) = made.survey(found, None)
    assert (survey.start, survey.end, survey.times, survey.rows_without_time) == (0, found.size, None, 0)
    assert survey.rows >= 1
    assert store.asked == []
    assert made.survey(found, "at") == [ChunkSurvey(0, found.size, 2, TimeRange(0, 1))]
    assert read(made, found, pa.schema([("n", pa.int64())])).to_pylist() == [{"n": 0}, {"n": 1}]
    assert store.asked == [(0, found.size)] * 2


def test_an_empty_object_has_no_chunks_and_one_without_rows_has_none(store, bucket) -> None:
    made = AvroFormat(store)
    assert made.survey(laid(bucket, b"", "empty"), "at") == []
    assert made.survey(laid(bucket, b"", "empty"), None) == []
    found = laid(bucket, timed(0))
    assert made.survey(found, "at") == [ChunkSurvey(0, found.size, 0, None)]
    assert read(made, found, pa.schema([("n", pa.int64())])).num_rows == 0


@pytest.fixture(scope="module")
def large(bucket) -> S3Object:
    """An object beyond SMALL_BYTES, in order of time."""
    count = 150_000
    rows = ({"n": n, "at": n * 10, "pad": b"x" * 60} for n in range(count))
    found = laid(bucket, avro(rows, n="long", at={"type": "long", "logicalType": "timestamp-millis"}, pad="bytes"))
    assert found.size > SMALL_BYTES
    return found


def test_only_the_ends_of_large_chunks_are_looked_at(store, large) -> None:
    surveys = AvroFormat(store, chunk_bytes=large.size // 2 + 1).survey(large, "at")
    assert len(surveys) == 2
    assert sum(end - start for start, end in store.asked) < large.size / 8
    assert len(store.asked) == 5  # the header, and both ends of both chunks
    tables = [read(AvroFormat(store), large, pa.schema([("n", pa.int64())]), each.start, each.end) for each in surveys]
    for each, table in zip(surveys, tables, strict=True):
        numbers = table.column("n").to_pylist()
        assert each.times == TimeRange(numbers[0] * 10, numbers[-1] * 10)
        assert each.rows == pytest.approx(len(numbers), rel=0.02)
    assert sum(table.num_rows for table in tables) == 150_000


def test_a_chunk_costs_little_more_than_its_bytes(store, large) -> None:
    start, end = large.size // 3, large.size * 2 // 3
    read(AvroFormat(store), large, pa.schema([("n", pa.int64())]), start, end)
    assert sum(end - start for start, end in store.asked) < end - start + (200 << 10)


def test_blocks_larger_than_what_is_looked_at_are_looked_for(store, bucket) -> None:
    rows = [{"at": moment(n), "pad": bytes(200_000)} for n in range(9)]
    found = laid(bucket, avro(rows, sync_interval=1, at=MILLIS, pad="bytes"))
    surveys = AvroFormat(store, chunk_bytes=found.size // 2 + 1).survey(found, "at")
    assert [each.times for each in surveys] == [TimeRange(0, 4), TimeRange(5, 8)]
    assert not any(each.exact for each in surveys)


def test_a_header_may_be_long(store, bucket) -> None:
    content = avro([{"c": n} for n in range(3)], c={"type": "long", "doc": "x" * 300_000})
    found = laid(bucket, content)
    made = AvroFormat(store, chunk_bytes=100_000)
    surveys = made.survey(found, "at")
    assert [(each.rows, each.exact) for each in surveys] == [(0, True), (0, True), (0, True), (3, True)]
    assert read(made, found, made.infer([found]), surveys[-1].start).to_pylist() == [{"c": n} for n in range(3)]


def test_batches_are_bounded_whatever_the_blocks_are(store, bucket) -> None:
    rows = [{"s": "x" * 3_000} for _ in range(3_000)]
    for sync_interval in (1, 10**8):
        found = laid(bucket, avro(rows, "deflate", sync_interval, s="string"))
        batches = list(AvroFormat(store).read(chunk(found), pa.schema([("s", pa.string())])))
        assert sum(batch.num_rows for batch in batches) == 3_000
        assert max(batch.nbytes for batch in batches) <= 2 << 20
    found = laid(bucket, avro(({"n": 1} for _ in range(40_000)), n="long"))
    assert max(batch.num_rows for batch in AvroFormat(store).read(chunk(found), pa.schema([]))) <= 16_384


@pytest.mark.parametrize("size", [3, 3_000])
def test_an_object_overwritten_after_the_survey_is_gone(config, store, bucket, size) -> None:
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
        ("snappy", -17, "cannot decompress the block at byte 229 by snappy"),
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
            d=_logical("bytes", "decimal", precision=5),
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
    stream = io.BytesIO()
    fastavro.writer(stream, "long", [1], codec="null", sync_marker=MARKER)
    meta = {"avro.schema": json.dumps(schema).encode(), "avro.codec": codec.encode()}
    header = io.BytesIO()
    fastavro.schemaless_writer(header, {"type": "map", "values": "bytes"}, meta)
    return b"Obj\x01" + header.getvalue() + MARKER + b"\x02\x02\x02" + MARKER


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b'{"a": 1}\n', "it does not begin as Avro does"),
        (_with_header("long"), "it holds values of the type int64, not records"),
        (_with_header("nothing"), "its schema is none of Avro"),
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


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (
            {"type": "array", "items": "tests.row"},
            "the column 'c.element' is of the type tests.row, which contains itself",
        ),
        (
            _logical("bytes", "decimal", precision=39),
            "the column 'c' is a decimal of 39 digits; Spark's have 38 at most",
        ),
    ],
)
def test_types_that_spark_does_not_hold_are_refused(kind, sentence) -> None:
    content = avro([], c=kind)
    with pytest.raises(OptionError, match=f"^{sentence}"):
        AvroFormat(InMemory(content)).infer([held(content)])


def test_columns_are_those_of_the_schema(store, bucket) -> None:
    inner = {"type": "record", "name": "inner", "fields": [{"name": "p", "type": "int"}, {"name": "q", "type": "int"}]}
    rows = [{"a": n, "s": text, "n": {"p": 1, "q": n}} for n, text in enumerate("xy")]
    found = laid(bucket, avro(rows, a="long", s="string", n=inner))
    kind = pa.struct([("q", pa.int64()), ("r", pa.string())])
    schema = pa.schema([("S", pa.string()), ("missing", pa.float64()), ("n", kind)])
    made = AvroFormat(store)
    assert read(made, found, schema).to_pylist() == [
        {"S": text, "missing": None, "n": {"q": n, "r": None}} for n, text in enumerate("xy")
    ]
    assert read(made, found, pa.schema([("missing", pa.int8())])).to_pylist() == [{"missing": None}] * 2
    assert sum(batch.num_rows for batch in made.read(chunk(found), pa.schema([]))) == 2
    with pytest.raises(CorruptDataError, match=r"^s3://data/.* cannot be read: the column 'a' is of the type int64"):
        read(made, found, pa.schema([("a", UTC_US)]))


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        ("n", "the column 'n' is of type struct<p: int32>, which holds no event time"),
        ("number", "eventTimeUnit is not given, but the column 'number' of type int32 needs s, ms or us"),
    ],
)
def test_a_column_that_is_no_time_is_refused(store, bucket, column, sentence) -> None:
    inner = {"type": "record", "name": "inner", "fields": [{"name": "p", "type": "int"}]}
    found = laid(bucket, avro([{"n": {"p": 1}, "number": 1}], n=inner, number="int"))
    with pytest.raises(OptionError) as error:
        AvroFormat(store).survey(found, column)
    assert str(error.value) == sentence


def test_a_column_that_an_object_lacks_leaves_its_rows_without_time(store, bucket) -> None:
    found = laid(bucket, timed(3))
    assert AvroFormat(store).survey(found, "other") == [ChunkSurvey(0, found.size, 3, None, 3)]
    assert AvroFormat(store).survey(found, "at.other") == [ChunkSurvey(0, found.size, 3, None, 3)]


def test_the_schema_is_that_of_all_samples(store, bucket) -> None:
    found = [laid(bucket, avro([], **types)) for types in ({"a": "int"}, {"b": "string", "a": "int"}, {"a": "long"})]
    made = AvroFormat(store)
    assert made.infer(found[:2]) == pa.schema([("a", pa.int32()), ("b", pa.string())])
    assert made.infer([*found, S3Object("empty", 0, "", 0)]) == pa.schema([("a", pa.int64()), ("b", pa.string())])
    with pytest.raises(OptionError, match="the objects disagree on the type of a column; give a schema"):
        made.infer([found[0], laid(bucket, avro([], a={"type": "array", "items": "int"}))])
    with pytest.raises(OptionError, match="no object of s3://data holds bytes"):
        made.infer([S3Object("empty", 0, "", 0)])


def test_a_format_is_picklable(store, bucket) -> None:
    found = laid(bucket, avro([{"a": 1}, {"a": 3}], a="long"))
    made = pickle.loads(pickle.dumps(AvroFormat(ObjectStore(store.config, "data"), "ms")))  # noqa: S301
    assert made.survey(found, "a")[0].times == TimeRange(1, 3)


def test_values_that_do_not_fit_follow_the_policy(store, bucket) -> None:
    found = laid(bucket, avro([{"n": "1", "s": "a"}, {"n": "x", "s": None}], n="string", s=["null", "string"]))
    schema = pa.schema([("n", pa.int64()), ("rest", pa.string())])
    rescued = read(AvroFormat(store, bad_records=BadRecordPolicy(rescued_column="rest")), found, schema)
    address = f"s3://data/{found.key}"
    assert rescued.to_pylist() == [
        {"n": 1, "rest": f'{{"s":"a","_file_path":"{address}"}}'},
        {"n": None, "rest": f'{{"n":"x","_file_path":"{address}"}}'},
    ]
    dropped = AvroFormat(store, bad_records=BadRecordPolicy("DROPMALFORMED"))
    assert read(dropped, found, pa.schema([("n", pa.int64())])).to_pylist() == [{"n": 1}]
