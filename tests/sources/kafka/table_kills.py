"""Kills archivers into a table, and queries over its seam, at random moments; run by hand; 16 minutes on two cores.

    python -m tests.sources.kafka.table_kills [--kills 8] [--hours 60] [--permissive]

For Delta and for Iceberg, the archiver appends hour after hour of a topic, of which Kafka has deleted the beginning,
while a query reads both.  By turns, one of them is killed, as often as is said.  Then both end in peace, and the rows
of the table and of the query's output must be those of the topic, each once.  Some values are no JSON: the query sets
them aside, or gets them as null with ``--permissive``.  KILLS_SEED chooses other moments.
"""

import argparse
import json
import tempfile
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa

import tidegate
from tests.sources.killable import commits, driver_session
from tests.sources.kills import judge_written, kill_while_it_works, let_end, log_of, skewed_topic, start_module
from tests.support.command import await_that, dice_of_kills, finish, kill, started
from tests.support.streams import HOUR, NOON, committed_source, delete_before
from tests.support.tables import SCHEMA, Delta, Iceberg
from tidegate.alignment.splits import SplitRange
from tidegate.readers.contract import ReadTask
from tidegate.servers import KafkaServer

CORES = "local[2]"


def archiver(kafka, topic, table, until):
    options = ("--bootstrap-servers", kafka.bootstrap_servers, "--topic", topic, "--out", table.location)
    return started("archive", *options, "--until", until, "--master", CORES)


def archive(kafka, topic, table, until):
    with archiver(kafka, topic, table, until) as process:
        code, output, errors = finish(process)
    assert code == 0, errors
    return output.strip()


def files(table):
    folder = table.path if isinstance(table, Delta) else table.table.location().removeprefix("file://")
    return len([*Path(folder).rglob("*.parquet")])


def kill_archiver(kafka, topic, table, until, dice):
    """Kill an archiver after its first new file, or its commit; return whether it still ran, and had committed."""
    before, version = files(table), table.version
    is_there = dice.choice((lambda: files(table) > before, lambda: table.version != version))
    with archiver(kafka, topic, table, until) as process:
        await_that(lambda: process.poll() is not None or is_there())
        time.sleep(dice.uniform(0, 0.8))  # the random moment itself
        still = process.poll() is None
        kill(process)
    return still, table.version != version


def digests(rows):
    """Return how often there is each row, the headers left out, since Iceberg has an empty list for none."""
    rows = rows.select(["topic", "partition", "offset", "timestamp", "timestampType", "key", "value"])
    return Counter(map(str, rows.to_pylist()))


def judge_table(kafka, topic, table, counts, old):
    """Raise AssertionError unless the table holds each record of the topic once.  old: those that Kafka has deleted."""
    ranges = tuple(SplitRange(f"{topic}-{p}", 0, count) for p, count in enumerate(counts))
    left = committed_source(kafka, topic, fail_on_data_loss=False, bad_event_time="ignore").reader(None)
    kept = digests(pa.Table.from_batches(left.read(ReadTask(ranges)), SCHEMA))
    held = digests(pa.Table.from_pylist(table.rows(), SCHEMA))
    assert held == kept + old - (kept & old), f"{sum(held.values())} rows of {sum(counts)}"


def run(kafka, table, given, home, dice):
    kills, hours = given.kills, given.hours
    home.mkdir()
    topic, counts = skewed_topic(kafka, hours)
    archive(kafka, topic, table, NOON + HOUR * hours // 4)
    old = digests(pa.Table.from_pylist(table.rows(), SCHEMA))
    for partition, count in enumerate(counts[:2]):
        delete_before(kafka, topic, count // 8, partition)
    of_query = {"servers": kafka.bootstrap_servers, "topic": topic, "archive": table.location}
    queries = json.dumps([("tests.sources.driver", str(home), {**of_query, "permissive": given.permissive})])
    arguments = CORES, json.dumps(tidegate.session_conf()), queries
    for number in range(kills):
        until = NOON + HOUR * hours * (number + 1 + kills) // (4 * kills)
        alive, committed = kill_archiver(kafka, topic, table, until, dice)
        struck = kill_while_it_works(start_module("tests.sources.killable", home, *arguments), home, dice)
        how = f"archiver {'killed' if alive else 'ended'}, {'committed' if committed else 'nothing'}"
        print(f"{table.kind} {number}: {how}; query {'killed' if struck else 'ended'} at {commits(home)}", flush=True)
    print(archive(kafka, topic, table, "latest"), flush=True)
    let_end(start_module("tests.sources.killable", home, *arguments), home)
    judge_table(kafka, topic, table, counts, old)
    return counts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--hours", type=int, default=60)
    parser.add_argument("--permissive", action="store_true")
    given, dice = parser.parse_args(), dice_of_kills()
    with KafkaServer() as kafka, tempfile.TemporaryDirectory() as folder:
        runs = {}
        for table in (Delta(f"{folder}/table"), Iceberg(f"{folder}/table")):
            home = Path(folder) / table.kind
            try:
                runs[home] = run(kafka, table, given, home, dice)
            except AssertionError:
                print(log_of(home))
                raise
        spark = driver_session(CORES, {})
        for home, counts in runs.items():
            judge_written(spark, home, counts, permissive=given.permissive)
            print(f"{home.name}: {sum(counts)} records exact in the table and in the output of the query")
        spark.stop()


if __name__ == "__main__":
    main()
