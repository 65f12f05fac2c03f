"""Objects of Kafka Connect's S3 sink, which tell offsets by where the next one begins."""

import datetime as dt
import io
import json
import re
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.readers.archive.test_records import SCHEMA, rows
from tidegate.errors import CorruptDataError, OptionError
from tidegate.readers.archive import connect
from tidegate.readers.archive.connect import ConnectLayout
from tidegate.readers.archive.objects import UNKNOWN_MS
from tidegate.readers.places.place import Place

FOLDER = "orders/partition=3"


def written(location, objects):
    """Write objects by their first offsets and forms."""
    for (first, form), content in objects.items():
        file = location / FOLDER / f"orders+3+{first:010d}.{form}"
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, pa.Table):
            parquet.write_table(content, file)
        else:
            file.write_bytes(content)
    files = {file.name: file.stat().st_size for file in (location / FOLDER).iterdir()}
    layout = ConnectLayout(Place(str(location)))
    return layout, layout.objects_in(FOLDER, files)["orders", 3]


def avro(schema, records, codec="null"):
    """Return an object container file."""
    file = io.BytesIO()
    fastavro.writer(file, fastavro.parse_schema(schema), records, codec, sync_marker=bytes(16))
    return file.getvalue()


def read(layout, objects, start=0, end=100):
    return rows(row for obj in objects for row in layout.read(obj, start, end, SCHEMA))


def test_offsets_are_counted_from_the_first_and_the_newest_object_is_left_to_kafka(tmp_path):
    table = pa.table(
        {
            "id": [4, 5],
            "at": [dt.datetime(1987, 3, 11, 12, 20, 1, 147_000, dt.timezone.utc), None],
            "price": [Decimal("1.5"), Decimal(0)],
        }
    )
    objects = {
        (0, "bin"): b"a\n\nc\n",
        (3, "json"): b'{"id":3}\n',
        (4, "snappy.parquet"): table.append_column("day", pa.array([1, 2], pa.date32())),
        (6, "json"): b"{}\n",
    }
    layout, found = written(tmp_path, objects)
    assert [(obj.first, obj.next) for obj in found] == [(0, 3), (3, 4), (4, 6)]
    read_rows = read(layout, found)
    values = [row.pop("value") for row in read_rows]
    nothing = dict.fromkeys(("key", "timestamp", "timestampType", "headers"))
    assert read_rows == [{**nothing, "topic": "orders", "partition": 3, "offset": at} for at in range(6)]
    assert values[:4] == [b"a", b"", b"c", b'{"id":3}']
    assert [json.loads(value) for value in values[4:]] == [
        {"id": 4, "at": 542_463_601_147, "price": "1.5", "day": 1},
        {"id": 5, "at": None, "price": "0.0", "day": 2},
    ]
    assert [row["offset"] for row in read(layout, found, 2, 5)] == [2, 3, 4]
    (tmp_path / found[0].path).unlink()
    assert layout.groups_of(found[0]) == [(0, 0, 2, UNKNOWN_MS)]  # without a fetch


HEADER = {"type": "record", "name": "Header", "fields": [{"name": n, "type": "string"} for n in ("key", "value")]}
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        {"name": "tags", "type": {"type": "map", "values": "string"}},
    ],
}


