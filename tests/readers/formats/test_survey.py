"""Surveys of CSV and JSON, which give the times of chunks, and inference, which gives the schema of samples."""

from __future__ import annotations

import gzip
import json

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.readers.formats.contract import TO_CONTINUE
from tests.readers.formats.files import BAD, timed_json
from tests.support.objects.lab import BOM, InMemory, Memory
from tidegate.errors import BadRecordError, OptionError
from tidegate.readers.event_time.columns import TimeColumn
from tidegate.readers.formats import surveys
from tidegate.readers.formats import surveys as byte_surveys
from tidegate.readers.formats.bad_records import FAIL, BadRecordPolicy
from tidegate.readers.formats.csv import CsvFormat
from tidegate.readers.formats.json import JsonFormat
from tidegate.readers.formats.options import CsvDialect
from tidegate.readers.objects.partitions import GivenColumns
from tidegate.readers.objects.values import TimeRange

TIME = pa.field("at", pa.timestamp("us", "UTC"))


@pytest.mark.parametrize("read_times", [None, TimeColumn(TIME, ("at",), TIME.type, None)])
def test_a_record_with_more_or_fewer_values_is_bad_also_to_a_survey(read_times):
    """Such a record often lacks its time only because a quoted line end has cut it in two."""
    memory = Memory(b'x,at\n1,2023-11-14T22:13:20Z\n"two\nlines",2023-11-14T22:13:21Z\n')

    def survey(**policy):
        policy = BadRecordPolicy(**policy)
        made = CsvFormat(memory, dialect=CsvDialect(header=True), bad_records=policy, read_times=read_times)
        [surveyed] = made.survey(memory.object, "at")
        return surveyed

    with pytest.raises(
        BadRecordError, match=r"the line at byte 28 has quotes that are not of this dialect .*" + TO_CONTINUE + "$"
    ):
        survey()
    for policy in ({"mode": "DROPMALFORMED"}, {"path": "aside"}):
        assert survey(**policy).rows_without_time == 0
    assert survey(mode="PERMISSIVE").rows_without_time > 0


@pytest.mark.parametrize("multi_line", [False, True])
def test_what_is_looked_at_whole_is_known_exactly(multi_line, monkeypatch):
    if multi_line:
        monkeypatch.setattr(surveys, "WHOLE_BYTES", 0)
    memory = Memory(b"x,at\n1,2023-11-14T22:13:20Z\n2,\n\n3,2023-11-14 22:13:21.5\n4,soon\n")
    made = CsvFormat(memory, dialect=CsvDialect(header=True, multi_line=multi_line))
    (survey,) = made.survey(memory.object, "at")
    assert (survey.rows, survey.rows_without_time) == (4, 2)
    assert survey.times == TimeRange(1_700_000_000_000, 1_700_000_001_500)
    (survey,) = made.survey(memory.object, "elsewhere")
    assert (survey.rows, survey.rows_without_time, survey.times) == (4, 4, None)


def test_the_column_of_times_is_found_without_a_header_too():
    memory = Memory(b"1,1700000000\n", "day=1/x")
    by_name = CsvFormat(memory, "s", columns=GivenColumns(("day", "x", "at")))
    by_number = CsvFormat(memory, "s")
    for made, column in [(by_name, "at"), (by_number, "_c1")]:
        assert made.survey(memory.object, column)[0].times == TimeRange(1_700_000_000_000, 1_700_000_000_000)
    with pytest.raises(OptionError, match="the event-time column '_c1' of day=1/x holds numbers, so eventTimeUnit"):
        CsvFormat(memory).survey(memory.object, "_c1")


def inferred_csv(*contents: bytes, infer_schema: bool = True, **dialect) -> pa.Schema:
    store = InMemory(**{f"{number}.csv": text for number, text in enumerate(contents)})
    made = CsvFormat(store, dialect=CsvDialect(**dialect), infer_schema=infer_schema)
    return made.infer([*map(store.listed, store.contents)])


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "", "-2"], pa.int64()),
        (["1", "12345678901234567890"], pa.decimal128(20, 0)),
        (["1", "1" * 39], pa.float64()),
        (["1", "1.5", "NaN"], pa.float64()),
        (["2020-01-31", "2020-02-29"], pa.date32()),
        (["2020-01-31", "2020-01-31T00:00:00"], pa.string()),
        (["2020-01-31 10:00:00", "2020-01-31T00:00:00Z"], pa.timestamp("us", "UTC")),
        (["true", "FALSE"], pa.bool_()),
        (["true", "1"], pa.string()),
        (["", ""], pa.string()),
    ],
)
def test_types_are_inferred_in_sparks_order(cells, kind):
    content = "\n".join(f"{cell},x" for cell in cells).encode()
    assert inferred_csv(content) == pa.schema([("_c0", kind), ("_c1", pa.string())])
    assert inferred_csv(content, infer_schema=False) == pa.schema([("_c0", pa.string()), ("_c1", pa.string())])


def test_the_schema_is_that_of_all_samples_in_the_order_in_which_they_name_columns():
    schema = inferred_csv(b"a,b\n1,x\n", b"\nB,c,,A\n2,3,4,1.5\n", b"a\n", header=True)
    assert schema == pa.schema([("a", pa.float64()), ("b", pa.string()), ("c", pa.int64()), ("_c2", pa.int64())])
    assert inferred_csv(b"a,A,b\n1,2,3\n", header=True).names == ["a0", "A1", "b"]
    with pytest.raises(OptionError, match=r"^no object of s3://data has a line to infer columns from; give a schema$"):
        inferred_csv(b"\n \n", b"")


