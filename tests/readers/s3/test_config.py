"""The configuration of the connection to S3: variables, addresses, roles, and the times in answers."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import datetime, timezone
from email.utils import format_datetime
from urllib.parse import parse_qs

import pytest
from botocore.exceptions import NoCredentialsError
from botocore.utils import parse_timestamp
from hypothesis import given
from hypothesis import strategies as st

from tests.support.buckets import BODY, SECRET, put
from tests.support.servers.stub import stub
from tidegate.errors import ConnectorError
from tidegate.readers.objects.values import S3Object
from tidegate.readers.s3.config import S3ConnectionConfig, time_of
from tidegate.readers.s3.store import ObjectStore


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
    assert time_of(int(moment.timestamp())) == parse_timestamp(int(moment.timestamp()))
