"""Typed topics: values and keys decoded by the reader, in batch queries and streams, beside Spark's own functions."""

import json

import pytest
from pyspark import cloudpickle

import tidegate
from tests.sources.kafka.test_event_time import HOURLY, produce, set_aside
from tests.support.servers.registry_server import avro, registry_of
from tests.support.streams import HOUR, NOON, available_now, kafka_source, milliseconds, new_topic
from tidegate.errors import OptionError
from tidegate.sources.bridge import Driver, data_source_class, schema_of

COLUMNS = "id BIGINT, amount DOUBLE, at TIMESTAMP, shop STRUCT<name: STRING, tags: ARRAY<STRING>>"
ORDERS = [
    b'{"id":1,"amount":1.5,"at":"2023-11-15T12:00:00Z","shop":{"name":"a","tags":["x",null]},"more":[1]}',
    b'{\n "id": 2,\n "at": "2023-11-15T12:00:01.5Z"\n}\n',
    b"{}",
    b"",
    b'{"id":3,"amount":"2","shop":null}',  # a text is no DOUBLE
    b'{"id":4',
    b"[1]",
    b'{"shop":{"name":5}}',
    None,
]


def order(hours, **more):
    return json.dumps({"at": (NOON + int(hours * HOUR)) // 1000, **more}).encode()


def typed(kafka, topic, **fields):
    fields = {"value_format": "json", "value_schema": COLUMNS, "starting_offsets": "earliest", **fields}
    return kafka_source(kafka, topic, **fields)


def test_values_are_those_of_from_json(spark, kafka):
    topic = new_topic(kafka, [])
    produce(kafka, topic, 0, [(value, []) for value in ORDERS])
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic, "mode": "permissive"}
    ours = spark.read.format("tidegate_kafka").options(**options, valueFormat="json", valueSchema=COLUMNS).load()
    plain = spark.read.format("tidegate_kafka").options(**{**options, "mode": "PERMISSIVE"} | {"keyFormat": "string"})
    parsed = plain.load().selectExpr("offset", f"from_json(cast(value AS STRING), '{COLUMNS}') AS value")
    assert ours.schema["value"].dataType == parsed.schema["value"].dataType
    assert {row.offset: row.value for row in ours.collect()} == {row.offset: row.value for row in parsed.collect()}


def test_a_stream_aligns_by_a_column_and_delivers_what_is_asked_for(spark, kafka, tmp_path):
    topic = new_topic(kafka, [], [])
    produce(kafka, topic, 0, [(order(hours, id=n), []) for n, hours in enumerate((0, 1, 2, 3))])
    produce(
        kafka, topic, 1, [(b"no json", []), *((order(hours, id=n), []) for n, hours in enumerate((2.5, 3.5, 3.75), 4))]
    )
    folder = tmp_path / "bad"
    source = typed(
        kafka, topic, event_time="value.at", bad_records_path=str(folder), columns="value,offset,partition",
        where="value.id <> 1", watermarks=HOURLY,
    )  # fmt: skip
    frame = source.read_stream(spark)
    assert frame.columns == ["value", "offset", "partition"]
    run = available_now(frame, tmp_path / "checkpoint")
    rows = sorted((row["value"]["id"], milliseconds(row["value"]["at"])) for row in run.all_rows)
    hours = {0: 0, 2: 2, 3: 3, 4: 2.5, 5: 3.5, 6: 3.75}
    assert rows == [(n, NOON + int(hour * HOUR)) for n, hour in hours.items()]
    assert run.furthest_ahead(lambda row: milliseconds(row["value"]["at"])) <= HOUR
    assert len(run.rows) > 2
    assert set_aside(folder) == [(1, 0)]
    (line,) = [json.loads(line) for file in folder.iterdir() for line in file.read_text().splitlines()]
    assert line["reason"] == "the value is not a JSON object: Expecting value at its character 0"
    assert run.bad_records == 1

    produce(kafka, topic, 0, [(order(4.5, id=7), []), (order(4.75, id=1), [])])
    again = available_now(frame, tmp_path / "checkpoint")
    assert [row["value"]["id"] for row in again.all_rows] == [7]
    assert set_aside(folder) == [(1, 0)]


def test_a_bad_value_ends_the_query_or_is_rescued(spark, kafka):
    topic = new_topic(kafka, [])
    produce(kafka, topic, 0, [(b'{"id":1}', []), (b'{"id":"x","other":2}', [])])
    with pytest.raises(Exception, match="the record at offset 1 is bad: the value has no BIGINT in 'id'; to continue"):
        typed(kafka, topic).read(spark).collect()
    rescued = typed(kafka, topic, rescued_data_column="rest").read(spark).orderBy("offset")
    assert [(row.value.id, row.rest) for row in rescued.collect()] == [(1, None), (None, '{"id":"x","other":2}')]


JSON = {"value_format": "json", "value_schema": "id BIGINT"}


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"columns": "offset,value,Offset"}, "columns names 'Offset' twice$"),
        ({"columns": "value.id", **JSON}, "no such column; valueSchema names the fields of a value$"),
        ({"columns": "offset", "watermark_from": "header:done"}, "so columns has to name headers$"),
        ({"rescued_data_column": "Offset", **JSON}, "rescuedDataColumn is 'Offset', which is another column's name$"),
        ({"rescued_data_column": "headers", **JSON}, "'headers', which is another column's name$"),
        (
            {"rescued_data_column": "rest"},
            "which needs valueFormat 'json', but it is None$",
        ),
        ({"watermark_from": "json:/done", **JSON}, "valueFormat decodes these bytes; use header:NAME$"),
        ({"value_format": "json"}, "so valueSchema has to name its fields, such as"),
        ({"key_format": "avro"}, "which needs a schema registry; set schema.registry.url$"),
        ({"mode": "PERMISSIVE"}, "nothing is decoded: valueFormat and keyFormat are not set$"),
        ({"where": "value.x = 1", **JSON}, r"the option 'where' is 'value.x = 1': there is no column 'value\.x'"),
    ],
)
def test_options_that_contradict_each_other_are_refused_without_a_broker(fields, sentence):
    with pytest.raises(OptionError, match=sentence):
        tidegate.KafkaSource(bootstrap_servers="broker:9092", subscribe=["orders"], **fields)


