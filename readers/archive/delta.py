"""A Delta table as an archive: delta-rs reads its log (https://github.com/delta-io/delta/blob/master/PROTOCOL.md)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import override

from tidegate.errors import ConnectorError, OptionError, needing
from tidegate.readers.archive.notes import NAMED, Noted
from tidegate.readers.archive.table import TableArchive, TableFiles, raised_as_ours
from tidegate.readers.archive.table_file import TableFile
from tidegate.readers.arrow import compute as pc
from tidegate.readers.s3.config import S3ConnectionConfig, local_path, s3_address

if TYPE_CHECKING:
    from deltalake import DeltaTable

_LOG = logging.getLogger("tidegate.planner")
_EVER = 2**63 - 1
_KNOWN = {"deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
"""The reader features that are obeyed here or by delta-rs; timestampNtz: such times are taken for UTC."""
_PARTITIONED = {"topic", "partition"}
_OF_ACCESS = {
    "region": "AWS_REGION",
    "endpoint": "AWS_ENDPOINT_URL",
    "key": "AWS_ACCESS_KEY_ID",
    "secret": "AWS_SECRET_ACCESS_KEY",
    "token": "AWS_SESSION_TOKEN",
}
_FEATURES = 3  # the reader version that names its features


class DeltaArchive(TableArchive):
    """A Delta table, ``delta:`` and a folder or ``s3://bucket/prefix``."""

    @property
    def address(self) -> str:
        """The folder of the table."""
        place = self.location.partition(":")[2]
        return place if s3_address(place) is not None else str(local_path(place))

    @override
    def files_at(self, version: int | None, option: str) -> TableFiles:
        named = f"{option} is {self.location!r}"
        with in_one_sentence(named):
            table = self._at(version, named)
            schema = pa.schema(table.schema().to_arrow())
            self._check_features(table, named)
            columns = self._columns.in_table(schema, named)
            actions = pa.table(table.get_add_actions(flatten=True)).combine_chunks()
            for name in sorted(columns.keys() - _PARTITIONED):
                if f"partition.{columns[name]}" in actions.schema.names:
                    raise OptionError(
                        f"{named}, a table that is partitioned by {columns[name]}, the {name} of a record"
                    )
            root = f"{unquote(table.table_uri).rstrip('/')}/"
            deleted = self._deleted(table, root)
        return self._files(table, named, actions, columns, deleted, root)

    def _at(self, version: int | None, named: str) -> DeltaTable:
        """Return the table as its log has it now: one that was made anew at its place has other files."""
        if version is None:
            return self._loaded(None)
        from deltalake.exceptions import DeltaError, TableNotFoundError

        try:
            return self._loaded(version)
        except TableNotFoundError:
            raise
        except DeltaError as error:
            table = self._loaded(None)
            _LOG.warning("%s, whose version %s is gone; version %s is read: %s", named, version, table.version(), error)
            return table

    def _loaded(self, version: int | None) -> DeltaTable:
        from deltalake import DeltaTable

        is_in_bucket = s3_address(self.address) is not None
        options = storage_options(self._connection) if is_in_bucket else None
        return DeltaTable(self.address, version=version, storage_options=options)

    def _check_features(self, table: DeltaTable, named: str) -> None:
        """Raise OptionError for what a reader must obey, and tidegate does not."""
        protocol = table.protocol()
        features = set(protocol.reader_features or ()) - {"columnMapping"}
        if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
            features.add("columnMapping")
        if unknown := sorted(features - _KNOWN):
            raise OptionError(
                f"{named}, a table with the reader feature {', '.join(unknown)}, which tidegate does not read; it "
                f"reads {', '.join(sorted(_KNOWN))}"
            )
        if protocol.min_reader_version > _FEATURES:
            raise OptionError(f"{named}, a table of reader version {protocol.min_reader_version}; allowed are 1 to 3")

    def _deleted(self, table: DeltaTable, root: str) -> dict[str, bytes]:
        """Return the numbers of the deleted rows of each file that has some, by the file's path in the table."""
        if "deletionVectors" not in (table.protocol().reader_features or ()):
            return {}
        deleted = {}
        for batch in pa.RecordBatchReader.from_stream(table.deletion_vectors()):
            for address, kept in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
                rows = np.flatnonzero(np.asarray(kept.values.cast(pa.uint8())) == 0)
                deleted[_in_table(address, root)] = rows.astype(np.uint32).tobytes()
        return deleted

    @override
    def deleted_rows(self, file: TableFile) -> npt.NDArray[np.int64]:
        return np.frombuffer(file.deleted or b"", np.uint32).astype(np.int64)

    def _files(
        self,
        table: DeltaTable,
        named: str,
        actions: pa.Table,
        columns: dict[str, str],
        deleted: Mapping[str, bytes],
        root: str,
    ) -> TableFiles:
        parted = {name: f"partition.{path}" for name, path in columns.items()}
        parted = {name: column for name, column in parted.items() if column in actions.schema.names}
        paths = tuple((name, path) for name, path in columns.items() if name not in parted)
        names, sizes = actions["path"].combine_chunks(), actions["size_bytes"].to_numpy()
        whole = np.ones(len(names), np.bool_)
        if deleted:
            known = [_in_table(name, root) for name in names.to_pylist()]
            whole = np.array([name not in deleted for name in known], np.bool_)
            if unknown := deleted.keys() - set(known):
                raise ConnectorError(f"{self.location} has a deletion vector of a file that it lacks: {min(unknown)}")
        constant = {} if self._columns.topic is None else {"topic": self._columns.topic}

        def get(at: int, topic: str, number: int, first: int, following: int) -> TableFile:
            path = unquote(names[at].as_py())
            address = path if "://" in path or path.startswith("/") else f"{self.address.rstrip('/')}/{path}"
            fixed = {**constant, **{name: actions[column][at].as_py() for name, column in parted.items()}}
            size, rows = int(sizes[at]), deleted.get(path.removeprefix(root))
            return TableFile(address, size, topic, number, first, following, tuple(fixed.items()), paths, rows)

        bounds = {name: _bounds(actions, path) for name, path in columns.items()}
        if constant:
            bounds["topic"] = (pa.repeat(constant["topic"], len(names)),) * 2
        latest_ms = _times(bounds["timestamp"][1])
        where = bounds["topic"], bounds["partition"], bounds["offset"]
        return TableFiles.of_bounds(table.version(), *where, latest_ms, sizes, whole, noted_in(table, named), get)


