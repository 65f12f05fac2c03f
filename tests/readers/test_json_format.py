"""JSON lines against json.loads of every line, and against Spark's own reader."""

from __future__ import annotations

import bz2
import gzip
import json
import math
import pickle
from datetime import date, datetime, timedelta, timezone

import cramjam
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidegate.errors import CorruptDataError, ObjectGoneError, OptionError
from tidegate.readers import json_format, json_lines, line_objects, seen_times
from tidegate.readers.bad_records import FAIL, ChunkRecords
from tidegate.readers.json_format import JsonFormat
from tidegate.readers.json_lines import JsonLines
from tidegate.readers.line_ranges import LineBlock, fetched_ahead, range_blocks, stream_blocks
from tidegate.readers.object_store import ObjectStore
from tidegate.readers.objects import Chunk, S3Object, TimeRange

UTC = timezone.utc
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BOM = b"\xef\xbb\xbf"
INNER = pa.struct([("x", pa.string()), ("y", pa.list_(pa.struct([("z", pa.int64())])))])
SCHEMA = pa.schema(
    [
        ("whole", pa.int64()),
        ("real", pa.float64()),
        ("text", pa.string()),
        ("flag", pa.bool_()),
        ("many", pa.list_(pa.int64())),
        ("inner", INNER),
    ]
)
COMPRESSED = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": lambda text: bytes(cramjam.zstd.compress(text)),
    ".lz4": lambda text: bytes(cramjam.lz4.compress(text)),
}


class Memory:
    """A store of one object that counts what is asked for."""

    def __init__(self, content: bytes, key: str = "a/b.json") -> None:
        self.content = content
        self.object = S3Object(key, len(content), "etag", 0)
        self.requests: list[int] = []

    def address(self, key: str) -> str:
        return key

    def fetch(self, found: S3Object, start: int, end: int) -> bytes:
        assert found == self.object
        assert 0 <= start < end <= len(self.content)
        self.requests.append(end - start)
        return self.content[start:end]


def chunk_of(found: S3Object, start: int, end: int) -> Chunk:
    return Chunk(*found, start, end, rows=1, min_ms=None, max_ms=None)


def read_all(made: JsonFormat, found: S3Object, schema: pa.Schema) -> list[dict]:
    surveys = made.survey(found, None)
    assert [0, *(survey.end for survey in surveys)] == [*(survey.start for survey in surveys), found.size]
    rows = []
    for survey in surveys:
        for batch in made.read(chunk_of(found, survey.start, survey.end), schema):
            assert batch.schema.equals(schema)
            batch.validate(full=True)
            rows += batch.to_pylist()
    return rows


def records_of(schema: pa.Schema) -> ChunkRecords:
    memory = Memory(b"")
    return FAIL.of_chunk(memory, chunk_of(memory.object, 0, 0), schema)


def read_text(content: bytes, schema: pa.Schema) -> list[dict]:
    memory = Memory(content)
    return read_all(JsonFormat(memory), memory.object, schema)


def expected(node, kind: pa.DataType):
    """What json.loads gave, reduced to the columns of a type."""
    if node is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: expected(node.get(field.name), field.type) for field in kind}
    if pa.types.is_list(kind):
        return [expected(item, kind.value_type) for item in node]
    return float(node) if pa.types.is_floating(kind) else node


anything = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
int64s = st.integers(-(2**63), 2**63 - 1)
objects = st.fixed_dictionaries(
    {},
    optional={
        "whole": st.none() | int64s,
        "real": st.none() | st.floats(allow_nan=False) | st.integers(),
        "text": st.none() | st.text(max_size=20),
        "flag": st.none() | st.booleans(),
        "many": st.none() | st.lists(st.none() | int64s, max_size=4),
        "inner": st.none()
        | st.fixed_dictionaries(
            {},
            optional={
                "x": st.none() | st.text(max_size=3),
                "y": st.lists(st.none() | st.fixed_dictionaries({}, optional={"z": int64s, "surplus": anything})),
            },
        ),
        "surplus": anything,
        "other": anything,
    },
)


@st.composite
def lines(draw) -> bytes:
    """A text of JSON lines in any way it may be written."""
    ending = draw(st.sampled_from([b"\n", b"\r\n"]))
    blanks = draw(st.sampled_from([[b""], [b"", b"", b" ", b"\t"]]))
    text = draw(st.sampled_from([b"", BOM]))
    for record in draw(st.lists(objects, max_size=8)):
        for _ in range(draw(st.integers(0, 1)) if len(blanks) > 1 else 0):
            text += draw(st.sampled_from(blanks)) + ending
        written = json.dumps(
            record, ensure_ascii=draw(st.booleans()), separators=draw(st.sampled_from([(",", ":"), (" , ", " : ")]))
        )
        if record and draw(st.integers(0, 9)) == 0:
            written = '{"whole":7,' + written.removeprefix("{")
        text += draw(st.sampled_from(blanks)) + written.encode() + draw(st.sampled_from(blanks)) + ending
    return text if draw(st.booleans()) else text.removesuffix(ending)


