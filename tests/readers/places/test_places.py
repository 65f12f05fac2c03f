"""Places of files, and files of bad records: their contents, and those of a repeated task."""

from __future__ import annotations

import json

import pytest

from tidegate.errors import ConnectorError, OptionError
from tidegate.readers import bad_record_files as module
from tidegate.readers.places.place import BadRecordFolder, check_location
from tidegate.readers.s3.config import S3ConnectionConfig


@pytest.mark.parametrize(
    "location", ["", " ", "s3://", "s3:///x", "https://bucket/x", "s://b/x", "/s3://b/x", "dbfs:/x"]
)
def test_a_location_that_is_none_is_refused(location):
    with pytest.raises(ValueError, match="expected a folder, or s3://bucket/prefix"):
        check_location(location)


@pytest.mark.parametrize(
    "location",
    ["bad", "/var/bad", "C:/bad", "/var/bad:/x", "file:///var/bad", "file:/var/bad", "S3://b", "s3a://b/x", "s3n://b"],
)
def test_folders_and_buckets_are_locations(location):
    assert check_location(location) == location


NOWHERE = S3ConnectionConfig()


def folder_files(location, name="some"):
    return BadRecordFolder(str(location), NOWHERE).files(name)


def test_many_are_in_several_files_and_whoever_repeats_it_writes_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "FILE_BYTES", 1000)

    def write(name):
        files = folder_files(tmp_path, name)
        for number in range(50):
            files.add({"position": number, "record": "é" * number})
        files.flush()
        return {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    first = write("a")
    assert len(first) > 3
    assert all(len(data) < 1200 for data in first.values())
    lines = [line for data in first.values() for line in map(json.loads, data.splitlines())]
    assert sorted(line["position"] for line in lines) == list(range(50))
    assert write("a") == first
    assert len(write("b")) == 2 * len(first)


def test_a_bucket_takes_them_and_one_that_is_not_there_is_reported(bucket, s3_config):
    for location in (f"s3://{bucket.name}/some/bad/", f"s3a://{bucket.name}"):
        files = BadRecordFolder(location, s3_config).files("x")
        files.add({"record": "y"})
        files.flush()
    assert sorted(bucket.keys()) == ["some/bad/x-0.json", "x-0.json"]
    assert json.loads(bucket.body("some/bad/x-0.json")) == {"record": "y"}
    files = BadRecordFolder("s3://no-such-bucket/x", s3_config).files("x")
    files.add({})
    with pytest.raises(OptionError, match="there is no bucket 'no-such-bucket'"):
        files.flush()


def test_a_place_is_tried_before_there_is_a_bad_record(tmp_path, bucket, s3_config):
    BadRecordFolder(f"{tmp_path}/new/folder", NOWHERE).check()
    assert [*(tmp_path / "new/folder").iterdir()] == []
    (tmp_path / "file").write_text("")
    with pytest.raises(ConnectorError, match="cannot write bad records to"):
        BadRecordFolder(f"{tmp_path}/file/in", NOWHERE).check()
    for _ in range(2):
        BadRecordFolder(f"s3://{bucket.name}/tried", s3_config).check()
    assert bucket.keys() == ["tried/_writable"]
    with pytest.raises(OptionError, match="there is no bucket 'no-such-bucket'"):
        BadRecordFolder("s3://no-such-bucket/x", s3_config).check()


def test_the_umask_decides_who_may_read_a_file(tmp_path):
    files = folder_files(tmp_path)
    files.add({})
    files.flush()
    (tmp_path / "other").touch()
    (file,) = tmp_path.glob("*.json")
    assert file.stat().st_mode == (tmp_path / "other").stat().st_mode
    assert len([*tmp_path.iterdir()]) == 2
