"""Columns and event times of values whose schemas have changed, wherever their ids are, or which Spark cannot hold."""

import datetime as dt
import sys
import uuid

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.bytes import varint
from tests.support.servers.registry_server import AT, avro, avro_value, decoded_as, header, registry_of, times
from tidegate.errors import CorruptDataError, InstallationError, OptionError
from tidegate.readers.registry.client import framed, last_header, without_id
from tidegate.readers.registry.columns import column_of_subject

ORDER = avro(("id", ["null", "int"]))
PAYMENT = {**avro(("sum", "int")), "name": "Payment"}


def permissive(config, form, *values, subject="orders-value", **more):
    return decoded_as(subject, config, form, values, "PERMISSIVE", **more)


class TestAvro:
    def test_a_subject_of_several_records_has_a_column_for_each(self):
        with registry_of({2: [ORDER, PAYMENT], 1: ORDER}, newest=2) as config:
            values = [header(1) + b"\2\2", header(2) + b"\2\x0a"]
            assert permissive(config, "avro", *values) == [
                {"member0": {"id": 1}, "member1": None},
                {"member0": None, "member1": {"sum": 5}},
            ]

    def test_a_promotion_is_that_of_avro_and_what_it_refuses_is_refused(self):
        schemas = {1: avro(("n", "long")), 2: avro(("n", "string")), 3: avro(("n", "double"))}
        with registry_of(schemas) as config:
            large, text = avro_value(1, schemas[1], {"n": 2**53 + 1}), avro_value(2, schemas[2], {"n": "12"})
            assert permissive(config, "avro", large, text) == [{"n": float(2**53)}, None]
            sentence = (
                "a value of the schema 2 cannot be read as one of 'orders-value': the field 'n' was written as string"
            )
            with pytest.raises(CorruptDataError, match=f"^{sentence}, which cannot be read as double; set mode"):
                decoded_as("orders-value", config, "avro", [text])

    def test_a_value_need_not_be_a_record(self):
        with registry_of({1: '"string"'}) as config:
            assert permissive(config, "avro", header(1) + b"\2a", header(1), None) == ["a", None, None]

    def test_a_field_that_contains_itself_is_left_out_with_a_warning(self, caplog):
        schema = avro(("within", ["null", "Order"]), ("t", "long"))
        with registry_of({1: schema}) as config:
            value = avro_value(1, schema, {"within": {"within": None, "t": 1}, "t": AT})
            assert permissive(config, "avro", value) == [{"t": AT}]
            assert times("avro:/t", config, [value], "ms")[0] == [AT]
            assert times("avro:/within/t", config, [value], "ms")[0] == [None]
        (warning,) = (record.getMessage() for record in caplog.records)
        assert warning.startswith("values of 'orders-value' are decoded without their field 'within': the column")

    def test_event_times_are_found_in_whichever_record_of_a_union_a_value_is(self):
        millis = {"type": "long", "logicalType": "timestamp-millis"}
        union = [avro(("at", "long")), {**avro(("n", "int"), ("at", millis)), "name": "Other"}, "string"]
        inner = [{**of, "name": f"{of['name']}In"} for of in union[:2]]
        with registry_of({1: union, 2: {**avro(("e", inner)), "name": "Outer"}}) as config:
            raw = [avro(("at", "long")), {**avro(("n", "int"), ("at", "long")), "name": "Other"}, "string"]
            values = [
                avro_value(1, raw, record) for record in (("Order", {"at": AT}), ("Other", {"n": 1, "at": 7}), "text")
            ]
            values.append(header(2) + b"\2\2\x0e")
            assert times("avro:/at", config, values[:3]) == ([AT, 7, None], "ms")
            assert times("avro:/e/at", config, values[3:], "ms")[0] == [7]


IDS = """syntax = "proto3"; message Order { int64 ts = 1; string name = 2; }"""