def noted_in(table: DeltaTable, named: str) -> Noted:
    """Return the notes of the archiver in a table as it is loaded; they raise the errors of ``in_one_sentence``."""

    @cache  # each call reads the log again, up to the version that is loaded
    def noted(name: str) -> int | None:
        with in_one_sentence(named):
            return table.transaction_version(transaction_of(name))

    return noted


def transaction_of(name: str) -> str:
    """Return the application whose transactions hold the notes of a name."""
    return f"{NAMED} {name}"


def _in_table(address: str, root: str) -> str:
    """Return the path of a file in its table, or its address if it is elsewhere, as those of a shallow clone."""
    return unquote(address).removeprefix(root)


def _bounds(actions: pa.Table, path: str) -> tuple[pa.Array, pa.Array]:
    """Return the least and the greatest values of a column in each file; null where the log does not say them."""
    if f"partition.{path}" in actions.schema.names:
        return (actions[f"partition.{path}"].combine_chunks(),) * 2
    names = [f"{which}.{path}" for which in ("min", "max")]
    low, high = (
        actions[name].combine_chunks() if name in actions.schema.names else pa.nulls(actions.num_rows) for name in names
    )
    return low, high


def _times(latest: pa.Array) -> npt.NDArray[np.int64]:
    """Return the greatest times in ms; the log has them in whole milliseconds, rounded down."""
    us = latest.cast(pa.timestamp("us", getattr(latest.type, "tz", None)), safe=False).cast(pa.int64())
    filled = pc.fill_null(us, _EVER).to_numpy()
    return np.where(filled == _EVER, _EVER, filled // 1000)


def in_one_sentence(named: str) -> AbstractContextManager[None]:
    """Raise what delta-rs raises as errors of tidegate.  named: the option and its value."""
    with needing("delta", "archive = delta:"):
        from deltalake.exceptions import DeltaError, DeltaProtocolError, TableNotFoundError
    return raised_as_ours(named, "delta-rs", (TableNotFoundError,), (DeltaProtocolError,), (DeltaError, OSError))


def storage_options(connection: S3ConnectionConfig) -> dict[str, str]:
    """Return what delta-rs needs to reach a bucket as boto3 does; it holds secrets."""
    access = connection.access()
    options = {_OF_ACCESS[name]: value for name, value in access.items()}
    if endpoint := access.get("endpoint"):
        options |= {"AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false"}
        options |= {"AWS_ALLOW_HTTP": "true"} if endpoint.startswith("http://") else {}
    return options
