"""SPARK: queries in one Spark session."""

from __future__ import annotations

from pyspark.errors import PySparkException

from tidegate.conformance.abilities import Ability
from tidegate.conformance.declaring import rule
from tidegate.conformance.lab.explain import ordered_difference
from tidegate.conformance.lab.lab import BEGIN_MS, SECOND_MS, Lab, Split
from tidegate.conformance.lab.leftovers import Held
from tidegate.conformance.lab.spark.session import shared_session
from tidegate.conformance.lab.spark.stream import SparkStream, gist
from tidegate.conformance.rules import Level, Tier
from tidegate.sources.bridge import Driver, data_source_class, schema_of

__all__ = [
    "check_a_batch_is_the_same_whenever_it_is_read",
    "check_a_batch_query_reads_what_was_written",
    "check_a_running_stream_takes_what_comes",
    "check_a_stream_reads_everything_once_run_after_run",
    "check_a_wrong_option_is_one_sentence",
    "check_batches_of_an_aligned_stream_keep_the_bound",
    "check_nothing_is_left_of_a_stopped_stream",
]


def _written(lab: Lab, rows: int = 4) -> list[Split]:
    """Return splits with rows: two, where the connector can have two."""
    return [
        lab.split(*(BEGIN_MS + n * SECOND_MS + number for n in range(rows)))
        for number in range(2 if lab.can(Ability.MANY_SPLITS) else 1)
    ]


@rule(
    "SPARK-1",
    "a batch query reads what was written",
    tier=Tier.SPARK,
    purpose="Users call spark.read to look at a source, and to fill a table for the first time.",
    tested="A batch query reads two splits with spark.read. One value is text beyond ASCII, one is empty, and one is "
    "null.",
    passes="The schema is that of the source. Every row is delivered once, with the value and the event time that "
    "were written.",
    look_at=(
        "as_batch(): the begin and the end of a batch query",
        "a batch of the reader whose schema is not the source's arrow_schema",
        "a source that works only in the process that made it",
    ),
    needs=(Ability.BATCH,),
    source="Source.read; SplitReader.read: every batch has the source's schema exactly",
)
def check_a_batch_query_reads_what_was_written(lab: Lab) -> None:
    """Read with spark.read."""
    split = _written(lab)[0]
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


@rule(
    "SPARK-2",
    "a stream reads everything once, run after run",
    tier=Tier.SPARK,
    purpose="A scheduler that starts Trigger.AvailableNow is the cheapest way to run a stream. If a run leaves rows "
    "out or reads them again, the data is wrong.",
    tested="Three runs with Trigger.AvailableNow share one checkpoint. The first has rows, and the second has no new "
    "ones. The third has more rows in old splits and in a new one. Spark never reports the last commit of a run.",
    passes="The first and the third run deliver the new rows, each row once. The second delivers nothing.",
    look_at=(
        "enumerator(state), which has only the snapshot when a run begins",
        "starts(), which is not called for splits in the checkpoint",
        "a source that works only in the process that made it",
    ),
    source="SplitEnumerator.snapshot; SupportsCommit.commit: not for a run's last batch",
)
def check_a_stream_reads_everything_once_run_after_run(lab: Lab) -> None:
    """Run a stream three times."""
    first = _written(lab)[0]
    stream = SparkStream(lab, lab.source())
    stream.run()
    lab.compare(stream.delivered, in_order=False)
    again = [key for batch in stream.run() for key in batch.keys]
    lab.expect(not again, f"a second run without new rows delivers {again[:3]}")
    if lab.can(Ability.GROWING_SPLITS):
        first.append_each(BEGIN_MS + 20 * SECOND_MS, BEGIN_MS + 21 * SECOND_MS)
    if lab.can(Ability.NEW_SPLITS):
        lab.split(BEGIN_MS + 20 * SECOND_MS, BEGIN_MS + 21 * SECOND_MS)
    stream.run()
    lab.compare(stream.delivered, in_order=False)