def records(text: bytes) -> list[dict]:
    return [json.loads(line) for line in text.removeprefix(BOM).split(b"\n") if line.strip()]


@settings(max_examples=300)
@given(lines(), st.integers(1, 200), st.integers(1, 100))
@example(b'{"whole":1}\n{"whole":2}', 12, 100)
@example(b'{"whole":1}\n{"whole":2}', 11, 100)
@example(BOM + b'{"whole":1}', 1, 1)
def test_any_cut_gives_every_line_once_and_in_order(text, chunk_bytes, block_bytes):
    memory = Memory(text)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(json_format, "BLOCK_BYTES", block_bytes)
        rows = read_all(JsonFormat(memory, None, chunk_bytes), memory.object, SCHEMA)
    assert rows == [expected(record, pa.struct(list(SCHEMA))) for record in records(text)]
    assert max(memory.requests, default=0) <= 3 * block_bytes


@settings(max_examples=300)
@given(st.text("ab\r\n", max_size=60).map(str.encode), st.data())
def test_a_line_belongs_to_the_range_that_holds_its_first_byte(text, data):
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    block_bytes = data.draw(st.integers(1, 70))
    begins = [0, *(at + 1 for at, byte in enumerate(text) if byte == 10 and at + 1 < len(text))] if text else []
    mine = [begin for begin in begins if start <= begin < end]
    after = next((begin for begin in begins if begin >= end), len(text))
    memory = Memory(text)
    blocks = (
        [
            *range_blocks(
                "x", lambda *span: memory.fetch(memory.object, *span), len(text), start, end, block_bytes=block_bytes
            )
        ]
        if start < end
        else []
    )
    assert b"".join(block.data for block in blocks) == (text[mine[0] : after] if mine else b"")
    assert all(text[block.offset :].startswith(block.data) and block.offset in begins for block in blocks)

    pieces = [text[at : at + block_bytes] for at in range(0, len(text), block_bytes)]
    blocks = [*stream_blocks("x", pieces)]
    assert b"".join(block.data for block in blocks) == text
    assert all(text[block.offset :].startswith(block.data) and block.offset in begins for block in blocks)


def test_a_line_without_end_is_refused(monkeypatch):
    monkeypatch.setattr("tidegate.readers.line_ranges.LONGEST_LINE", 2**20)
    memory = Memory(b"{}\n" + b"x" * 2**21)
    fetch = lambda *span: memory.fetch(memory.object, *span)  # noqa: E731
    with pytest.raises(CorruptDataError, match=r"^k: the line at byte 3 is longer than 1 MiB$"):
        [*range_blocks("k", fetch, memory.object.size, 0, memory.object.size, block_bytes=1000)]
    with pytest.raises(CorruptDataError, match="the line at byte 3 is longer than 1 MiB"):
        [*stream_blocks("k", [memory.content[:1000], memory.content[1000:]])]


def test_fetching_ahead_changes_nothing_but_the_time():
    asked = []

    def blocks(error=None):
        for number in range(5):
            asked.append(number)
            yield LineBlock(number, b"{}\n")
        if error:
            raise error

    assert [*fetched_ahead(blocks())] == [*blocks()]
    with pytest.raises(ObjectGoneError):
        [*fetched_ahead(blocks(ObjectGoneError("gone")))]
    asked.clear()
    ahead = fetched_ahead(blocks())
    next(ahead)
    ahead.close()
    assert asked == [0, 1]


