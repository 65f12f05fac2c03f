"""Looks of the driver at archived records."""

from tests.readers.archive.test_records import SCHEMA, archived, record
from tidegate.alignment.splits import Head
from tidegate.enumerators.archive.directory import Directory
from tidegate.enumerators.archive.records import ArchivedRecords
from tidegate.readers.archive.parquet import ParquetArchive


def test_a_time_is_not_looked_for_behind_the_end_of_the_range(tmp_path):
    place, obj, _ = archived(tmp_path, [record(at, at) for at in range(10)], following=10)
    deleted = obj._replace(first=10, next=20, max_ms=100)
    records, directory = ArchivedRecords(ParquetArchive(place), SCHEMA), Directory([obj, deleted])
    assert records.first_at(directory, 5, 0, 10) == Head(5, 5)
    assert records.first_at(directory, 50, 0, 10) is None