class TestProtobuf:
    def test_fields_are_their_numbers_whatever_their_names_were(self):
        schemas = {
            1: IDS,
            2: IDS.replace("ts", "created_at"),
            3: 'syntax = "proto3"; message Order { int64 other = 1; string created_at = 3; }',
            4: 'syntax = "proto3"; message Order { string name = 2; int64 created_at = 1; }',
            5: 'syntax = "proto3"; message Order { string ts = 2; int64 name = 1; }',
        }
        values = [header(number) + b"\0\x08\5\x12\1a" for number in schemas]
        for newest, row in {
            1: {"ts": 5, "name": "a"},
            2: {"created_at": 5, "name": "a"},
            3: {"other": 5, "created_at": ""},
            4: {"name": "a", "created_at": 5},
            5: {"ts": "a", "name": 5},
        }.items():
            with registry_of(schemas, newest=newest, kind="PROTOBUF") as config:
                assert permissive(config, "protobuf", *values) == [row] * len(values)

    def test_a_field_that_is_not_set_has_the_default_of_its_schema(self):
        schema = 'syntax = "proto2"; message M { optional int64 a = 1 [default = 5]; optional int64 b = 2; }'
        with registry_of({1: schema}, kind="PROTOBUF") as config:
            assert permissive(config, "protobuf", header(1) + b"\0") == [{"a": 5, "b": None}]

    @pytest.mark.parametrize(
        ("imported", "kind"), [('import "google/protobuf/struct.proto";', "google.protobuf.Struct"), ("", "M")]
    )
    def test_a_field_that_contains_itself_is_left_out_with_a_warning(self, imported, kind, caplog):
        schema = f'syntax = "proto3"; {imported} message M {{ int64 ts = 1; {kind} odd = 2; }}'
        with registry_of({1: schema}, kind="PROTOBUF") as config:
            value = header(1) + b"\0\x08\5"
            assert permissive(config, "protobuf", value) == [{"ts": 5}]
            assert times("protobuf:/ts", config, [value], "ms")[0] == [5]
            assert times("protobuf:/odd", config, [value], "ms")[0] == [None]
        assert "are decoded without their field 'odd': the message" in caplog.text

    def test_a_schema_that_the_compiler_refuses_makes_bad_values(self):
        schemas = {1: 'syntax = "proto3"; message Order { int64 ts = ; }', 2: IDS}
        with registry_of(schemas, kind="PROTOBUF") as config:
            values = [header(number) + b"\0\x08\5" for number in (1, 2)]
            assert times("protobuf:/ts", config, values, "ms")[0] == [None, 5]
            assert permissive(config, "protobuf", *values) == [None, {"ts": 5, "name": ""}]
            with pytest.raises(
                CorruptDataError, match=r"of the schema 1 .*: the Protobuf compiler refuses its schema;"
            ):
                decoded_as("orders-value", config, "protobuf", values)

    def test_times_and_texts_beyond_all_types_are_bad_values(self):
        schema = 'syntax = "proto2"; import "google/protobuf/timestamp.proto"; message M { optional string s = 1; '
        late, no_utf8 = b"\x12\x0a\x08" + b"\xff" * 8 + b"\x7f", b"\x0a\x01\xff"
        values = [header(7) + b"\0" + data for data in (late, no_utf8, b"\x0a\x01a")]
        with registry_of({7: schema + "optional google.protobuf.Timestamp t = 2; }"}, kind="PROTOBUF") as config:
            assert times("protobuf:/t", config, values, "ms")[0] == [None] * 3
            assert permissive(config, "protobuf", *values) == [None, None, {"s": "a", "t": None}]

    def test_packages_that_are_missing_make_no_bad_values(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "grpc_tools", None)
        with registry_of({1: IDS.replace("Order", "Missing")}, kind="PROTOBUF") as config:
            for _ in range(2):  # a task that is repeated in the same worker
                with pytest.raises(
                    InstallationError, match=r"grpc_tools, which is missing: .* pip install '\.\[registry"
                ):
                    times("protobuf:/ts", config, [header(1) + b"\0"], "ms")