@pytest.mark.parametrize("suffix", COMPRESSED)
@settings(max_examples=30)
@given(text=lines(), members=st.integers(1, 2))
def test_compressed_objects_are_one_chunk(suffix, text, members):
    halves = [text] if members == 1 else [text[: len(text) // 2], text[len(text) // 2 :]]
    memory = Memory(b"".join(COMPRESSED[suffix](half) for half in halves), f"x.JSON{suffix}")
    made = JsonFormat(memory, chunk_bytes=1)
    assert len(made.survey(memory.object, None)) == 1
    rows = read_all(made, memory.object, SCHEMA)
    assert rows == [expected(record, pa.struct(list(SCHEMA))) for record in records(text)]


def test_what_cannot_be_decompressed_is_refused():
    for suffix, compress in COMPRESSED.items():
        whole = compress(b'{"whole":1}\n' * 1000)
        for content in (whole[:-9], b"no " + whole, whole[: len(whole) // 2]):
            memory = Memory(content, f"x{suffix}")
            with pytest.raises(CorruptDataError, match=f"^x{suffix}: cannot decompress it by"):
                read_all(JsonFormat(memory), memory.object, SCHEMA)
    memory = Memory(b"x", "x.json.snappy")
    with pytest.raises(CorruptDataError, match=r"x\.json\.snappy: cannot decompress it; readable are \.gz"):
        JsonFormat(memory).survey(memory.object, None)


# --- what is no JSON object ---

BAD = [
    b"null",
    b"true",
    b"1",
    b'"x"',
    b"[]",
    b'[{"whole":1}]',
    b'{"whole":1} {"whole":2}',
    b'{"whole":1}{"whole":2}',
    b'{"whole":1} null',
    b'{"whole":1},',
    b'{"whole":1',
    b'"whole":1}',
    b'{"whole":1,}',
    b"{whole:1}",
    b"{'whole':1}",
    b'{"whole":01}',
    b'{"whole":1}\r{"whole":2}',
    b'{"surplus":"\xff"}',
    b'{"text":"a\tb"}',
    b'{"whole":1}\0',
    b'{"surplus":tru}',
    b'{"whole":' + b"[" * 100_000,
    b'{"many":[1,',
    b"\xef\xbb\xbf{}",
]


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("before", [b"", b'{"text":"secret"}\r\n \n'])
@pytest.mark.parametrize("after", [b"", b"\n", b'\n{"text":"secret"}\n'])
def test_a_malformed_line_is_named_by_its_place_and_never_shown(bad, before, after):
    if not before and bad.startswith(BOM):
        return
    with pytest.raises(
        CorruptDataError, match=rf"^a/b\.json: the line at byte {len(before)} is no JSON object"
    ) as raised:
        read_text(before + bad + after, SCHEMA)
    assert "secret" not in str(raised.value)
    assert "whole" not in str(raised.value)


def test_values_that_go_on_in_the_next_line_are_not_joined():
    for text in (
        b'{"whole":1}{"whole":2}\n{"whole":\n3}\n',
        b'{"whole":1}{"whole":2}\n{"inner":\n{"x":"1"}}\n',
        b'{"whole":\n1}\n',
        b'{"inner":{"x":"1"}\n}{}\n',
    ):
        with pytest.raises(CorruptDataError, match="is no JSON object"):
            read_text(text, SCHEMA)


@pytest.mark.parametrize(
    ("kind", "bad"),
    [
        (pa.int64(), "9223372036854775808"),
        (pa.int64(), "1.0"),
        (pa.int64(), "1e2"),
        (pa.int64(), '"1"'),
        (pa.int64(), "true"),
        (pa.int64(), "1" * 5000),
        (pa.int8(), "128"),
        (pa.float64(), '"1"'),
        (pa.bool_(), "0"),
        (pa.bool_(), '"true"'),
        (pa.list_(pa.int64()), "1"),
        (pa.list_(pa.int64()), '["1"]'),
        (INNER, "[]"),
        (INNER, '{"y":[{"z":"1"}]}'),
        (pa.map_(pa.string(), pa.int64()), "[]"),
        (pa.decimal128(3, 1), "123.5"),
        (pa.decimal128(3, 1), "100"),
        (pa.list_(pa.decimal128(3, 1)), "[100]"),
        (pa.decimal128(3, 1), '"x"'),
        (pa.decimal128(3, 1), "NaN"),
        (pa.timestamp("us", "UTC"), '"soon"'),
        (pa.timestamp("us", "UTC"), "1.5"),
        (pa.timestamp("us", "UTC"), "99999999999999"),
        (pa.timestamp("us", "UTC"), '"2020-02-30T00:00:00Z"'),
        (pa.timestamp("us", "UTC"), '"2020-01-01 00:00:00 Nowhere/Land"'),
        (pa.timestamp("us"), '"2020-01-01T00:00:00Z"'),
        (pa.timestamp("us"), "1"),
        (pa.date32(), "1"),
        (pa.date32(), '"2020-02-30"'),
        (pa.binary(), '"?"'),
    ],
)
def test_a_value_that_does_not_fit_is_named_by_column_and_place(kind, bad):
    schema = pa.schema([("c", kind)])
    with pytest.raises(CorruptDataError) as raised:
        read_text(b'{"c":null}\n{"c":' + bad.encode() + b"}\n", schema)
    assert str(raised.value) == f"a/b.json: the line at byte 11 has no {kind} in 'c'"


def test_a_type_that_json_has_not_is_refused():
    with pytest.raises(OptionError, match=r"^the column 'a\.b' cannot be read from JSON as duration\[us\]$"):
        JsonLines(pa.schema([("a", pa.struct([("b", pa.duration("us"))]))]))


# --- both ways to read give the same ---

fractions = st.integers(0, 9).flatmap(lambda digits: st.text("0123456789", min_size=digits, max_size=digits))
moments = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)).map(lambda moment: moment.replace(microsecond=0))  # noqa: DTZ001
zones = st.sampled_from(["Z", "+01:00", "-0530", "+00", "+14:00"])


@given(st.lists(st.tuples(moments, fractions, zones), min_size=1, max_size=5), st.booleans(), st.sampled_from("T "))
def test_timestamps_are_exact_with_and_without_zones(given_times, has_zone, between):
    kind = pa.timestamp("us", "UTC")
    texts, times = [], []
    for moment, fraction, zone in given_times:
        written = moment.isoformat(between) + (f".{fraction}" if fraction else "")
        texts.append(written + zone if has_zone else written)
        sign = -1 if zone.startswith("-") else 1
        offset = sign * timedelta(hours=int(zone[1:3] or 0), minutes=int(zone[-2:]) if len(zone) > 3 else 0)
        offset = offset if has_zone else timedelta(0)
        microseconds = int(fraction.ljust(6, "0")[:6])
        times.append((moment.replace(tzinfo=UTC) - EPOCH - offset) // timedelta(microseconds=1) + microseconds)
    text = "".join(json.dumps({"c": text, "l": [{"t": text}]}) + "\n" for text in texts).encode()
    schema = pa.schema([("c", kind), ("l", pa.list_(pa.struct([("t", kind)])))])
    (batch,) = JsonLines(schema).batches(records_of(schema), LineBlock(0, text))
    assert batch.column("c").view(pa.int64()).to_pylist() == times
    assert batch.column("l").flatten().field("t").view(pa.int64()).to_pylist() == times
    assert JsonLines(schema)._careful(records_of(schema), LineBlock(0, text)).equals(batch)


PLAIN = pa.schema(
    [
        ("i", pa.int32()),
        ("f", pa.float32()),
        ("d", pa.decimal128(20, 4)),
        ("s", pa.string()),
        ("b", pa.binary()),
        ("day", pa.date32()),
        ("t", pa.timestamp("us", "UTC")),
        ("ntz", pa.timestamp("us")),
        ("l", pa.list_(pa.decimal128(20, 4))),
        ("r", pa.struct([("day", pa.date32()), ("b", pa.binary())])),
    ]
)
dates = st.dates(date(1, 1, 1), date(9999, 12, 31)).map(date.isoformat)
base64s = st.sampled_from(["", "YWI=", "YWJj"])
decimals = st.decimals(-(10**16) + 1, 10**16 - 1, places=4, allow_nan=False).map(lambda number: f"{number:f}")
values = {
    "i": st.integers(-(2**31), 2**31 - 1).map(str),
    "f": st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr),
    "d": decimals | decimals.map(json.dumps),
    "s": st.text(max_size=5).map(json.dumps),
    "b": base64s.map(json.dumps),
    "day": dates.map(json.dumps),
    "t": st.datetimes().map(datetime.isoformat).map(json.dumps),
    "ntz": st.datetimes().map(datetime.isoformat).map(json.dumps),
    "l": st.lists(decimals | st.just("null"), max_size=3).map(lambda items: f"[{','.join(items)}]"),
    "r": st.builds('{{"day":"{}","b":"{}"}}'.format, dates, base64s),
}


@given(
    st.lists(st.fixed_dictionaries({}, optional={n: st.just("null") | kind for n, kind in values.items()}), max_size=5)
)
def test_reading_at_once_and_line_by_line_give_the_same(written):
    text = "".join(
        "{" + ",".join(f'"{name}":{value}' for name, value in row.items()) + "}\n" for row in written
    ).encode()
    made = JsonLines(PLAIN)
    if text:
        quick = made._quick(text)
        assert quick is not None
        quick.validate(full=True)
        assert quick.equals(made._careful(records_of(PLAIN), LineBlock(0, text)))


def test_the_last_of_equal_keys_counts():
    schema = pa.schema([("a", pa.int64()), ("b", pa.struct([("c", pa.int64())]))])
    text = b'{"a":1,"a":2}\n{"a":1,"a":null,"x":1,"x":2}\n{"b":{"c":1,"c":3}}\n'
    assert read_text(text, schema) == [{"a": 2, "b": None}, {"a": None, "b": None}, {"a": None, "b": {"c": 3}}]


def test_strings_take_other_json_as_its_text_and_half_a_surrogate_pair_as_java_does():
    texts = ['{"x": [1.50, null, true], "y": "\\u00e9"}', "1e5", "[]", "false", '"\\ud800x"', '"\\u0000"']
    text = "".join(f'{{"c":{text}}}\n' for text in texts).encode()
    rows = read_text(text, pa.schema([("c", pa.string())]))
    assert [row["c"] for row in rows] == ['{"x":[1.50,null,true],"y":"é"}', "1e5", "[]", "false", "?x", "\0"]


def test_numbers_that_are_not_finite():
    text = b'{"c":NaN}\n{"c":-Infinity}\n{"c":1e999}\n{"c":"+INF"}\n'
    found = [row["c"] for row in read_text(text, pa.schema([("c", pa.float64())]))]
    assert math.isnan(found[0])
    assert found[1:] == [-math.inf, math.inf, math.inf]


def test_a_required_column_and_required_fields_keep_the_schema():
    inner = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("b", inner)])
    assert read_text(b'{"a":1,"b":{"x":2}}\n', schema) == [{"a": 1, "b": {"x": 2}}]


