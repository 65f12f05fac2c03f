import hashlib
import os
import subprocess

import pytest
from botocore.exceptions import ClientError

from tidegate.servers import S3Server
from tidegate.servers.maven import find_jars

ODD_KEY = "100%/%41/ünï 日本 😀/a+b&c=d?e#f/<\"quoted'>/back\\slash/.hidden"


@pytest.fixture(scope="module")
def server():
    with S3Server() as running:
        yield running


@pytest.fixture(scope="module")
def client(server):
    client = server.client()
    yield client
    client.close()


@pytest.fixture
def bucket(server, request):
    """A new bucket, made as a folder."""
    digest = hashlib.sha256(request.node.name.encode()).hexdigest()
    folder = server.folder / f"bucket-{digest[:16]}"
    folder.mkdir()
    return folder


def lay_down(bucket, key, content, modified_s=None):
    path = bucket / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    if modified_s is not None:
        os.utime(path, (modified_s, modified_s))
    return path


def listed(client, bucket, **options):
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket.name, **options)
    return [entry for page in pages for entry in page.get("Contents", [])]


def keys(client, bucket, **options):
    return [entry["Key"] for entry in listed(client, bucket, **options)]


def content(client, bucket, key, **options):
    return client.get_object(Bucket=bucket.name, Key=key, **options)["Body"].read()


def address(endpoint):
    return endpoint.removeprefix("http://")


def test_an_odd_key_is_the_same_by_every_way(client, bucket):
    key = ODD_KEY
    client.put_object(Bucket=bucket.name, Key=key, Body=b"put")
    assert (bucket / key).read_bytes() == b"put"
    lay_down(bucket, f"laid/{key}", b"laid down")
    assert keys(client, bucket) == sorted([key, f"laid/{key}"])
    assert content(client, bucket, f"laid/{key}") == b"laid down"

    client.delete_object(Bucket=bucket.name, Key=key)
    assert not (bucket / key).exists()


def test_other_keys_are_refused_and_ours_are_not_in_the_command_line(server):
    class Stranger(S3Server):
        endpoint = server.endpoint

    with pytest.raises(ClientError, match="InvalidAccessKeyId"):
        Stranger().create_bucket("not-mine")
    command = subprocess.run(["ps", "-ww", "-o", "args=", "-p", str(server.pids[1])], capture_output=True, check=True)  # noqa: S607
    assert b"s3proxy" in command.stdout
    assert server.secret_key.encode() not in command.stdout


def test_given_jars_are_used_and_a_given_folder_keeps_the_buckets_whatever_its_name_and_the_locale(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("LC_ALL", "C")
    given = tmp_path / "given"
    given.symlink_to(find_jars("org.gaul:s3proxy:4.1.0", override="S3PROXY_LIBS"))
    monkeypatch.setenv("S3PROXY_LIBS", str(given))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "été = #1" / "buckets"
    with S3Server(folder=folder) as first:
        client = first.client()
        client.put_object(Bucket=first.create_bucket("kept").name, Key="ü", Body=b"still here")
        client.close()
    assert sorted(path.name for path in folder.rglob("*")) == ["kept", "ü"]
    with S3Server(folder=folder) as second:
        assert second.secret_key != first.secret_key
        client = second.client()
        assert content(client, folder / "kept", "ü") == b"still here"
        client.close()
    assert not (tmp_path / "cache").exists()
