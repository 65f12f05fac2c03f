"""JSON lines, compared with json.loads of every line and with Spark's reader; surveys, inference and bad lines."""

from __future__ import annotations

import base64
import json
from itertools import product

import pyarrow as pa
import pytest

from tests.readers.formats.files import BAD, SCHEMA, read_text, records_of
from tests.support.objects.lab import BOM, COMPRESSED, Memory, chunk, read_all
from tidegate.errors import BadRecordError, CorruptDataError, ObjectGoneError, OptionError
from tidegate.readers.arrow import arrays
from tidegate.readers.formats import json_lines
from tidegate.readers.formats import json_values as values
from tidegate.readers.formats.bad_records import BadRecordPolicy
from tidegate.readers.formats.json import JsonFormat
from tidegate.readers.formats.json_lines import JsonLines
from tidegate.readers.formats.lines import LineBlock, range_blocks, stream_blocks
from tidegate.readers.objects.file import fetched_ahead


def test_a_line_without_end_is_refused(monkeypatch):
    monkeypatch.setattr("tidegate.readers.formats.lines.LONGEST_LINE", 2**20)
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


@pytest.mark.parametrize("bad", BAD)
def test_a_malformed_line_is_named_by_its_place_and_never_shown(bad):
    around = product([b"", b'{"text":"secret"}\r\n \n'], [b"", b"\n", b'\n{"text":"secret"}\n'])
    for before, after in around:
        if not before and bad.startswith(BOM):
            continue
        sentence = rf"^a/b\.json: the line at byte {len(before)} is not a JSON object"
        with pytest.raises(BadRecordError, match=sentence) as raised:
            read_text(before + bad + after, SCHEMA)
        assert "secret" not in str(raised.value)
        assert "whole" not in str(raised.value)


def test_a_byte_order_mark_carriage_returns_and_blank_lines_are_no_part_of_values():
    rows = read_text(BOM + b'{"text":"a"}\r\n \n\r\n\t{"text":"b"} \n{"text":"c"}', SCHEMA)
    assert [row["text"] for row in rows] == ["a", "b", "c"]


def test_values_that_go_on_in_the_next_line_are_not_joined():
    for text in (
        b'{"whole":1}{"whole":2}\n{"whole":\n3}\n',
        b'{"whole":1}{"whole":2}\n{"inner":\n{"x":"1"}}\n',
        b'{"whole":\n1}\n',
        b'{"inner":{"x":"1"}\n}{}\n',
    ):
        with pytest.raises(BadRecordError, match="is not a JSON object"):
            read_text(text, SCHEMA)


def test_a_batch_is_bounded_however_little_text_makes_it(monkeypatch):
    for module in (json_lines, arrays):
        monkeypatch.setattr(module, "BATCH_BYTES", 100_000)
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


SQL = (
    "n int, i int, d double, s string, l array<int>, m map<string,int>, t timestamp, day date, dec decimal(4,2), "
    "r struct<x:int,y:string,z:struct<u:boolean>>, a array<struct<x:int,y:int>>, _corrupt_record string"
)
CONTENTS = [
    '"i":1,"d":1.5,"s":"a","l":[1,2],"m":{"k":1}',
    '"i":"x","s":"kept"',
    '"i":1.5',
    '"i":9999999999,"d":2',
    '"d":"x","i":3',
    '"l":[1,"x",3],"i":4',
    '"l":5,"i":5',
    '"m":{"a":1,"b":"x"}',
    '"t":"soon","i":6',
    '"day":"2026-02-30","dec":1.25',
    '"dec":100,"i":7',
    '"r":{"x":1,"y":"b","z":{"u":true}}',
    '"r":{"x":"no","y":"b","z":{"u":true}},"i":8',
    '"r":{"x":2,"y":"b","z":{"u":1}},"i":9',
    '"r":[],"i":10',
    '"a":[{"x":1,"y":2},{"x":"no","y":4}],"i":11',
    '"surplus":{"deep":[1]},"i":12',
    '"i":null,"s":{"any":[1.50,"x"]}',
]
INNER = pa.struct([("x", pa.int64())])
MALFORMED = ["", "{", '{"n":', "[1]", "nothing", '"text"', '{"n":1,}']
LINES = [*(f'{{"n":{n},{content}}}' for n, content in enumerate(CONTENTS)), *MALFORMED]


def read(content: bytes, schema: pa.Schema, policy: BadRecordPolicy, set_aside=None) -> list[dict]:
    memory = Memory(content)
    made = JsonFormat(memory, bad_records=policy)
    rows = []
    for batch in made.read(chunk(memory.object), schema, set_aside):
        assert batch.schema.equals(schema)
        batch.validate(full=True)
        rows += batch.to_pylist()
    return rows


