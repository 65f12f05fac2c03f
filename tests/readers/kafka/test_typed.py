"""Rows with decoded values: what is bad, which rows and columns remain, and the event times of a column."""

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.readers.values.test_decoders import VALUES as RANDOM
from tests.support.bytes import varint
from tests.support.kafka.lab import batch
from tests.support.servers.registry_server import avro, avro_value, header, registry_of
from tidegate.alignment.splits import Head, Horizon
from tidegate.enumerators.kafka.heads import HeadFinder
from tidegate.errors import BadRecordError, OptionError
from tidegate.readers.arrow.ddl import columns_of_ddl
from tidegate.readers.event_time.assigners import ColumnTimestamp
from tidegate.readers.event_time.policy import EventTimePolicy
from tidegate.readers.event_time.records import RecordTimes
from tidegate.readers.kafka import typed
from tidegate.readers.kafka.typed import TypedRecords
from tidegate.readers.registry.client import RegisteredSchema, RegistryConfig
from tidegate.readers.registry.columns import RegistryColumn, column_of_subject
from tidegate.readers.values.decoders import JsonValues, RegistryValues, StringValues
from tidegate.readers.values.where import condition_of

OBJECT = columns_of_ddl("id BIGINT, text STRING, real DOUBLE, in STRUCT<flag: BOOLEAN>")
SCHEMA = columns_of_ddl("id BIGINT, at TIMESTAMP, n STRUCT<ms: BIGINT>")
VALUES = [b'{"id":1,"at":"2023-11-15T12:00:00Z","n":{"ms":1700049600000}}', None, b"{", b'{"id":"x"}']
NOON_MS = 1_700_049_600_000


def decoded(records, values=VALUES):
    (rows,) = records.decoded(batch(values))
    return rows


def test_the_first_bad_record_ends_the_query_and_is_named_by_its_offset():
    sentence = (
        "^orders-3: the record at offset 42 is bad: the value is not a JSON object: .*; to continue, set mode to "
        "PERMISSIVE, or set badRecordsPath$"
    )
    with pytest.raises(BadRecordError, match=sentence):
        decoded(TypedRecords(JsonValues(SCHEMA)))
    bad_key = batch([None]).set_column(0, "key", pa.array([b"\xff"], pa.binary()))
    with pytest.raises(BadRecordError, match="offset 40 is bad: the key is not UTF-8"):
        [*TypedRecords(key=StringValues()).decoded(bad_key)]


def test_bad_records_are_rows_with_nulls_or_no_rows():
    none = {"id": None, "at": None, "n": None}
    permissive = decoded(TypedRecords(JsonValues(SCHEMA), mode="PERMISSIVE"))
    assert permissive.rows.column("value").to_pylist()[1:] == [None, none, none]
    assert not permissive.bad
    aside = decoded(TypedRecords(JsonValues(SCHEMA), sets_aside=True))
    assert [*aside.bad.items()][1] == (3, "the value has no BIGINT in 'id'")
    assert [*aside.bad] == [2, 3]
    assert aside.raw.column("value").to_pylist() == VALUES


def test_only_the_rows_and_columns_that_are_asked_for_remain():
    records = TypedRecords(JsonValues(SCHEMA, rescues=True), mode="PERMISSIVE", rescued_column="rest")
    own = batch(VALUES).schema
    where = condition_of("VALUE.id = 1 or rest is not null", records.schema(own))
    records = TypedRecords(
        records.value, mode="PERMISSIVE", rescued_column="rest", where=where, columns=("Offset", "rest")
    )
    rows = decoded(records).rows
    assert rows.schema.equals(records.schema(own))
    assert records.selected(rows).tolist() == [True, False, False, True]
    delivered = records.delivered(rows)
    assert delivered.schema.equals(records.delivered_schema(own))
    assert delivered.to_pylist()[3] == {"offset": 43, "rest": '{"id":"x"}'}


