"""Runs the back-fill: from any source to Parquet, aligned in event time, and resumable at any moment.

The output folder has the state from which a later run continues, and the arguments that it must repeat:

OUT/batch=0/part-....parquet     one folder per micro-batch, written anew if the batch is repeated:
OUT/batch=1/...                  no reader of Parquet ever sees a row twice
                                 (tidegate_batch=0 if the rows have a column "batch")
OUT/_tidegate/checkpoint/        Spark's checkpoint; readers ignore folders with an underscore
OUT/_tidegate/state/             the source's own state, such as an S3 source's stateLocation
OUT/_tidegate/backfill.json      the arguments that later runs must repeat
OUT/_tidegate/spark.log
"""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import pyarrow as pa
import typer
from pydantic.alias_generators import to_camel

from tidegate.enumerators.contract import Json
from tidegate.enumerators.notes.folder import parsed
from tidegate.enumerators.planning.source_progress import SourceProgress
from tidegate.errors import CheckpointError, OptionError, counted
from tidegate.jobs.account.account import NO_ROWS, Account
from tidegate.jobs.account.of_progress import RunTally
from tidegate.jobs.arguments import named_source, parse_options, parse_time, span_text
from tidegate.jobs.figures import clock_time, count, in_columns, printable, share, span
from tidegate.jobs.files import writing
from tidegate.jobs.session import ends_on_signals, follow, saying, spark_session
from tidegate.jobs.spark_checkpoint import BatchLogs, open_checkpoint
from tidegate.sources.kafka.source import KafkaSource
from tidegate.sources.kafka.typed import TypedTopicOptions
from tidegate.sources.progress.query import QueryProgress
from tidegate.sources.source import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OWN_FOLDER, STATE_FOLDER = "_tidegate", "state"
_ENDING_S, _LOOK_EVERY_S = 10.0, 0.1  # the Java of a run that was killed ends a second or two later


