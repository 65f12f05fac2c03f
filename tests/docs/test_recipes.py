"""The recipes, and programs that run again and again, in the Spark and with the Kafka of all tests."""

import base64
import json
import re
from datetime import datetime, timedelta, timezone

import pytest
from kafka import KafkaConsumer, KafkaProducer
from pyarrow import dataset

from tests.support.command import await_that
from tests.support.pages import ROOT, blocks
from tests.support.servers.registry_server import avro_value
from tests.support.streams import HOUR, MINUTE, NOON, append, new_topic, parsed
from tidegate.sources.options import parse_duration

PROGRAMS = [block for block in blocks("docs/recipes.md") if block.language == "python"]
SHARED, TABLE, _MERGE, _POSTGRES, HOURLY, DAY, JOIN, AVRO, DEAD, CHANGES = PROGRAMS  # two run by hand
BEGIN = int(datetime(2026, 11, 21, tzinfo=timezone.utc).timestamp() * 1000)
END = BEGIN + 24 * HOUR


@pytest.fixture(scope="module")
def produce(kafka):
    """Write records of (key, value, time) to partitions in turn, from the first on."""
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=20)

    def produce(topic, records, partitions=2, first=0):
        for n, (key, value, time) in enumerate(records):
            producer.send(topic, key=key, value=value, partition=first + n % partitions, timestamp_ms=time)
        producer.flush()

    yield produce
    producer.close()


