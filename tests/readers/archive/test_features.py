"""Features of tables, written by hand as other engines write them: they count, or are refused by their names."""

import json
import re
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap

from tests.support.tables import SCHEMA, Delta, Iceberg, record, rows_of, truth
from tidegate.errors import OptionError


def log_of(table):
    return Path(table.path) / "_delta_log"


def commit(table, *actions):
    """Add a version by hand: delta-rs does not write what these actions hold."""
    file = log_of(table) / f"{table.version + 1:020}.json"
    file.write_text("\n".join(map(json.dumps, actions)))


def with_deletion_vectors(table):
    (first,) = [line for line in (log_of(table) / f"{0:020}.json").read_text().splitlines() if '"metaData"' in line]
    metadata = json.loads(first)["metaData"]
    metadata["configuration"]["delta.enableDeletionVectors"] = "true"
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    commit(table, {"protocol": protocol}, {"metaData": metadata})


def z85(data):
    alphabet = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    words = struct.unpack(f">{len(data) // 4}I", data)
    return "".join(alphabet[word // 85**power % 85] for word in words for power in (4, 3, 2, 1, 0))


def delete_by_vector(table, rows):
    """Mark rows of the only file as deleted, by a vector within the log (PROTOCOL.md, Deletion Vectors)."""
    bitmap = struct.pack("<IqI", 1681511377, 1, 0) + BitMap(rows).serialize()
    padded = bitmap + bytes(-len(bitmap) % 4)
    vector = {"storageType": "i", "pathOrInlineDv": z85(padded), "sizeInBytes": len(bitmap), "cardinality": len(rows)}
    (log,) = [line for line in (log_of(table) / f"{0:020}.json").read_text().splitlines() if '"add"' in line]
    add = json.loads(log)["add"]
    stats = json.loads(add["stats"]) | {"tightBounds": False}
    removed = {"path": add["path"], "deletionTimestamp": 0, "dataChange": True}
    new = {**add, "stats": json.dumps(stats), "deletionVector": vector}
    commit(table, {"remove": removed}, {"add": new})


@pytest.mark.parametrize("is_absolute", [False, True])
def test_deletion_vectors_count(tmp_path, is_absolute):
    table = Delta(tmp_path / "a table")
    table.append([record(at % 2, at // 2) for at in range(20)])
    if is_absolute:  # as in a shallow clone
        log = log_of(table) / f"{0:020}.json"
        log.write_text(log.read_text().replace('"path":"', f'"path":"{tmp_path.as_uri()}/a%20table/'))
    with_deletion_vectors(table)
    delete_by_vector(table, [0, 5, 6, 19])
    archive = table.archive()
    for partition in (0, 1):
        expected = truth(table, partition)
        assert rows_of(archive, partition) == expected
        assert len(expected) == 8
    directory = archive.list_files([("t", 1)], None).directories["t", 1]
    assert directory.end == 9, "the last record is deleted"
    assert directory.latest_ms(99, -1, lambda _: True) in {
        None,
        max(r["timestamp"].timestamp() * 1000 for r in expected),
    }


def test_a_time_that_spark_has_written_as_int96_may_be_of_any_year(tmp_path):
    times_us = [-11_676_096_000_000_000, -1000, 1_700_000_000_000_000, 10_413_792_000_000_000, 253_402_214_400_000_000]
    table = Delta(tmp_path / "table")
    table.append([{**record(0, at), "timestamp": time_us} for at, time_us in enumerate(times_us)])
    (file,) = (tmp_path / "table").glob("*.parquet")
    rows = pq.read_table(file)
    pq.write_table(rows, file, use_deprecated_int96_timestamps=True)
    log = log_of(table) / f"{0:020}.json"
    log.write_text(re.sub(r'"size":\d+', f'"size":{file.stat().st_size}', log.read_text()))
    assert rows_of(table.archive(), 0) == rows.select(SCHEMA.names).cast(SCHEMA).to_pylist()


def test_a_table_begins_and_ends_with_rows_that_are_not_deleted(tmp_path):
    """Its statistics are still those of all rows."""
    table = Delta(tmp_path / "table")
    table.append([record(0, at) for at in range(20)])
    with_deletion_vectors(table)
    delete_by_vector(table, [0, 1, 7, 18, 19])
    directory = table.archive().list_files([("t", 0)], None).directories["t", 0]
    assert (directory.first, directory.end) == (2, 18)
    assert directory.holes(2, 18) == []


def deleted_by(tmp_path, table, file, rows, *, by_vector):
    """Write a file with positions of deleted rows, as other engines do; pyiceberg itself rewrites files."""
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    path = tmp_path / f"deletes-{len(rows)}.{'puffin' if by_vector else 'parquet'}"
    if by_vector:
        bitmap = struct.pack("<qI", 1, 0) + BitMap(rows).serialize()
        blob = struct.pack(">I", len(bitmap) + 4) + b"\xd1\xd3\x39\x64" + bitmap + bytes(4)
        described = {"type": "deletion-vector-v1", "fields": [], "snapshot-id": -1, "sequence-number": -1, "offset": 4}
        described |= {"length": len(blob), "properties": {"referenced-data-file": file.file_path}}
        footer = json.dumps({"blobs": [described], "properties": {}}).encode()
        end = struct.pack("<I", len(footer)) + bytes(4) + b"PFA1"
        path.write_bytes(b"PFA1" + blob + b"PFA1" + footer + end)
    else:
        pq.write_table(pa.table({"file_path": [file.file_path] * len(rows), "pos": pa.array(rows, pa.int64())}), path)
    facts = {
        "content": DataFileContent.POSITION_DELETES,
        "file_path": f"file://{path}",
        "file_format": FileFormat.PUFFIN if by_vector else FileFormat.PARQUET,
        "partition": Record(),
        "record_count": len(rows),
        "file_size_in_bytes": path.stat().st_size,
    }
    return DataFile.from_args(**facts)


@pytest.mark.parametrize("by_vector", [False, True])
def test_position_deletes_count(tmp_path, monkeypatch, by_vector):
    from pyiceberg.table import DataScan

    table = Iceberg(tmp_path / "table")
    table.append([record(at % 2, at // 2) for at in range(20)])
    (task,) = table.table.scan().plan_files()
    task.delete_files = {deleted_by(tmp_path, table, task.file, [0, 5, 6, 19], by_vector=by_vector)}
    monkeypatch.setattr(DataScan, "plan_files", lambda _: [task])
    for partition in (0, 1):
        expected = truth(table, partition)
        assert rows_of(table.archive(), partition) == expected
        assert len(expected) == 8


@pytest.mark.parametrize("refused", ["equality deletes", "ORC"])
def test_what_is_not_read_of_an_iceberg_table_is_refused_by_its_name(tmp_path, monkeypatch, refused):
    from pyiceberg.manifest import FileFormat
    from pyiceberg.table import DataScan, ManifestGroupPlanner

    table = Iceberg(tmp_path / "table")
    table.append([record(0, 0)])
    (task,) = table.table.scan().plan_files()
    if refused == "ORC":
        task.file._data[2] = FileFormat.ORC
        monkeypatch.setattr(DataScan, "plan_files", lambda _: [task])
    else:
        from pyiceberg.manifest import DataFileContent

        task.file._data[0] = DataFileContent.EQUALITY_DELETES
        entry = type("Entry", (), {"data_file": task.file})
        monkeypatch.setattr(ManifestGroupPlanner, "plan_manifest_entries", lambda *_: [[entry]])
    with pytest.raises(OptionError, match=f"archive is 'iceberg:lake.*{refused}"):
        table.archive().list_files([("t", 0)], None)


def test_a_renamed_column_is_found_by_its_id(tmp_path):
    table = Iceberg(tmp_path / "table")
    table.append([record(0, at) for at in range(5)])
    with table.table.update_schema() as update:
        update.rename_column("value", "body")
    assert [row["value"] for row in rows_of(table.archive("value=body"), 0)] == [b"0/%d" % at for at in range(5)]


def test_an_iceberg_table_partitioned_by_columns(tmp_path):
    from pyiceberg.transforms import IdentityTransform

    table = Iceberg(tmp_path / "table")
    table.append([], SCHEMA)
    with table.table.update_spec() as update:
        update.add_field("topic", IdentityTransform(), "topic")
        update.add_field("partition", IdentityTransform(), "number")
    topics = ["a topic/of many letters", "t"]
    table.append([record(p, at, topic=topic) for topic in topics for p in (0, 1) for at in range(6)])
    for topic in topics:
        rows = [row for row in table.rows() if (row["topic"], row["partition"]) == (topic, 1)]
        assert rows_of(table.archive(), 1, topic=topic) == sorted(rows, key=lambda row: row["offset"])
        assert len(rows) == 6


@pytest.mark.parametrize("feature", ["columnMapping", "typeWidening", "variantType"])
def test_a_feature_that_is_not_read_is_refused_by_its_name(tmp_path, feature):
    table = Delta(tmp_path / "table")
    table.append([record(0, 1)], SCHEMA.remove(SCHEMA.get_field_index("headers")))
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [feature], "writerFeatures": [feature]}
    actions = [{"protocol": protocol}]
    if feature == "columnMapping":
        (first,) = [line for line in (log_of(table) / f"{0:020}.json").read_text().splitlines() if "metaData" in line]
        metadata = json.loads(first)["metaData"]
        metadata["configuration"] |= {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "9"}
        schema = json.loads(metadata["schemaString"])
        for number, field in enumerate(schema["fields"]):
            field["metadata"] = {
                "delta.columnMapping.id": number + 1,
                "delta.columnMapping.physicalName": field["name"],
            }
        metadata["schemaString"] = json.dumps(schema)
        actions.append({"metaData": metadata})
    commit(table, *actions)
    with pytest.raises(OptionError, match=f"archive is .*{feature}"):
        table.archive().list_files([("t", 0)], None)
