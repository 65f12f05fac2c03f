import subprocess
from contextlib import closing

import pytest
from botocore.exceptions import ClientError

from tidegate.servers import S3Server
from tidegate.servers.java import find_jars

ODD_KEY = "100%/%41/ünï 日本 😀/a+b&c=d?e#f/<\"quoted'>/back\\slash/.hidden"


def test_other_keys_are_refused_and_ours_are_not_in_the_command_line():
    with S3Server() as server:
        stranger = S3Server(port=int(server.endpoint.rpartition(":")[2]))
        with pytest.raises(ClientError, match="InvalidAccessKeyId"):
            stranger.create_bucket("not-mine")
        command = ["ps", "-ww", "-o", "args=", "-p", str(server.pids[1])]
        shown = subprocess.run(command, capture_output=True, check=True).stdout
        assert b"s3proxy" in shown
        assert server.secret_key.encode() not in shown


def test_given_jars_are_used_and_a_given_folder_keeps_the_buckets_whatever_its_name_and_the_locale(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("LC_ALL", "C")
    given = tmp_path / "given"
    given.symlink_to(find_jars("org.gaul:s3proxy:4.1.0", override="S3PROXY_LIBS"))
    monkeypatch.setenv("S3PROXY_LIBS", str(given))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "été = #1" / "buckets"
    with S3Server(folder=folder) as first, closing(first.client()) as client:
        bucket = first.create_bucket("kept")
        client.put_object(Bucket="kept", Key=ODD_KEY, Body=b"still here")
        assert (bucket / ODD_KEY).read_bytes() == b"still here"
        (bucket / "laid down").write_bytes(b"")
    with S3Server(folder=folder) as second, closing(second.client()) as client:
        assert second.secret_key != first.secret_key
        assert [entry["Key"] for entry in client.list_objects_v2(Bucket="kept")["Contents"]] == [ODD_KEY, "laid down"]
        assert client.get_object(Bucket="kept", Key=ODD_KEY)["Body"].read() == b"still here"
        client.delete_object(Bucket="kept", Key=ODD_KEY)
        assert not (bucket / ODD_KEY).exists()
    assert not (tmp_path / "cache").exists()
