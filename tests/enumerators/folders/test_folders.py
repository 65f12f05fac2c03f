"""A folder keeps its promises on a disk and in a bucket of a real endpoint."""

import stat
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.servers.stub import Answering
from tidegate.enumerators.folders.folder import LocalFolder
from tidegate.enumerators.folders.opening import open_folder
from tidegate.errors import ConnectorError, DeadlineError, OptionError
from tidegate.readers.s3.config import S3ConnectionConfig


@pytest.fixture
def folder(location, config):
    return open_folder(location, config)


def test_a_file_is_created_once_and_replaced_on_condition_of_its_version(folder):
    assert (folder.files(), folder.read("a")) == ({}, None)
    first = folder.create("a", b"1")
    assert folder.create("a", b"2") is None
    assert folder.read("a") == (b"1", first)
    second = folder.replace("a", b"22", first)
    assert folder.replace("a", b"333", first) is None
    assert folder.replace("b", b"4", first) is None
    assert folder.read("a") == (b"22", second)
    assert {name: file.bytes for name, file in folder.files().items()} == {"a": 2}


def test_a_file_is_written_whether_or_not_there_is_one(folder):
    folder.write("a", b"1")
    folder.write("a", b"22")
    assert folder.read("a").data == b"22"
    assert folder.replace("a", b"3", folder.read("a").version) is not None


def test_folders_inside_are_not_among_the_files(folder):
    inside = folder.within("ünï +%41")
    inside.write("a", b"1")
    folder.write("b", b"2")
    assert (list(folder.files()), folder.folders(), list(inside.files())) == (["b"], ["ünï +%41"], ["a"])
    inside.delete("a")
    inside.delete("a")
    assert inside.files() == {}


def test_a_folder_on_a_disk_is_for_its_user_alone(tmp_path, config):
    folder = open_folder(f"file:{tmp_path}/a%20b", config)
    folder.within("c").write("d", b"1")
    paths = [tmp_path / "a b", tmp_path / "a b/c", tmp_path / "a b/c/d"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in paths] == [0o700, 0o700, 0o600]


def test_a_folder_that_is_removed_while_a_file_is_written_is_created_again(tmp_path, monkeypatch):
    place, is_dir = tmp_path / "a", Path.is_dir
    place.mkdir()

    def removed_before(path):
        if path == place:  # mkdir found it, and asks whether it is a folder
            place.rmdir()
        return is_dir(path)

    monkeypatch.setattr(Path, "is_dir", removed_before)
    LocalFolder(place, "planner's folder").write("b", b"1")
    assert (place / "b").read_bytes() == b"1"


def test_an_error_names_the_option_and_what_the_location_is_for(tmp_path, config):
    names = {"option": "alignmentLocation", "noun": "alignment location"}
    for location in ("gs://bucket/x", " ", "s3:///x"):
        with pytest.raises(OptionError, match=f"^alignmentLocation is '{location}'"):
            open_folder(location, config, **names)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConnectorError, match=f"^cannot write to the alignment location {tmp_path}/file/x: "):
        open_folder(f"{tmp_path}/file/x", config, **names).write("a", b"")
    with pytest.raises(OptionError, match="no-such-bucket"):
        open_folder("s3://no-such-bucket/x", config, **names).read("a")


def test_a_file_where_a_folder_is_needed_is_named(tmp_path, config):
    (tmp_path / "file").write_text("")
    folder = open_folder(f"{tmp_path}/file/x", config)
    for operation, use in (("read", lambda: folder.read("a")), ("write to", lambda: folder.write("a", b""))):
        sentence = f"^cannot {operation} the state location {tmp_path}/file/x: {tmp_path}/file is not a folder$"
        with pytest.raises(ConnectorError, match=sentence):
            use()


@pytest.mark.parametrize("inner", ["", "/x"])
def test_a_link_to_nothing_where_a_folder_is_needed_is_named(tmp_path, config, inner):
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConnectorError, match=f"link{inner}: {tmp_path}/link is not a folder$"):
        open_folder(f"{tmp_path}/link{inner}", config).write("a", b"")


def test_a_refused_request_says_whether_it_was_to_read_or_to_write(config):
    folder = open_folder("s3://state/x", replace(config, access_key="nobody"))
    for operation, use in (("read", lambda: folder.read("a")), ("write to", lambda: folder.write("a", b""))):
        with pytest.raises(
            ConnectorError, match=f"^the endpoint refused to {operation} the state location s3://state/x: "
        ):
            use()


def test_a_refusal_that_breaks_off_is_requested_again():
    broken_off = b"HTTP/1.1 503 Slow Down\r\nContent-Length: 99\r\n\r\n<Error>"
    whole = b'HTTP/1.1 200 OK\r\nETag: "1"\r\nContent-Length: 2\r\n\r\n{}'
    with Answering(broken_off, whole) as there:
        config = S3ConnectionConfig(f"http://{there.address}", "us-east-1", "a", "b", deadline_s=20)
        assert open_folder("s3://state/ledger", config).read("a") == (b"{}", '"1"')


def test_a_bucket_that_does_not_answer_is_given_up_at_the_deadline():
    config = S3ConnectionConfig("http://127.0.0.1:1", "us-east-1", "a", "b", deadline_s=0.2)
    folder = open_folder("s3://state/ledger", config)
    with pytest.raises(DeadlineError, match=r"^cannot write to the state location s3://state/ledger within 0\.2 s: "):
        folder.write("a", b"content")
