"""Values of Avro and Protobuf whose schemas are in a real registry: their event times, and columns of values."""

import datetime as dt
import itertools
import json
import sys
from decimal import Decimal

import pyarrow as pa
import pytest
from google.protobuf import message_factory

from tests.readers.formats.files import logical
from tests.support.kafka.lab import batch as kafka_rows
from tests.support.servers.registry_server import AT, avro, avro_value, decoded_as, header, protobuf_value, times
from tidegate import KafkaSource
from tidegate.alignment.splits import Horizon
from tidegate.errors import ConnectorError, CorruptDataError, OptionError
from tidegate.readers.event_time.records import marks_of
from tidegate.readers.kafka.typed import TypedRecords
from tidegate.readers.registry.client import RegisteredSchema, RegistryConfig
from tidegate.readers.registry.columns import column_of_subject
from tidegate.readers.registry.protobuf import ProtobufSchema, ProtobufValues
from tidegate.readers.values.decoders import RegistryValues
from tidegate.readers.values.where import condition_of

SUBJECTS = (f"subject-{number}-value" for number in itertools.count())
MONEY = {"type": "record", "name": "Money", "namespace": "shop", "fields": [{"name": "cents", "type": "long"}]}


def seconds(number):
    return dt.datetime.fromtimestamp(number, dt.timezone.utc)


@pytest.fixture
def config(registry):
    return RegistryConfig(registry.url)


@pytest.fixture
def subject():
    return next(SUBJECTS)


@pytest.fixture
def register(registry, subject):
    def register(schema, of=None, references=()):
        return registry.register(of or subject, json.dumps(schema), references=references)

    return register


