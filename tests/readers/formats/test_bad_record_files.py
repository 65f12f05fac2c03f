"""Files of bad records: their places, their contents, and that a repeated task writes the same."""

from __future__ import annotations

import base64
import json

import pytest

from tidegate.errors import ConnectorError, OptionError
from tidegate.readers.formats import bad_record_files
from tidegate.readers.formats.bad_record_files import BadRecordFiles, check_location
from tidegate.readers.objects.values import Chunk
from tidegate.readers.s3.store import ObjectStore

CHUNK = Chunk("in/é.json", 100, "etag", 5, 0, 100, 1, None, None)


def test_many_are_in_several_files_and_whoever_repeats_it_writes_the_same(tmp_path, monkeypatch, s3_config):
    monkeypatch.setattr(bad_record_files, "FILE_BYTES", 1000)
    store = ObjectStore(s3_config, "bucket")

    def write(*chunks):
        for chunk in chunks:
            files = BadRecordFiles(str(tmp_path), store, chunk)
            for number in range(50):
                files.add(number, "the line is bad", b"x" * number)
            files.flush()
        return {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    first = write(CHUNK)
    assert len(first) > 3
    assert all(len(data) < 1200 for data in first.values())
    found = [line for data in first.values() for line in map(json.loads, data.splitlines())]
    assert sorted(line["position"] for line in found) == list(range(50))
    assert {line["path"] for line in found} == {"s3://bucket/in/é.json"}
    assert write(CHUNK) == first
    assert len(write(CHUNK._replace(start=1), CHUNK._replace(etag="other"))) == 3 * len(first)


def test_a_bucket_takes_them_and_one_that_is_not_there_is_told(bucket, s3_config):
    store = ObjectStore(s3_config, bucket.name)
    for location in (f"s3://{bucket.name}/some/bad/", f"s3a://{bucket.name}"):
        files = BadRecordFiles(location, store, CHUNK)
        files.add(7, "the line is bad", b"x")
        files.flush()
    keys = [entry["Key"] for entry in bucket.client.list_objects_v2(Bucket=bucket.name)["Contents"]]
    assert sorted(key.rpartition("/")[0] for key in keys) == ["", "some/bad"]
    body = bucket.client.get_object(Bucket=bucket.name, Key=keys[0])["Body"].read()
    assert base64.b64decode(json.loads(body)["record"]) == b"x"
    files = BadRecordFiles("s3://no-such-bucket/x", store, CHUNK)
    files.add(0, "", b"")
    with pytest.raises(OptionError, match="there is no bucket 'no-such-bucket'"):
        files.flush()


def test_a_folder_that_cannot_be_written_to_is_told(tmp_path, s3_config):
    (tmp_path / "file").write_text("")
    files = BadRecordFiles(f"file://{tmp_path}/file/in", ObjectStore(s3_config, "bucket"), CHUNK)
    files.add(0, "", b"")
    with pytest.raises(ConnectorError, match="cannot write bad records to"):
        files.flush()


@pytest.mark.parametrize("location", ["", " ", "s3://", "s3:///x", "https://bucket/x"])
def test_a_location_that_is_none_is_refused(location):
    with pytest.raises(ValueError, match="expected a folder, or s3://bucket/prefix"):
        check_location(location)


@pytest.mark.parametrize(
    "location", ["bad", "/var/bad", "file:///var/bad", "file:/var/bad", "S3://b", "s3a://b/x", "s3n://b"]
)
def test_folders_and_buckets_are_locations(location):
    assert check_location(location) == location