def test_avro_gives_json_and_keys_and_headers_come_from_the_objects_beside_it(tmp_path):
    """The forms are those of ``store.kafka.keys`` and ``store.kafka.headers``; texts are not quoted."""
    at = dt.datetime(1987, 3, 11, 12, 20, 1, 147_000, dt.timezone.utc)
    orders = [{"id": 4, "at": at, "tags": {"a": "b"}}, {"id": 5, "at": None, "tags": {}}]
    headers = [[{"key": "h", "value": "x"}], [{"key": "h", "value": "y"}, {"key": "h", "value": "\u00e9"}]]
    enveloped = [json.dumps({"headers": each}).encode() for each in headers]
    layout, found = written(
        tmp_path,
        {
            (0, "avro"): avro(ORDER, orders, "deflate"),
            (0, "keys.avro"): avro("string", ["k0", "k1"]),
            (0, "headers.avro"): avro({"type": "array", "items": HEADER}, headers),
            (2, "avro"): avro("bytes", [b"\xff", b""]),
            (2, "keys.json"): b'"k2"\n{"id":3}\n',
            (2, "headers.json"): b"\n".join(enveloped),
            (4, "bin"): b"a\nb\n",
            (4, "keys.parquet"): pa.table({"key": ["k4", "k5"]}),
            (4, "headers.snappy.parquet"): pa.table({"headers": headers}),
            (6, "json"): b"{}\n{}\n",
            (6, "keys.bin"): b"\xff\nk7\n",
            (8, "json"): b"{}\n",
        },
    )
    found_rows = read(layout, found)
    assert [row["offset"] for row in found_rows] == [*range(8)]
    assert [json.loads(row["value"]) for row in found_rows[:2]] == [
        {"id": 4, "at": 542_463_601_147, "tags": {"a": "b"}},
        {"id": 5, "at": None, "tags": {}},
    ]
    assert [row["value"] for row in found_rows[2:6]] == [b"\xff", b"", b"a", b"b"]
    assert [row["key"] for row in found_rows] == [b"k0", b"k1", b"k2", b'{"id":3}', b"k4", b"k5", b"\xff", b"k7"]
    of_two = [[{**header, "value": header["value"].encode()} for header in each] for each in headers]
    assert [row["headers"] for row in found_rows] == [*of_two * 3, None, None]
    assert [row["offset"] for row in read(layout, found, 1, 3)] == [1, 2]


BESIDE = {(7, "json"): b"{}\n" * 3}  # the values beside which keys and headers are


@pytest.mark.parametrize(
    ("form", "content"),
    [("avro", b"Obj\x01nothing"), ("headers.json", b'{"heads":1}\n' * 3), ("keys.json", b'"\n' * 3)],
)
def test_a_file_of_another_form_is_named(tmp_path, form, content):
    layout, found = written(tmp_path, {**(BESIDE if "." in form else {}), (7, form): content, (10, "json"): b"{}\n"})
    with pytest.raises(CorruptDataError, match=rf"archived object .*orders\+3\+0000000007.{form} (cannot be|has an)"):
        read(layout, found)


@pytest.mark.parametrize(
    ("form", "content", "count"),
    [
        ("json", b"{}\n{}\n", 2),  # the third is a transaction marker, or compaction has deleted it
        ("json", b"{}\n{}\n{}\n{}\n", 4),
        ("bin", b"", 0),
        ("parquet", pa.table({"id": [1, 2]}), 2),
        ("avro", avro("string", ["a", "b"]), 2),
        ("keys.avro", avro("string", ["a"] * 4), 4),
    ],
)
def test_an_object_that_does_not_tell_the_offset_of_each_record_is_refused(tmp_path, form, content, count):
    layout, found = written(tmp_path, {**(BESIDE if "." in form else {}), (7, form): content, (10, "json"): b"{}\n"})
    sentence = rf"orders\+3\+0000000007.{form} cannot be read: it holds {count} records, but the next object begins 3 "
    with pytest.raises(CorruptDataError, match=sentence):
        read(layout, found)


def test_an_object_that_is_too_large_is_refused(tmp_path, monkeypatch):
    layout, found = written(tmp_path, {(0, "json"): b"{}\n{}\n", (2, "json"): b"{}\n"})
    monkeypatch.setattr(connect, "_MOST_BYTES", 5)
    with pytest.raises(CorruptDataError, match="has 6 bytes, and at most 5 are read at once"):
        read(layout, found)


@pytest.mark.parametrize("name", ["orders+3+0000000000.orc", "orders+3+0000000000.keys.json.gz", "data.json"])
def test_another_form_is_refused(tmp_path, name):
    layout = ConnectLayout(Place(str(tmp_path)))
    sentence = f"archive is {str(tmp_path)!r}, and archive.layout is 'connect', but the file {FOLDER}/{name} is not"
    with pytest.raises(OptionError, match=re.escape(sentence)):
        layout.objects_in(FOLDER, {name: 1})
