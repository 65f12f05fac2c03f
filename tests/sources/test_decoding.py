"""Avro in a topic, with a real registry: event times for planning, and columns that queries decode."""

import json

import pytest
from kafka import KafkaProducer

import tidegate
from tests.support.pages import blocks
from tests.support.servers.registry_server import avro_value, header, registry_of
from tests.support.streams import NOON, kafka_source, milliseconds, new_topic
from tidegate.errors import OptionError

SCHEMA = {
    "type": "record",
    "name": "Click",
    "fields": [
        {"name": "page", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
RAW = {**SCHEMA, "fields": [SCHEMA["fields"][0], {"name": "at", "type": "long"}]}


def test_event_times_and_columns_come_from_values_with_registered_schemas(spark, kafka, registry):
    schema_id = registry.register("orders-value", json.dumps(SCHEMA))
    topic = new_topic(kafka, [])
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    clicks = [(f"page {number}", NOON + 1000 * number) for number in range(20)]
    for page, at in clicks:
        producer.send(topic, avro_value(schema_id, RAW, {"page": page, "at": at}), partition=0)
    # Spark has no type that contains itself, but nobody asks for this field.
    odd = {**SCHEMA, "fields": [{"name": "of", "type": ["null", "Click"]}, *SCHEMA["fields"]]}
    odd_raw = {**RAW, "fields": [odd["fields"][0], *RAW["fields"]]}
    within = {"of": None, "page": "outer", "at": 0}
    clicks.append(("inner", NOON))
    value = avro_value(
        registry.register("odd-value", json.dumps(odd)), odd_raw, {"of": within, "page": "inner", "at": NOON}
    )
    producer.send(topic, value, partition=0)
    producer.send(topic, b"{}", partition=0)
    producer.close()
    source = kafka_source(
        kafka,
        topic,
        event_time="avro:/at",
        schema_registry_url=registry.url,
        bad_event_time="ignore",
        include_event_time=True,
    )
    options = {"schema.registry.url": registry.url}
    column = tidegate.from_avro("value", "orders-value", options, mode="PERMISSIVE").alias("click")
    rows = source.read(spark).select("event_time", "event_time_fault", column).collect()
    *good, bad = sorted(rows, key=lambda row: row.event_time_fault or "")
    assert tuple(bad) == (None, "bad", None)
    assert sorted((row.click.page, milliseconds(row.event_time)) for row in good) == sorted(clicks)
    assert all(row.click["at"] == row.event_time for row in good)

    typed = kafka_source(
        kafka,
        topic,
        value_format="avro",
        value_schema="orders-value",
        mode="PERMISSIVE",
        event_time="value.at",
        schema_registry_url=registry.url,
        bad_event_time="ignore",
        where="value.page <> 'page 3' or value.at is null",
    )
    *good, bad = sorted(typed.read(spark).collect(), key=lambda row: row.offset)
    assert tuple(bad.value) == (None, None)
    assert sorted((row.value.page, milliseconds(row.value["at"])) for row in good) == sorted(
        click for click in clicks if click[0] != "page 3"
    )

    (block,) = (block for block in blocks("docs/read-kafka.md") if "from_avro" in block.text)
    names = {"tidegate": tidegate, "df": source.read(spark).where("offset < 21")}
    block.with_own({"https://registry:8081": registry.url}).run(names)
    assert sorted((row.page, milliseconds(row["at"])) for row in names["orders"].collect()) == sorted(clicks)


def test_an_id_may_be_in_a_header(spark):
    with registry_of({7: SCHEMA}, "clicks-value") as config:
        value = avro_value(7, RAW, {"page": "p", "at": NOON})
        rows = [(value[5:], [("other", b"x"), ("__value_schema_id", header(7))]), (value, None)]
        frame = spark.createDataFrame(rows, "value binary, headers array<struct<key string, value binary>>")
        options = {"schema.registry.url": config.url}
        column = tidegate.from_avro("value", "clicks-value", options, headers="headers").alias("click")
        assert [row.page for row in frame.select(column).select("click.page").collect()] == ["p", "p"]


@pytest.mark.parametrize(
    ("options", "mode", "sentence"),
    [
        ({}, "FAILFAST", "the option 'schema.registry.url' is missing"),
        ({"schema.registry.urll": "x"}, "FAILFAST", "no option .*; did you mean 'schema.registry.url'"),
        ({"schema.registry.url": "x"}, "DROP", "mode is 'DROP': expected FAILFAST or PERMISSIVE"),
        ({"schema.registry.url": "x"}, None, "mode is None: expected FAILFAST or PERMISSIVE"),
        (None, "FAILFAST", "options must map names to texts, such as {'schema.registry.url': 'http"),
        ("http://registry", "FAILFAST", "options must map names to texts"),
        ({"schema.registry.url": 5}, "FAILFAST", "options must map names to texts"),
        ({5: "x"}, "FAILFAST", "options must map names to texts"),
    ],
)
def test_a_wrong_option_is_told_at_once(options, mode, sentence):
    with pytest.raises(OptionError, match=sentence):
        tidegate.from_avro("value", "clicks-value", options, mode=mode)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"data": None}, "data is None, but it must be a column or its name"),
        ({"headers": ["headers"]}, r"headers is \['headers'\], but it must be a column or its name"),
        ({"subject": None}, "subject is None, but it must be a text, such as 'orders-value'"),
        ({"message": 5}, "message is 5, but it must be a text, such as 'shop.Order'"),
    ],
)
def test_a_wrong_argument_is_told_before_the_registry_is_asked(given, sentence):
    arguments = {"data": "value", "subject": "clicks-value", "options": {"schema.registry.url": "http://127.0.0.1:9"}}
    with pytest.raises(OptionError, match=sentence):
        tidegate.from_protobuf(**{**arguments, **given})


@pytest.mark.parametrize(
    ("fields", "unused"),
    [
        ({"event_time": "timestamp"}, True),
        ({"event_time": len, "watermark_from": "json:/at"}, True),
        ({"event_time": "avro:/at"}, False),
        ({"event_time": "protobuf:/at"}, False),
        ({"watermark_from": "avro:/done"}, False),
        ({"value_format": "avro"}, False),
    ],
)
def test_a_registry_that_nothing_asks_is_told_to_be_without_effect(fields, unused):
    fields = {**fields, "schema_registry_url": "http://r"}
    source = tidegate.KafkaSource(bootstrap_servers="broker:9092", subscribe=["clicks"], **fields)
    assert source.without_effect == [
        "schema.registry.url (no format is avro or protobuf, and no event time begins with avro: or protobuf:)"
        for _ in range(unused)
    ]