@given(RANDOM, st.sampled_from(["value.id > 0", "value.in.flag", "value.id IS NULL AND offset > 41", "value IS NULL"]))
def test_a_record_that_where_leaves_out_is_bad_only_by_the_columns_that_decide_it(values, text):
    rows = batch([*values, b'{"text":5,"in":{"flag":true},"real":"bad","id":1}', b'{"id":-1,"real":"bad"}'])
    typed = TypedRecords(JsonValues(OBJECT), sets_aside=True)
    condition = condition_of(text, typed.schema(rows.schema))
    records = typed.selecting(condition)
    assert (records.first is None) == (text == "value IS NULL")
    (whole,) = records.decoded(rows)
    is_selected = records.selected(whole.rows)
    few = rows if records.first is None else rows.filter(pa.array(records.wanted(rows)))
    (sifted,) = records.decoded(few)
    assert offsets(sifted.raw, sifted.bad) == offsets(whole.raw, whole.bad)
    delivered = whole.rows.filter(pa.array(is_selected))
    assert sifted.rows.filter(pa.array(records.selected(sifted.rows))).equals(delivered)
    if records.first is not None:
        assert not any(is_selected[row] for row in typed_bad(typed, rows) if row not in whole.bad)
        assert set(whole.bad) <= set(typed_bad(typed, rows))


def offsets(rows, places):
    return [rows.column("offset")[place].as_py() for place in places]


def typed_bad(records, rows):
    (decoded,) = records.decoded(rows)
    return decoded.bad


INSTANT = {"type": "long", "logicalType": "timestamp-millis"}
ORDER = avro(("id", "long"), ("at", INSTANT), ("paid", INSTANT))
ORDER_IN_LONGS = avro(("id", "long"), ("at", "long"), ("paid", "long"))
MESSAGE = """syntax = "proto3"; import "google/protobuf/timestamp.proto";
message Order { optional int64 id = 1; google.protobuf.Timestamp at = 2; google.protobuf.Timestamp paid = 3; }"""
FAR = 2**60  # no instant that Spark has


