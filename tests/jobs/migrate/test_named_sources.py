"""Queries whose sources have names, so that some can be added and removed (Spark 4.2)."""

import json

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.functions import lit

from tests.support.streams import NOON, append, even_times, finish, new_topic, start


@pytest.fixture
def evolving(spark):
    """Let queries add and remove sources."""
    setting = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
    spark.conf.set(setting, "true")
    yield spark
    spark.conf.unset(setting)


class Query:
    """A query over named sources; keeps the offsets that each batch writes, by the name of the source."""

    def __init__(self, spark, kafka):
        self._spark, self._kafka = spark, kafka
        self.topics, self.written, self.last = {}, {}, None

    def fill(self, name, count):
        """Write records for a source, whose topic is created with its first ones."""
        times = even_times(NOON, NOON + 1000, count)
        if name in self.topics:
            append(self._kafka, self.topics[name], {0: times})
        else:
            self.topics[name] = new_topic(self._kafka, times)

    def run(self, format_, checkpoint, *names, crashes=False):
        """Read all there is; or crash once a batch has been written, before Spark knows of it."""
        sources = [self._source(format_, name) for name in names]
        rows = sources[0]
        for source in sources[1:]:
            rows = rows.union(source)

        def write(batch, number):
            found = {}
            for row in batch.collect():
                found.setdefault(row["name"], []).append(row["offset"])
            before = self.written.setdefault(number, found)
            assert {n: sorted(at) for n, at in found.items()} == {n: sorted(at) for n, at in before.items()}
            self.last = number
            if crashes:
                raise RuntimeError("crashed")

        query = start(rows, checkpoint, write, availableNow=True)
        if not crashes:
            finish(query)
            return
        with pytest.raises(StreamingQueryException, match="crashed"):
            finish(query)

    def _source(self, format_, name):
        reader = self._spark.readStream.format(format_).option("subscribe", self.topics[name])
        servers = self._kafka.bootstrap_servers
        reader = reader.option("kafka.bootstrap.servers", servers).option("startingOffsets", "earliest")
        return reader.name(name).load().select(lit(name).alias("name"), "offset")

    def read(self, name):
        """Return the offsets of a source in all batches, sorted."""
        return sorted(offset for found in self.written.values() for offset in found.get(name, ()))


@pytest.fixture
def query(evolving, kafka):
    return Query(evolving, kafka)


BUILT_IN, OURS = "kafka", "tidegate_kafka"


def test_sources_with_names_move_in_the_middle_of_the_batch_that_added_one_and_back_after_such_a_batch(
    query, tidegate, tmp_path
):
    old, new, back = tmp_path / "old", tmp_path / "new", tmp_path / "back"
    for name in ("orders", "clicks"):
        query.fill(name, 30)
    query.run(BUILT_IN, old, "orders", "clicks")
    query.fill("orders", 5)
    query.fill("alpha", 7)
    query.run(BUILT_IN, old, "alpha", "orders", "clicks", crashes=True)

    code, output, _ = tidegate("migrate", old, "--json")
    assert code == 0
    (topics, starts) = query.topics, {entry["source"]: entry["startingOffsets"] for entry in json.loads(output)}
    positions = {"alpha": 0, "clicks": 30, "orders": 30}
    assert starts == {name: {topics[name]: {"0": at}} for name, at in positions.items()}

    assert tidegate("migrate", old, "--to", new)[0] == 0
    query.fill("alpha", 2)
    query.run(OURS, new, "clicks", "alpha", "orders")  # the batch that crashed is repeated, and checked by the sink
    assert [query.read(name) for name in ("orders", "clicks", "alpha")] == [[*range(n)] for n in (35, 30, 9)]

    query.fill("alpha", 3)
    query.fill("views", 7)
    query.run(OURS, new, "views", "alpha", crashes=True)  # without clicks and orders
    sentence, *_ = tidegate("migrate", new, "--to", back, "--back")
    assert f"batch {query.last} is planned but not written" in sentence
    query.run(OURS, new, "alpha", "views")
    assert tidegate("migrate", new, "--to", back, "--back")[0] == 0
    offsets = [line for path in back.glob("offsets/*") for line in path.read_text().split("\n")[2:]]
    assert all('"positions"' not in line for line in offsets)
    query.fill("alpha", 4)
    query.run(BUILT_IN, back, "alpha", "views")
    counts = {"orders": 35, "clicks": 30, "alpha": 16, "views": 7}
    assert {name: query.read(name) for name in counts} == {name: [*range(count)] for name, count in counts.items()}


def test_an_account_adds_up_runs_whose_sources_come_in_another_order_or_are_new(query, tidegate, tmp_path):
    checkpoint = tmp_path / "checkpoint"
    query.fill("orders", 30)
    query.run(OURS, checkpoint, "orders")
    query.fill("orders", 4)
    query.fill("alpha", 7)
    query.run(OURS, checkpoint, "alpha", "orders")
    code, output, _ = tidegate("account", checkpoint, "--json")
    account = json.loads(output)
    assert (code, account["missing"], account["late"]) == (0, [], 0)
    read = {source["reads"].partition(" ")[0]: source["bySplit"] for source in account["sources"]}
    counts = {"orders": 34, "alpha": 7}
    assert read == {query.topics[name]: {f"{query.topics[name]}-0": count} for name, count in counts.items()}