def rows_by_chunk(memory: Memory, chunks: list[tuple[int, int]]) -> list[list[int | None]]:
    """Return the times of the lines that begin in each chunk; it reads all lines."""
    numbers, at = [[] for _ in chunks], 0
    for line in memory.content.splitlines(keepends=True):
        number = next(number for number, (start, end) in enumerate(chunks) if start <= at < end)
        numbers[number].append(json.loads(line)["at"]["ms"])
        at += len(line)
    return numbers


rows_with_times = st.lists(st.tuples(st.none() | st.integers(0, 10**13), st.integers(0, 90)), min_size=1, max_size=40)


@settings(max_examples=200)
@given(rows_with_times, st.integers(30, 600))
def test_probes_find_the_times_of_chunks_whose_lines_are_in_order(rows, chunk_bytes):
    times = sorted(time for time, _ in rows if time is not None)
    memory = Memory(timed_json(times, [padding for _, padding in rows][: len(times)]))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(byte_surveys, "WHOLE_BYTES", 0)
        patched.setattr(byte_surveys, "PROBE_BYTES", 12)
        surveys = JsonFormat(memory, "ms", chunk_bytes).survey(memory.object, "at.ms")
    spans = [(survey.start, survey.end) for survey in surveys]
    for survey, inside in zip(surveys, rows_by_chunk(memory, spans), strict=True):
        assert survey.times == (TimeRange(inside[0], inside[-1]) if inside else None)


def test_a_chunk_of_which_only_the_ends_are_looked_at_is_not_known_exactly():
    times = [5] * 4000 + [9] * 2000 + [5] * 4000
    memory = Memory(timed_json(times, [60] * len(times)))
    (survey,) = JsonFormat(memory, "ms").survey(memory.object, "at.ms")
    assert (survey.times, survey.exact) == ((5, 5), False)
    assert all(survey.exact for survey in JsonFormat(memory, "ms", 100_000).survey(memory.object, "at.ms"))


def test_a_large_object_is_probed_at_both_ends_of_its_chunks():
    count = 20_000
    memory = Memory(timed_json(list(range(count)), [60] * count))
    surveys = JsonFormat(memory, "ms", 2**20).survey(memory.object, "at.ms")
    assert len(surveys) == 2
    assert len(memory.requests) == 4
    assert sum(memory.requests) < 400_000
    assert max(memory.requests) < 100_000
    assert (surveys[0].times.min_ms, surveys[-1].times.max_ms) == (0, count - 1)
    assert surveys[0].times.max_ms + 1 == surveys[1].times.min_ms
    assert sum(survey.rows for survey in surveys) == pytest.approx(count, rel=0.02)


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
        # The double nearest to the integer is a millisecond later.
        ("us", ["90071992547409999", "1.5"], (0, 90_071_992_547_409)),
        ("ns", ['"1767225599999999999"', '"x"'], (1_767_225_599_999, 1_767_225_599_999)),
        ("ns", ["1767225599999999999", "0"], (0, 1_767_225_599_999)),
        (None, ['"2024-01-01T00:00:00Z"', '"20240101"'], (1_704_067_200_000, 1_704_067_200_000)),
        (None, ['"2024-01-01T00:00:00Z"', '"20240101"', "true"], (1_704_067_200_000, 1_704_067_200_000)),
    ],
)
def test_event_times_follow_their_unit(unit, values, times):
    memory = Memory("".join(f'{{"at":{value}}}\n' for value in values).encode())
    (survey,) = JsonFormat(memory, unit).survey(memory.object, "at")
    assert survey.times == times
    assert survey.rows == len(values)


@pytest.mark.parametrize("value", [b'"\\ud800"', b'[{"\\ud800":1}]'])
def test_half_a_surrogate_pair_in_the_way_to_the_times_is_no_time(value):
    memory = Memory(b'{"a":%b}\n' % value)
    (survey,) = JsonFormat(memory, "ms").survey(memory.object, "a.b")
    assert (survey.rows, survey.times) == (1, None)


@pytest.mark.parametrize("lines", [b'{"at":1}\n', b'{"at":"2024-01-01"}\n{"at":true}\n{"at":1.5}\n'])
def test_numbers_without_a_unit_are_refused(lines):
    memory = Memory(lines)
    with pytest.raises(OptionError, match=r"'at' of a/b\.json holds numbers, so eventTimeUnit must say"):
        JsonFormat(memory).survey(memory.object, "at")


def test_a_survey_refuses_what_is_no_json():
    for bad in BAD:
        memory = Memory(b'{"at":"secret"}\n' + bad + b"\n")
        if bad == b'{"text":"a\tb"}' or not bad.startswith(BOM):
            with pytest.raises(BadRecordError, match="the line at byte 16 is not a JSON object"):
                JsonFormat(memory).survey(memory.object, "at")


def inferred(*texts: bytes) -> pa.Schema:
    store = InMemory(**{f"{number}.json": text for number, text in enumerate(texts)})
    return JsonFormat(store).infer([*map(store.listed, store.contents)])


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
