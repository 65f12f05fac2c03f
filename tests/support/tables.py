"""Tables of a topic's records, written and changed by their own libraries."""

import itertools
import os
import shutil
import tempfile
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from tidegate.alignment.splits import SplitRange
from tidegate.readers.archive.columns import TableColumns
from tidegate.readers.archive.delta import DeltaArchive
from tidegate.readers.archive.iceberg import IcebergArchive
from tidegate.readers.contract import ReadTask
from tidegate.readers.kafka.rows import arrow_schema

SCHEMA = arrow_schema(include_headers=True)
_NUMBERS = itertools.count()
_LAKE = tempfile.TemporaryDirectory(prefix="tidegate-lake-")
# pyiceberg reads the environment when it is imported, by functions that need it.
os.environ["PYICEBERG_CATALOG__LAKE__TYPE"] = "sql"
os.environ["PYICEBERG_CATALOG__LAKE__URI"] = f"sqlite:///{_LAKE.name}/catalog.db"
os.environ["PYICEBERG_CATALOG__LAKE__WAREHOUSE"] = f"file://{_LAKE.name}"
os.environ["PYICEBERG_CATALOG__FAR__TYPE"] = "sql"
os.environ["PYICEBERG_CATALOG__FAR__URI"] = f"sqlite:///{_LAKE.name}/far.db"


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


def truth(table, partition):
    """Return the rows of a partition in the order of their offsets, each once."""
    rows = {row["offset"]: row for row in table.rows() if row["partition"] == partition}
    return [rows[offset] for offset in sorted(rows)]


def fill(table, source, ends, begins=None, parts=4):
    """Append the records of a topic, up to an offset of each partition; files hold all partitions, out of order."""
    topic, begins = source.subscribe[0], begins or [0] * len(ends)
    bounds = enumerate(zip(begins, ends, strict=True))
    ranges = tuple(SplitRange(f"{topic}-{number}", begin, end) for number, (begin, end) in bounds if begin < end)
    rows = pa.Table.from_batches(source.reader(None).read(ReadTask(ranges)), SCHEMA)
    order = np.random.default_rng(5).permutation(rows.num_rows)
    for part in np.array_split(order, parts):
        if len(part):
            table.append(rows.take(part))


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

    def drop(self):
        shutil.rmtree(self.path)

    def rows(self):
        return self.read().to_pylist()

    def read(self):
        """Return all rows, as the library's own engine reads them."""
        rows = QueryBuilder().register("records", self.table).execute("SELECT * FROM records")
        return pa.RecordBatchReader.from_stream(rows).read_all().cast(SCHEMA)


class Iceberg:
    """An Iceberg table of a catalog in SQLite, which the environment names."""

    kind = "iceberg"
    with_new_columns: ClassVar = {}

    def __init__(self, folder, **options):
        self.name, self.options = f"bronze.orders{next(_NUMBERS)}", options
        self.location = f"iceberg:lake.{self.name}"

    def archive(self, columns=""):
        return IcebergArchive(self.location, TableColumns.of_text(columns))

    @cached_property
    def catalog(self):
        from pyiceberg.catalog import load_catalog

        catalog = load_catalog("lake")
        catalog.create_namespace_if_not_exists("bronze")
        return catalog

    @property
    def table(self):
        return self.catalog.load_table(self.name)

    @property
    def version(self):
        return self.table.current_snapshot().snapshot_id

    def append(self, records, schema=SCHEMA, **options):
        rows = records if isinstance(records, pa.Table) else pa.Table.from_pylist(records, schema=schema)
        if not self.catalog.table_exists(self.name):
            self.catalog.create_table(self.name, schema=rows.schema, **self.options)
        table = self.table
        with table.update_schema() as update:
            update.union_by_name(rows.schema)
        if rows.num_rows:
            table.append(rows, **options)

    def delete(self, where):
        self.table.delete(where)

    def update(self, where, value):
        rows = self.table.scan(row_filter=where).to_arrow()
        changed = rows.set_column(rows.column_names.index("value"), "value", pa.array([value.encode()] * len(rows)))
        self.table.overwrite(changed.cast(SCHEMA), overwrite_filter=where)

    def rewrite(self, *, sort):
        rows = self.table.scan().to_arrow()
        if rows.num_rows:
            self.table.overwrite((rows.sort_by([("timestamp", "ascending")]) if sort else rows).cast(SCHEMA))

    def overwrite(self, where, records):
        self.table.overwrite(pa.Table.from_pylist(records, schema=SCHEMA), overwrite_filter=where)

    def forget(self):
        """Expire all but the newest snapshot, and delete the files that only they had."""
        table = self.table
        kept = {task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()}
        old = [s.snapshot_id for s in table.snapshots() if s.snapshot_id != table.current_snapshot().snapshot_id]
        table.maintenance.expire_snapshots().by_ids(old).commit()
        for file in Path(table.location().removeprefix("file://")).rglob("data/**/*.parquet"):
            if str(file) not in kept:
                file.unlink()

    def drop(self):
        self.catalog.drop_table(self.name)

    def rows(self):
        """Return all rows, as the library itself reads them."""
        return self.table.scan().to_arrow().cast(SCHEMA).to_pylist()