def test_no_columns_are_no_fault():
    assert read_text(b"{}\n{}\n", pa.schema([])) == [{}, {}]


FORMS = {
    "timestamp": [
        '"2020-01-02T03:04:05Z"', '"2020-01-02T03:04:05.123456789Z"', '"2020-01-02 03:04:05"', '"2020-01-02"',
        '"2020-01-02T03:04"', '"2020-1-2 3:4:5.6"', '"2020-01-02T03:04:05+01:30"', '"2020-01-02T03:04:05-0130"',
        '"2020-01-02T03:04:05+01"', '"2020-01-02T03:04:05 UTC"', '"2020-01-02T03:04:05 Europe/Berlin"',
        '"2020-01-02T03:04:05 UTC+1"', '" 2020-01-02T03:04:05 "', '"1900-01-01T00:00:00.0000019"', '"2020"',
        '"2020-02"', '"2020-02-30"', '"soon"', '""', "0", "1577934245", "-1", "true", "[]", '"2020-01-02T24:00:00Z"',
        '"2020-01-02T03:04:60Z"', '"0001-01-01T00:00:00Z"', '"9999-12-31T23:59:59.999999Z"', "null",
    ],
    "timestamp_ntz": [
        '"2020-01-02T03:04:05"', '"2020-01-02 03:04:05.123456789"', '"2020-01-02"', '"2020-01-02T03:04:05Z"', "0",
    ],
    "date": [
        '"2020-01-02"', '"2020-1-2"', '"2020-01-02T03:04"', '"2020-01-02 x"', '"2020"', '"2020-02"', '"2020-02-30"',
        '"x"', "null",
    ],
    "decimal(6,2)": [
        "1", "1.5", "1.005", "1.015", "-1.015", '"1.5"', "1e2", "9999.99", "9999.995", "10000", '"x"', '"1e1"',
        "true",
    ],
    "double": [
        "1", "0.1", "1e5", "123456789012345678901234567890", "1e999", '"NaN"', '"INF"', '"+INF"', '"-Infinity"',
        '"+Infinity"', "NaN", "-Infinity", '"1"',
    ],
    "bigint": ["1", "-0", "9223372036854775807", "9223372036854775808", "1.0", "1e2", '"1"', "true"],
    "tinyint": ["127", "-128"],
    "boolean": ["true", "false", "1", '"true"'],
    "string": ['"a"', "1", "1.50", "1e5", "true", "null", '{"a":[1,"b",null]}', "[]", '"\\u00e9\\n\\u0000"'],
    "binary": ['"YWI="', '""', "1"],
    "array<int>": ["[1,null]", "[]", "1", "null"],
    "map<string,double>": ['{"a":1,"b":null}', "{}", "[]"],
    "struct<a:int,b:array<struct<c:string>>>": ['{"a":1,"z":2}', "{}", '{"b":[{"c":"x"},null]}', "[]"],
}  # fmt: skip


