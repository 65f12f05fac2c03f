"""The contract of every format of the registry."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.readers.formats.contract import CASES, TO_CONTINUE, UTC_US, Case, rows_of, time_columns
from tests.support.objects.lab import BOM, COMPRESSED, GONE, InMemory, arrays, chunk, read
from tidegate.errors import BadRecordError, CorruptDataError, ObjectGoneError, OptionError
from tidegate.readers.arrow.arrays import BATCH_BYTES
from tidegate.readers.arrow.conform import conform
from tidegate.readers.event_time.columns import times_ms
from tidegate.readers.formats.registry import FORMATS
from tidegate.readers.objects.values import ChunkSurvey, ObjectFormat, S3Object, TimeRange

LARGEST_BATCH = 2 * BATCH_BYTES
BLOCK_BYTES = 8 << 20


def cases(**wanted: bool):
    """Parametrise a test over the formats that have some abilities, or lack them."""
    chosen = [
        candidate
        for candidate in CASES.values()
        if all(bool(getattr(candidate, name)) == has for name, has in wanted.items())
    ]
    return pytest.mark.parametrize("case", chosen, ids=lambda case: case.name)


def test_every_format_of_the_registry_is_under_contract() -> None:
    assert CASES.keys() == FORMATS.keys()


@cases()
def test_an_object_is_read_whole_and_in_order_on_every_way(case: Case) -> None:
    table = case.rows(20)
    store = InMemory(case.write(table, 4))
    assert case.made(store).infer([store.listed()]) == (case.inferred or table.schema)
    assert read(case.made(store), store.listed(), table.schema).equals(table)
    for way in case.ways:
        with case.on(way):
            assert read(case.made(store), store.listed(), table.schema).equals(table)


@cases(one_chunk=False)
@settings(max_examples=60)
@given(st.data())
def test_chunks_cut_anywhere_give_each_row_once_and_in_order(case: Case, data: st.DataObject) -> None:
    table = case.rows(20)
    store = InMemory(case.write(table, 3))
    obj = store.listed()
    cuts = sorted(data.draw(st.sets(st.integers(1, obj.size - 1), max_size=4)))
    with case.on(data.draw(st.sampled_from(case.all_ways))):
        made = case.made(store)
        tables = [read(made, obj, table.schema, *pair) for pair in itertools.pairwise([0, *cuts, obj.size])]
    assert pa.concat_tables(tables).equals(table)


@cases(one_chunk=False)
@pytest.mark.parametrize("chunk_bytes", [1, 150, 10_000])
def test_a_survey_cuts_an_object_without_gaps_into_chunks_that_add_up_to_it(case: Case, chunk_bytes: int) -> None:
    table = case.rows(40)
    store = InMemory(case.write(table, 4))
    obj = store.listed()
    for way in case.all_ways:
        with case.on(way):
            made = case.made(store, chunk_bytes=chunk_bytes)
            surveys = made.survey(obj, case.event_time)
            tables = [read(made, obj, table.schema, survey.start, survey.end) for survey in surveys]
        assert [0, *(survey.end for survey in surveys)] == [*(survey.start for survey in surveys), obj.size]
        assert pa.concat_tables(tables).equals(table)
        for survey, rows in zip(surveys, tables, strict=True):
            if case.event_time is not None and survey.exact:
                assert_tells(survey, rows, case.event_time)


def assert_tells(survey: ChunkSurvey, rows: pa.Table, event_time: str) -> None:
    times = [at for at in times_ms(rows.column(event_time).combine_chunks(), None).to_pylist() if at is not None]
    assert survey.rows == rows.num_rows
    assert survey.times == (TimeRange(min(times), max(times)) if times else None)
    assert survey.rows_without_time == survey.rows - len(times)


@cases(times=True)
@settings(max_examples=150)
@given(st.data())
def test_any_survey_gives_each_row_once_and_the_times_of_its_chunks(case: Case, data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 12))
    at, unit = data.draw(time_columns(case, count))
    columns = {"c": data.draw(arrays(data.draw(case.kinds), count)), "at": at}
    column = data.draw(st.sampled_from(["at", "at.when"]))
    if column == "at.when":
        hidden = pa.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)), pa.bool_())
        columns["at"] = pa.StructArray.from_arrays([at, columns["c"]], ["when", "other"], mask=hidden)
    table = pa.table(columns)
    store = InMemory(case.write(table, data.draw(st.integers(1, 5)), **data.draw(case.written)))
    obj = store.listed()
    with case.on(data.draw(st.sampled_from(case.all_ways))):
        chunk_bytes = data.draw(st.integers(1, 2 * obj.size))
        made = case.made(store, chunk_bytes=chunk_bytes, event_time_unit=unit)
        schema = made.infer([obj])
        surveys = made.survey(obj, column)
        tables = [read(made, obj, schema, survey.start, survey.end) for survey in surveys]

    written = pa.RecordBatch.from_arrays([chunked.combine_chunks() for chunked in table.columns], schema=table.schema)
    expected = pa.Table.from_batches([conform(written, schema)], schema)
    assert pa.concat_tables([schema.empty_table(), *tables]).combine_chunks().equals(expected.combine_chunks())
    assert [survey.start for survey in surveys] == [0, *(survey.end for survey in surveys)][: len(surveys)]
    assert not surveys or surveys[-1].end == obj.size
    times = times_ms(pa.compute.struct_field(columns["at"], "when") if "." in column else at, unit).to_pylist()
    for survey, rows in zip(surveys, tables, strict=True):
        mine = [time for time in times[: survey.rows] if time is not None]
        assert survey.rows == rows.num_rows
        assert survey.times == (TimeRange(min(mine), max(mine)) if mine else None)
        assert survey.rows_without_time == survey.rows - len(mine)
        del times[: survey.rows]


@cases()
def test_a_small_object_costs_one_request_and_none_where_no_time_is_asked_for(case: Case) -> None:
    table = case.rows(4)
    store = InMemory(case.write(table, 10))
    made, obj = case.made(store), store.listed()
    [survey] = made.survey(obj, None)
    assert (survey.start, survey.end, survey.times, survey.rows_without_time) == (0, obj.size, None, 0)
    assert survey.rows >= 1
    assert store.asked == []
    if case.event_time is not None:
        [survey] = made.survey(obj, case.event_time)
        assert survey.exact
        assert_tells(survey, table, case.event_time)
        assert len(store.asked) <= 1
    store.asked.clear()
    assert read(made, obj, table.schema).equals(table)
    assert store.asked == [(0, obj.size)]


@cases()
def test_an_empty_object_and_one_without_rows_give_none(case: Case) -> None:
    for content in (b"", case.write(case.rows(0), 4)):
        store = InMemory(content)
        made, obj = case.made(store), store.listed()
        for column in {None, case.event_time}:
            surveys = made.survey(obj, column)
            assert surveys == [] or obj.size
            assert (
                sum(read(made, obj, case.rows(1).schema, survey.start, survey.end).num_rows for survey in surveys) == 0
            )
            assert column is None or sum(survey.rows for survey in surveys) == 0


@cases(columns_chosen=True)
def test_columns_are_those_of_the_schema(case: Case) -> None:
    table = case.rows(4)
    store = InMemory(case.write(table, 2))
    first, last = table.schema[0], table.schema[-1]
    for way in case.all_ways:
        with case.on(way):
            made = case.made(store)
            other = last.name.upper() if case.any_case else last.name
            schema = pa.schema([(other, last.type), ("missing", pa.float64()), (first.name, first.type)])
            texts, numbers = (table.column(field.name).to_pylist() for field in (last, first))
            assert read(made, store.listed(), schema).to_pylist() == [
                {other: text, "missing": None, first.name: number} for text, number in zip(texts, numbers, strict=True)
            ]
            assert sum(batch.num_rows for batch in made.read(chunk(store.listed()), pa.schema([]))) == len(table)
            if case.lone_columns:
                nothing = read(made, store.listed(), pa.schema([("missing", pa.int8())]))
                assert nothing.to_pylist() == [{"missing": None}] * len(table)
            if case.typed:
                sentence = "^s3://data/x cannot be read: the column 'n' is of the type int64"
                with pytest.raises(BadRecordError, match=sentence):
                    read(made, store.listed(), pa.schema([("n", UTC_US)]))


@cases(nested=True)
def test_fields_of_a_column_are_those_of_the_schema(case: Case) -> None:
    dotted = {"p.r": [7] * 3} if case.dotted_names else {}
    store = InMemory(case.write(pa.table({"p": [{"q": 1, "r": 2}] * 3, **dotted}), 1))
    name = "P" if case.any_case else "p"
    schema = pa.schema([(name, pa.struct([("r", pa.int64()), ("missing", pa.string())]))])
    for way in case.all_ways:
        with case.on(way):
            made = case.made(store)
            assert read(made, store.listed(), schema).to_pylist() == [{name: {"r": 2, "missing": None}}] * 3
            if dotted:
                assert read(made, store.listed(), pa.schema([("p.r", pa.int64())])).to_pylist() == [{"p.r": 7}] * 3


@cases(bad=True)
def test_the_schema_is_that_of_all_samples(case: Case) -> None:
    narrow, wide = pa.array([1], pa.int32()), pa.array([1], pa.int64())
    tables = {"x": {"a": narrow}, "y": {"b": ["x"], "a": narrow}, "z": {"a": wide}}
    store = InMemory(**{key: case.write(pa.table(columns), 1) for key, columns in tables.items()}, empty=b"")
    made = case.made(store)
    assert made.infer([store.listed("x"), store.listed("y")]).names == ["a", "b"]
    schema = made.infer([store.listed(key) for key in ("x", "y", "z", "empty")])
    assert schema == pa.schema([("a", pa.int64()), ("b", pa.string())])


@cases(typed=True)
def test_a_schema_that_no_sample_tells_is_asked_for(case: Case) -> None:
    contents = {key: case.write(pa.table({"a": [value]}), 1) for key, value in (("y", 1), ("z", "text"))}
    store = InMemory(b"", **contents)
    with pytest.raises(OptionError, match="the objects disagree on the type of a column; give a schema"):
        case.made(store).infer([store.listed("y"), store.listed("z")])
    with pytest.raises(OptionError, match="no object of s3://data holds bytes"):
        case.made(store).infer([store.listed("x")])


@cases(bad=True)
def test_a_column_that_an_object_lacks_leaves_its_rows_without_time(case: Case) -> None:
    store = InMemory(case.write(rows_of(3), 10))
    [survey] = case.made(store).survey(store.listed(), "other")
    assert (survey.rows, survey.times, survey.rows_without_time) == (3, None, 3)


@cases(typed=True)
def test_a_column_that_is_no_time_is_refused(case: Case) -> None:
    store = InMemory(case.write(pa.table({"p": [{"q": 1}], "n": [1]}), 10))
    for column, sentence in (("p", "'p' .*holds no event time"), ("n", "'n' .*needs s, ms, us or ns$")):
        with pytest.raises(OptionError, match=sentence):
            case.made(store).survey(store.listed(), column)


@cases(corrupt=True)
def test_what_is_no_object_of_the_format_is_refused_by_its_name(case: Case) -> None:
    """The first of them is corrupt, so that ignoreCorruptFiles passes over it; others may have bad records."""
    errors = (CorruptDataError,)
    for key, content in case.corrupt.items():
        store = InMemory(**{key: content})
        for look in looks_at(case, case.made(store), store.listed(key)):
            with pytest.raises(errors, match=rf"s3://data/{key}\b"):
                look()
        errors = (BadRecordError, CorruptDataError)


@cases(bad=True)
@pytest.mark.parametrize("mode", ["FAILFAST", "DROPMALFORMED"])
def test_a_null_that_the_schema_does_not_allow_is_told_with_the_object_once(case: Case, mode: str) -> None:
    options = {} if case.typed else {"mode": mode}
    store = InMemory(case.write(rows_of(3), 10))
    schema = pa.schema([pa.field("s", pa.string()), pa.field("gone", pa.int64(), nullable=False)])
    with pytest.raises(
        BadRecordError, match=r"^s3://data/x\b(?!.*s3://).*'gone' has \d nulls, and the schema allows none$"
    ):
        read(case.made(store, **options), store.listed(), schema)


@cases(one_chunk=False)
def test_an_object_that_is_cut_short_is_refused_or_gives_no_rows_but_its_own(case: Case) -> None:
    table = case.rows(12)
    content = case.write(table, 4)
    rows, refusals, lengths = table.to_pylist(), [], range(1, len(content), 1 + len(content) // 150)
    for end in lengths:
        store = InMemory(content[:end])
        try:
            mine = read(case.made(store), store.listed(), table.schema).to_pylist()
        except (BadRecordError, CorruptDataError) as problem:
            refusals.append(str(problem))
        else:
            assert mine[:-1] == rows[: max(0, len(mine) - 1)]  # the last row itself may be truncated
    assert all("s3://data/x" in refusal for refusal in refusals)
    assert not case.sealed or len(refusals) == len(lengths)


@cases()
def test_an_object_overwritten_after_the_survey_is_gone_on_every_way(case: Case) -> None:
    table = case.rows(12)
    for way in case.all_ways:
        store = InMemory(case.write(table, 4))
        obj = store.listed()
        with case.on(way):
            for look in looks_at(case, case.made(store), obj):
                look()
                store.gone = True
                with pytest.raises(ObjectGoneError, match=f"^{GONE}$") as error:
                    look()
                assert error.value.overwritten
                store.gone = False


def looks_at(case: Case, made: ObjectFormat, obj: S3Object) -> list[Callable[[], Any]]:
    """Return the calls of a format that fetch bytes of an object."""
    looks = [lambda: read(made, obj, case.rows(1).schema)]
    if case.looked_at:
        looks += [lambda: made.survey(obj, case.event_time), lambda: made.infer([obj])]
    return looks


@cases(one_chunk=False)
@pytest.mark.parametrize("size", [10, 3_000, BATCH_BYTES // 2 + 1, BATCH_BYTES + 1])
def test_batches_are_bounded(case: Case, size: int) -> None:
    rows = min(20_000, LARGEST_BATCH // size + 3)
    [name] = case.rows(1).column_names[-1:]
    table = pa.table({name: pa.array(["x" * size] * rows)})
    store = InMemory(case.write(table, rows))
    batches = [*case.made(store).read(chunk(store.listed()), table.schema)]
    assert sum(batch.num_rows for batch in batches) == rows
    assert all(batch.nbytes <= LARGEST_BATCH or batch.num_rows == 1 for batch in batches)


@cases(lines=True)
@pytest.mark.parametrize("suffix", COMPRESSED)
def test_a_compressed_object_is_one_chunk_whose_times_are_known_exactly(case: Case, suffix: str) -> None:
    table = case.rows(40)
    text, half = BOM + case.write(table, 4), 333
    key = f"X.json{suffix.upper()}"
    store = InMemory(**{key: COMPRESSED[suffix](text[:half]) + COMPRESSED[suffix](text[half:])})  # in two members
    obj = store.listed(key)
    for way in case.all_ways:
        with case.on(way):
            made = case.made(store, chunk_bytes=1)
            assert made.infer([obj]) == (case.inferred or table.schema)
            [survey] = made.survey(obj, case.event_time)
            assert (survey.start, survey.end) == (0, obj.size)
            if case.event_time is not None:
                assert survey.exact
                assert_tells(survey, table, case.event_time)
            assert read(made, obj, table.schema).equals(table)


@cases(lines=True)
def test_a_large_chunk_of_lines_is_read_in_bounded_pieces(case: Case) -> None:
    first, body = case.write(case.rows(500), 4).split(b"\n", 1)
    store = InMemory(first + b"\n" + body * (1 + 4 * BATCH_BYTES // len(body)))
    before, rows, most = pa.total_allocated_bytes(), 0, 0
    for batch in case.made(store).read(chunk(store.listed()), case.rows(1).schema):
        rows += batch.num_rows
        most = max(most, pa.total_allocated_bytes() - before)
        assert batch.nbytes <= BATCH_BYTES
    assert rows == len(store.contents["x"].splitlines()) - (case.name == "csv")
    assert max(end - start for start, end in store.asked) <= BLOCK_BYTES + 2 * 16 * 1024
    assert most < 8 * BLOCK_BYTES


@cases(lines=True, looked_at=True)
def test_only_the_first_mebibyte_of_a_sample_is_looked_at(case: Case) -> None:
    def lines(value: Any, width: int) -> list[bytes]:
        table = pa.table({"c": [value, value], "d": ["x" * width] * 2})
        return case.write(table, 2).splitlines(keepends=True)

    *header, _, short = lines(1, 1)
    width = 2**10 + 1 - len(short)
    head = b"".join(header) + lines(1, width - len(b"".join(header)))[-1]
    text = head + lines(1, width)[-1] * (2**10 - 1) + lines("x", width)[-1] * 2**10
    schema = pa.schema([("c", pa.int64()), ("d", pa.string())])
    for suffix, compress in {"": bytes, **COMPRESSED}.items():
        store = InMemory(**{f"x{suffix}": compress(text)})
        assert case.made(store).infer([store.listed(f"x{suffix}")]) == schema
        assert sum(end - start for start, end in store.asked) <= 2**20 + 2**15


@cases(bad=True, typed=False)
def test_bad_records_follow_the_policy(case: Case) -> None:
    store, aside = InMemory(case.bad), []
    number, corrupt = pa.field("c", pa.int64()), pa.field("_corrupt_record", pa.string())

    def rows(*fields: pa.Field, **options: Any) -> list[dict]:
        made = case.made(store, **options)
        return read(made, store.listed(), pa.schema(fields), set_aside=aside.append).to_pylist()

    with pytest.raises(BadRecordError, match=f"s3://data/x.*'c'.*{TO_CONTINUE}$"):
        rows(number)
    assert rows(number, mode="DROPMALFORMED") == [{"c": 1}]
    good, bad = rows(number, corrupt, mode="PERMISSIVE")
    assert (good, bad["c"]) == ({"c": 1, "_corrupt_record": None}, None)
    assert "x" in bad["_corrupt_record"]
    good, bad = rows(number, pa.field("rest", pa.string()), rescued_data_column="rest")
    assert (good, bad["c"]) == ({"c": 1, "rest": None}, None)
    assert json.loads(bad["rest"]) == {"c": "x", "_file_path": "s3://data/x"}
    assert aside == []
    assert rows(number, bad_records_path="aside") == [{"c": 1}]
    assert [record["path"] for record in aside] == ["s3://data/x"]
