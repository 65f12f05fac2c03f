"""An Iceberg table as an archive: pyiceberg reads its metadata (https://iceberg.apache.org/spec/)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import override

from tidegate.errors import CorruptDataError, OptionError, needing
from tidegate.readers.archive.notes import NAMED, Noted
from tidegate.readers.archive.parquet import opened_parquet
from tidegate.readers.archive.table import Bounds, TableArchive, TableFiles, raised_as_ours
from tidegate.readers.archive.table_file import TableFile
from tidegate.readers.arrow import compute as pc
from tidegate.readers.arrow.arrays import int64_values
from tidegate.readers.places.place import Place
from tidegate.readers.s3.config import S3ConnectionConfig

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import FileScanTask, Table

_LOG = logging.getLogger("tidegate.planner")
_EVER = 2**63 - 1
_MICROSECONDS = 1000  # in a millisecond
_OF_ACCESS = {
    "region": "s3.region",
    "endpoint": "s3.endpoint",
    "key": "s3.access-key-id",
    "secret": "s3.secret-access-key",
    "token": "s3.session-token",
}
_EMPTY = 0  # the version of a table without a snapshot


class _Fields(NamedTuple):
    """Where columns are in files of any schema: by the ids of their fields.

    mapping: names of fields in files without ids (Iceberg: Name Mapping), as JSON; None: the table has no such names.
    """

    ids: tuple[tuple[str, int], ...]
    mapping: str | None


class _Delete(NamedTuple):
    """A file with positions of deleted rows; is_vector: it is a Puffin file, otherwise a Parquet file."""

    path: str
    size: int
    is_vector: bool


class IcebergArchive(TableArchive):
    """An Iceberg table, ``iceberg:`` and its name in a catalog of pyiceberg's configuration."""

    _tasks: tuple[int, list[FileScanTask]] | None = None  # of the snapshot that was listed last

    @override
    def __getstate__(self) -> dict[str, Any]:
        state = {**super().__getstate__(), "_tasks": None}
        return {name: value for name, value in state.items() if name != "_catalog"}

    @cached_property
    def _catalog(self) -> Catalog:
        from pyiceberg.catalog import load_catalog

        catalog = load_catalog(self.location.partition(":")[2].partition(".")[0])
        is_local = str(catalog.properties.get("warehouse", "")).startswith(("file:", "/"))
        if not is_local and "s3.access-key-id" not in catalog.properties:
            catalog.properties = {**s3_properties(self._connection), **catalog.properties}
        return catalog

    def table(self) -> Table:
        """Load the table in its present state."""
        return self._catalog.load_table(self.location.partition(".")[2])

    def table_or_new(self, schema: pa.Schema) -> Table:
        """Load the table, and make a missing one."""
        name = self.location.partition(".")[2]
        self._catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
        return self._catalog.create_table_if_not_exists(name, schema=schema)

    @override
    def files_at(self, version: int | None, option: str) -> TableFiles:
        named = f"{option} is {self.location!r}"
        with in_one_sentence(named):
            table = self.table()
            schema = table.schema()
            columns = self._columns.in_table(schema.as_arrow(), named)
            version = self._present(table, version, named)
            if self._tasks is None or self._tasks[0] != version:  # reading the manifests of 100,000 files takes seconds
                tasks = [] if version == _EMPTY else list(table.scan(snapshot_id=version).plan_files())
                self._tasks = version, tasks
        tasks = self._tasks[1]
        ids = {name: schema.find_field(path).field_id for name, path in columns.items()}
        mapping = table.name_mapping()
        fields = _Fields(tuple(ids.items()), None if mapping is None else mapping.model_dump_json())
        if others := sorted({task.file.file_format.value for task in tasks} - {"PARQUET"}):
            raise OptionError(f"{named}, a table with files in {', '.join(others)}; tidegate reads its Parquet files")
        return self._files(version, table, tasks, fields)

    def _present(self, table: Table, version: int | None, named: str) -> int:
        """Return a version, or the newest one if that is gone."""
        newest = _EMPTY if (snapshot := table.current_snapshot()) is None else snapshot.snapshot_id
        if version is None or version == _EMPTY or table.snapshot_by_id(version) is not None:
            return newest if version is None else version
        _LOG.warning("%s, whose snapshot %s is gone; snapshot %s is read", named, version, newest)
        return newest

    def _files(self, version: int, table: Table, tasks: list[FileScanTask], fields: _Fields) -> TableFiles:
        parted = _partition_values(table)
        constant = self._columns.topic
        ids = dict(fields.ids)

        def get(at: int, topic: str, number: int, first: int, following: int) -> TableFile:
            file = tasks[at].file
            deletes = sorted(
                _Delete(one.file_path, one.file_size_in_bytes, one.file_format.value == "PUFFIN")
                for one in tasks[at].delete_files
            )
            there = {field: file.partition[place] for field, place in parted[file.spec_id].items()}
            fixed = {name: there[field] for name, field in fields.ids if field in there}
            if constant is not None:
                fixed["topic"] = constant
            facts = file.file_path, file.file_size_in_bytes, topic, number, first, following
            return TableFile(*facts, tuple(fixed.items()), fields, tuple(deletes))

        def bounds(name: str) -> Bounds:
            return _bounds(tasks, ids[name], parted, is_text=name == "topic")

        topics = bounds("topic") if constant is None else (pa.repeat(constant, len(tasks)),) * 2
        sizes = np.array([task.file.file_size_in_bytes for task in tasks], np.int64)
        whole = np.array([not task.delete_files for task in tasks], np.bool_)
        latest = bounds("timestamp")[1].cast(pa.int64()).fill_null(_EVER).to_numpy()
        latest_ms = np.where(latest == _EVER, _EVER, latest // _MICROSECONDS)
        where = topics, bounds("partition"), bounds("offset")
        noted = noted_in(table, version)
        return TableFiles.of_bounds(version, *where, latest_ms, sizes, whole, noted, get)

    @override
    def paths_in(self, file: TableFile, parquet: pq.ParquetFile) -> dict[str, str]:
        from pyiceberg.io.pyarrow import pyarrow_to_schema
        from pyiceberg.table.name_mapping import parse_mapping_from_json

        fields: _Fields = file.paths
        mapping = None if fields.mapping is None else parse_mapping_from_json(fields.mapping)
        try:
            schema = pyarrow_to_schema(parquet.schema_arrow, name_mapping=mapping, downcast_ns_timestamp_to_us=True)
        except ValueError as problem:
            raise pa.ArrowInvalid(str(problem)) from problem
        found = {name: schema.find_column_name(field) for name, field in fields.ids}
        return {name: path for name, path in found.items() if path is not None}

    @override
    def deleted_rows(self, file: TableFile) -> npt.NDArray[np.int64]:
        rows = [self._rows_of(delete, file.path) for delete in file.deleted or ()]
        return np.unique(np.concatenate(rows)) if rows else np.empty(0, np.int64)

    def _rows_of(self, delete: _Delete, data_file: str) -> npt.NDArray[np.int64]:
        place, name = self.place_of(delete.path)
        if not delete.is_vector:
            with opened_parquet(place, name, delete.size) as (parquet, _):
                found = parquet.read(["file_path", "pos"], use_threads=False)
                chosen = found.filter(pc.equal(found["file_path"].cast(pa.string()), data_file))
                return int64_values(chosen["pos"].cast(pa.int64()).combine_chunks())
        from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
        from pyiceberg.table.puffin import PuffinFile

        with place.open(name, delete.size) as file:
            content = file.read()
        try:
            vectors = deletion_vectors_from_puffin_file(PuffinFile(content))
        except (ValueError, IndexError, KeyError) as problem:
            raise CorruptDataError(f"the deletion vectors in {delete.path} cannot be read: {problem}") from problem
        of_file = [one.to_vector().to_numpy() for one in vectors if one.referenced_data_file == data_file]
        return np.concatenate(of_file).astype(np.int64) if of_file else np.empty(0, np.int64)

    @override
    def place_of(self, path: str) -> tuple[Place, str]:
        # Unlike URLs, the paths of a table are not encoded.
        return super().place_of(path.removeprefix("file://") if path.startswith("file:///") else path)


def noted_in(table: Table, version: int | None = None) -> Noted:
    """Return the notes of the archiver in a table up to a snapshot, by those that it keeps; None: the newest."""
    snapshots = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    version = table.metadata.current_snapshot_id if version is None else version
    notes: dict[str, str] = {}
    while version is not None and (snapshot := snapshots.get(version)) is not None:
        if snapshot.summary is not None:
            notes = {**snapshot.summary.additional_properties, **notes}
        version = snapshot.parent_snapshot_id

    def noted(name: str) -> int | None:
        note = notes.get(property_of(name))
        return None if note is None else int(note)

    return noted


def property_of(name: str) -> str:
    """Return the property of a snapshot that holds the note of a name."""
    return f"{NAMED}.{name}"


def _partition_values(table: Table) -> dict[int, dict[int, int]]:
    """Return for each spec where a file's partition has the value of a field, which is the same in all its rows."""
    from pyiceberg.transforms import IdentityTransform

    return {
        number: {
            field.source_id: place
            for place, field in enumerate(spec.fields)
            if isinstance(field.transform, IdentityTransform)
        }
        for number, spec in table.specs().items()
    }


def _bounds(
    tasks: list[FileScanTask], field: int, parted: Mapping[int, Mapping[int, int]], *, is_text: bool = False
) -> Bounds:
    """Return the least and the greatest values of a field in each file; null where the metadata does not say them."""
    low: list[Any] = []
    high: list[Any] = []
    for task in tasks:
        file = task.file
        place = parted[file.spec_id].get(field)
        value = None if place is None else file.partition[place]
        for bound, stored in ((low, file.lower_bounds), (high, file.upper_bounds)):
            bound.append((stored or {}).get(field) if value is None else value)
    return _array(low, is_text=is_text), _array(high, is_text=is_text)


def _array(bounds: list[Any], *, is_text: bool) -> pa.Array:
    """Return values, or their single-value serialization: texts, or numbers in little-endian bytes."""
    if is_text:
        return pa.array(
            [one.decode(errors="replace") if isinstance(one, bytes) else one for one in bounds], pa.string()
        )
    return pa.array(
        [int.from_bytes(one, "little", signed=True) if isinstance(one, bytes) else one for one in bounds], pa.int64()
    )


def in_one_sentence(named: str) -> AbstractContextManager[None]:
    """Raise what pyiceberg raises as errors of tidegate.  named: the option and its value."""
    with needing("iceberg", "archive = iceberg:"):
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
    refused = ValueError, NotImplementedError  # of what pyiceberg cannot read, such as equality deletes
    return raised_as_ours(named, "pyiceberg", (NoSuchTableError, NoSuchNamespaceError), refused, (Exception,))


def s3_properties(connection: S3ConnectionConfig) -> dict[str, str]:
    """Return what pyiceberg needs to reach a bucket as boto3 does; it holds secrets."""
    return {_OF_ACCESS[name]: value for name, value in connection.access().items()}
