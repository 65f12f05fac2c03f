"""The connection to S3, and reading ranges of one version, also from endpoints that fail."""

from __future__ import annotations

import os
import pickle
import re
import ssl
import subprocess
import sys
import threading
import traceback
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime, timezone
from email.utils import format_datetime
from urllib.parse import parse_qs, unquote

import pytest
from botocore.credentials import Credentials
from botocore.exceptions import NoCredentialsError
from botocore.utils import parse_timestamp
from hypothesis import given
from hypothesis import strategies as st

from tests.readers.formats.files import parquet_format
from tests.support.buckets import BODY, SECRET, put
from tests.support.objects.endpoints import faulty, through
from tests.support.objects.lab import chunk
from tests.support.servers.stub import Answering, stub
from tests.support.servers.tokens import Authority
from tidegate.errors import ConnectorError, DeadlineError, ObjectGoneError, OptionError
from tidegate.readers.objects.values import SMALL_BYTES, S3Object
from tidegate.readers.retry import Deadline
from tidegate.readers.s3 import store as object_store
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.readers.s3.listing import s3_object, time_of
from tidegate.readers.s3.store import AHEAD_BYTES, ObjectStore

ODD_KEYS = [
    "plain",
    "with space/a b",
    "ünï/日本 😀",
    "100%/%41",
    "a+b",
    "a&b=c?d#e",
    "<\"quoted'>",
    "back\\slash",
    ".too",
]


@pytest.mark.parametrize("with_the_slow_client", [False, True])
def test_odd_keys_are_read_and_the_slow_client_is_not_needed(store, with_the_slow_client, monkeypatch):
    objects = [put(store, f"odd/{key}") for key in ODD_KEYS]
    if with_the_slow_client:
        monkeypatch.setattr(object_store, "signed_get", lambda *_: nullcontext())
    else:
        monkeypatch.setattr(store.config.client(), "get_object", None)
    for obj in objects:
        assert store.fetch(obj, 0, obj.size) == BODY


@pytest.mark.parametrize("key", ["/before", "after/", "two//slashes", "a/./dot", "a/../dots", "a line\nbreak", "plain"])
def test_no_key_is_taken_for_another(config, key):
    def echo(request):
        body = unquote(request.path).encode().ljust(40)
        return 206, body, ("Content-Range", f"bytes 0-{len(body) - 1}/{len(body)}")

    with stub(echo) as url:
        there = ObjectStore(replace(config, endpoint=url), "data")
        assert there.fetch(S3Object(key, 40, "", 0), 0, 40) == f"/data/{key}".encode().ljust(40)


def test_an_object_without_an_etag_is_known_by_its_size(server, store):
    laid = server.folder / "data" / "laid"
    laid.write_bytes(BODY)
    obj = S3Object("laid", len(BODY), "", 0)
    assert store.fetch(obj, 3, 9) == BODY[3:9]
    laid.write_bytes(BODY + b"more")
    with pytest.raises(ObjectGoneError, match=r"^s3://data/laid was overwritten after it was found$"):
        store.fetch(obj, 3, 9)


@pytest.mark.parametrize("body", [BODY[::-1], BODY + b"longer", b"short"])
def test_an_overwritten_object_is_gone(store, body):
    obj = put(store, "a key/über+%41")
    put(store, obj.key, body)
    sentence = r"^s3://data/a key/über\+%41 was overwritten after it was found$"
    with pytest.raises(ObjectGoneError, match=sentence):
        store.fetch(obj, 100, 200)


@pytest.mark.parametrize("key", ["found", "a key/über+%41 ?#&=.json"])
def test_an_object_is_found_as_it_is_now_and_as_a_listing_shows_it(store, key):
    for body in (b"first", b"another"):
        put(store, key, body)
        (listed,) = store.config.client().list_objects_v2(Bucket="data", Prefix=key)["Contents"]
        assert store.find(key).obj == s3_object(key, len(body), listed["ETag"], listed["LastModified"])
    store.config.client().delete_object(Bucket="data", Key=key)
    assert store.find(key) is None


def test_a_listing_that_tells_milliseconds_shows_the_object_that_is_found_by_itself():
    by_itself, listed = (
        s3_object("key", 1, None, datetime(2026, 1, 1, 12, 0, 5, micros, timezone.utc)) for micros in (0, 987_000)
    )
    assert by_itself == listed


def test_an_object_that_cannot_be_asked_for_is_an_error_and_not_gone(store):
    stranger = ObjectStore(replace(store.config, secret_key=SECRET), "data")
    with pytest.raises(ConnectorError, match=r"^the endpoint refused to look at s3://data/refused: 403$"):
        stranger.find("refused")