@pytest.mark.parametrize("sql", FORMS)
def test_values_are_what_sparks_own_reader_makes_of_them(spark, tmp_path, sql):
    """Where Spark's gives a null, ours refuses the line."""
    texts = FORMS[sql]
    folder = tmp_path / "json"
    folder.mkdir()
    (folder / "x.json").write_text("".join(f'{{"n":{n},"c":{text}}}\n' for n, text in enumerate(texts)))
    schema = f"n int, c {sql}"
    frame = spark.read.schema(schema).json(str(folder)).orderBy("n")
    theirs = {row["n"]: row["c"] for row in frame.toArrow().to_pylist()}
    arrow = frame.limit(0).toArrow().schema
    for number, text in enumerate(texts):
        line = f'{{"n":{number},"c":{text}}}\n'.encode()
        try:
            mine = read_text(line, arrow)[0]["c"]
        except CorruptDataError:
            mine = None
            assert text != "null"
        assert repr(mine) == repr(theirs[number]), text


# --- survey ---


def timed(times: list[int | None], padding: list[int]) -> bytes:
    records = [{"at": {"ms": ms}, "x": "x" * more} for ms, more in zip(times, padding, strict=True)]
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def rows_by_chunk(memory: Memory, chunks: list[tuple[int, int]]) -> list[list[int | None]]:
    """The times of the lines that begin in each chunk, by looking at all of them."""
    found, at = [[] for _ in chunks], 0
    for line in memory.content.splitlines(keepends=True):
        number = next(number for number, (start, end) in enumerate(chunks) if start <= at < end)
        found[number].append(json.loads(line)["at"]["ms"])
        at += len(line)
    return found