class Output:
    """The folder and its notes."""

    def __init__(self, path: Path) -> None:
        self._given = path
        self.path = path.absolute()
        self._own = self.path / OWN_FOLDER
        self.checkpoint = self._own / "checkpoint"
        self.log = self._own / "spark.log"
        self.kept = self._own / STATE_FOLDER
        self._lock: TextIO | None = None
        self._notes = self._own / "backfill.json"

    def state(self, binding: Mapping[str, Any]) -> Json | None:
        """Return the enumerator's snapshot after the last written batch.

        binding: by option, the values that must be the same in every run.

        Raises OptionError if the folder holds something else, or a back-fill with another binding.
        """
        if ":/" in str(self._given):  # a Path turns :// into this
            given = str(self._given).replace(":/", "://", 1)
            raise OptionError(f"--out is {given}, but it must be a folder of this machine, such as orders/")
        if not self._notes.exists():
            if self.path.exists() and (not self.path.is_dir() or any(set(self.path.iterdir()) - {self._own})):
                raise OptionError(
                    f"--out is {self.path}, which holds something else; give a folder that is new or empty"
                )
            return None
        arguments = (parsed(self._notes.read_bytes()) or {}).get("arguments")
        if not isinstance(arguments, dict):
            raise OptionError(
                f"--out is {self.path}, whose {OWN_FOLDER}/{self._notes.name} is damaged; give another --out"
            )
        for option, value in binding.items():
            before = arguments.get(option)
            if before != value:
                raise OptionError(
                    f"{option} is {_shown(value)}, but it was {_shown(before)} when {self.path} was begun; "
                    "give the same again, or another --out"
                )
        written = BatchLogs.read(open_checkpoint(str(self.checkpoint), "--out")).written
        end = written[max(written)].ours("0") if written else None  # of the only source of its query
        return None if end is None else end.enumerator

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other runs out of the folder while this run uses or claims it.

        Raises OptionError if another run is still writing to it, even if only the Java process of that run is left.
        """
        try:
            if self._own.is_dir():
                self._keep_out()
            yield
            if self._lock is not None:  # after an error, Java may still write, and keeps the lock until it exits
                fcntl.flock(self._lock, fcntl.LOCK_UN)
        finally:
            if self._lock is not None:
                self._lock.close()
                self._lock = None

    def claim(self, binding: Mapping[str, Any]) -> None:
        """Claim the folder for this back-fill; called within ``alone``.

        Raises OptionError if it cannot be created, or another run was faster.
        """
        with writing("--out", self.path):
            self._own.mkdir(parents=True, exist_ok=True)
        if self._lock is None:
            self._keep_out()
        if not self._notes.exists():
            new = self._notes.with_suffix(".new")
            new.write_text(json.dumps({"arguments": dict(binding)}, indent=1))
            new.replace(self._notes)

    @property
    def lock(self) -> int:
        """The descriptor of the lock, which is kept until all processes that have it are gone; after ``claim``."""
        assert self._lock is not None  # noqa: S101 - for mypy
        return self._lock.fileno()

    def batch(self, number: int, columns: Collection[str]) -> str:
        """Return the folder of a batch, with a name that is not the name of a column."""
        name = "batch"
        while name in {column.lower() for column in columns}:
            name = f"tidegate_{name}"
        return str(self.path / f"{name}={number}")

    def rows(self, begin: int = 0) -> int:
        """Return the number of rows from a batch on, from the footers of the files."""
        from pyarrow import dataset

        batches = [path for path in self.path.glob("*batch=*") if int(path.name.partition("=")[2]) >= begin]
        return sum(dataset.dataset(path, format="parquet").count_rows() for path in batches)

    def _keep_out(self) -> None:
        with writing("--out", self.path):
            self._lock = (self._own / "lock").open("w")
        deadline_s = time.monotonic() + _ENDING_S
        while True:
            with suppress(BlockingIOError):
                return fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if time.monotonic() >= deadline_s:
                raise OptionError(f"--out is {self.path}, to which another back-fill is writing")
            time.sleep(_LOOK_EVERY_S)  # flock itself waits without a deadline


def _shown(value: Any) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


_STATE = "stateLocation"
_BOUND_STATE = f"--option {_STATE}"
_STARTS_BY_TIME = {"startingtimestamp", "startingoffsetsbytimestamp"}
_TIMES = {"--from": "starting_timestamp", "--to": "ending_timestamp"}
_MAY_CHANGE = {"mode", "bad_records_path"}  # the error of a bad record suggests them
_OF_TOPICS = {
    "--topic": "subscribe",
    "--option includeHeaders": "include_headers",
    "--option includeEventTime": "include_event_time",
    **{f"--option {to_camel(field)}": field for field in TypedTopicOptions.model_fields if field not in _MAY_CHANGE},
    "--kafka isolation.level": "isolation_level",
    **_TIMES,
}
_OF_OBJECTS = {
    "--path": "path",
    "--option fileFormat": "file_format",
    "--option pathGlobFilter": "path_glob_filter",
    "--option recursiveFileLookup": "recursive_file_lookup",
    "--option modifiedAfter": "modified_after",
    "--option modifiedBefore": "modified_before",
    "--option columns": "columns",
    "--option includeMetadata": "include_metadata",
    "--option rescuedDataColumn": "rescued_data_column",
    "--option partitionColumnTypeInference": "partition_column_type_inference",
    _BOUND_STATE: "state_location",
    **_TIMES,
}


def backfill_source(
    out: Path,
    *,
    max_drift: str,
    max_out_of_orderness: str,
    begin: str | None,
    end: str | None,
    options: Sequence[str] | None,
    path: str | None,
    of_kafka: Mapping[str, Any],
) -> Source:
    """Return the source that the options of the command describe.

    begin, end: a range of event times, the end exclusive.  A Kafka partition is read from its first record at or after
        ``begin`` up to its first record at or after ``end``.
    Otherwise as ``named_source``.
    """
    named = {name.lower() for name in parse_options("--option", options)}
    begin_at, end_at = parse_time("--from", begin), parse_time("--to", end)
    if begin_at is not None and end_at is not None and begin_at >= end_at:
        raise OptionError(f"--from is {begin}, but it must lie before --to {end}")
    own: dict[str, Any] = {
        "maxDrift": span_text("--max-drift", max_drift),
        "maxOutOfOrderness": span_text("--max-out-of-orderness", max_out_of_orderness),
        "startingTimestamp": begin_at and begin_at.isoformat(),
        "endingTimestamp": end_at and end_at.isoformat(),
    }
    if path is None:
        # A partition that ends before --from has nothing to read, without an error.
        own["startingOffsetsByTimestampStrategy"] = "latest"
        own["startingOffsets"] = "earliest" if begin is None and not named & _STARTS_BY_TIME else None
    elif _STATE.lower() not in named:
        own[_STATE] = str(Output(out).kept)
    source = named_source(path, of_kafka, own, options)
    # Files need no watermark, so no partition waits for later records of another, not even before --to has come.
    return source.up_to_now() if isinstance(source, KafkaSource) else source


def binding(source: Source, out: Path) -> dict[str, Any]:
    """Return, by option, the values that decide the rows and columns that are written: no later run may change them.

    Addresses may change, options that only affect the cuts of batches, and those that decide about bad records.  No
    value is secret.
    """
    fields = _OF_TOPICS if isinstance(source, KafkaSource) else _OF_OBJECTS
    bound = {option: _noted(getattr(source, field)) for option, field in fields.items()}
    if bound.get(_BOUND_STATE) == str(Output(out).kept):  # it moves with the output
        bound[_BOUND_STATE] = None
    return bound


def _noted(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, pa.Schema):
        return str(value)
    return [*value] if isinstance(value, tuple) else value


def look(source: Source, state: Json | None) -> None:
    """Ask the brokers for the topics before Spark starts, which takes long, so that a wrong argument is told at once.

    Objects are left to the query: another look would list and survey all of them twice.
    state: the snapshot after the last written batch.

    Raises OptionError if it belongs to another source, and the errors of ``SplitEnumerator.discover``.
    """
    if not isinstance(source, KafkaSource):
        return
    try:
        with closing(source.enumerator(state)) as enumerator:
            enumerator.discover()
    except CheckpointError as error:
        raise OptionError(
            f"--bootstrap-servers is {source.bootstrap_servers}, which is another Kafka cluster than the one that "
            "the output was begun with; give that one, or another --out"
        ) from error


class RunLine:
    """Adds up the batches of one run."""

    def __init__(self) -> None:
        self.rows = self.batches = self._done = 0
        self._last: SourceProgress | None = None

    def after(self, batch: QueryProgress) -> str:
        """Take another batch; return the rows of this run, the speed of the batch, and the event time reached."""
        self.batches += 1
        self.rows += batch.rows
        progress = batch.source.progress  # None: an earlier run has planned it
        self._done += batch.rows if progress is None else progress.planned_rows
        last = self._last = progress or self._last
        parts = [counted(self.rows, "row"), f"{count(batch.rows / batch.seconds if batch.seconds else 0)} rows/s"]
        if last is not None:
            parts.insert(0, share(self._done, self._done + last.rows_remaining) if last.rows_remaining else "100 %")
            if last.rows_remaining:
                parts += [f"read up to {clock_time(last.bound)}", f"{span(last.event_time_lag)} behind"]
                parts += [f"held by {printable(last.held_by)}"] if last.held_by else []
        return " · ".join(parts)


def backfill(source: Source, out: Path, say: Callable[[str], None], *, master: str) -> list[tuple[str, str]]:
    """Write a source to ``out``, or continue where an earlier run ended; return names and values of a summary.

    Every row is written once, even if earlier runs were killed.

    say: takes a line about the present step.

    Raises a TidegateError for a source that cannot be read, for another source than before, and for a folder with other
    content.  Raises KeyboardInterrupt at SIGINT and SIGTERM.
    """
    output, bound = Output(out), binding(source, out)
    with ends_on_signals(), output.alone():
        look(source, output.state(bound))
        say("Starting Spark")
        output.claim(bound)
        with spark_session(master, "tidegate backfill", output.log, holding=[output.lock]) as spark:
            begun = time.monotonic()
            line, tally = RunLine(), RunTally(reads_once=True)
            for batch in write_batches(spark, source, output):
                say(line.after(batch))
                tally.add(batch.with_bad_records())
            seconds = time.monotonic() - begun
        return summary(output, line, tally, seconds)


def summary(output: Output, line: RunLine, tally: RunTally, seconds: float) -> list[tuple[str, str]]:
    """Return names and values for display; ``seconds`` is the time for reading and writing, without Spark's start."""
    rows_in_all, account = output.rows(), account_of(tally, output, line.rows)
    bad = NO_ROWS if account is None else account.set_aside
    if not line.rows and not bad.rows:
        are = "is" if rows_in_all == 1 else "are"
        return [("nothing new", f"{counted(rows_in_all, 'row')} {are} in {output.path}")]
    least = "at least " if tally.forgotten else ""
    in_all = "" if line.rows == rows_in_all else f" in this run, {count(rows_in_all)} in all"
    return [
        ("rows written", f"{least}{count(line.rows)}{in_all}"),
        *([("bad records", f"{bad} set aside")] if bad.rows else []),
        ("batches", f"{least}{count(line.batches)}"),
        ("seconds", f"{seconds:.1f}"),
        ("rows/s", f"{least}{count(line.rows / seconds)}"),
        ("output", str(output.path)),
        *([] if account is None else [("account", account.headline)]),
    ]


def account_of(tally: RunTally, output: Output, rows: int) -> Account | None:
    """Return the account of a run, in which rows that were read and are not in its files are missing."""
    batches = tally.account().batches
    if batches is None:
        return None
    written = output.rows(batches[0])
    if written == rows or tally.forgotten:  # whose rows are also in the files
        return tally.account()
    return tally.account([f"{count(rows)} rows were read, and {count(written)} written"])


def write_batches(spark: SparkSession, source: Source, output: Output) -> Iterator[QueryProgress]:
    """Write all present rows, batch by batch, and yield each batch when it is written."""

    def write(batch: DataFrame, number: int) -> None:
        # If a run ended before a batch was committed, Spark repeats the batch, with the same number and the same rows,
        # and overwrites its files.
        batch.write.mode("overwrite").parquet(output.batch(number, batch.columns))

    query = (
        source.read_stream(spark)
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(output.checkpoint))
        .trigger(availableNow=True)
    )
    yield from follow(query.start())


def show_backfill(source: Source, out: Path, master: str) -> None:
    """Run the back-fill with its progress, and print its summary."""
    with saying() as say:
        summary = backfill(source, out, say, master=master)
    typer.echo("\n".join(in_columns(summary)))