def test_a_deleted_object_is_gone(store):
    obj = put(store, "deleted")
    store.config.client().delete_object(Bucket="data", Key="deleted")
    with pytest.raises(ObjectGoneError, match=r"^s3://data/deleted was deleted after it was found$"):
        store.fetch(obj, 0, 1)


def test_a_bucket_that_is_not_there_is_the_callers_fault(config):
    with pytest.raises(OptionError, match=r"^there is no bucket 'nowhere' for s3://nowhere/key$"):
        ObjectStore(config, "nowhere").fetch(S3Object("key", 1, "", 0), 0, 1)
    with pytest.raises(OptionError, match=r"names no object of S3: a bucket's name has letters, digits, "):
        ObjectStore(config, "no bucket").fetch(S3Object("key", 1, "", 0), 0, 1)


def test_a_refusal_is_reported_without_secrets(store):
    obj = put(store, "refused")
    for stranger, code in (
        (replace(store.config, access_key="nobody"), "InvalidAccessKeyId; look at accessKey, or where boto3 finds it"),
        (replace(store.config, secret_key=SECRET), "SignatureDoesNotMatch; look at secretKey, or where boto3 finds it"),
        (replace(store.config, anonymous=True), "[A-Za-z]+"),
    ):
        with pytest.raises(ConnectorError, match=rf"^the endpoint refused to read s3://data/refused: {code}$") as error:
            ObjectStore(stranger, "data").fetch(obj, 0, 1)
        assert SECRET not in str(error.value) + repr(stranger)


def test_a_token_that_no_header_can_hold_is_neither_shown_nor_sent_again(store):
    stranger = replace(store.config, session_token=f"{SECRET}\n")
    with pytest.raises(OptionError, match=r"the access key or session token has a line end$") as error:
        ObjectStore(stranger, "data").fetch(S3Object("key", 1, "", 0), 0, 1)
    assert SECRET not in str(error.value)


def test_a_small_object_costs_one_request_ahead_or_not(server, config, store):
    objects = [put(store, f"ahead/{index}", BODY[index:]) for index in range(12)]
    with faulty(server) as proxy:
        reader = through(proxy, config)
        with reader.reading_ahead([chunk(obj) for obj in objects]):
            for index, obj in enumerate(objects):
                assert reader.fetch(obj, 0, 4) == BODY[index : index + 4]
                assert reader.fetch(obj, 1, obj.size) == BODY[index + 1 :]
        assert proxy.requests == len(objects)
        assert reader.fetch(objects[0], 0, 3) == BODY[:3]
        assert proxy.requests == len(objects) + 1


def test_reading_ahead_tells_of_a_lost_object_where_it_is_asked_for(store):
    objects = [put(store, f"lost/{index}") for index in range(3)]
    put(store, "lost/1", b"other")
    with store.reading_ahead([chunk(obj) for obj in objects]):
        assert store.fetch(objects[0], 0, objects[0].size) == BODY
        with pytest.raises(ObjectGoneError, match="lost/1"):
            store.fetch(objects[1], 0, objects[1].size)
        assert store.fetch(objects[2], 0, objects[2].size) == BODY


def test_reading_ahead_holds_a_bounded_number_of_bytes(config):
    asked: list[str] = []

    class Recorded(ObjectStore):
        def _fetch(self, obj: S3Object, start: int, end: int) -> bytes:
            asked.append(obj.key)
            return b"x" * (end - start)

    objects = [S3Object(f"{index}", SMALL_BYTES, "", 0) for index in range(20)]
    reader = Recorded(config, "data")
    with reader.reading_ahead([chunk(obj) for obj in objects]):
        for index, obj in enumerate(objects):
            assert len(asked) <= index + AHEAD_BYTES // SMALL_BYTES
            assert len(reader.fetch(obj, 0, 5)) == 5
    assert sorted(asked) == sorted(obj.key for obj in objects)


def test_threads_share_a_client_and_a_forked_process_has_its_own(store):
    obj = put(store, "fork")
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
    subprocess.run([sys.executable, "-c", script], input=pickle.dumps((store, obj)), check=True)


def test_the_variables_name_the_endpoint(server, store, monkeypatch):
    obj = put(store, "by/environment")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    port = server.endpoint.rpartition(":")[2]
    # The endpoint is a name, not an IP address, so a virtual-hosted-style address would put the bucket before it.
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://localhost:{port}")
    config = S3ConnectionConfig(deadline_s=19)
    assert ObjectStore(config, "data").fetch(obj, 0, 9) == BODY[:9]