@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED"])
def test_modes_give_what_they_give_in_sparks_own_reader(spark, tmp_path, mode):
    file = tmp_path / "in" / "x.json"
    file.parent.mkdir()
    file.write_text("\n".join(LINES))
    frame = spark.read.schema(SQL).option("mode", mode).json(str(file.parent))
    theirs = frame.toArrow()
    mine = read(file.read_bytes(), theirs.schema, BadRecordPolicy(mode))
    assert sorted(map(repr, mine)) == sorted(map(repr, theirs.to_pylist()))


def test_what_follows_an_object_in_its_line_is_malformed_where_spark_passes_over_it():
    schema = pa.schema([("n", pa.int64()), ("_corrupt_record", pa.string())])
    line = '{"n":1} {"n":2}'
    assert read(line.encode(), schema, BadRecordPolicy("PERMISSIVE")) == [{"n": None, "_corrupt_record": line}]


def test_rescued_data_make_no_record_bad_and_keep_numbers_as_they_were_written():
    schema = pa.schema([("i", pa.int64()), ("rest", pa.string())])
    policy = BadRecordPolicy("FAILFAST", rescued_column="rest")
    text = b'{"i":1}\n{"i":1.50,"more":[1e2,"\xc3\xa9"],"nothing":null}\n'
    assert [row["rest"] for row in read(text, schema, policy)] == [
        None,
        '{"i":1.50,"more":[1e2,"é"],"_file_path":"a/b.json"}',
    ]
    with pytest.raises(BadRecordError, match=r"^a/b\.json: the line at byte 8 is not a JSON object"):
        read(b'{"i":1}\n{', schema, policy)


def test_a_key_that_is_half_a_surrogate_pair_is_rescued_and_inferred_with_its_replacement():
    text = b'{"i":1,"\\ud800":{"\\udc00":2}}\n'
    policy = BadRecordPolicy(rescued_column="rest")
    (row,) = read(text, pa.schema([("i", pa.int64()), ("rest", pa.string())]), policy)
    assert row == {"i": 1, "rest": '{"?":{"?":2},"_file_path":"a/b.json"}'}
    memory = Memory(text)
    columns = JsonFormat(memory).infer([memory.object])
    assert columns.names == ["?", "i"]
    assert read(text, columns, BadRecordPolicy()) == [{"?": {"?": 2}, "i": 1}]


@pytest.mark.parametrize(
    ("escaped", "text"),
    [(r"\\ud83d\ude00", r"\ud83d?"), (r"\ud83d\ude00", "\N{GRINNING FACE}"), (r"\\ud83d", r"\ud83d")],
)
def test_only_a_line_with_half_a_surrogate_pair_is_written_anew(escaped, text, monkeypatch):
    anew = []
    monkeypatch.setattr(values, "json_text", lambda node, write=values.json_text: anew.append(node) or write(node))
    line = f'{{"{escaped}":["{escaped}",1.50,{{"x":-0}}]}}'
    assert values.json_object(line.encode()) == {text: [text, "1.50", {"x": "-0"}]}
    assert bool(anew) == ("?" in text)


def test_one_bad_line_slows_down_only_those_around_it(monkeypatch):
    careful, seen = json_lines.JsonLines._careful, []
    monkeypatch.setattr(
        json_lines.JsonLines, "_careful", lambda self, chunk, block: seen.append(block) or careful(self, chunk, block)
    )
    good = b'{"i":1}\n' * 50_000
    schema = pa.schema([("i", pa.int64()), ("_corrupt_record", pa.string())])
    rows = read(good + b"{\n" + good, schema, BadRecordPolicy("PERMISSIVE"))
    assert len(rows) == 100_001
    assert [row["_corrupt_record"] for row in rows if row["i"] is None] == ["{"]
    assert [len(block.data) for block in seen] <= [64 << 10]


def test_bad_records_are_set_aside_with_their_place_and_bytes():
    schema = pa.schema([("i", pa.int64())])
    lines = [b'{"i":1}', b'{"i":"x"}', b"\xff{", b'{"i":2}']
    text = b"\n".join(lines)
    entries: list[dict] = []
    assert read(text, schema, BadRecordPolicy(path="aside"), entries.append) == [{"i": 1}, {"i": 2}]
    assert [(entry["path"], entry["position"], base64.b64decode(entry["record"])) for entry in entries] == [
        ("a/b.json", text.index(line), line) for line in lines[1:3]
    ]
    assert entries[0]["reason"] == "the line has no BIGINT in 'i'"
    assert entries[1]["reason"] == "the line is not a JSON object: its byte 0 is not UTF-8"