@pytest.mark.parametrize(
    "other",
    [{"where": "value.id > 2"}, {"rescued_data_column": "rest"}, {"event_time": "value.id", "event_time_unit": "s"}],
)
def test_queries_with_other_bad_records_do_not_replace_each_other_s_files(tmp_path, other):
    fields = {"bad_records_path": str(tmp_path), "where": "value.id > 1", "event_time": "value.id", **JSON}
    one, again, another = (
        tidegate.KafkaSource(bootstrap_servers="broker:9092", subscribe=["orders"], **given).reader(None)._place
        for given in (fields, fields, fields | other)
    )
    assert one.identity == again.identity != another.identity


def test_values_have_the_schema_of_the_load_also_where_spark_was_told_the_columns():
    """As for windows, which load the source once more."""
    schemas = {1: avro(("id", "int"))}
    with registry_of(schemas) as config:
        options = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "orders", "valueFormat": "avro"}
        options["schema.registry.url"] = config.url
        loaded = data_source_class("typed_by_test", tidegate.KafkaSource.from_options, Driver(2, "app"))(options)
        columns = schema_of(tidegate.KafkaSource.from_options(options))
        schemas[2] = avro(("id", "int"), ("more", "int"))
        reader = cloudpickle.loads(cloudpickle.dumps(loaded)).streamReader(columns)
        assert schema_of(reader._source) == columns
        again = data_source_class("typed_by_test", tidegate.KafkaSource.from_options, Driver(2, "app"))(options)
        with pytest.raises(
            OptionError, match=r"gives .* and not .* before a new schema in a registry, load the query again$"
        ):
            again.streamReader(columns).latestOffset({}, None)