def test_addresses_are_path_style_for_any_endpoint_but_aws(config, monkeypatch):
    def address(**changed) -> str:
        client = replace(config, deadline_s=18, **changed).client()
        return client.generate_presigned_url("get_object", Params={"Bucket": "data", "Key": "k"}).partition("?")[0]

    assert address(endpoint=None, region="eu-west-1").startswith("https://data.s3.")
    assert address(endpoint="http://minio.example:9000") == "http://minio.example:9000/data/k"
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://minio.example:9000")
    assert address(endpoint=None, region="eu-west-2") == "http://minio.example:9000/data/k"


@pytest.mark.parametrize("ask", [("queue_client", "client"), ("client", "queue_client")])
def test_clients_of_a_bucket_and_of_a_queue_are_made_in_either_order(ask):
    config = S3ConnectionConfig(None, "us-east-1", "key", SECRET, deadline_s=17 + len(ask[0]))
    assert {getattr(config, name)().meta.service_model.service_name for name in ask} == {"s3", "sqs"}


def test_a_role_is_assumed_with_the_given_keys(server, config, store, monkeypatch):
    obj = put(store, "by/role")
    asked = []

    def sts(request):
        asked.append(request.body)
        keys = f"<AccessKeyId>{server.access_key}</AccessKeyId><SecretAccessKey>{server.secret_key}</SecretAccessKey>"
        until = "<SessionToken></SessionToken><Expiration>2999-01-01T00:00:00Z</Expiration>"
        answer = f"<Credentials>{keys}{until}</Credentials>"
        for name in ("AssumeRoleResult", "AssumeRoleResponse"):
            answer = f"<{name}>{answer}</{name}>"
        return 200, answer.encode()

    with stub(sts) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", url)
        role = "arn:aws:iam::123456789012:role/reader"
        assumed = replace(config, access_key="base", secret_key=SECRET, role=role)
        assert ObjectStore(assumed, "data").fetch(obj, 0, 9) == BODY[:9]
    assert {tuple(parse_qs(query)[name][0] for name in ("Action", "RoleArn")) for query in asked} == {
        ("AssumeRole", role)
    }


def test_a_role_without_any_keys_is_reported(config, monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    keyless = replace(config, access_key=None, secret_key=None, role="arn:aws:iam::1:role/r")
    with pytest.raises(NoCredentialsError):
        keyless.client()
    with pytest.raises(ConnectorError, match=r"s3://data/x: Unable to locate credentials; set accessKey"):
        ObjectStore(keyless, "data").fetch(S3Object("x", 1, "", 0), 0, 1)


@given(st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1)), st.sampled_from(["milliseconds", "seconds"]))  # noqa: DTZ001
def test_times_are_those_that_botocore_reads(moment: datetime, precision: str) -> None:
    for text in (f"{moment.isoformat(timespec=precision)}Z", format_datetime(moment.replace(tzinfo=timezone.utc))):
        assert time_of(text) == parse_timestamp(text)


@pytest.fixture
def ends_after(monkeypatch):
    """Make a read end after some seconds, while each answer has the time that a busy machine takes."""

    def end_after(seconds):
        monkeypatch.setattr(object_store, "Deadline", lambda operation, _: Deadline(operation, seconds))
        monkeypatch.setattr(object_store, "STEP_BYTES", 16)  # the deadline is checked so often

    return end_after


def test_a_server_of_a_private_authority_is_trusted_by_the_usual_variable(
    server, config, store, tmp_path, monkeypatch, ends_after
):
    obj = put(store, "private")
    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue("server"))
    with faulty(server) as proxy:
        proxy.socket = context.wrap_socket(proxy.socket, server_side=True)
        endpoint = f"https://127.0.0.1:{proxy.server_address[1]}"
        ends_after(0.5)
        with pytest.raises(DeadlineError, match="SSL"):
            # The deadline differs from the one below, since each configuration keeps a client with its certificates.
            ObjectStore(replace(config, endpoint=endpoint, deadline_s=19), "data").fetch(obj, 0, 9)
        assert proxy.requests == 0
        ends_after(20)
        monkeypatch.setenv("AWS_CA_BUNDLE", str(authority.certificate))
        trusting = ObjectStore(replace(config, endpoint=endpoint), "data")
        monkeypatch.setattr(trusting.config.client(), "get_object", None)
        assert trusting.fetch(obj, 0, 9) == BODY[:9]
        assert proxy.requests == 1