rows_with_times = st.lists(st.tuples(st.none() | st.integers(0, 10**13), st.integers(0, 90)), min_size=1, max_size=40)


@settings(max_examples=200)
@given(rows_with_times, st.integers(1, 600), st.booleans())
def test_a_small_object_is_known_exactly_from_one_request(rows, chunk_bytes, is_cut):
    memory = Memory(timed(*map(list, zip(*rows, strict=True))))
    surveys = JsonFormat(memory, "ms", chunk_bytes if is_cut else 2**26).survey(memory.object, "at.ms")
    spans = [(survey.start, survey.end) for survey in surveys]
    assert [0, *(end for _, end in spans)] == [*(start for start, _ in spans), memory.object.size]
    assert memory.requests == [memory.object.size]
    for survey, times in zip(surveys, rows_by_chunk(memory, spans), strict=True):
        known = [time for time in times if time is not None]
        assert survey.rows == len(times)
        assert survey.rows_without_time == len(times) - len(known)
        assert survey.times == (TimeRange(min(known), max(known)) if known else None)


@settings(max_examples=200)
@given(rows_with_times, st.integers(30, 600))
def test_probes_find_the_times_of_chunks_whose_lines_are_in_order(rows, chunk_bytes):
    times = sorted(time for time, _ in rows if time is not None)
    memory = Memory(timed(times, [padding for _, padding in rows][: len(times)]))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(line_objects, "WHOLE_BYTES", 0)
        patched.setattr(seen_times, "PROBE_BYTES", 12)
        surveys = JsonFormat(memory, "ms", chunk_bytes).survey(memory.object, "at.ms")
    spans = [(survey.start, survey.end) for survey in surveys]
    for survey, inside in zip(surveys, rows_by_chunk(memory, spans), strict=True):
        assert survey.times == (TimeRange(inside[0], inside[-1]) if inside else None)


def test_a_chunk_of_which_only_the_ends_are_looked_at_is_not_known_exactly():
    times = [5] * 4000 + [9] * 2000 + [5] * 4000
    memory = Memory(timed(times, [60] * len(times)))
    (survey,) = JsonFormat(memory, "ms").survey(memory.object, "at.ms")
    assert (survey.times, survey.exact) == ((5, 5), False)
    assert all(survey.exact for survey in JsonFormat(memory, "ms", 100_000).survey(memory.object, "at.ms"))


def test_chunks_with_few_long_lines_are_known_exactly():
    memory = Memory(timed([1, 2], [900_000] * 2))
    surveys = JsonFormat(memory, "ms", 300_000).survey(memory.object, "at.ms")
    assert all(survey.exact for survey in surveys)
    assert sorted((survey.rows, survey.times) for survey in surveys if survey.rows) == [(1, (1, 1)), (1, (2, 2))]
    assert len(surveys) == 7


def test_a_large_object_is_probed_at_both_ends_of_its_chunks():
    count = 20_000
    memory = Memory(timed(list(range(count)), [60] * count))
    surveys = JsonFormat(memory, "ms", 2**20).survey(memory.object, "at.ms")
    assert len(surveys) == 2
    assert len(memory.requests) == 4
    assert sum(memory.requests) < 400_000
    assert max(memory.requests) < 100_000
    assert (surveys[0].times.min_ms, surveys[-1].times.max_ms) == (0, count - 1)
    assert surveys[0].times.max_ms + 1 == surveys[1].times.min_ms
    assert sum(survey.rows for survey in surveys) == pytest.approx(count, rel=0.02)