class TestIds:
    def test_an_id_may_be_in_a_header_of_the_record(self):
        schema = avro(("u", ["null", "int"]), *((name, "int") for name in "abcd"))
        row = {"u": None, "a": 0, "b": 0, "c": 0, "d": 1}
        value = avro_value(1, schema, row)
        bare = value[5:]
        assert bare == b"\0\0\0\0\2"  # as if it were a value without a byte, of the schema 2
        with registry_of({1: schema, 2: avro()}, newest=1) as config:
            headers = [[("__value_schema_id", header(1))], [("other", b"x")], None]
            assert permissive(config, "avro", bare, value, value, headers=headers) == [row] * 3
            assert times("avro:/d", config, [bare, value, value], "ms", headers)[0] == [1, 1, 1]

    def test_an_id_may_be_a_guid(self):
        guid, schema = uuid.UUID(int=7), avro(("at", "long"))
        with registry_of({1: schema}, guids={str(guid): 1}) as config:
            headers = [[("__value_schema_id", b"\1" + guid.bytes)]]
            assert permissive(config, "avro", b"\x0a", headers=headers) == [{"at": 5}]

    def test_a_context_has_ids_of_its_own(self):
        subject = ":.staging:orders-value"
        schemas = {1: avro(("cents", "int"))}
        with registry_of(schemas, subject, in_context={1: avro(("id", "int"))}) as config:
            assert permissive(config, "avro", header(1) + b"\x0a", subject=subject) == [{"id": 5}]
            assert times("avro:/cents", config, [header(1) + b"\x0a"], "ms")[0] == [5]

    def test_json_is_read_behind_the_id_of_its_schema(self):
        with registry_of({}) as config:
            assert times("json:/at", config, [header(7) + b'{"at": 5}', b'{"at": 6}'], "ms")[0] == [5, 6]


def test_a_zero_is_1970_whatever_is_read_with_it():
    schema = avro(("at", "long"))
    with registry_of({1: schema}) as config:
        zero, now = (avro_value(1, schema, {"at": at}) for at in (0, AT))
        assert times("avro:/at", config, [zero]) == ([0], None)
        assert times("avro:/at", config, [zero, now]) == ([0, AT], "ms")


def test_columns_that_differ_in_case_only_are_refused():
    with (
        registry_of({1: avro(("AB", "int"), ("ab", "int"))}) as config,
        pytest.raises(OptionError, match="same to Spark"),
    ):
        column_of_subject(config, "avro", "orders-value")


def test_dates_and_instants_are_spark_s():
    kinds = [("d", {"type": "int", "logicalType": "date"}), ("n", {"type": "long", "logicalType": "timestamp-nanos"})]
    with registry_of({1: avro(*kinds)}) as config:
        (row,) = permissive(config, "avro", header(1) + b"\2" + b"\xd0\x0f")
        assert row == {"d": dt.date(1970, 1, 2), "n": dt.datetime(1970, 1, 1, 0, 0, 0, 1, dt.timezone.utc)}


GUID = uuid.UUID(int=7)


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 300), min_size=1, max_size=6), st.binary(max_size=9))
def test_the_id_the_message_and_the_payload_are_found(schema_id, indexes, payload):
    named = b"\0" + schema_id.to_bytes(4, "big")
    message = b"".join(varint(2 * number) for number in [len(indexes), *indexes])  # zigzag
    assert framed(named + payload, None, "avro") == (schema_id, (), payload)
    assert framed(named + message + payload, None, "protobuf") == (schema_id, tuple(indexes), payload)
    assert framed(named + b"\0" + payload, None, "protobuf") == (schema_id, (0,), payload)


@pytest.mark.parametrize("value", [b"", b"x", b"\0\0\0\0\2", b"\0\0\0\0\2\0\0"])
def test_an_id_in_a_header_leaves_the_value_to_the_payload(value):
    assert framed(value, b"\0\0\0\0\7", "avro") == (7, (), value)
    assert framed(value, b"\1" + GUID.bytes, "avro") == (str(GUID), (), value)
    assert framed(value, b"\1" + GUID.bytes + b"\4\0\2", "protobuf") == (str(GUID), (0, 1), value)
    assert framed(value, b"7", "avro") is None


@pytest.mark.parametrize("value", [None, b"", b"\0\0\0\0", b"\1\0\0\0\1x", b"\1" + GUID.bytes, b'{"at": 1}'])
def test_a_value_in_another_format_has_no_id(value):
    assert framed(value, None, "avro") is None


@given(st.binary(max_size=20))
def test_any_other_bytes_are_no_indexes_or_lie_within_the_value(data):
    found = framed(b"\0\0\0\0\1" + data, None, "protobuf")
    assert found is None or (found.message and data.endswith(found.payload))


def test_json_may_stand_behind_an_id():
    assert without_id(b"\0\0\0\0\7{}") == b"{}"
    assert [without_id(value) for value in (b"{}", b"", None)] == [b"{}", b"", None]


def test_the_last_header_of_a_name_counts():
    pair = pa.struct([("key", pa.string()), ("value", pa.binary())])
    headers = pa.array([[("a", b"1"), ("b", b"2"), ("a", b"3")], [], None, [("b", b"4")]], pa.list_(pair))
    assert last_header(headers, "a").to_pylist() == [b"3", None, None, None]
