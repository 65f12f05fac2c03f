"""Reading pinned ranges: odd keys, other versions, refusals, and an endpoint that fails in every way."""

from __future__ import annotations

import http.client
import io
import ipaddress
import os
import pickle
import re
import ssl
import subprocess
import sys
import threading
import traceback
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote

import pytest
from botocore.credentials import Credentials
from botocore.exceptions import NoCredentialsError
from botocore.utils import parse_timestamp
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.servers.test_s3 import ODD_KEYS, lay_down
from tidegate.errors import ConnectorError, DeadlineError, ObjectGoneError, OptionError
from tidegate.readers.object_file import ObjectFile
from tidegate.readers.object_store import AHEAD_BYTES, SMALL_BYTES, ObjectStore, s3_object
from tidegate.readers.objects import Chunk, S3Object
from tidegate.readers.s3_config import S3ConnectionConfig, time_of
from tidegate.servers import S3Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BODY = bytes(range(256)) * 40
SECRET = "s3cret"  # noqa: S105 - no such secret exists


@pytest.fixture
def store(config):
    return ObjectStore(config, "data")


def put(store: ObjectStore, key: str, body: bytes = BODY) -> S3Object:
    store.config.client().put_object(Bucket=store.bucket, Key=key, Body=body)
    (entry,) = store.config.client().list_objects_v2(Bucket=store.bucket, Prefix=key)["Contents"]
    return S3Object(key, entry["Size"], entry["ETag"].strip('"'), int(entry["LastModified"].timestamp() * 1000))


def chunk_of(found: S3Object) -> Chunk:
    return Chunk(*found, 0, found.size, 1, None, None)


