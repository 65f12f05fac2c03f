"""Listings page by page, from endpoints that answer as S3 never does, and signatures against those of boto3."""

import re
import threading
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from urllib.parse import quote

import pytest
from botocore import auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import PartialCredentialsError
from hypothesis import given
from hypothesis import strategies as st

from tests.support.buckets import OwnClient
from tests.support.objects.endpoints import LISTING, odd_endpoint, proxied
from tests.support.servers.stub import Listening, stub
from tidegate.enumerators.folders.opening import open_folder
from tidegate.errors import ConnectorError, DeadlineError
from tidegate.readers.s3 import listing
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.readers.s3.listing import PageRequest, list_pages
from tidegate.readers.s3.signed_get import Scope, canonical_query, signed_headers

NO_LISTINGS = [
    b"",
    b"<html><body><p>Down for maintenance</p></body></html>",
    b"<!doctype html><p>down<br>",
    b"<Contents/>",
    b"<ListBucketResult></ListBucketResult>",
    b"<ListBucketResult><IsTruncated>perhaps</IsTruncated></ListBucketResult>",
    LISTING.format("false", "<Contents><Key>a</Key></Contents>").encode(),
    LISTING.format("false", f"<!--{'x' * 2_000}-->").encode(),
]


@pytest.fixture(params=[False, True], ids=["signed here", "by boto3"])
def by_boto3(request, monkeypatch):
    """List as usual, and through a proxy, which leaves the requests to boto3's client."""
    if request.param:
        proxied(monkeypatch)


@pytest.mark.usefixtures("by_boto3")
@pytest.mark.parametrize("body", NO_LISTINGS)
def test_what_is_no_listing_is_asked_for_again_and_never_taken_for_an_empty_one(body, monkeypatch):
    monkeypatch.setattr(listing, "MOST_PAGE_BYTES", 1_000)
    answers = [(200, body), (200, body)]
    objects = {"notes/one.json": b"x", "notes/two.json": b"xy"}
    with odd_endpoint(objects=objects, says=lambda _: answers.pop() if answers else None) as endpoint:
        folder = open_folder("s3://odd/notes", endpoint.config)
        assert folder.files().keys() == {"one.json", "two.json"}
        answers += [(200, body)] * 1_000
        with pytest.raises(DeadlineError, match=r"^cannot read the state location s3://odd/notes within 0\.3 s: "):
            open_folder("s3://odd/notes", replace(endpoint.config, deadline_s=0.3)).files()


@pytest.mark.usefixtures("by_boto3")
def test_a_listing_that_is_cut_without_a_token_or_for_ever_is_not_taken_for_whole():
    body = LISTING.format("true", "")
    with stub(lambda _: (200, body.encode())) as url:
        config = S3ConnectionConfig(url, "us-east-1", "any", "any", deadline_s=5)
        with pytest.raises(ConnectorError, match=r"^the endpoint cut the listing of s3://odd/in/ and gave no token"):
            next(list_pages(config, PageRequest("odd", "in/")))
        body = LISTING.format("true", "<NextContinuationToken>again</NextContinuationToken>")
        pages = list_pages(config, PageRequest("odd", "in/", is_shallow=True))
        next(pages)
        next(pages)
        with pytest.raises(ConnectorError, match=r"^the endpoint repeats a token in the listing of s3://odd/in/"):
            next(pages)


@pytest.mark.usefixtures("by_boto3")
@pytest.mark.parametrize("status", [202, 204])
def test_an_answer_without_a_body_is_no_listing(status):
    answers = [(status, b"")]
    with odd_endpoint(objects={"in/a": b"x"}, says=lambda _: answers.pop() if answers else None) as endpoint:
        (page,) = list_pages(endpoint.config, PageRequest("odd", "in/"))
        assert [one.obj.key for one in page.listed] == ["in/a"]


@pytest.mark.usefixtures("by_boto3")
def test_both_ways_list_the_same():
    keys = ["in/a b+c%41/1", "in/é", 'in/<&"quoted">', "in/日本/x", "in/line\nbreak"]
    with odd_endpoint(objects=dict.fromkeys(keys, b"abc"), classes={"in/é": "GLACIER_IR"}, page_keys=2) as endpoint:
        pages = [*list_pages(endpoint.config, PageRequest("odd", "in/", is_shallow=True))]
        listed = [one for page in pages for one in page.listed]
        assert {one.obj.key for one in listed} == {key for key in keys if key.count("/") == 1}
        assert {one.obj[1:] for one in listed} == {(3, "900150983cd24fb0d6963f7d28e17f72", 1_767_225_600_000)}
        assert {one.obj.key: one.storage_class for one in listed if one.storage_class} == {"in/é": "GLACIER_IR"}
        assert {folder for page in pages for folder in page.folders} == {"in/a b+c%41/", "in/日本/"}
        assert [page.token is None for page in pages] == [False, False, True]