@rule(
    "SPARK-3",
    "a batch is the same whenever it is read",
    tier=Tier.SPARK,
    purpose="Spark reads a batch again for every action in foreachBatch, and for a failed task. It also does so after "
    "a restart, if the batch was not committed. If the rows differ, the sink loses or doubles some.",
    tested="Two actions read each batch. Then the kit removes the last commit from the checkpoint, as if the driver "
    "had been killed. The stream starts again.",
    passes="All reads of a batch give the same rows, and the stream continues after it.",
    look_at=(
        "a reader that takes away or marks the rows that it reads, as queues do",
        "a reader that reads the present rows instead of its range",
        "a reader that needs more than the snapshot and details(), which alone outlive a restart",
    ),
    witness=("a batch that was read again after a restart",),
    source="SplitReader.read: the same range must yield the same rows every time",
)
def check_a_batch_is_the_same_whenever_it_is_read(lab: Lab) -> None:
    """Read batches by two actions, and again after a restart."""
    _written(lab)
    stream = SparkStream(lab, lab.source(), twice=True)
    before = {batch.number: batch for batch in stream.run()}
    number = stream.forget_last_commit()
    for batch in stream.run():
        if batch.number == number:
            lab.saw("a batch that was read again after a restart")
            _expect_same(lab, f"batch {number}, before and after a restart", before[number].keys, batch.keys)
    for batch in stream.batches:
        _expect_same(lab, f"batch {batch.number}, by two actions", batch.keys, batch.again)
    lab.compare(stream.delivered, in_order=False)


def _expect_same(lab: Lab, what: str, first: list[str], second: list[str]) -> None:
    wrong = ordered_difference(what, sorted(first), sorted(second))
    if wrong is not None:
        raise lab.fail(wrong)


@rule(
    "SPARK-4",
    "a running stream takes what comes",
    tier=Tier.SPARK,
    purpose="A stream that looks for rows only once reads nothing more until someone restarts it.",
    tested="A stream runs with Spark's default trigger. While it runs, rows are appended and a split is added.",
    passes="All rows are delivered once, without a restart.",
    look_at=(
        "extents(): look again at each call",
        "discover(): look again at each call",
        "a wait for rows inside extents() or discover()",
    ),
    source="SplitEnumerator.extents, SplitEnumerator.discover",
)
def check_a_running_stream_takes_what_comes(lab: Lab) -> None:
    """Add rows while a stream runs."""
    first = _written(lab)[0]
    stream = SparkStream(lab, lab.source())
    with stream.running() as query:
        stream.await_rows(query)
        if lab.can(Ability.GROWING_SPLITS):
            first.append_each(BEGIN_MS + 20 * SECOND_MS, BEGIN_MS + 21 * SECOND_MS)
            stream.await_rows(query)
        if lab.can(Ability.NEW_SPLITS):
            lab.split(BEGIN_MS + 20 * SECOND_MS, BEGIN_MS + 21 * SECOND_MS)
            stream.await_rows(query)
    lab.compare(stream.delivered, in_order=False)


@rule(
    "SPARK-5",
    "nothing is left of a stopped stream",
    tier=Tier.SPARK,
    purpose="The leftovers of each query add up on a driver that runs for months. In the end it has no sockets, "
    "threads or memory left.",
    tested="The kit stops a stream that has read rows. Then it looks for the planner process and its children, "
    "threads of the driver, and connections of the Python workers.",
    passes="Soon after stop(), nothing is there that was not there before.",
    look_at=(
        "close() of the enumerator: threads and processes that it leaves running",
        "threads that are not daemons, for which Python waits when it exits",
        "unused connections that the reader never closes",
    ),
    witness=("a planner process",),
    source="SplitEnumerator.close; FLINK-28185",
)
def check_nothing_is_left_of_a_stopped_stream(lab: Lab) -> None:
    """Stop a stream, and look for leftovers."""
    _written(lab)
    spark = shared_session()
    stream = SparkStream(lab, lab.source())
    before = Held.now(spark)
    with stream.running() as query:
        stream.await_rows(query)
        started = Held.now(spark).planners - before.planners
        if started:
            lab.saw("a planner process")

    left: list[str] = []

    def look() -> bool | None:
        left[:] = Held.now(spark).since(before, started)
        return None if left else True

    try:
        lab.until(look, "")
    except AssertionError:
        raise lab.fail(f"{lab.patience_s:g} s after stop() there is still {', '.join(left)}") from None