@pytest.mark.parametrize("longest", [70_000, 200_000, 400_000])
def test_lines_longer_than_a_probe_are_looked_for(longest):
    memory = Memory(timed([1, 2, 3, 4], [longest] * 4))
    (survey,) = JsonFormat(memory, "ms").survey(memory.object, "at.ms")
    assert survey.times == (1, 4)
    cut = JsonFormat(memory, "ms", longest // 3).survey(memory.object, "at.ms")
    assert [survey.times for survey in cut if survey.times] == [(n, n) for n in (1, 2, 3, 4)]
    assert all((survey.rows == 0) == (survey.times is None) for survey in cut)


@pytest.mark.parametrize("suffix", COMPRESSED)
def test_a_compressed_object_is_known_exactly(suffix, monkeypatch):
    monkeypatch.setattr(json_format, "BLOCK_BYTES", 1000)
    times = [5, None, 900, 3, 7] * 200
    memory = Memory(COMPRESSED[suffix](timed(times, [0] * 1000)), f"x{suffix}")
    (survey,) = JsonFormat(memory, "ms").survey(memory.object, "at.ms")
    assert (survey.start, survey.end, survey.rows, survey.rows_without_time) == (0, memory.object.size, 1000, 200)
    assert survey.times == (3, 900)


def test_without_a_column_nothing_is_requested():
    memory = Memory(b"{}\n" * 1000)
    surveys = JsonFormat(memory, None, 1000).survey(memory.object, None)
    assert [(survey.start, survey.end) for survey in surveys] == [(0, 1000), (1000, 2000), (2000, 3000)]
    assert all(survey.rows >= 1 and survey.times is None for survey in surveys)
    assert JsonFormat(memory).survey(S3Object("k", 0, "", 0), "at") == []
    assert memory.requests == []


@pytest.mark.parametrize(
    ("unit", "values", "times"),
    [
        (
            None,
            ['"2020-01-01T00:00:00.0019Z"', '"1969-12-31T23:59:59.9999Z"', '"soon"', "null"],
            (-1, 1_577_836_800_001),
        ),
        (
            "s",
            ["1577836800", "1577836800.5", '"1577836801"', "true", "NaN", "1e400"],
            (1_577_836_800_000, 1_577_836_801_000),
        ),
        ("us", ["1577836800000001", "{}"], (1_577_836_800_000, 1_577_836_800_000)),
        ("ms", ["123456789012345678901234567890", "[]"], None),
    ],
)
def test_event_times_follow_their_unit(unit, values, times):
    memory = Memory("".join(f'{{"at":{value}}}\n' for value in values).encode())
    (survey,) = JsonFormat(memory, unit).survey(memory.object, "at")
    assert survey.times == times
    assert survey.rows == len(values)


def test_numbers_without_a_unit_are_refused():
    memory = Memory(b'{"at":1}\n')
    with pytest.raises(OptionError, match=r"'at' of a/b\.json holds numbers, so eventTimeUnit must say"):
        JsonFormat(memory).survey(memory.object, "at")


def test_a_survey_refuses_what_is_no_json():
    for bad in BAD:
        memory = Memory(b'{"at":"secret"}\n' + bad + b"\n")
        if bad == b'{"text":"a\tb"}' or not bad.startswith(BOM):
            with pytest.raises(CorruptDataError, match="the line at byte 16 is no JSON object"):
                JsonFormat(memory).survey(memory.object, "at")


# --- bounds ---


def test_a_batch_is_bounded_however_little_text_makes_it(monkeypatch):
    monkeypatch.setattr(json_lines, "BATCH_BYTES", 100_000)
    quick, made = JsonLines._quick, []
    monkeypatch.setattr(JsonLines, "_quick", lambda *given: made.append(quick(*given)) or made[-1])
    wide = pa.schema([(f"c{number}", pa.int64()) for number in range(50)])
    nested = pa.schema([("l", pa.list_(pa.struct(list(wide))))])
    for schema, text in [
        (wide, b"{}\n" * 5000),
        (nested, b'{"l":[{},{},{}]}\n' * 500),
        (SCHEMA, b'{"text":"' + b"x" * 1000 + b'"}\n'),
    ]:
        batches = [*JsonLines(schema).batches(records_of(schema), LineBlock(0, text))]
        assert sum(batch.num_rows for batch in batches) == text.count(b"\n")
        assert all(batch.num_rows == 1 or batch.nbytes <= 100_000 for batch in batches)
    assert len(batches) == 1
    wide_ones = [batch for batch in made if batch.num_columns == 50]
    assert max(batch.nbytes for batch in wide_ones) <= 100_000


def test_a_large_chunk_is_read_in_bounded_pieces():
    memory = Memory(timed(list(range(300_000)), [60] * 300_000))
    before = pa.total_allocated_bytes()
    rows, most = 0, 0
    schema = pa.schema([("at", pa.struct([("ms", pa.int64())])), ("x", pa.string())])
    for batch in JsonFormat(memory).read(chunk_of(memory.object, 0, memory.object.size), schema):
        rows += batch.num_rows
        most = max(most, pa.total_allocated_bytes() - before)
        assert batch.nbytes <= json_lines.BATCH_BYTES
    assert rows == 300_000
    assert memory.object.size > 3 * json_format.BLOCK_BYTES
    assert max(memory.requests) <= json_format.BLOCK_BYTES + 2 * 16 * 1024
    assert most < 5 * json_format.BLOCK_BYTES


# --- schema ---


def inferred(*texts: bytes) -> pa.Schema:
    memories = {f"{number}.json": Memory(text, f"{number}.json") for number, text in enumerate(texts)}

    class Several(Memory):
        def fetch(self, found, start, end):
            return memories[found.key].fetch(found, start, end)

    return JsonFormat(Several(b"")).infer([memory.object for memory in memories.values()])


def test_the_schema_is_that_of_all_samples_in_alphabetical_order():
    schema = inferred(
        b'{"b":1,"a":"2020-01-01","n":null,"l":[],"e":{}}\n',
        b'{"l":[{"y":1.5}],"b":2.5,"s":{"z":true,"a":1},"mixed":1,"big":9223372036854775808}\n',
        b'{"l":[{"x":[null]}],"s":{"q":null},"mixed":"x","big":1,"huge":'
        + b"9" * 50
        + b',"min":-9223372036854775808}\n',
    )
    item = pa.struct([("x", pa.list_(pa.field("element", pa.string()))), ("y", pa.float64())])
    assert schema == pa.schema(
        [
            ("a", pa.string()),
            ("b", pa.float64()),
            ("big", pa.decimal128(19, 0)),
            ("huge", pa.float64()),
            ("l", pa.list_(pa.field("element", item))),
            ("min", pa.int64()),
            ("mixed", pa.string()),
            ("n", pa.string()),
            ("s", pa.struct([("a", pa.int64()), ("q", pa.string()), ("z", pa.bool_())])),
        ]
    )


@given(st.lists(lines(), max_size=3))
def test_every_sample_can_be_read_by_the_schema_that_was_inferred(texts):
    schema = inferred(*texts)
    assert list(schema.names) == sorted(schema.names)
    for text in texts:
        rows = read_text(text, schema)
        for row, record in zip(rows, records(text), strict=True):
            for name in schema.names:
                kind = schema.field(name).type
                if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
                    assert row[name] == record.get(name)
                if pa.types.is_floating(kind) and record.get(name) is not None:
                    assert row[name] == float(record[name])  # of integers beyond 2**53 the nearest, as by Spark
                assert (row[name] is None) == (record.get(name) is None)


def test_only_the_first_mebibyte_of_a_sample_is_looked_at():
    for suffix, compress in {"": bytes, **COMPRESSED}.items():
        memory = Memory(compress(b'{"a":1}\n' * 140_000 + b'{"b":1}\n' * 300_000), f"x{suffix}")
        assert JsonFormat(memory).infer([memory.object]).names == ["a"]
        assert sum(memory.requests) <= 2**20 + 2**15
    memory = Memory(b'{"a":1}\n{"secret"\n')
    with pytest.raises(CorruptDataError, match=r"^a/b\.json: the line at byte 8 is no JSON object: [^{]*$"):
        JsonFormat(memory).infer([memory.object])


# --- the real endpoint ---


def test_objects_of_a_real_endpoint(server, config):
    server.create_bucket("json")
    client = server.client()
    made = pickle.loads(pickle.dumps(JsonFormat(ObjectStore(config, "json"), "ms", 200_000)))  # noqa: S301 - its own
    text = timed(list(range(10_000)), [30] * 10_000)
    schema = pa.schema([("at", pa.struct([("ms", pa.int64())]))])
    for key in ("dt=1/ü 100%+.json", "ü/packed.json.gz"):
        client.put_object(Bucket="json", Key=key, Body=gzip.compress(text) if key.endswith("gz") else text)
    for entry in client.list_objects_v2(Bucket="json")["Contents"]:
        found = S3Object(entry["Key"], entry["Size"], entry["ETag"].strip('"'), 0)
        assert made.infer([found]).names == ["at", "x"]
        surveys = made.survey(found, "at.ms")
        assert len(surveys) == (1 if found.key.endswith("gz") else 3)
        assert (surveys[0].times.min_ms, surveys[-1].times.max_ms) == (0, 9_999)
        rows = [row["at"]["ms"] for row in read_all(made, found, schema)]
        assert rows == [*range(10_000)]
        client.put_object(Bucket="json", Key=found.key, Body=b"{}\n")
        with pytest.raises(ObjectGoneError, match="was overwritten"):
            made.survey(found, "at.ms")
        with pytest.raises(ObjectGoneError, match="was overwritten"):
            read_all(made, found, schema)
        with pytest.raises(ObjectGoneError, match="was overwritten"):
            made.infer([found])
    client.close()