class Unusable(OwnClient):
    """Has credentials that make no client."""

    def client(self):
        raise PartialCredentialsError(provider="env", cred_var="AWS_SECRET_ACCESS_KEY")


def test_credentials_that_make_no_client_end_a_listing_in_one_sentence():
    with pytest.raises(ConnectorError, match=r"^cannot list s3://objects/in/: Partial credentials found in env"):
        next(list_pages(Unusable(None), PageRequest("objects", "in/")))


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(
    key=texts,
    query=st.dictionaries(texts.filter(bool), texts, max_size=3),
    token=st.none() | st.just("a/token+="),
    region=st.sampled_from(["us-east-1", "eu-west-3"]),
    pays=st.booleans(),
)
def test_the_signature_is_the_one_of_boto3(key, query, token, region, pays):
    path = f"/data/{quote(key, safe='/-._~')}"
    text = canonical_query(query)
    covered = {"host": "localhost:9000", **({"x-amz-request-payer": "requester"} if pays else {})}
    headers = {name: value for name, value in covered.items() if name != "host"}
    request = AWSRequest("GET", f"http://localhost:9000{path}{'?' if text else ''}{text}", headers)
    auth.S3SigV4Auth(Credentials("ACCESS", "secret", token), "s3", region).add_auth(request)
    now = datetime.strptime(request.headers["X-Amz-Date"], "%Y%m%dT%H%M%S%z")
    ours = signed_headers(Scope("ACCESS", "secret", token, region), now, path, text, covered)
    signature = re.compile("Signature=([0-9a-f]+)$")
    assert signature.search(ours["authorization"])[1] == signature.search(request.headers["Authorization"])[1]
    scope = f"ACCESS/{now:%Y%m%d}/{region}/s3/aws4_request"
    assert ours["authorization"].startswith(f"AWS4-HMAC-SHA256 Credential={scope}, ")


class Kept(Listening):
    """Sends the same bytes for each request of a connection, or for one request only."""

    def __init__(self, answer, closes):
        super().__init__()
        self.answer, self.closes, self.connections, self.over = answer, closes, 0, threading.Event()

    @property
    def url(self):
        return f"http://{self.address}"

    def stop(self):
        self.over.set()

    def serve(self, client):
        self.connections += 1
        client.settimeout(0.05)
        while not self.over.is_set():
            with suppress(TimeoutError):
                if not client.recv(1 << 16):
                    return
                client.sendall(self.answer)
                if self.closes:
                    return


LISTED = LISTING.format(
    "false", "<Contents><Key>a</Key><Size>1</Size><LastModified>2026-01-01T00:00:00Z</LastModified></Contents>"
)


CHUNKS = f"5;x=y\r\n{LISTED[:5]}\r\n{len(LISTED) - 5:X}\r\n{LISTED[5:]}\r\n"


@pytest.mark.parametrize(
    ("answer", "connections"),
    [
        (f"HTTP/1.1 200 OK\r\nContent-Length: {len(LISTED)}\r\n\r\n{LISTED}", 1),
        (f"HTTP/1.1 200 OK\nCONTENT-LENGTH:{len(LISTED)}\n\n{LISTED}", 1),
        (f"HTTP/1.1 200 OK\r\nContent-Length: {len(LISTED)}\r\nConnection: Close\r\n\r\n{LISTED}", 2),
        (f"HTTP/1.0 200 OK\r\nContent-Length: {len(LISTED)}\r\n\r\n{LISTED}", 2),
        (f"HTTP/1.1 200 OK\r\n\r\n{LISTED}", 2),
        (f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{CHUNKS}0\r\nTrailer: x\r\n\r\n", 1),
    ],
    ids=["length", "bare line ends", "close", "HTTP/1.0", "until closed", "chunked"],
)
def test_an_answer_is_read_whatever_ends_it_and_the_connection_is_used_again(answer, connections):
    with Kept(answer.encode(), closes=connections > 1) as server:
        config = S3ConnectionConfig(server.url, "us-east-1", "any", "any", deadline_s=20)
        for _ in range(2):
            (page,) = list_pages(config, PageRequest("odd", ""))
            assert [one.obj.key for one in page.listed] == ["a"]
        assert server.connections == connections