@pytest.mark.parametrize(("mode", "extra"), [("PERMISSIVE", ["_corrupt_record"]), ("DROPMALFORMED", [])])
def test_columns_are_inferred_from_the_lines_that_can_be_read(mode, extra):
    memory = Memory(b'{"b":1}\n{\n{"Z":2}\n')
    schema = JsonFormat(memory, bad_records=BadRecordPolicy(mode)).infer([memory.object])
    assert schema.names == ["Z", *extra, "b"]
    with pytest.raises(BadRecordError, match="the line at byte 8 is not a JSON object"):
        JsonFormat(memory).infer([memory.object])


def test_a_malformed_line_needs_no_event_time_unless_it_ends_the_query():
    memory = Memory(b'{"at":1000}\n{\n{"at":2000}\n')
    [survey] = JsonFormat(memory, "ms", bad_records=BadRecordPolicy("PERMISSIVE")).survey(memory.object, "at")
    assert (survey.rows, survey.rows_without_time, survey.times) == (3, 0, (1000, 2000))
    with pytest.raises(BadRecordError, match="the line at byte 12"):
        JsonFormat(memory, "ms").survey(memory.object, "at")


@pytest.mark.parametrize(
    ("kind", "text", "value", "remainder"),
    [
        (pa.list_(INNER), '[{"x":1,"y":2}]', [{"x": 1}], [{"x": 1, "y": 2}]),
        (INNER, '{"x":1,"y":2}', {"x": 1}, {"y": 2}),
        (INNER, '{"x":"no","y":2}', {"x": None}, {"x": "no", "y": 2}),
        (INNER, "[1]", None, [1]),
    ],
)
def test_what_a_nested_column_lacks_or_cannot_hold_is_rescued(kind, text, value, remainder):
    schema = pa.schema([("a", kind), ("rest", pa.string())])
    [good, row] = read(f'{{}}\n{{"a":{text}}}\n'.encode(), schema, BadRecordPolicy(rescued_column="rest"))
    assert (good, row["a"]) == ({"a": None, "rest": None}, value)
    assert json.loads(row["rest"])["a"] == remainder


@pytest.mark.parametrize("inner", ["[{}]", '{{"a":{}}}'])
@pytest.mark.parametrize("depth", [199, 200, 500, 100_000])
def test_a_line_is_read_however_deeply_it_is_nested(inner, depth):
    deep = _nested(inner, depth)
    text = f'{{"s":"x"}}\n{{"s":{deep},"i":1,"n":NaN,"a":{{"b":2,"c":{deep}}},"f":-Infinity}}\n'.encode()
    schema = pa.schema([("s", pa.string()), ("i", pa.int64()), ("a", pa.struct([("b", pa.int64())]))])
    row = {"s": deep, "i": 1, "a": {"b": 2}}
    assert read(text, schema, BadRecordPolicy())[1] == row
    rescued = read(text, schema.append(pa.field("rest", pa.string())), BadRecordPolicy(rescued_column="rest"))[1]
    rest = rescued.pop("rest")
    assert rescued == row
    assert rest.startswith(f'{{"a":{{"c":{deep}}},"n":NaN,"f":-Infinity,"_file_path":')
    memory = Memory(text)
    [survey] = JsonFormat(memory, "ms").survey(memory.object, "a.b")
    assert survey.times == (2, 2)


@pytest.mark.parametrize("end", ["}", "]]}", ',"a":[}}', ""])
@pytest.mark.parametrize("depth", [199, 500, 100_000])
def test_a_line_that_does_not_end_as_deeply_as_it_begins_is_malformed(end, depth):
    text = f'{{}}\n{{"a":{_nested("[{}]", depth)[:-1]}{end}\n'.encode()
    with pytest.raises(BadRecordError, match="the line at byte 3 is not a JSON object"):
        read(text, pa.schema([("i", pa.int64())]), BadRecordPolicy(rescued_column="rest"))
    with pytest.raises(BadRecordError, match="the line at byte 3 is not a JSON object"):
        read(text, pa.schema([("i", pa.int64())]), BadRecordPolicy())


def test_many_parts_are_no_deep_ones():
    many = "[" + ",".join(["[1]"] * 500) + "]"
    assert read(f'{{"s":{many}}}\n'.encode(), pa.schema([("s", pa.string())]), BadRecordPolicy()) == [{"s": many}]


def _nested(inner: str, depth: int) -> str:
    before, after = inner.format("1").split("1")
    return before * depth + "1" + after * depth


OWN_COLUMNS = pa.schema([("_corrupt_record", pa.string()), ("i", pa.int64()), ("rest", pa.string())])


def test_its_own_columns_have_to_be_strings_and_others_are_the_datas():
    assert BadRecordPolicy(rescued_column="rest").data_schema(OWN_COLUMNS).names == ["i"]
    with pytest.raises(OptionError, match="the column 'i' is of the type BIGINT; it has to be a STRING"):
        BadRecordPolicy("PERMISSIVE", "i").data_schema(OWN_COLUMNS)
