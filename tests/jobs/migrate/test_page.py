"""Every step of docs/migrate.md, run against Spark's built-in source; also of queries whose sources have names."""

import json
import shlex
import shutil

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.functions import collect_list, lit

from tests.support.pages import blocks
from tests.support.streams import NOON, append, available_now, even_times, every, finish, new_topic, start


def behind(latest, consumed):
    counts = [end - consumed[partition] for partition, end in latest.items()]
    return {
        "minOffsetsBehindLatest": min(counts),
        "maxOffsetsBehindLatest": max(counts),
        "avgOffsetsBehindLatest": sum(counts) / len(counts),
    }


def check_progress(batches, topic, reads):
    """Check what the page says about dashboards and alerts."""
    lags = []
    for reported in batches:
        latest, positions = reported["latestOffset"], reported["endOffset"]["positions"]
        lags.append(behind(latest[topic], {p: positions[f"{topic}-{p}"] for p in latest[topic]}))
        assert (latest["metrics"], latest["reads"]) == (lags[-1], reads)
        # Spark has no place for these of a Python source; if it gets one, they belong there.
        assert "metrics" not in reported
        assert "PythonMicroBatchStream" in reported["description"]
    assert latest[topic] == {"0": 190, "1": 40}
    assert lags[0] != lags[-1] == behind(latest[topic], latest[topic])


class CrashError(Exception):
    pass


class Sink:
    """Keeps the batches, and those that came again; fails after one of them."""

    def __init__(self, crash_in):
        self.written, self.repeated, self.crash_in = {}, {}, crash_in

    def __call__(self, frame, number):
        if number in self.written:
            self.repeated[number] = self.written[number]
        self.written[number] = {row["partition"]: sorted(row["offsets"]) for row in frame.collect()}
        if number == self.crash_in:
            raise CrashError

    @property
    def last(self):
        return self.written[max(self.written)]


class Page:
    """The code of the page; its checkpoints are in the test's own folder."""

    def __init__(self, folder, names):
        own = [block.with_own({"/checkpoints": str(folder)}) for block in blocks("docs/migrate.md")]
        self.programs = [block for block in own if block.language == "python"]
        self.commands = [shlex.split(block.text) for block in own if not block.language]
        self.names = names

    def run(self, program, checkpoint=None):
        """Run a program with the names that the page supposes; checkpoint: its name on the page, and another one."""
        self.programs[program].with_own(checkpoint or {}).run(self.names)

    def finish(self):
        finish(self.names["query"])

    def crash(self, message="CrashError"):
        with pytest.raises(StreamingQueryException, match=message):
            self.finish()

    @property
    def reported(self):
        """What Spark tells of the source after each batch."""
        return [json.loads(progress.json)["sources"][0] for progress in self.names["query"].recentProgress]


@pytest.fixture
def topic(kafka):
    return new_topic(kafka, even_times(NOON, NOON + 1000, 100), even_times(NOON, NOON + 1000, 40))


def test_a_query_with_state_moves_there_and_back_in_the_middle_of_a_batch_without_a_gap_and_without_a_double(
    spark, kafka, topic, tmp_path, tidegate
):
    sink = Sink(crash_in=1)
    options = {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "60",
    }
    names = {"spark": spark, "options": options, "write": sink, "collect_list": collect_list}
    page = Page(tmp_path, names)
    before, after, _ = (program.text for program in page.programs)
    # The page promises one word, besides the new checkpoint.
    assert before.replace('"kafka"', '"tidegate_kafka"').replace('orders")\n', 'orders-tidegate")\n') == after
    (_, *migrate), (_, *migrate_anew), (_, *migrate_back) = page.commands

    page.run(0)
    page.crash()
    assert [*sink.written] == [0, 1]
    (before_crash, *_) = page.reported
    lag = behind(before_crash["latestOffset"][topic], before_crash["endOffset"][topic])
    assert {name: float(value) for name, value in before_crash["metrics"].items()} == lag

    page.run(1, {"orders-tidegate": "orders"})
    page.crash("Spark's built-in Kafka source; `tidegate migrate` makes")

    code, _, remarks = tidegate(*migrate)
    assert code == 0
    assert "batch 1 is planned but not written" in remarks
    append(kafka, topic, {0: even_times(NOON, NOON + 1000, 90)})
    sink.crash_in = None
    page.run(1)
    page.finish()
    assert sink.repeated == {1: sink.written[1]}
    check_progress(page.reported[1:], topic, f"{topic} at {kafka.bootstrap_servers}")  # without the repeated batch
    assert sink.last == {0: [*range(190)], 1: [*range(40)]}

    code, output, _ = tidegate(*migrate_anew)
    assert code == 0
    names["starting_offsets"] = output.splitlines()[-1]
    page.run(2)
    run = available_now(names["orders"].select("partition", "offset"), tmp_path / "anew")
    committed = [(partition, offset) for partition, offsets in sink.written[0].items() for offset in offsets]
    assert sorted([*committed, *run.offsets()]) == every([190, 40])

    append(kafka, topic, {1: even_times(NOON, NOON + 1000, 50)})
    sink.crash_in = max(sink.written) + 1
    page.run(1)
    page.crash()
    go_back(kafka, topic, tmp_path, page, sink, tidegate(*migrate_back))


def go_back(kafka, topic, tmp_path, page, sink, answer):
    append(kafka, topic, {0: even_times(NOON, NOON + 1000, 10)})
    code, _, remarks = answer
    assert code == 0
    assert f"batch {sink.crash_in} is planned but not written: it is repeated with the same records" in remarks
    shutil.rmtree(tmp_path / "orders-back" / "sources")  # a query that began with tidegate has none
    sink.repeated, sink.crash_in = {}, None
    page.run(0, {'/orders"': '/orders-back"'})
    page.finish()
    assert sink.repeated == {max(sink.written) - 1: sink.written[max(sink.written) - 1]}
    assert sink.last == {0: [*range(200)], 1: [*range(90)]}


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