def orders_around(*times):
    """Return 12 orders in the half hours before and after each time."""
    return [
        (b"%d" % at, b"order", at) for time in times for at in range(time - HOUR // 2, time + HOUR // 2, 5 * MINUTE)
    ]


@pytest.fixture(scope="module")
def topics(kafka, produce):
    """Orders around both ends of the day, in a topic of our own."""
    names = {"orders": new_topic(kafka, [], [])}
    produce(names["orders"], orders_around(BEGIN, END))
    return names


@pytest.fixture
def run(spark, kafka, topics, tmp_path):
    """Run a recipe after what all recipes share; return its names."""

    def run(recipe, topics=topics, **own):
        names = {"spark": spark, "topics": topics}
        texts = {
            "localhost:9092": kafka.bootstrap_servers,
            "/lake": str(tmp_path),
            'subscribe="orders"': 'subscribe=topics["orders"]',
            'subscribe=["orders"]': 'subscribe=[topics["orders"]]',
            "subscribe=topic,": "subscribe=topics[topic],",
        }
        for block in (SHARED, recipe):
            block.with_own(texts | own).run(names)
        return names

    return run


def rows(folder):
    return dataset.dataset(folder, format="parquet").to_table().to_pylist()


def test_a_table_has_each_record_once(spark, run):
    run(TABLE, **{'"delta"': '"parquet"', '.toTable("orders")': '.toTable("recipe")', '"1 hour"': '"1 day"'})
    assert spark.table("recipe").select("partition", "offset").distinct().count() == spark.table("recipe").count() == 24
    spark.sql("DROP TABLE recipe")


def test_runs_of_every_hour_are_one_stream_and_lose_no_row_of_a_partition_that_trails(spark, run, kafka, tmp_path):
    topics, written = {"orders": new_topic(kafka, [], [])}, 0
    trails, end = NOON + 61 * MINUTE, NOON + 3 * HOUR
    for parts in ([(NOON, NOON + 2 * HOUR), (NOON, trails)], [(NOON + 2 * HOUR, end), (trails, end)]):
        times = [range(begin, end, MINUTE // 2) for begin, end in parts]
        append(kafka, topics["orders"], dict(enumerate(times)))
        written += sum(map(len, times))
        run(HOURLY, topics)
    waiting = spark.read.format("statestore").load(f"{tmp_path}/checkpoints/counts").selectExpr("sum(value.count) AS n")
    assert sum(row["count"] for row in rows(tmp_path / "counts")) + waiting.first().n == written


def test_one_day_is_read_again(run, tmp_path):
    for _ in range(2):
        run(DAY)
    times = sorted(row["timestamp"] for row in rows(tmp_path / "orders"))
    assert len(times) == 12
    assert times[0].timestamp() * 1000 == BEGIN
    assert times[-1].timestamp() * 1000 == END - 5 * MINUTE


def test_each_order_finds_its_payment_though_topics_are_hours_apart_and_the_join_keeps_little_state(
    run, kafka, produce, tmp_path
):
    topics = {"orders": new_topic(kafka, [], []), "payments": new_topic(kafka, [], [])}
    orders = [(b"%d" % at, b"order", at) for at in range(NOON - 3 * HOUR, NOON + 2 * HOUR, HOUR // 200)]
    paid = [key for key, _, at in orders if at >= NOON]
    produce(topics["orders"], orders)
    produce(topics["payments"], [(key, b"payment", int(key) + 10 * MINUTE) for key in paid])
    progress = run(JOIN, topics)["query"].recentProgress
    assert sorted(row["id"] for row in rows(tmp_path / "paid")) == sorted(key.decode() for key in paid)
    kept = [sum(operator.numRowsTotal for operator in batch.stateOperators) for batch in progress]
    assert max(kept) <= 1.1 * 2 * (200 + 200)  # of both topics, an hour of the drift and one of the join
    for batch in progress:
        bounds = [parsed(source.latestOffset)["bound"] for source in batch.sources]
        assert None in bounds or abs(bounds[0] - bounds[1]) <= HOUR


def test_a_join_that_runs_again_loses_no_order_that_trails_or_is_out_of_order(run, kafka, produce, tmp_path):
    topics, orders = {name: new_topic(kafka, [], []) for name in ("orders", "payments")}, []
    trails, end = NOON + 61 * MINUTE, NOON + 3 * HOUR
    for parts in ([(NOON, NOON + 2 * HOUR), (NOON, trails)], [(NOON + 2 * HOUR, end), (trails, end)]):
        for partition, (begin, stop) in enumerate(parts):
            # The first one of a run is half a minute older than the last one of the run before.
            times = [begin - 3 * MINUTE // 2, *range(begin, stop, MINUTE)]
            records = [(b"%d at %d" % (partition, at), b"any", at) for at in times]
            for topic in topics.values():
                produce(topic, records, 1, first=partition)
            orders += [key.decode() for key, _, _ in records]
        run(JOIN, topics)
    assert sorted(row["id"] for row in rows(tmp_path / "paid")) == sorted(orders)


def test_clicks_in_avro_are_columns_in_a_table(spark, run, kafka, registry, produce, tmp_path):
    at = {"type": "long", "logicalType": "timestamp-millis"}
    fields = [{"name": "page", "type": "string"}, {"name": "at", "type": at}]
    schema = {"type": "record", "name": "Click", "fields": fields}
    raw = {**schema, "fields": [fields[0], {"name": "at", "type": "long"}]}
    subject, topic = "recipe-value", new_topic(kafka, [], [])
    schema_id = registry.register(subject, json.dumps(schema))
    values = [avro_value(schema_id, raw, {"page": f"p{n}", "at": BEGIN + n * MINUTE}) for n in range(10)]
    produce(topic, [(b"k", value, BEGIN) for value in [*values, b"not Avro"]])
    own = {"https://registry:8081": registry.url, 'subscribe="clicks"': f'subscribe="{topic}"', "clicks-value": subject}
    run(AVRO, **own)
    assert sorted(row["page"] for row in rows(tmp_path / "clicks")) == [f"p{n}" for n in range(10)]
    (bad,) = [
        json.loads(line) for file in (tmp_path / "bad-clicks").rglob("*.json") for line in file.read_text().splitlines()
    ]
    assert base64.b64decode(bad["value"]) == b"not Avro"


def test_bad_records_are_sent_to_a_topic_with_their_reason(run, kafka, tmp_path):
    topic, folder = new_topic(kafka, []), tmp_path / "bad-clicks"
    folder.mkdir()
    value = base64.b64encode(b"not Avro").decode()
    bad = {"topic": "clicks", "partition": 1, "offset": 7, "reason": "no event time", "key": None, "value": value}
    (folder / "a.json").write_text(json.dumps(bad))
    run(DEAD, **{'"dead-letters"': f'"{topic}"'})
    consumer = KafkaConsumer(topic, bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest")
    try:
        letter = next(iter(consumer))
    finally:
        consumer.close()
    assert (letter.key, letter.value) == (None, b"not Avro")
    assert letter.headers == [("from", b"clicks-1-7"), ("reason", b"no event time")]


def change(table, at, **after):
    return json.dumps({"payload": {"op": "u", "after": after, "source": {"table": table, "ts_ms": at}}}).encode()


def test_a_mark_closes_the_windows_of_changes(spark, run, kafka, produce, tmp_path):
    topic = new_topic(kafka, [])
    mark = datetime.fromtimestamp((BEGIN + MINUTE) / 1000, timezone.utc).isoformat()
    records = [*((b"k", change("orders", BEGIN + at), BEGIN) for at in (0, 100, MINUTE - 1)), (b"k", None, BEGIN)]
    records += [(b"h", change("heartbeat", BEGIN + MINUTE + 1000, complete_up_to=mark), BEGIN)]
    produce(topic, records, partitions=1)
    query = run(CHANGES, **{"shop.public.orders": topic, "query.awaitTermination()": ""})["query"]
    written, closed = tmp_path / "changes", []

    def closes():
        if any("part-" in log.read_text() for log in written.glob("_spark_metadata/[0-9]*")):  # also of empty batches
            closed[:] = spark.read.parquet(str(written)).select("op", "changes").collect()
        return closed

    try:
        await_that(closes)
    finally:
        query.stop()
    assert [tuple(row) for row in closed] == [("u", 3)]


DEPLOYED = ROOT / "examples/deploy/count_orders.py"


def duration(pattern, text):
    (found,) = set(re.findall(pattern, text))
    return parse_duration(found)


def test_a_program_that_runs_again_waits_for_its_max_drift_and_a_minute_for_disorder():
    tutorial, _ = (block.text for block in blocks("docs/tutorial.md") if block.language == "python")
    for program in (tutorial, SHARED.text + HOURLY.text, DEPLOYED.read_text()):
        delay = duration(r'withWatermark\("\w+", "(.*?)"\)', program)
        assert delay - duration(r'"maxDrift"[:,] "(.*?)"', program) == timedelta(minutes=1)
