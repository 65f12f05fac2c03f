"""Bad lines of JSON: their values, compared with Spark's reader, rescued data, and lines that are set aside."""

from __future__ import annotations

import base64
import json

import pyarrow as pa
import pytest

from tests.readers.formats.refusals import TO_CONTINUE
from tests.support.objects.lab import Memory, chunk
from tidegate.errors import BadRecordError
from tidegate.readers.formats.bad_records import BadRecordPolicy
from tidegate.readers.formats.json import lines as json_lines
from tidegate.readers.formats.json import values
from tidegate.readers.formats.json.format import JsonFormat

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
    with pytest.raises(BadRecordError, match=r"^a/b\.json: the line at byte 8 is no JSON object"):
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
    assert entries[0]["reason"] == "the line has no int64 in 'i'"
    assert entries[1]["reason"] == "the line is no JSON object: its byte 0 is not UTF-8"


@pytest.mark.parametrize(("mode", "extra"), [("PERMISSIVE", ["_corrupt_record"]), ("DROPMALFORMED", [])])
def test_columns_are_inferred_from_the_lines_that_can_be_read(mode, extra):
    memory = Memory(b'{"b":1}\n{\n{"Z":2}\n')
    schema = JsonFormat(memory, bad_records=BadRecordPolicy(mode)).infer([memory.object])
    assert schema.names == ["Z", *extra, "b"]
    with pytest.raises(BadRecordError, match="the line at byte 8 is no JSON object"):
        JsonFormat(memory).infer([memory.object])


def test_a_malformed_line_needs_no_event_time_unless_it_ends_the_query():
    memory = Memory(b'{"at":1000}\n{\n{"at":2000}\n')
    [survey] = JsonFormat(memory, "ms", bad_records=BadRecordPolicy("PERMISSIVE")).survey(memory.object, "at")
    assert (survey.rows, survey.rows_without_time, survey.times) == (3, 0, (1000, 2000))
    with pytest.raises(BadRecordError, match="the line at byte 12"):
        JsonFormat(memory, "ms").survey(memory.object, "at")


@pytest.mark.parametrize(
    ("kind", "text", "value", "rest"),
    [
        (pa.list_(INNER), '[{"x":1,"y":2}]', [{"x": 1}], [{"x": 1, "y": 2}]),
        (INNER, '{"x":1,"y":2}', {"x": 1}, {"y": 2}),
        (INNER, '{"x":"no","y":2}', {"x": None}, {"x": "no", "y": 2}),
        (INNER, "[1]", None, [1]),
    ],
)
def test_what_a_nested_column_lacks_or_cannot_hold_is_rescued(kind, text, value, rest):
    schema = pa.schema([("a", kind), ("rest", pa.string())])
    [good, row] = read(f'{{}}\n{{"a":{text}}}\n'.encode(), schema, BadRecordPolicy(rescued_column="rest"))
    assert (good, row["a"]) == ({"a": None, "rest": None}, value)
    assert json.loads(row["rest"])["a"] == rest


@pytest.mark.parametrize("inner", ["[{}]", '{{"a":{}}}'])
@pytest.mark.parametrize("depth", [201, 500, 900])
def test_a_line_nested_too_deeply_is_malformed_however_it_is_looked_at(inner, depth):
    deep = '{"s":' + _nested(inner, depth - 1) + "}"
    text = f'{{"s":"x"}}\n{deep}\n'.encode()
    kept = pa.schema([("s", pa.string()), ("_corrupt_record", pa.string())])
    rescued = pa.schema([("rest", pa.string())])
    permissive = BadRecordPolicy("PERMISSIVE")
    assert read(text, kept, permissive)[1] == {"s": None, "_corrupt_record": deep}
    assert len(read(text, rescued, BadRecordPolicy("DROPMALFORMED", rescued_column="rest"))) == 1
    memory = Memory(text)
    failing = JsonFormat(memory)
    sentence = (
        "^[^ ]+: the line at byte 10 is no JSON object that can be read: it is nested too deeply" + TO_CONTINUE + "$"
    )
    for ask in (
        lambda: failing.infer([memory.object]),
        lambda: failing.survey(memory.object, "s"),
        lambda: failing.survey(memory.object, "s.a"),
        lambda: read(text, kept, BadRecordPolicy()),
    ):
        with pytest.raises(BadRecordError, match=sentence):
            ask()
    assert set(JsonFormat(memory, bad_records=permissive).infer([memory.object])) == set(kept)


def test_a_line_nested_less_deeply_is_read_as_text():
    deep = _nested('{{"a":{}}}', 199)
    assert read(f'{{"s":{deep}}}\n'.encode(), pa.schema([("s", pa.string())]), BadRecordPolicy()) == [{"s": deep}]
    many = "[" + ",".join(["[1]"] * 500) + "]"
    assert read(f'{{"s":{many}}}\n'.encode(), pa.schema([("s", pa.string())]), BadRecordPolicy()) == [{"s": many}]


def _nested(inner: str, depth: int) -> str:
    text = "1"
    for _ in range(depth):
        text = inner.format(text)
    return text