def test_renewed_credentials_sign_the_next_requests(server, config, store, monkeypatch):
    obj = put(store, "renewed")
    names = [server.access_key]
    monkeypatch.setattr(S3ConnectionConfig, "credentials", lambda _: Credentials(names[-1], server.secret_key))
    with faulty(server) as proxy:
        reader = through(proxy, config)
        reader.fetch(obj, 0, 9)
        names.append("renewed")
        reader.fetch(obj, 0, 9)
    signers = [re.search(r"Credential=(\w+)/", header)[1] for header in proxy.signed]
    assert (signers[0], signers[1]) == (server.access_key, "renewed")


@pytest.mark.parametrize("fault", [500, 503, 429, "cut", "reset"])
def test_a_passing_fault_is_healed(server, config, store, fault):
    obj = put(store, "faults")
    with faulty(server, fault, fault) as proxy:
        assert through(proxy, config).fetch(obj, 10, 9_000) == BODY[10:9_000]
        assert proxy.requests == 3


@pytest.mark.parametrize(
    ("fault", "cause"),
    [(503, "answered"),
     ("cut", "early|IncompleteRead|lacked"), ("reset", "closed"), ("silent", "timeout|timed out"),
     ("trickle", "lacked|too early")],
)  # fmt: skip
def test_a_fault_that_stays_ends_at_the_deadline(server, config, store, fault, cause, ends_after):
    ends_after(1)
    obj = put(store, "faults")
    with faulty(server, *[fault] * 1_000) as proxy:
        sentence = rf"^cannot read s3://data/faults within 1 s: .*({cause})"
        with pytest.raises(DeadlineError, match=sentence):
            through(proxy, config, deadline_s=1 if fault == "silent" else 20).fetch(obj, 0, obj.size)


def test_a_whole_answer_that_does_not_say_its_length_is_no_other_version(server, config, store):
    obj = put(store, "faults")
    with faulty(server, *["no length"] * 8) as proxy:
        reader = through(proxy, config)
        assert reader.fetch(obj, 0, obj.size) == BODY
        assert reader.fetch(obj._replace(etag=""), 0, 9) == BODY[:9]
        with pytest.raises(ConnectorError, match="from another byte than 5"):
            reader.fetch(obj._replace(etag=""), 0 + 5, 9)
        put(store, "faults", BODY[::-1])
        with pytest.raises(ObjectGoneError, match="was overwritten") as error:
            reader.fetch(obj, 0, obj.size)
        assert error.value.overwritten


def test_an_object_whose_refusal_breaks_off_is_requested_again(config):
    broken_off = b"HTTP/1.1 503 Slow Down\r\nContent-Length: 99\r\n\r\n<Error>"
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
    with Answering(broken_off, broken_off, whole) as there:  # to the quick request and to boto3's
        reader = ObjectStore(replace(config, endpoint=f"http://{there.address}"), "data")
        assert reader.fetch(S3Object("x", 2, "", 0), 0, 2) == b"{}"


def test_an_endpoint_that_is_not_there_is_named_at_the_deadline(config):
    nowhere = ObjectStore(replace(config, endpoint="http://127.0.0.1:9", deadline_s=0.2), "data")
    with pytest.raises(DeadlineError, match=r"cannot read s3://data/x within 0.2 s: Could not connect"):
        nowhere.fetch(S3Object("x", 1, "", 0), 0, 1)


@pytest.mark.parametrize(
    ("name", "endpoint"),
    [
        ("AWS_CA_BUNDLE", "https://127.0.0.1:9"),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", "http://127.0.0.1:9"),
    ],
)
def test_a_file_of_the_connection_that_is_missing_is_no_fault_of_the_object(name, endpoint, tmp_path, monkeypatch):
    monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/reader")
    config = S3ConnectionConfig(endpoint, "us-east-1", anonymous=name == "AWS_CA_BUNDLE", deadline_s=0.3)
    made = parquet_format(ObjectStore(config, "data"))
    obj = S3Object("x", 100, "", 0)
    # ignoreCorruptFiles would skip a CorruptDataError.
    with pytest.raises(ConnectorError, match=r"^cannot read s3://data/x: .*No such file"):
        made.survey(obj, "at")


@pytest.mark.parametrize("fault", ["silent", "reset"])
def test_no_error_and_no_traceback_shows_the_signed_url(server, config, store, fault):
    obj = put(store, "signed")
    with faulty(server, *[fault] * 1_000) as proxy:
        with pytest.raises(ConnectorError) as caught:
            through(proxy, config, deadline_s=0.5).fetch(obj, 0, obj.size)
        proxy.over.set()
    shown = "".join(traceback.format_exception(caught.value))
    assert "X-Amz" not in shown
    assert server.access_key not in shown
