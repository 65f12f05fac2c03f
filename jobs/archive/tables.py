"""Writes what an archive lacks into a table: executors write files, and one commit on the driver adds them all.

A commit also notes the topic's id and up to which offset each partition is archived.  Files that no commit has added
are nobody's, and the table's own clean-up deletes them.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from tempfile import TemporaryFile
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
from typing_extensions import override

from tidegate.alignment.splits import SplitId, SplitRange
from tidegate.errors import ConnectorError, OptionError
from tidegate.readers.archive import delta, iceberg
from tidegate.readers.archive.archive import Partition
from tidegate.readers.archive.columns import TableColumns
from tidegate.readers.archive.delta import DeltaArchive, storage_options
from tidegate.readers.archive.directory import Directory
from tidegate.readers.archive.iceberg import IcebergArchive
from tidegate.readers.archive.notes import Noted, noted_end, noted_epoch, noted_topic_id, notes_of
from tidegate.readers.archive.objects import ArchivedObject, directory_of
from tidegate.readers.archive.parquet import write_records
from tidegate.readers.archive.table import TableArchive, in_one_line
from tidegate.readers.contract import ReadTask
from tidegate.readers.kafka.config import TopicPartition
from tidegate.readers.kafka.reader import KafkaDetails
from tidegate.readers.kafka.rows import arrow_schema
from tidegate.readers.places.place import Place
from tidegate.readers.s3.config import s3_address
from tidegate.sources.kafka.source import KafkaSource

_COLUMNS = arrow_schema(include_headers=True)
_ATTEMPTS = 5
_FIRST_MS, _LAST_MS = -30_610_224_000_000, 253_402_300_799_999  # from the year 1000 to 9999


class WrittenFile(NamedTuple):
    """A file that a piece has become; a piece without records has none.

    ends: the offsets of its first and its last record; times_ms: the least and the greatest timestamp.
    details: the topic and the leader with which it was planned.
    """

    wanted: SplitRange
    path: str
    bytes: int
    records: int
    ends: tuple[int, int]
    times_ms: tuple[int, int]
    details: KafkaDetails


@dataclass(frozen=True, slots=True)
class TablePiece:
    """A range that becomes one file of a table.  Picklable: an executor copies it."""

    source: KafkaSource
    place: Place
    task: ReadTask
    path: str
    schema: pa.Schema

    def copy(self) -> WrittenFile:
        """Write the file.  A repeated call writes the same file again.

        Raises DataLossError if Kafka has deleted records of it, ConnectorError if a record does not fit the table, such
        as a value that is not text, and the errors of the reader and of the place.
        """
        (wanted,), (details,) = self.task.ranges, self.task.details
        offsets: list[int] = []

        def batches() -> Iterable[pa.RecordBatch]:
            for batch in self.source.reader(None).read(self.task):
                offsets.extend((batch["offset"][0].as_py(), batch["offset"][-1].as_py()))
                try:
                    fitting = batch.select(self.schema.names).cast(self.schema)
                except pa.ArrowInvalid as problem:
                    raise ConnectorError(
                        f"{wanted.split_id} has records that the table cannot hold: {problem}"
                    ) from None
                yield fitting

        with TemporaryFile() as file:
            records, min_ms, max_ms = write_records(file, self.schema, batches())
            size = file.tell()
            if records:
                self.place.put(self.path, file, noun="archived records")
        ends = (offsets[0], offsets[-1]) if offsets else (wanted.start, wanted.start)
        return WrittenFile(wanted, self.path, size if records else 0, records, ends, (min_ms, max_ms), details)


class TargetTable(ABC):
    """A table that an archiver appends to; a missing one is made."""

    def __init__(self, archive: TableArchive) -> None:
        self.archive, self.location = archive, archive.location
        self._named = f"--out is {self.location!r}"
        self._run = uuid4().hex
        self.before: dict[Partition, int] = {}
        """Up to which offset commits had archived each partition when the run was planned."""

    @property
    @abstractmethod
    def place(self) -> Place:
        """Where the files are."""

    @abstractmethod
    def prepare(self) -> tuple[pa.Schema, Collection[str]]:
        """Make a missing table, and return its schema, and the columns by which it is partitioned."""

    @abstractmethod
    def noted(self) -> Noted:
        """Return the notes of all commits up to now."""

    @abstractmethod
    def commit(self, files: Collection[WrittenFile]) -> None:
        """Add files by one commit, unless the table says something else than when the run was planned.

        Raises ConnectorError if another archiver came first, or the table cannot be written.
        """

    def columns(self) -> pa.Schema:
        """Return the columns that files have.  Raises OptionError for a table that cannot hold records."""
        schema, partitioned = self.prepare()
        if partitioned:
            raise OptionError(
                f"{self._named}, a table that is partitioned by {', '.join(partitioned)}; tidegate archive writes "
                "tables without partitions"
            )
        there = TableColumns().in_table(schema, self._named)
        return pa.schema([pa.field(name, schema.field(name).type) for name in _COLUMNS.names if name in there])

    def directories(self, partitions: Collection[Partition]) -> dict[Partition, Directory]:
        """Return for each partition what a run goes on behind: rows that were deleted before do not come back."""
        self.columns()
        noted = self.noted()
        self.before = _ends(noted, partitions)
        listed = self.archive.list_files(partitions, None, "--out").directories
        whole: dict[Partition, list[ArchivedObject]] = {}
        for p in partitions:
            end = max(listed[p].end, self.before[p])
            topic_id, epoch = noted_topic_id(noted, p[0]), noted_epoch(noted, p, end)
            whole[p] = [ArchivedObject("", 0, 0, end, -1, -1, topic_id, epoch)] if end else []
        return {p: directory_of(objects) for p, objects in whole.items()}

    def piece_of(self, source: KafkaSource) -> Callable[[SplitRange, KafkaDetails], TablePiece]:
        """Return what makes a piece of a range."""
        place, schema = self.place, self.columns()

        def piece_of(part: SplitRange, details: KafkaDetails) -> TablePiece:
            name = f"{part.split_id}-{part.start}-{part.end}-{self._run}.parquet"
            return TablePiece(source, place, ReadTask((part,), (details,)), name, schema)

        return piece_of


def accepted(outcomes: Iterable[tuple[TablePiece, WrittenFile | None]]) -> list[WrittenFile]:
    """Return the files up to the first piece of each partition that failed: there, the next run goes on."""
    failed: set[SplitId] = set()
    kept = []
    for piece, file in outcomes:
        (wanted,) = piece.task.ranges
        if file is None:
            failed.add(wanted.split_id)
        elif wanted.split_id not in failed:
            kept.append(file)
    return kept


def _ends(noted: Noted, partitions: Iterable[Partition]) -> dict[Partition, int]:
    return {partition: noted_end(noted, partition) for partition in partitions}


def _notes(files: Iterable[WrittenFile]) -> dict[str, int]:
    notes: dict[str, int] = {}
    for file in sorted(files, key=lambda file: file.wanted.end):
        partition, (topic_id, epoch, *_) = TopicPartition.of(file.wanted.split_id), file.details
        notes |= notes_of(partition, file.wanted.end, topic_id, epoch)
    return notes


class DeltaTarget(TargetTable):
    """A Delta table."""

    def __init__(self, archive: DeltaArchive) -> None:
        super().__init__(archive)
        self._address = archive.address
        is_far = s3_address(self._address) is not None
        self._options = storage_options(Place(self._address).connection) if is_far else None

    @property
    @override
    def place(self) -> Place:
        return Place(self._address)

    def _table(self) -> Any:
        with delta.in_one_sentence(self._named):
            from deltalake import DeltaTable

            return DeltaTable(self._address, storage_options=self._options)

    @override
    def prepare(self) -> tuple[pa.Schema, Collection[str]]:
        with delta.in_one_sentence(self._named):
            from deltalake import DeltaTable

            DeltaTable.create(self._address, schema=_COLUMNS, mode="ignore", storage_options=self._options)
        table = self._table()
        return pa.schema(table.schema().to_arrow()), table.metadata().partition_columns

    @override
    def noted(self) -> Noted:
        return delta.noted_in(self._table(), self._named)

    @override
    def commit(self, files: Collection[WrittenFile]) -> None:
        from deltalake import CommitProperties, Transaction
        from deltalake.exceptions import DeltaError
        from deltalake.transaction import AddAction

        table = self._table()
        _check_unchanged(self.location, self.before, _ends(delta.noted_in(table, self._named), self.before))
        transactions = [Transaction(delta.transaction_of(name), note) for name, note in _notes(files).items()]
        now_ms = int(datetime.now(timezone.utc).timestamp() * 1000)
        actions = [AddAction(f.path, f.bytes, {}, now_ms, True, _statistics(f)) for f in files if f.records]  # noqa: FBT003
        try:
            table.create_write_transaction(
                actions,
                mode="append",
                schema=table.schema(),
                commit_properties=CommitProperties(app_transactions=transactions),
            )
        except (DeltaError, OSError) as error:  # such as of another archiver, which has committed the same transaction
            raise _uncommitted(self.location, error) from None


def _statistics(file: WrittenFile) -> str:
    """Return a file's statistics (Delta: Per-file Statistics)."""
    partition = TopicPartition.of(file.wanted.split_id)
    bounds: list[dict[str, Any]] = [
        {"topic": partition.topic, "partition": partition.partition, "offset": offset} for offset in file.ends
    ]
    if all(_FIRST_MS <= at_ms <= _LAST_MS for at_ms in file.times_ms):  # the log cannot say others
        for bound, at_ms in zip(bounds, file.times_ms, strict=True):
            bound["timestamp"] = _iso(at_ms)
    nulls = dict.fromkeys(bounds[0], 0)
    return json.dumps({"numRecords": file.records, "minValues": bounds[0], "maxValues": bounds[1], "nullCount": nulls})


