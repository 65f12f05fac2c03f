"""SPARK: queries in one session of Spark."""

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
    """Return splits with rows, two where there can be two."""
    return [
        lab.split(*(BEGIN_MS + n * SECOND_MS + number for n in range(rows)))
        for number in range(2 if lab.can(Ability.MANY_SPLITS) else 1)
    ]


@rule(
    "SPARK-1",
    "a batch query reads what was written",
    tier=Tier.SPARK,
    purpose="People use spark.read to look at a source, and to fill a table for the first time.",
    tested="spark.read over two splits, one row with text that is not ASCII, one empty, and one null.",
    passes="The schema is that of the source, and every row comes once, with the value and event time that it was "
    "written with.",
    look_at=(
        "as_batch(): where a batch query begins and ends",
        "whether the reader's batches have the source's arrow_schema",
        "whether the source works in another process than the one that made it",
    ),
    needs=(Ability.BATCH,),
    source="Source.read; SplitReader.read: every batch has the source's schema exactly",
)
def check_a_batch_query_reads_what_was_written(lab: Lab) -> None:
    """Read by spark.read."""
    split = _written(lab)[0]
    texts = ["größer als 日本語 😀", "", *([None] if lab.can(Ability.NULL_VALUES) else [])]
    split.append(*(BEGIN_MS + 10 * SECOND_MS for _ in texts), values=texts)
    source = lab.source()
    wanted = schema_of(source.as_batch())
    try:
        frame = source.read(shared_session())
        lab.expect(frame.schema == wanted, f"spark.read says {frame.schema}, and the source {wanted}")
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
    purpose="Trigger.AvailableNow by a scheduler is the cheapest way to run a stream; what a run leaves out or reads "
    "again is wrong data.",
    tested="Three runs with Trigger.AvailableNow share a checkpoint. The first has rows, the second has no new ones, "
    "and the third has more rows in old splits and in a new one.  Spark never tells a run's last commit.",
    passes="The first and the third run deliver what is new, each row once, and the second delivers nothing.",
    look_at=(
        "enumerator(state): a run begins with only its snapshot",
        "starts(), which is not called for splits in the checkpoint",
        "whether the source works in another process than the one that made it",
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
    lab.expect(not again, f"a second run, for which nothing is new, delivers {again[:3]}")
    if lab.can(Ability.GROWING_SPLITS):
        first.append_each(BEGIN_MS + 20 * SECOND_MS, BEGIN_MS + 21 * SECOND_MS)
    if lab.can(Ability.LATE_SPLITS):
        lab.split(BEGIN_MS + 20 * SECOND_MS, BEGIN_MS + 21 * SECOND_MS)
    stream.run()
    lab.compare(stream.delivered, in_order=False)


@rule(
    "SPARK-3",
    "a batch is the same whenever it is read",
    tier=Tier.SPARK,
    purpose="Spark reads a batch again for every action in foreachBatch, for a task that failed, and after a restart "
    "before its commit. If the rows differ, the sink loses or doubles some.",
    tested="Each batch is read by two actions.  Then the last commit is taken out of the checkpoint, as after "
    "a kill of the driver, and the stream is started again.",
    passes="All readings of a batch give the same rows, and the stream continues behind it.",
    look_at=(
        "a reader that takes away or marks what it reads, as queues do",
        "a reader that reads the present rows instead of its range",
        "what the reader needs of the planner: only the snapshot and details() are there after a restart",
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
    purpose="A stream that looks only once reads nothing more until someone restarts it.",
    tested="A stream runs with Spark's own trigger; rows are appended, and a split is added, while it runs.",
    passes="All of them are delivered once, without a restart.",
    look_at=(
        "extents(), which must look again each time",
        "discover(), which must look again each time",
        "a planner that waits for rows inside extents() or discover()",
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
        if lab.can(Ability.LATE_SPLITS):
            lab.split(BEGIN_MS + 20 * SECOND_MS, BEGIN_MS + 21 * SECOND_MS)
            stream.await_rows(query)
    lab.compare(stream.delivered, in_order=False)


@rule(
    "SPARK-5",
    "nothing is left of a stopped stream",
    tier=Tier.SPARK,
    purpose="What every query leaves behind adds up on a driver that runs for months, until it has no sockets, "
    "threads or memory left.",
    tested="A stream reads and is stopped. Then the rule looks for the planner process and its children, the threads "
    "of the driver, and the connections of the Python workers.",
    passes="stop() returns within 30 s, and soon after it nothing is there that was not there before.",
    look_at=(
        "close() of the enumerator: threads and processes that it leaves running",
        "threads that are not daemons, for which Python waits at its end",
        "unused connections of the reader that are kept and never closed",
    ),
    witness=("a planner process",),
    source="SplitEnumerator.close; FLINK-28185",
)
def check_nothing_is_left_of_a_stopped_stream(lab: Lab) -> None:
    """Stop a stream, and look for what is left."""
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
        raise lab.fail(f"{lab.patience_s:g} s after stop() there still is {', '.join(left)}") from None


@rule(
    "SPARK-6",
    "batches of an aligned stream keep the bound",
    tier=Tier.SPARK,
    purpose="A row that is read too early moves Spark's watermark, and then rows of slower splits are dropped as late.",
    tested="Two splits, one 60 s behind the other, with a max drift of 20 s and the column source_watermark.",
    passes="In each batch every row is less than 20 s later than the oldest row that was unread before it. No row is "
    "older than the watermark before the batch. The column has the watermark of the offset.",
    look_at=("lookup(): the first row at or after the time", "peek() and latest(), from which the watermark comes"),
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
        lab.expect(not late, f"batch {batch.number} reads {late[:3]}, which lie behind the watermark before it")
        watermark_ms = stream.offsets[batch.number].get("watermark")
        if times and not any(row.key in times for row in ahead.rows):
            lab.saw("a pause")
        if times and watermark_ms is not None and not stream.offsets[batch.number].get("ended"):
            lab.saw("a watermark")
            lab.expect(
                batch.watermarks_ms == {watermark_ms},
                f"batch {batch.number} says {sorted(map(str, batch.watermarks_ms))} in source_watermark, and its "
                f"offset {watermark_ms}",
            )
    lab.compare(stream.delivered, in_order=False)


@rule(
    "SPARK-7",
    "a wrong option is one sentence",
    level=Level.SHOULD,
    tier=Tier.SPARK,
    purpose="People who mistype an option see a hundred lines of Java and Python, and not what to do.",
    tested="A batch query and a stream are loaded with an unknown option.",
    passes="load() fails with one sentence that names the option, without a traceback.",
    look_at=(
        "fields_from_options(): it must pass on unknown options",
        "a constructor that raises other errors",
    ),
    source="Source.from_options: one sentence, for the first option that is unknown or malformed",
)
def check_a_wrong_option_is_one_sentence(lab: Lab) -> None:
    """Load with an unknown option."""
    spark = shared_session()
    kind = type(lab.source())
    name = f"tidegate_{kind.connector}_with_options"
    spark.dataSource.register(data_source_class(name, kind.from_options, Driver(2, "conformance")))
    for what, reader in (("batch query", spark.read), ("stream", spark.readStream)):
        lab.tell(f"load a {what} with the option 'discoveryIntervall'")
        try:
            reader.format(name).option("discoveryIntervall", "1 second").load()
        except PySparkException as error:
            said, shown = str(error), gist(error)
        else:
            raise lab.fail(f"a {what} takes the option 'discoveryIntervall', which there is not")
        lab.expect("discoveryintervall" in said.lower(), f"a {what} does not name the wrong option: {shown}")
        lab.expect("Traceback" not in said, f"a {what} shows a traceback for a wrong option: {shown}")
