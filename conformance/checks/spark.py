"""SPARK: queries in one Spark session."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from tidegate.add_ons import schema_of
from tidegate.conformance.harness import Ability
from tidegate.conformance.lab.explain import ordered_difference
from tidegate.conformance.lab.lab import BEGIN_MS, SECOND_MS, Lab, after
from tidegate.conformance.lab.spark import SparkStream, gist, shared_session
from tidegate.conformance.rules import Tier, rule
from tidegate.connector import Source


@rule("SPARK-1", tier=Tier.SPARK, needs=(Ability.BATCH,))
def a_batch_query_reads_what_was_written(lab: Lab) -> None:
    """A batch query reads what was written.

    spark.read gives the source's schema, and every row once, with its value and event time.

    Look at: as_batch(): the begin and the end of a batch query; a batch of another schema; a source that works only in
    the process that made it.
    """
    split = lab.two_splits(*after(*range(4)))[0]
    texts = ["größer als 日本語 😀", "", *([None] if lab.can(Ability.NULL_VALUES) else [])]
    split.append(*(BEGIN_MS + 10 * SECOND_MS for _ in texts), values=texts)
    source = lab.source()
    wanted = schema_of(source.as_batch())
    try:
        frame = source.read(shared_session())
        lab.expect(
            frame.schema == wanted, f"spark.read gives the schema {frame.schema}, but that of the source is {wanted}"
        )
        batches = frame.toArrow().to_batches()
    except PySparkException as error:
        raise lab.fail(f"spark.read ends with an error: {gist(error)}") from None
    keys = lab.keys(batches)
    lab.compare(keys, in_order=False)
    if lab.can(Ability.EVENT_TIME_COLUMN):
        lab.expect_event_times(batches)
    values = {row.key: row.value for row in lab.rows}
    for key, text in zip(keys, lab.values(batches), strict=True):
        lab.expect(text == values[key], f"row {key} was written with the value {values[key]!r}, and read with {text!r}")


@rule("SPARK-2", tier=Tier.SPARK, witness=("a batch that was read again after a restart",))
def a_stream_reads_everything_once_run_after_run(lab: Lab) -> None:
    """A stream reads everything once, run after run.

    Spark reads a batch again for every action in foreachBatch, for a failed task, and after a restart. All readings of
    a batch give the same rows, and a run delivers only what is new.

    Look at: enumerator(state), which has only the snapshot when a run begins; starts(), which is not called for splits
    in the checkpoint; a reader that takes away the rows that it reads, as queues do, or reads the present rows instead
    of its range.
    """
    first = lab.two_splits(*after(*range(4)))[0]
    stream = stream_of(lab, lab.source(), twice=True)
    before = {batch.number: batch for batch in stream.run()}
    lab.compare(stream.delivered, in_order=False)
    number = stream.forget_last_commit()
    if lab.can(Ability.GROWING_SPLITS):
        first.append_each(BEGIN_MS + 20 * SECOND_MS, BEGIN_MS + 21 * SECOND_MS)
    if lab.can(Ability.NEW_SPLITS):
        lab.split(BEGIN_MS + 20 * SECOND_MS, BEGIN_MS + 21 * SECOND_MS)
    for batch in stream.run():
        if batch.number == number:
            lab.saw("a batch that was read again after a restart")
            _expect_same(lab, f"batch {number}, before and after a restart", before[number].keys, batch.keys)
    lab.compare(stream.delivered, in_order=False)
    again = [key for batch in stream.run() for key in batch.keys]
    lab.expect(not again, f"a run without new rows delivers {again[:3]}")
    for batch in stream.batches:
        _expect_same(lab, f"batch {batch.number}, by two actions", batch.keys, batch.again)


def _expect_same(lab: Lab, what: str, first: list[str], second: list[str]) -> None:
    lab.refuse(ordered_difference(what, sorted(first), sorted(second)))


def stream_of(lab: Lab, source: Source, *, twice: bool = False) -> SparkStream:
    """Return the stream of a connector, with the keys of the kit's rows."""
    key = F.col(lab.harness.key_column).cast("string")  # it may hold text or bytes
    return SparkStream(
        lab,
        lambda: source.read_stream(shared_session()),
        lambda frame: [row[0] for row in frame.select(key).collect()],
        twice=twice,
    )