def orders(form):
    """Return schemas, their kind, a value, and one whose field ``paid`` cannot be read."""
    if form == "avro":
        values = (avro_value(1, ORDER_IN_LONGS, {"id": 1, "at": NOON_MS, "paid": paid}) for paid in (5, FAR))
        return {1: ORDER}, "AVRO", *values
    times = [b"\x08" + varint(seconds) for seconds in (NOON_MS // 1000, 5, FAR)]
    at, *paid = (bytes([len(time)]) + time for time in times)
    return {1: MESSAGE}, "PROTOBUF", *(header(1) + b"\0\x08\x01\x12" + at + b"\x1a" + one for one in paid)


@pytest.mark.parametrize("form", ["avro", "protobuf"])
@pytest.mark.parametrize("text", ["value.id IS NULL", "value.id = 1"])
def test_a_value_that_is_null_because_of_a_field_is_so_for_plans_and_conditions_too(form, text):
    schemas, kind, value, far = orders(form)
    rows = batch([value, far, value[:-1], None])
    with registry_of(schemas, kind=kind) as config:
        typed = TypedRecords(RegistryValues(column_of_subject(config, form, "orders-value")), mode="PERMISSIVE")
        records = typed.selecting(condition_of(text, typed.schema(rows.schema)), "value.at")
        (whole,) = records.decoded(rows)
        time = typed.column("value.at")
        assert time(rows).equals(time(whole.rows))
        assert time(rows).is_null().to_pylist() == [False, True, True, True]
        is_selected = [(place == 0) == ("=" in text) for place in range(4)]
        assert records.selected(whole.rows).tolist() == records.wanted(rows).tolist() == is_selected


@pytest.mark.parametrize("form", ["avro", "protobuf"])
@pytest.mark.parametrize("sets_aside", [True, False])
def test_a_record_that_where_leaves_out_has_what_decides_it_whatever_else_cannot_be_read(form, sets_aside):
    schemas, kind, value, far = orders(form)
    rows = batch([far, value, far])
    with registry_of(schemas, kind=kind) as config:
        decoder = RegistryValues(column_of_subject(config, form, "orders-value"))
        typed = TypedRecords(decoder, StringValues(), sets_aside=sets_aside)
        where = condition_of("value.id IS NULL OR partition = 0", typed.schema(rows.schema))
        records = typed.selecting(where, "value.at")
        (whole,) = records.decoded(rows)
    assert records.selected(whole.rows).tolist() == [False] * 3
    assert records.column("value.at")(whole.rows).is_null().to_pylist() == [False] * 3
    assert not whole.bad
    assert [row["id"] for row in whole.rows.column("value").to_pylist()] == [1, 1, 1]


def test_wide_values_come_in_parts(monkeypatch):
    monkeypatch.setattr(typed, "BATCH_BYTES", 60)
    records = TypedRecords(JsonValues(columns_of_ddl("a BIGINT, b BIGINT")), mode="PERMISSIVE")
    parts = [*records.decoded(batch([b'{"a":%d}' % n for n in range(8)]))]
    assert len(parts) > 1
    assert [row["a"] for part in parts for row in part.rows.column("value").to_pylist()] == [*range(8)]


@pytest.mark.parametrize(
    ("column", "unit", "sentence"),
    [
        ("value.id.x", None, "eventTime is 'value.id.x', and there is no such column$"),
        ("value.att", None, r"no such column; did you mean 'value\.at'"),
        ("value", None, "which holds no event time$"),
        ("key.at", None, "a column of the decoded key, but keyFormat is not set$"),
        ("value.at", "ms", "has its own unit$"),
    ],
)
def test_an_event_time_that_no_column_has_is_refused(column, unit, sentence):
    with pytest.raises(OptionError, match=sentence):
        TypedRecords(JsonValues(SCHEMA)).column(column, unit)


def test_bytes_of_a_schema_are_no_event_time_because_they_look_like_bytes_that_are_not_decoded():
    schema = RegisteredSchema("AVRO", '"bytes"')
    column = RegistryColumn(RegistryConfig("http://registry"), "avro", "orders-value", schema, None, pa.binary())
    with pytest.raises(OptionError, match="eventTime is 'value', which is of the type BINARY, and holds no event time"):
        TypedRecords(RegistryValues(column)).column("value", "iso8601")


@pytest.mark.parametrize("column", ["value.at", "value.N.ms"])
@pytest.mark.parametrize("is_decoded", [True, False])
def test_the_event_time_of_a_column_is_the_same_for_rows_and_for_peeks(column, is_decoded):
    records = TypedRecords(JsonValues(SCHEMA), mode="PERMISSIVE")
    read = records.column(column)
    values = json.dumps({"id": 7})  # a peek decodes the column of the time alone
    assert [field.name for field in read.records.value.schema] == [column.split(".")[1].lower()]
    rows = decoded(records).rows if is_decoded else batch([*VALUES[:-1], values.encode()])
    times = RecordTimes(ColumnTimestamp(column, read), EventTimePolicy("ignore"))
    times = times.with_unit(times.detect(rows))
    assert times.name == f"eventTime={column}"
    assert not times.needs_headers
    assert times.judge(rows, Horizon()).times.to_pylist() == [NOON_MS, None, None, None]


@pytest.mark.parametrize("is_decoded", [True, False])
@pytest.mark.parametrize(("column", "is_there"), [("at", False), ("in.at", False), ("maybe", True)])
def test_a_zero_that_protobuf_does_not_write_is_a_missing_event_time(column, is_there, is_decoded):
    message = """syntax = "proto3";
    message Order { int64 at = 1; optional int64 maybe = 2; Order.In in = 3; message In { double at = 1; } }"""
    with registry_of({1: message}, kind="PROTOBUF") as config:
        typed = TypedRecords(RegistryValues(column_of_subject(config, "protobuf", "orders-value")))
        read = typed.column(f"value.{column}")
        rows = batch([header(1) + b"\0\x10\0\x1a\0"])  # maybe is 0, and in is there
        rows = next(typed.decoded(rows)).rows if is_decoded else rows
        assert read(rows).to_pylist() == [0 if is_there else None]


@pytest.mark.parametrize("column", ["value.at", "value.n.ms"])
def test_a_plan_passes_no_bad_record_behind_the_first_time(column):
    records = TypedRecords(JsonValues(SCHEMA))
    find = HeadFinder(RecordTimes(ColumnTimestamp(column, records.column(column)), EventTimePolicy("ignore")))
    rows = batch([None, *VALUES])
    for first in (0, 1):
        assert find.first_of([rows.slice(first)], Horizon()) == Head(41, NOON_MS)
    with pytest.raises(BadRecordError, match="offset 43 is bad"):
        find.first_of([rows.slice(2)], Horizon())


@pytest.mark.parametrize("is_decoded", [True, False])
def test_a_rescued_time_is_null_for_rows_and_for_peeks(is_decoded):
    records = TypedRecords(JsonValues(SCHEMA, rescues=True), rescued_column="rest")
    values = [VALUES[0], b'{"at":"soon","more":1}', VALUES[0][:-1] + b',"more":' + b"[" * 300 + b"]" * 300 + b"}"]
    rows = decoded(records, values).rows if is_decoded else batch(values)
    assert records.column("value.at")(rows).is_null().to_pylist() == [False, True, False]
    with pytest.raises(BadRecordError, match="offset 42 is bad: the value is not a JSON object"):
        records.column("value.at")(batch(VALUES))
