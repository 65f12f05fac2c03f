"""Reading from an endpoint that fails, has a certificate of a private authority, or has new credentials."""

import re
import ssl
import traceback
from dataclasses import replace

import pytest
from botocore.credentials import Credentials

from tests.readers.formats.files import parquet_format
from tests.support.buckets import BODY, put
from tests.support.objects.endpoints import faulty, through
from tests.support.servers.tokens import Authority
from tidegate.errors import ConnectorError, DeadlineError, ObjectGoneError
from tidegate.readers.objects.values import S3Object
from tidegate.readers.retry import Deadline
from tidegate.readers.s3 import store as object_store
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.readers.s3.store import ObjectStore


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