class TestAvro:
    @pytest.mark.parametrize(
        ("kind", "value", "unit"),
        [
            ("long", AT, "ms"),
            ("long", AT * 1000 + 999, "us"),
            (["null", "double"], AT / 1000, "s"),
            ("string", "2023-11-14T22:13:20.123Z", "iso8601"),
            (logical("long", "timestamp-millis"), AT, "ms"),
            (logical("long", "timestamp-micros"), AT * 1000 + 999, "ms"),
            (logical("long", "timestamp-nanos"), AT * 1_000_000 + 999, "ms"),
            (["null", logical("long", "local-timestamp-millis")], AT, "ms"),
        ],
    )
    def test_a_field_is_a_time_by_its_type_or_by_its_unit(self, config, register, kind, value, unit):
        schema = avro(("key", "string"), ("at", kind))
        raw = json.loads(json.dumps(schema).replace("logicalType", "unknown"))
        values = [avro_value(register(schema), raw, {"key": "k" * 9, "at": value})]
        assert times("avro:/at", config, values) == ([AT], unit)

    def test_a_field_may_be_the_watermark_of_the_rows_that_have_it(self, config, register):
        typed, plain = avro(("done", ["null", logical("long", "timestamp-millis")])), avro(("done", "long"))
        first, second = register(typed), register(plain, next(SUBJECTS))
        values = [avro_value(first, typed, {"done": at}) for at in (seconds(7), None)]
        values += [None, b"{}", avro_value(second, plain, {"done": AT * 1000})]
        rows = pa.record_batch({"value": pa.array(values, pa.binary())})
        assert marks_of("avro:/done", config)(rows).to_pylist() == [7000, None, None, None, AT]

    def test_a_date_is_its_beginning_in_utc(self, config, register):
        schema = avro(("at", logical("int", "date")))
        values = [avro_value(register(schema), schema, {"at": dt.date(2023, 11, 14)})]
        assert times("avro:/at", config, values)[0] == [AT // 86_400_000 * 86_400_000]

    def test_it_may_lie_in_records_and_arrays_and_others_may_lack_it(self, config, register):
        order = {**avro(("at", logical("long", "timestamp-millis"))), "name": "Inner"}
        schema = avro(("orders", {"type": "array", "items": order}), ("more", ["null", "long"]))
        schema_id = register(schema)
        values = [
            avro_value(
                schema_id,
                schema,
                {
                    "orders": [{"at": seconds(second)} for second in list_],
                    "more": None,
                },
            )
            for list_ in ([5, 6], [7], [])
        ]
        assert times("avro:/orders/0/at", config, values)[0] == [5000, 7000, None]
        assert times("avro:/orders/1/at", config, values)[0] == [6000, None, None]
        assert times("avro:/more", config, values, "ms")[0] == [None] * 3
        assert times("avro:/orders", config, values, "ms")[0] == [None] * 3
        assert times("avro:/nothing/here", config, values, "ms")[0] == [None] * 3

    def test_what_is_no_value_of_its_schema_has_no_time_and_spoils_no_other(self, config, register):
        schema = avro(("name", "string"), ("at", "long"))
        good = avro_value(register(schema), schema, {"name": "n", "at": AT})
        bad = [None, b"", b"{}", good[:-1], good + b"x", header(999_999) + good[5:], good[:5], good[:5] + b"\xff" * 20]
        assert times("avro:/at", config, [good, *bad, good], "ms")[0] == [AT, *[None] * len(bad), AT]

    def test_a_value_of_a_schema_that_never_was_is_set_aside_and_is_no_mark(self, config, register, caplog):
        schema = avro(("at", "long"))
        values = [None, avro_value(register(schema), schema, {"at": AT}), header(999_998) + b"x"]
        rows = kafka_rows(values)
        source = KafkaSource(
            bootstrap_servers="localhost:9",
            subscribe=["orders"],
            event_time="avro:/at",
            schema_registry_url=config.url,
            bad_records_path="bad",
        )
        judged = source.event_times.with_unit("ms").judge(rows, Horizon())
        assert (judged.times.to_pylist(), [*judged.set_aside]) == ([None, AT, None], [0, 2])
        assert marks_of("avro:/at", config)(rows).to_pylist() == [None, AT, None]
        warning = f"the schema registry at {config.url} has no schema 999998: values that name it cannot be decoded"
        assert [record.getMessage() for record in caplog.records] == [warning]


PROTOBUF = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Order {
  message Line { string sku = 1; repeated uint64 amounts = 2; google.protobuf.Timestamp at = 3; }
  enum State { NEW = 0; PAID = 1; }
  int64 at = 1;
  optional int64 maybe = 2;
  google.protobuf.Timestamp created = 3;
  repeated Line lines = 4;
  State state = 5;
  map<string, int32> counts = 6;
  bytes raw = 7;
  Line first = 8;
}
message Other { int64 at = 1; }
"""


WITH_COMMON_FILES = """
syntax = "proto3";
import "confluent/meta.proto";
import "confluent/type/decimal.proto";
import "google/type/date.proto";
message Sale {
  option (confluent.message_meta).doc = "of one day";
  google.type.Date day = 1;
  confluent.type.Decimal price = 2;
}
"""


@pytest.fixture(scope="module")
def messages():
    """Return the classes of the messages, made from the same description."""
    schema = ProtobufSchema(RegisteredSchema("PROTOBUF", PROTOBUF))
    return {
        name: message_factory.GetMessageClass(schema.named(f"shop.{name}")) for name in ("Order", "Order.Line", "Other")
    }


class TestProtobuf:
    @pytest.fixture
    def schema_id(self, registry, subject):
        return registry.register(subject, PROTOBUF, "PROTOBUF")

    def test_a_schema_may_import_the_files_of_google_and_of_confluent_without_a_reference(self):
        schema = RegisteredSchema("PROTOBUF", WITH_COMMON_FILES)
        sale = message_factory.GetMessageClass(ProtobufSchema(schema).named("Sale"))()
        sale.day.year, sale.price.value = 2023, b"5"
        values = ProtobufValues(ProtobufSchema(schema).named("Sale"))
        assert values.decode([sale.SerializeToString()])[0].to_pylist() == [
            {"day": {"year": 2023, "month": 0, "day": 0}, "price": {"value": b"5", "precision": 0, "scale": 0}}
        ]

    def test_a_compiler_that_is_killed_is_no_verdict_on_a_schema(
        self, config, registry, subject, messages, tmp_path, monkeypatch
    ):
        number = registry.register(subject, PROTOBUF.replace("message Other", "message Another"), "PROTOBUF")
        values = [protobuf_value(number, messages["Order"](at=AT))]
        killed = tmp_path / "python"
        killed.write_text("#!/bin/sh\nkill -KILL $$\n")
        killed.chmod(0o755)
        with monkeypatch.context() as for_want_of_memory:
            for_want_of_memory.setattr(sys, "executable", str(killed))
            with pytest.raises(ConnectorError, match="the Protobuf compiler was killed"):
                times("protobuf:/at", config, values)
        assert times("protobuf:/at", config, values) == ([AT], "ms")

    def test_a_field_is_a_time(self, config, schema_id, messages):
        order = messages["Order"](at=AT, maybe=0)
        order.created.seconds, order.created.nanos = 5, 6_999_999
        order.lines.add(sku="2023-11-14T22:13:20.123Z", amounts=[1, AT])
        values = [protobuf_value(schema_id, order), protobuf_value(schema_id, messages["Order"]())]
        assert times("protobuf:/at", config, values) == ([AT, None], "ms")
        assert times("protobuf:/maybe", config, values, "ms")[0] == [0, None]
        assert times("protobuf:/created", config, values, "s")[0] == [5006, None]
        assert times("protobuf:/lines/0/sku", config, values) == ([AT, None], "iso8601")
        assert times("protobuf:/lines/0/amounts/1", config, values)[0] == [AT, None]
        for nothing in ("/lines", "/lines/7/sku", "/first/at", "/counts/a", "/nowhere", "/at/deeper", "/raw"):
            assert times(f"protobuf:{nothing}", config, values, "ms")[0] == [None, None]

    def test_values_of_a_topic_are_structs_that_a_condition_selects(self, config, schema_id, subject, messages):
        orders = [messages["Order"](at=AT + number, raw=b"r") for number in range(4)]
        values = [*(protobuf_value(schema_id, order) for order in orders), None, header(schema_id) + b"\0\xff"]
        typed = TypedRecords(RegistryValues(column_of_subject(config, "protobuf", subject)), sets_aside=True)
        rows = kafka_rows(values)
        condition = condition_of(f"value.at > {AT} and value.at <> {AT + 2}", typed.schema(rows.schema))
        records = typed.selecting(condition, "value.at")
        assert records.sifts
        assert [field.name for field in records.first.value.kind] == ["at"]
        assert records.wanted(rows).tolist() == [False, True, False, True, False, True]
        (decoded,) = records.decoded(rows.filter(pa.array(records.wanted(rows))))
        assert [row["raw"] for row in decoded.rows.column("value").to_pylist()[:2]] == [b"r", b"r"]
        assert decoded.bad == {2: f"the value does not fit its schema {schema_id}"}
        assert records.column("value.at")(rows).to_pylist() == [*(AT + number for number in range(4)), None, None]

    def test_any_message_of_the_schema_may_come(self, config, schema_id, messages):
        line = messages["Order.Line"]()
        line.at.seconds = 7
        values = [
            protobuf_value(schema_id, line, b"\4\0\0"),
            protobuf_value(schema_id, messages["Other"](at=AT), b"\2\2"),
        ]
        assert times("protobuf:/at", config, values, "ms")[0] == [7000, AT]

    def test_what_is_none_has_no_time(self, config, schema_id, messages):
        good = protobuf_value(schema_id, messages["Other"](at=AT), b"\2\2")
        bad = [
            None,
            good[:5],
            good[:5] + b"\2\x08",
            good[:5] + b"\x7f",
            good[:8] + b"\xff\xff",
            header(999_998) + good[5:],
        ]
        assert times("protobuf:/at", config, [*bad, good], "ms")[0] == [*[None] * len(bad), AT]

    def test_a_column_has_the_types_of_spark_s_own_reader(self, config, schema_id, subject, messages):
        order = messages["Order"](at=AT, raw=b"r")
        order.created.seconds, order.created.nanos = 5, 6_999_999
        order.lines.add(sku="a", amounts=[2**64 - 1])
        order.state, order.counts["x"] = 1, 3
        values = [protobuf_value(schema_id, order), None, protobuf_value(schema_id, messages["Order"]())]
        full, null, empty = decoded_as(subject, config, "protobuf", values)
        assert null is None
        assert full == {
            "at": AT,
            "maybe": None,
            "created": dt.datetime(1970, 1, 1, 0, 0, 5, 6999, dt.timezone.utc),
            "lines": [{"sku": "a", "amounts": [Decimal(2**64 - 1)], "at": None}],
            "state": "PAID",
            "counts": [("x", 3)],
            "raw": b"r",
            "first": None,
        }
        assert (empty["at"], empty["lines"], empty["state"]) == (0, [], "NEW")

    def test_another_message_is_named_by_its_full_name(self, config, schema_id, subject, messages):
        value = protobuf_value(schema_id, messages["Other"](at=3), b"\2\2")
        values = [value, protobuf_value(schema_id, messages["Order"]())]
        assert decoded_as(subject, config, "protobuf", values, "PERMISSIVE", "shop.Other") == [{"at": 3}, None]
        with pytest.raises(OptionError, match="Othr'; did you mean"):
            column_of_subject(config, "protobuf", subject, message="shop.Othr")


class TestColumns:
    def test_a_bad_value_is_an_error_or_null(self, config, register, subject):
        schema = avro(("id", "int"))
        good = avro_value(register(schema), schema, {"id": 1})
        for bad, sentence in (
            (b"{}", "is not in Confluent's wire format.* no header __value_schema_id, or its headers were not given"),
            (good + b"x", "does not fit its schema"),
            (header(999_997), "names the schema 999997, which the registry does not have"),
            (header(0) + b"\0\0\0\7", "names the schema 0, .*; ids of 8 bytes, as Apicurio's .* are not read"),
        ):
            with pytest.raises(CorruptDataError, match=f"a value {sentence}.*set mode to PERMISSIVE"):
                decoded_as(subject, config, "avro", [good, bad])
            rows = decoded_as(subject, config, "avro", [good, bad, good], "PERMISSIVE")
            assert rows == [{"id": 1}, None, {"id": 1}]

    def test_a_schema_may_refer_to_others(self, config, register, subject):
        register(MONEY, f"{subject}-money")
        schema = avro(("price", "shop.Money"), ("tax", ["null", "shop.Money"]))
        schema_id = register(schema, references=[{"name": "shop.Money", "subject": f"{subject}-money", "version": 1}])
        whole = avro(("price", MONEY), ("tax", ["null", "shop.Money"]))
        value = avro_value(schema_id, whole, {"price": {"cents": 5}, "tax": {"cents": 1}})
        assert decoded_as(subject, config, "avro", [value]) == [{"price": {"cents": 5}, "tax": {"cents": 1}}]

    @pytest.mark.parametrize("message", [None, "shop.Order"])
    def test_a_message_of_another_schema_is_no_row_of_nulls(self, config, registry, subject, messages, message):
        registry.register(subject, PROTOBUF, "PROTOBUF")
        other = 'syntax = "proto3"; package shop; message Payment { int64 cents = 1; }'
        value = header(registry.register(f"{subject}-payment", other, "PROTOBUF")) + b"\0\x08\x05"
        assert decoded_as(subject, config, "protobuf", [value], "PERMISSIVE", message) == [None]
        with pytest.raises(CorruptDataError, match=r"it is a message shop\.Payment, not shop\.Order"):
            decoded_as(subject, config, "protobuf", [value], "FAILFAST", message)

    def test_a_subject_that_is_missing_or_of_another_form_is_reported(self, config, register, subject):
        with pytest.raises(OptionError, match="has no subject 'nobody-s'"):
            column_of_subject(config, "avro", "nobody-s")
        register(avro(("id", "int")))
        with pytest.raises(CorruptDataError, match="is of the type AVRO, not PROTOBUF"):
            column_of_subject(config, "protobuf", subject)
