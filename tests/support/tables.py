"""Tables of a topic's records, written and changed by their own libraries."""

from typing import ClassVar

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from tidegate.readers.archive.columns import TableColumns
from tidegate.readers.archive.delta import DeltaArchive
from tidegate.readers.kafka.rows import arrow_schema

SCHEMA = arrow_schema(include_headers=True)


def record(partition, offset, value=None, topic="t"):
    """Return a record, whose time and content follow from its offset."""
    return {
        "key": None if offset % 5 == 0 else b"k%d" % offset,
        "value": b"%d/%d" % (partition, offset) if value is None else value,
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "timestamp": (1_700_000_000_000 + (offset * 7919) % 1000) * 1000,
        "timestampType": 0,
        "headers": [{"key": "h", "value": b"x"}] if offset % 3 == 0 else None,
    }


def rows_of(archive, partition, version=None, topic="t", start=0, end=2**40):
    """Return the records that an archive reads of a partition."""
    directory = archive.list_files([(topic, partition)], version).directories[topic, partition]
    parts = directory.within(start, end)
    return [row for part in parts for batch in archive.read(part, SCHEMA) for row in batch.to_pylist()]


class Delta:
    """A Delta table in a folder."""

    kind = "delta"
    with_new_columns: ClassVar = {"schema_mode": "merge"}

    def __init__(self, folder, **options):
        self.path, self.options = str(folder), options
        self.location = f"delta:{folder}"

    def archive(self, columns=""):
        return DeltaArchive(self.location, TableColumns.of_text(columns))

    @property
    def table(self):
        return DeltaTable(self.path)

    @property
    def version(self):
        return self.table.version()

    def append(self, records, schema=SCHEMA, **options):
        table = records if isinstance(records, pa.Table) else pa.Table.from_pylist(records, schema=schema)
        write_deltalake(self.path, table, mode="append", **{**self.options, **options})

    def delete(self, where):
        self.table.delete(where)

    def update(self, where, value):
        self.table.update(predicate=where, updates={"value": f"CAST('{value}' AS BYTEA)"})

    def rewrite(self, *, sort):
        table = self.table
        table.optimize.z_order(["timestamp", "key"]) if sort else table.optimize.compact()

    def overwrite(self, where, records):
        table = pa.Table.from_pylist(records, schema=SCHEMA)
        write_deltalake(self.path, table, mode="overwrite", predicate=where, **self.options)

    def forget(self):
        """Delete the files that only older versions have."""
        self.table.vacuum(0, dry_run=False, enforce_retention_duration=False)

    def rows(self):
        """Return all rows, as the library's own engine reads them."""
        return pa.RecordBatchReader.from_stream(self.table.scan()).read_all().cast(SCHEMA).to_pylist()