@rule(
    "SPARK-6",
    "batches of an aligned stream keep the bound",
    tier=Tier.SPARK,
    purpose="A row that is read too early moves Spark's watermark. Spark then drops rows of slower splits as late.",
    tested="One split is 60 s behind another. A stream reads both with a max drift of 20 s and the column "
    "source_watermark.",
    passes="In each batch, every row lies less than 20 s past the oldest row that was unread before the batch. No row "
    "lies at or before the watermark of the previous batch. The column holds the watermark that the offset stores.",
    look_at=("lookup(): the first row at or after the time", "peek() and latest(), which give the watermark"),
    needs=(Ability.MANY_SPLITS,),
    witness=("a pause", "a watermark"),
    source="docs/guarantees.md; FLIP-182, FLIP-217",
)
def check_batches_of_an_aligned_stream_keep_the_bound(lab: Lab) -> None:
    """Stream two splits that are a minute apart."""
    behind = lab.split(*(BEGIN_MS + n * 10 * SECOND_MS for n in range(8)))
    ahead = lab.split(*(BEGIN_MS + (60 + n * 10) * SECOND_MS for n in range(2)))
    stream = SparkStream(lab, lab.source(maxDrift="20 seconds", includeSourceWatermark="true"))
    unread = {row.key: row.event_time_ms or 0 for row in behind.rows + ahead.rows}
    watermark_ms: int | None = None
    for batch in stream.run():
        bound_ms = min(unread.values(), default=0) + 20 * SECOND_MS
        times = {key: unread.pop(key, 0) for key in dict.fromkeys(batch.keys)}
        beyond = [key for key, at_ms in times.items() if at_ms >= bound_ms]
        lab.expect(not beyond, f"batch {batch.number} reads {beyond[:3]} at or past the bound")
        late = [key for key, at_ms in times.items() if watermark_ms is not None and at_ms <= watermark_ms]
        lab.expect(
            not late,
            f"batch {batch.number} reads {late[:3]}, which lie at or before the watermark of the previous batch",
        )
        watermark_ms = stream.offsets[batch.number].get("watermark")
        if times and not any(row.key in times for row in ahead.rows):
            lab.saw("a pause")
        if times and watermark_ms is not None and not stream.offsets[batch.number].get("ended"):
            lab.saw("a watermark")
            lab.expect(
                batch.watermarks_ms == {watermark_ms},
                f"batch {batch.number} says {sorted(map(str, batch.watermarks_ms))} in source_watermark, but its "
                f"offset has {watermark_ms}",
            )
    lab.compare(stream.delivered, in_order=False)


@rule(
    "SPARK-7",
    "a wrong option is one sentence",
    level=Level.SHOULD,
    tier=Tier.SPARK,
    purpose="A user who mistypes an option would see a hundred lines of Java and Python, and no advice.",
    tested="A batch query and a stream load the source with an unknown option.",
    passes="load() fails with one sentence that names the option, without a traceback.",
    look_at=("fields_from_options(): pass on unknown options", "a constructor that raises other errors"),
    source="Source.from_options: one sentence, for the first option that is unknown or malformed",
)
def check_a_wrong_option_is_one_sentence(lab: Lab) -> None:
    """Load with an unknown option."""
    spark = shared_session()
    kind = type(lab.source())
    name = f"{kind.data_source_name()}_with_options"
    spark.dataSource.register(data_source_class(name, kind.from_options, Driver(2, "conformance")))
    for what, reader in (("batch query", spark.read), ("stream", spark.readStream)):
        lab.tell(f"load a {what} with the option 'discoveryIntervall'")
        try:
            reader.format(name).option("discoveryIntervall", "1 second").load()
        except PySparkException as error:
            said, shown = str(error), gist(error)
        else:
            raise lab.fail(f"a {what} takes the option 'discoveryIntervall', which does not exist")
        lab.expect("discoveryintervall" in said.lower(), f"a {what} does not name the wrong option: {shown}")
        lab.expect("Traceback" not in said, f"a {what} shows a traceback for a wrong option: {shown}")