class Faults(BaseHTTPRequestHandler):
    """Hands requests on to the real endpoint, after the faults that the test put into the server's list."""

    def do_GET(self) -> None:
        self.server.requests += 1
        self.server.signed.append(self.headers.get("Authorization", ""))
        fault = self.server.faults.pop(0) if self.server.faults else "none"
        if isinstance(fault, int):
            self.send_response(fault)
            self.end_headers()
        elif fault == "silent":
            self.server.over.wait(60)
        elif fault != "reset":
            self._hand_on(fault)

    def _hand_on(self, fault: str) -> None:
        real = http.client.HTTPConnection(self.server.real.removeprefix("http://"))
        try:
            real.request("GET", self.path, headers=dict(self.headers))
            answer = real.getresponse()
            body = answer.read()
        finally:
            real.close()
        self.send_response(200 if fault == "no length" else answer.status)
        left_out = {"date", "server", "connection", "transfer-encoding"}
        if fault == "no length":
            left_out |= {"content-length", "content-range"}
        for name, value in answer.getheaders():
            if name.lower() not in left_out:
                self.send_header(name, value)
        self.end_headers()
        if fault == "cut":
            self.wfile.write(body[: len(body) // 2])
        elif fault == "trickle":
            for index in range(len(body)):
                if self.server.over.wait(0.01):
                    return
                self.wfile.write(body[index : index + 1])
        else:
            self.wfile.write(body)

    def log_message(self, *_) -> None:
        pass


class FaultyServer(ThreadingHTTPServer):
    daemon_threads = True
    requests = 0

    def handle_error(self, *_) -> None:
        pass  # the client hung up


def self_signed(host: str, folder: Path) -> tuple[Path, Path]:
    """Return files of a certificate for an address, which its own key signed, and of this key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.now(timezone.utc)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    files = folder / "certificate.pem", folder / "key.pem"
    files[0].write_bytes(certificate.public_bytes(Encoding.PEM))
    files[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return files


@contextmanager
def serving(server: FaultyServer) -> Iterator[FaultyServer]:
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def faulty(server: S3Server, *faults: int | str) -> Iterator[FaultyServer]:
    with FaultyServer(("127.0.0.1", 0), Faults) as proxy:
        proxy.real, proxy.faults, proxy.over, proxy.signed = server.endpoint, list(faults), threading.Event(), []
        with serving(proxy):
            try:
                yield proxy
            finally:
                proxy.over.set()


def through(proxy: FaultyServer, config: S3ConnectionConfig, deadline_s: float = 20) -> ObjectStore:
    endpoint = f"http://127.0.0.1:{proxy.server_address[1]}"
    return ObjectStore(replace(config, endpoint=endpoint, deadline_s=deadline_s), "data")


@pytest.mark.parametrize("key", ODD_KEYS)
def test_odd_keys_are_read_by_every_way(store, key):
    found = put(store, f"odd/{key}")
    assert store.fetch(found, 0, found.size) == BODY
    with store.open(found) as stream:
        assert stream.read() == BODY


@pytest.mark.parametrize("key", [*ODD_KEYS, "plain"])
def test_bytes_are_not_asked_for_by_the_slow_client(store, key, monkeypatch):
    found = put(store, f"quick/{key}")
    monkeypatch.setattr(store.config.client(), "get_object", None)
    assert store.fetch(found, 0, found.size) == BODY


@pytest.mark.parametrize("key", ["/before", "after/", "two//slashes", "a/./dot", "a/../dots", "a line\nbreak", "plain"])
def test_no_key_is_taken_for_another(config, key):
    class Echo(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = unquote(self.path).encode().ljust(40)
            self.send_response(206)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Range", f"bytes 0-{len(body) - 1}/{len(body)}")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_) -> None:
            pass

    with serving(FaultyServer(("127.0.0.1", 0), Echo)) as echo:
        assert through(echo, config).fetch(S3Object(key, 40, "", 0), 0, 40) == f"/data/{key}".encode().ljust(40)


def test_a_server_of_a_private_authority_is_trusted_by_the_usual_variable(server, config, store, tmp_path, monkeypatch):
    found = put(store, "private")
    certificate, key = self_signed("127.0.0.1", tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with faulty(server) as proxy:
        proxy.socket = context.wrap_socket(proxy.socket, server_side=True)
        endpoint = f"https://127.0.0.1:{proxy.server_address[1]}"
        with pytest.raises(DeadlineError, match="SSL"):
            ObjectStore(replace(config, endpoint=endpoint, deadline_s=0.5), "data").fetch(found, 0, 9)
        assert proxy.requests == 0
        monkeypatch.setenv("AWS_CA_BUNDLE", str(certificate))
        trusting = ObjectStore(replace(config, endpoint=endpoint), "data")
        monkeypatch.setattr(trusting.config.client(), "get_object", None)
        assert trusting.fetch(found, 0, 9) == BODY[:9]
        assert proxy.requests == 1


def test_renewed_credentials_sign_the_next_requests(server, config, store, monkeypatch):
    found = put(store, "renewed")
    monkeypatch.setattr("tidegate.readers.s3_get._CREDENTIALS_FOR", timedelta(0))
    names = [server.access_key]
    monkeypatch.setattr(S3ConnectionConfig, "credentials", lambda _: Credentials(names[-1], server.secret_key))
    with faulty(server) as proxy:
        reader = through(proxy, config)
        reader.fetch(found, 0, 9)
        names.append("renewed")
        reader.fetch(found, 0, 9)
    signers = [re.search(r"Credential=(\w+)/", each)[1] for each in proxy.signed]
    assert (signers[0], signers[1]) == (server.access_key, "renewed")


def test_any_range_is_given_whole(store):
    found = put(store, "ranges")
    for start, end in [(0, 1), (5, 5), (17, 4_000), (len(BODY) - 1, len(BODY)), (0, len(BODY))]:
        assert store.fetch(found, start, end) == BODY[start:end]


def test_a_file_seeks_and_reads(store):
    with store.open(put(store, "seek")) as stream:
        assert stream.size() == len(BODY)
        stream.seek(1_000)
        assert stream.read(24) == BODY[1_000:1_024]
        assert stream.read_at(10, len(BODY) - 4) == BODY[-4:]


def test_an_object_without_an_etag_is_known_by_its_size(server, store):
    lay_down(server.folder / "data", "laid", BODY)
    found = S3Object("laid", len(BODY), "", 0)
    assert store.fetch(found, 3, 9) == BODY[3:9]
    lay_down(server.folder / "data", "laid", BODY + b"more")
    with pytest.raises(ObjectGoneError, match=r"^s3://data/laid was overwritten after it was found$"):
        store.fetch(found, 3, 9)


@pytest.mark.parametrize("body", [BODY[::-1], BODY + b"longer", b"short"])
def test_an_overwritten_object_is_gone(store, body):
    found = put(store, "a key/über+%41")
    stream = store.open(found)
    put(store, found.key, body)
    sentence = r"^s3://data/a key/über\+%41 was overwritten after it was found$"
    with pytest.raises(ObjectGoneError, match=sentence):
        store.fetch(found, 100, 200)
    with stream, pytest.raises(ObjectGoneError, match=sentence):
        stream.read(10)


@pytest.mark.parametrize("key", ["found", "a key/über+%41 ?#&=.json"])
def test_an_object_is_found_as_it_is_now_and_as_a_listing_shows_it(store, key):
    for body in (b"first", b"another"):
        put(store, key, body)
        (listed,) = store.config.client().list_objects_v2(Bucket="data", Prefix=key)["Contents"]
        assert store.find(key) == s3_object(key, len(body), listed)
    store.config.client().delete_object(Bucket="data", Key=key)
    assert store.find(key) is None


@given(st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1)), st.sampled_from(["milliseconds", "seconds"]))  # noqa: DTZ001
def test_times_are_those_that_botocore_reads(moment: datetime, precision: str) -> None:
    for text in (f"{moment.isoformat(timespec=precision)}Z", format_datetime(moment.replace(tzinfo=timezone.utc))):
        assert time_of(text) == parse_timestamp(text)
    assert time_of(int(moment.timestamp())) == parse_timestamp(int(moment.timestamp()))


@pytest.mark.parametrize("text", ["soonZ", "Z", "2026-13-01T00:00:00Z"])
def test_what_is_no_time_is_told_as_by_botocore(text):
    with pytest.raises(ValueError, match="Invalid timestamp"):
        time_of(text)


def test_a_listing_that_tells_milliseconds_shows_the_object_that_is_found_by_itself():
    by_itself, listed = (
        s3_object("key", 1, {"LastModified": datetime(2026, 1, 1, 12, 0, 5, micros, timezone.utc)})
        for micros in (0, 987_000)
    )
    assert by_itself == listed


def test_an_object_that_cannot_be_asked_for_is_an_error_and_not_gone(store):
    stranger = ObjectStore(replace(store.config, secret_key=SECRET), "data")
    with pytest.raises(ConnectorError, match=r"^the endpoint refused s3://data/refused: 403$"):
        stranger.find("refused")


def test_a_deleted_object_is_gone(store):
    found = put(store, "deleted")
    store.config.client().delete_object(Bucket="data", Key="deleted")
    with pytest.raises(ObjectGoneError, match=r"^s3://data/deleted was deleted after it was found$"):
        store.fetch(found, 0, 1)


def test_a_bucket_that_is_not_there_is_the_callers_fault(config):
    with pytest.raises(OptionError, match=r"^there is no bucket 'nowhere', of s3://nowhere/key$"):
        ObjectStore(config, "nowhere").fetch(S3Object("key", 1, "", 0), 0, 1)
    with pytest.raises(OptionError, match=r"names no object of S3: .*bucket name"):
        ObjectStore(config, "no bucket").fetch(S3Object("key", 1, "", 0), 0, 1)


def test_a_refusal_is_told_without_secrets(store):
    found = put(store, "refused")
    for stranger in (replace(store.config, secret_key=SECRET), replace(store.config, anonymous=True)):
        with pytest.raises(ConnectorError, match=r"^the endpoint refused s3://data/refused: [A-Za-z]+$") as error:
            ObjectStore(stranger, "data").fetch(found, 0, 1)
        assert SECRET not in str(error.value) + repr(stranger)


@pytest.mark.parametrize("fault", [500, 503, 429, "cut", "reset"])
def test_a_passing_fault_is_healed(server, config, store, fault):
    found = put(store, "faults")
    with faulty(server, fault, fault) as proxy:
        assert through(proxy, config).fetch(found, 10, 9_000) == BODY[10:9_000]
        assert proxy.requests == 3


@pytest.mark.parametrize(
    ("fault", "cause"),
    [(503, "answered"),
     ("cut", "early|IncompleteRead|still lacked"), ("reset", "closed"), ("silent", "timeout|timed out"),
     ("trickle", "still lacked|too early")],
)  # fmt: skip
def test_a_fault_that_stays_ends_at_the_deadline(server, config, store, fault, cause, monkeypatch):
    monkeypatch.setattr("tidegate.readers.object_store.STEP_BYTES", 16)
    found = put(store, "faults")
    with faulty(server, *[fault] * 1_000) as proxy:
        sentence = rf"^cannot read s3://data/faults within 1 s: .*({cause})"
        with pytest.raises(DeadlineError, match=sentence):
            through(proxy, config, deadline_s=1).fetch(found, 0, found.size)


def test_a_whole_answer_that_does_not_say_its_length_is_no_other_version(server, config, store):
    found = put(store, "faults")
    with faulty(server, *["no length"] * 8) as proxy:
        reader = through(proxy, config)
        assert reader.fetch(found, 0, found.size) == BODY
        assert reader.fetch(found._replace(etag=""), 0, 9) == BODY[:9]
        with pytest.raises(ConnectorError, match="from another byte on than 5"):
            reader.fetch(found._replace(etag=""), 0 + 5, 9)
        put(store, "faults", BODY[::-1])
        with pytest.raises(ObjectGoneError, match="was overwritten") as error:
            reader.fetch(found, 0, found.size)
        assert error.value.overwritten


def test_an_endpoint_that_is_not_there_is_named_at_the_deadline(config):
    nowhere = ObjectStore(replace(config, endpoint="http://127.0.0.1:9", deadline_s=0.2), "data")
    with pytest.raises(DeadlineError, match=r"cannot read s3://data/x within 0.2 s: Could not connect"):
        nowhere.fetch(S3Object("x", 1, "", 0), 0, 1)


def test_a_small_object_costs_one_request_ahead_or_not(server, config, store):
    found = [put(store, f"ahead/{index}", BODY[index:]) for index in range(12)]
    with faulty(server) as proxy:
        reader = through(proxy, config)
        with reader.reading_ahead([chunk_of(each) for each in found]):
            for index, each in enumerate(found):
                assert reader.fetch(each, 0, 4) == BODY[index : index + 4]
                assert reader.fetch(each, 1, each.size) == BODY[index + 1 :]
        assert proxy.requests == len(found)
        assert reader.fetch(found[0], 0, 3) == BODY[:3]
        assert proxy.requests == len(found) + 1


def test_reading_ahead_tells_of_a_lost_object_where_it_is_asked_for(store):
    found = [put(store, f"lost/{index}") for index in range(3)]
    put(store, "lost/1", b"other")
    with store.reading_ahead([chunk_of(each) for each in found]):
        assert store.fetch(found[0], 0, found[0].size) == BODY
        with pytest.raises(ObjectGoneError, match="lost/1"):
            store.fetch(found[1], 0, found[1].size)
        assert store.fetch(found[2], 0, found[2].size) == BODY


def test_reading_ahead_holds_a_bounded_number_of_bytes(config):
    asked: list[str] = []

    class Recorded(ObjectStore):
        def _fetch(self, found: S3Object, start: int, end: int) -> bytes:
            asked.append(found.key)
            return b"x" * (end - start)

    objects = [S3Object(f"{index}", SMALL_BYTES, "", 0) for index in range(20)]
    reader = Recorded(config, "data")
    with reader.reading_ahead([chunk_of(each) for each in objects]):
        for index, each in enumerate(objects):
            assert len(asked) <= index + AHEAD_BYTES // SMALL_BYTES
            assert len(reader.fetch(each, 0, 5)) == 5
    assert sorted(asked) == sorted(each.key for each in objects)


def test_a_store_is_picklable_and_opens_nothing_at_first(config):
    store = pickle.loads(pickle.dumps(ObjectStore(replace(config, endpoint="http://127.0.0.1:9"), "data")))  # noqa: S301
    assert (store.config.endpoint, store.bucket) == ("http://127.0.0.1:9", "data")


def test_threads_share_a_client_and_a_forked_process_has_its_own(store):
    found = put(store, "fork")
    clients: set[int] = set()
    threads = [threading.Thread(target=lambda: clients.add(id(store.config.client()))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert clients == {id(store.config.client())}
    script = (
        "import os, pickle, sys\n"
        "store, found = pickle.loads(sys.stdin.buffer.read())\n"
        "expected, client = store.fetch(found, 0, 9), store.config.client()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(not (store.fetch(found, 0, 9) == expected and store.config.client() is not client))\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    subprocess.run([sys.executable, "-c", script], input=pickle.dumps((store, found)), check=True)


def test_the_variables_name_the_endpoint(server, store, monkeypatch):
    found = put(store, "by/environment")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    port = server.endpoint.rpartition(":")[2]
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://localhost:{port}")  # where a bucket's name would be a host's
    config = S3ConnectionConfig(deadline_s=19)
    assert ObjectStore(config, "data").fetch(found, 0, 9) == BODY[:9]


def test_addresses_are_path_style_for_any_endpoint_but_aws(config, monkeypatch):
    def address(**changed) -> str:
        client = replace(config, deadline_s=18, **changed).client()
        return client.generate_presigned_url("get_object", Params={"Bucket": "data", "Key": "k"}).partition("?")[0]

    assert address(endpoint=None, region="eu-west-1").startswith("https://data.s3.")
    assert address(endpoint="http://minio.example:9000") == "http://minio.example:9000/data/k"
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://minio.example:9000")
    assert address(endpoint=None, region="eu-west-2") == "http://minio.example:9000/data/k"


def test_a_role_is_assumed_with_the_given_keys(server, config, store, monkeypatch):
    found = put(store, "by/role")
    asked = []

    class Sts(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            keys = (
                f"<AccessKeyId>{server.access_key}</AccessKeyId><SecretAccessKey>{server.secret_key}</SecretAccessKey>"
            )
            until = "<SessionToken></SessionToken><Expiration>2999-01-01T00:00:00Z</Expiration>"
            answer = f"<Credentials>{keys}{until}</Credentials>"
            for name in ("AssumeRoleResult", "AssumeRoleResponse"):
                answer = f"<{name}>{answer}</{name}>"
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer.encode())

        def log_message(self, *_) -> None:
            pass

    with FaultyServer(("127.0.0.1", 0), Sts) as sts:
        thread = threading.Thread(target=sts.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{sts.server_address[1]}")
        role = "arn:aws:iam::123456789012:role/reader"
        assumed = replace(config, access_key="base", secret_key=SECRET, role=role)
        try:
            assert ObjectStore(assumed, "data").fetch(found, 0, 9) == BODY[:9]
        finally:
            sts.shutdown()
            thread.join()
    assert {tuple(parse_qs(each)[name][0] for name in ("Action", "RoleArn")) for each in asked} == {
        ("AssumeRole", role)
    }


def test_a_role_without_any_keys_is_told(config, monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    keyless = replace(config, access_key=None, secret_key=None, role="arn:aws:iam::1:role/r")
    with pytest.raises(NoCredentialsError):
        keyless.client()
    with pytest.raises(ConnectorError, match=r"^cannot ask for s3://data/x: Unable to locate credentials$"):
        ObjectStore(keyless, "data").fetch(S3Object("x", 1, "", 0), 0, 1)


@settings(max_examples=200)
@given(st.binary(max_size=60), st.integers(1, 9), st.data())
def test_a_file_of_held_and_other_ranges_is_the_object(content: bytes, part: int, data: st.DataObject) -> None:
    size = len(content)
    spans = st.tuples(st.integers(0, size), st.integers(0, size)).map(lambda span: tuple(sorted(span)))
    oracle = io.BytesIO(content)
    with ObjectFile(size, lambda start, end: content[start:end], part) as file:
        for _ in range(data.draw(st.integers(0, 3))):
            file.hold(data.draw(st.lists(spans, max_size=3)))
            for _ in range(data.draw(st.integers(0, 3))):
                position, count = data.draw(st.tuples(st.integers(0, size + 2), st.integers(-1, size + 2)))
                assert file.seek(position) == oracle.seek(position)
                assert file.read(count) == oracle.read(count)
                assert file.tell() == oracle.tell()


def test_a_held_range_is_asked_for_once_in_parts() -> None:
    asked: list[tuple[int, int]] = []

    def fetch(start: int, end: int) -> bytes:
        asked.append((start, end))
        return bytes(range(start, end))

    with ObjectFile(100, fetch, 10) as file:
        file.hold([(5, 25), (40, 45)])
        file.hold([(5, 25), (60, 70)])
        file.seek(5)
        assert file.read(20) == bytes(range(5, 25))
        file.seek(58)
        assert file.read(4) == bytes(range(58, 62))
    asked.sort()
    assert [each for each in asked if each != (40, 45)] == [(5, 15), (15, 25), (58, 60), (60, 70)]


@pytest.mark.parametrize("fault", ["silent", "reset"])
def test_no_error_and_no_traceback_shows_the_signed_url(server, config, store, fault):
    found = put(store, "signed")
    with faulty(server, *[fault] * 1_000) as proxy:
        with pytest.raises(ConnectorError) as caught:
            through(proxy, config, deadline_s=0.5).fetch(found, 0, found.size)
        proxy.over.set()
    shown = "".join(traceback.format_exception(caught.value))
    assert "X-Amz" not in shown
    assert server.access_key not in shown
