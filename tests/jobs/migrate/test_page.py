"""Every step of docs/migrate.md, run against Spark's built-in source."""

import json
import shlex
import shutil

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.functions import collect_list

from tests.support.pages import blocks
from tests.support.streams import NOON, append, available_now, even_times, every, finish, new_topic


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
    for told in batches:
        latest, positions = told["latestOffset"], told["endOffset"]["positions"]
        lags.append(behind(latest[topic], {p: positions[f"{topic}-{p}"] for p in latest[topic]}))
        assert (latest["metrics"], latest["reads"]) == (lags[-1], reads)
        # Spark has no place for these of a Python source; if it gets one, they belong there.
        assert "metrics" not in told
        assert "PythonMicroBatchStream" in told["description"]
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
    def told(self):
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
    (before_crash, *_) = page.told
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
    check_progress(page.told[1:], topic, f"{topic} at {kafka.bootstrap_servers}")  # without the repeated batch
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
