"""The files to which bad records are written; ``json/test_bad_records.py`` shows the decision of each policy."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from tests.support.objects.memory import Memory, chunk_of, writing_to
from tidegate.errors import ConnectorError, CorruptDataError, OptionError
from tidegate.readers.formats.bad_records import BadRecordPolicy, ChunkRecords

SCHEMA = pa.schema([("_corrupt_record", pa.string()), ("i", pa.int64()), ("rest", pa.string())])


def test_its_own_columns_have_to_be_strings_and_others_are_the_datas():
    assert BadRecordPolicy(rescued_column="rest").data_schema(SCHEMA).names == ["i"]
    with pytest.raises(OptionError, match="the column 'i' is of the type int64; it has to be a string"):
        BadRecordPolicy("PERMISSIVE", "i").data_schema(SCHEMA)


def test_bad_records_are_in_files_also_when_the_rest_of_the_object_is_corrupt(tmp_path):
    policy, memory = BadRecordPolicy(path=str(tmp_path)), Memory(b"")

    def read(error):
        write = writing_to(str(tmp_path))
        with ChunkRecords(policy, "a/b.json", chunk_of(memory.object, 1, 2), SCHEMA, write) as records:
            records.begin_batch().take(1, b"\xff", "is bad", malformed=True)
            raise error

    with pytest.raises(ConnectorError):
        read(ConnectorError("no answer"))  # so the task is repeated
    assert [*tmp_path.iterdir()] == []
    with pytest.raises(CorruptDataError):
        read(CorruptDataError("the rest"))
    [file] = tmp_path.iterdir()
    assert json.loads(file.read_bytes()) == {
        "path": "a/b.json", "position": 1, "reason": "the line is bad", "record": "/w==",
    }  # fmt: skip


def test_each_version_of_a_chunk_has_files_of_its_own_and_whoever_repeats_it_writes_the_same(tmp_path):
    memory = Memory(b"")
    chunk = chunk_of(memory.object, 1, 2)
    for repeated in (chunk, chunk, chunk._replace(start=0), chunk._replace(etag="other")):
        policy, write = BadRecordPolicy(path=str(tmp_path)), writing_to(str(tmp_path))
        with ChunkRecords(policy, "a/b.json", repeated, SCHEMA, write) as records:
            records.begin_batch().take(1, b"\xff", "is bad", malformed=True)
    assert len([*tmp_path.iterdir()]) == 3
