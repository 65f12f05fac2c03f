"""Bad records: the decision of each policy, and the files to which they are written."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from tests.readers.formats.refusals import TO_CONTINUE
from tests.support.objects.memory import Memory, chunk_of, writing_to
from tidegate.errors import BadRecordError, ConnectorError, CorruptDataError, OptionError
from tidegate.readers.formats.bad_records import FAIL, BadRecordPolicy

SCHEMA = pa.schema([("_corrupt_record", pa.string()), ("i", pa.int64()), ("rest", pa.string())])


def told(policy, schema=SCHEMA):
    """Take a good record, a misfit, a malformed record and surplus; return the rows that are kept."""
    memory = Memory(b"")
    write = writing_to(policy.path)
    with policy.of_chunk("a/b.json", chunk_of(memory.object, 0, 0), schema, write) as records:
        batch = records.begin_batch()
        batch.good()
        kept = [
            1,
            *([None] * batch.take(5, b"misfit", "has no int64 in 'i'", rescued={"i": '"x"'})),
            *([None] * batch.take(12, b"malformed\xff", "is no record", malformed=True)),
            *([4] * batch.take(30, b"", rescued={"m": "[1]"})),
        ]
        assert records.data_schema.names == [n for n in schema.names if n in {"i", policy.rescued_column} - {"rest"}]
        rows = records.batch(pa.record_batch({"i": pa.array(kept, pa.int64())}), batch)
    assert rows.schema.equals(schema)
    return [tuple(row.values()) for row in rows.to_pylist()]


def rescued(**values):
    return json.dumps({**values, "_file_path": "a/b.json"}, separators=(",", ":"))


NOTHING_RESCUED = pa.schema([*SCHEMA][:2])


def test_what_is_permitted_keeps_its_row_and_its_text():
    assert told(BadRecordPolicy("PERMISSIVE"), NOTHING_RESCUED) == [
        (None, 1),
        ("misfit", None),
        ("malformed\ufffd", None),
        (None, 4),
    ]


def test_what_is_dropped_leaves_no_row():
    assert told(BadRecordPolicy("DROPMALFORMED"), NOTHING_RESCUED) == [(None, 1), (None, 4)]


def test_what_is_rescued_makes_no_record_bad():
    policy = BadRecordPolicy("DROPMALFORMED", rescued_column="rest")
    assert told(policy) == [(None, 1, None), (None, None, rescued(i="x")), (None, 4, rescued(m=[1]))]


def test_a_bad_record_ends_the_query_by_default():
    with pytest.raises(BadRecordError, match=r"^a/b\.json: the line at byte 5 has no int64 in 'i'" + TO_CONTINUE):
        told(FAIL, NOTHING_RESCUED)
    with pytest.raises(BadRecordError, match=r"^a/b\.json: the line at byte 12 is no record" + TO_CONTINUE):
        told(BadRecordPolicy(rescued_column="rest"))


def test_its_own_columns_have_to_be_strings_and_others_are_the_datas():
    assert BadRecordPolicy("PERMISSIVE", "odd").data_schema(SCHEMA) is SCHEMA
    with pytest.raises(OptionError, match="the column 'i' is of the type int64; it has to be a string"):
        BadRecordPolicy("PERMISSIVE", "i").data_schema(SCHEMA)


def lines(file):
    return [json.loads(line) for line in file.read_bytes().splitlines()]


def test_bad_records_are_in_files_also_when_the_rest_of_the_object_is_corrupt(tmp_path):
    policy = BadRecordPolicy(path=str(tmp_path))
    assert told(policy, NOTHING_RESCUED) == [(None, 1), (None, 4)]
    memory = Memory(b"")

    def read(error):
        write = writing_to(str(tmp_path))
        with policy.of_chunk("a/b.json", chunk_of(memory.object, 1, 2), NOTHING_RESCUED, write) as records:
            records.begin_batch().take(1, b"\xff", "is bad", malformed=True)
            raise error

    with pytest.raises(ConnectorError):
        read(ConnectorError("no answer"))  # so the task is repeated
    assert len([*tmp_path.iterdir()]) == 1
    with pytest.raises(CorruptDataError):
        read(CorruptDataError("the rest"))
    first, second = sorted(tmp_path.iterdir(), key=lambda file: len(lines(file)))
    assert lines(first) == [{"path": "a/b.json", "position": 1, "reason": "the line is bad", "record": "/w=="}]
    assert [line["position"] for line in lines(second)] == [5, 12]


def test_each_version_of_a_chunk_has_files_of_its_own_and_whoever_repeats_it_writes_the_same(tmp_path):
    memory = Memory(b"")
    chunk = chunk_of(memory.object, 1, 2)
    for repeated in (chunk, chunk, chunk._replace(start=0), chunk._replace(etag="other")):
        policy, write = BadRecordPolicy(path=str(tmp_path)), writing_to(str(tmp_path))
        with policy.of_chunk("a/b.json", repeated, NOTHING_RESCUED, write) as records:
            records.begin_batch().take(1, b"\xff", "is bad", malformed=True)
    assert len([*tmp_path.iterdir()]) == 3