def _iso(at_ms: int) -> str:
    at = datetime.fromtimestamp(at_ms // 1000, timezone.utc)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03d}Z"


class IcebergTarget(TargetTable):
    """An Iceberg table."""

    def __init__(self, archive: IcebergArchive) -> None:
        super().__init__(archive)
        self._iceberg = archive

    @property
    @override
    def place(self) -> Place:
        return self._iceberg.place_of(f"{self._table().location()}/data/any")[0]

    def _table(self) -> Any:
        with iceberg.in_one_sentence(self._named):
            return self._iceberg.table()

    @override
    def prepare(self) -> tuple[pa.Schema, Collection[str]]:
        with iceberg.in_one_sentence(self._named):
            table = self._iceberg.table_or_new(_COLUMNS)
        return table.schema().as_arrow(), [field.name for field in table.spec().fields]

    @override
    def noted(self) -> Noted:
        return iceberg.noted_in(self._table())

    @override
    def commit(self, files: Collection[WrittenFile]) -> None:
        from pyiceberg.exceptions import CommitFailedException

        notes = {iceberg.property_of(name): str(note) for name, note in _notes(files).items()}
        for _ in range(_ATTEMPTS):
            table = self._table()
            _check_unchanged(self.location, self.before, _ends(iceberg.noted_in(table), self.before))
            table.metadata.properties["commit.retry.num-retries"] = "0"  # a retry would not look at what was committed
            paths = [f"{table.location()}/data/{file.path}" for file in files if file.records]
            try:
                table.add_files(paths, snapshot_properties=notes)
            except CommitFailedException:
                continue
            except Exception as error:  # noqa: BLE001 - pyiceberg has no base class of its errors, nor have catalogs
                raise _uncommitted(self.location, error) from None
            return
        raise ConnectorError(f"cannot commit to {self.location}: it changes all the time")


def _uncommitted(location: str, error: Exception) -> ConnectorError:
    return ConnectorError(f"cannot commit to {location}: {in_one_line(error)}")


def _check_unchanged(location: str, before: Mapping[Partition, int], now: Mapping[Partition, int]) -> None:
    changed = [TopicPartition(*p).split_id for p, end in before.items() if now[p] != end]
    if changed:
        raise ConnectorError(f"another archiver has written {min(changed)} to {location} meanwhile; nothing was added")


def target_table(out: str) -> TargetTable | None:
    """Return the table that ``--out`` names; None: it names a folder."""
    if out.startswith("delta:"):
        return DeltaTarget(DeltaArchive(out, TableColumns()))
    if out.startswith("iceberg:"):
        return IcebergTarget(IcebergArchive(out, TableColumns()))
    return None
