"""Listings page by page, from endpoints that answer as S3 never does."""

from dataclasses import replace

import pytest
from botocore.exceptions import PartialCredentialsError

from tests.support.objects.odd_endpoint import LISTING, odd_endpoint
from tests.support.objects.own_client import OwnClient
from tests.support.servers.stub import stub
from tidegate.enumerators.folders.opening import open_folder
from tidegate.errors import ConnectorError, DeadlineError
from tidegate.readers.s3 import listing
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.readers.s3.listing import PageRequest, list_pages

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
        monkeypatch.setattr("botocore.utils.get_environ_proxies", lambda *_: {"http": "any"})


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
@pytest.mark.parametrize("body", NO_LISTINGS[:2])
def test_boto3_sees_no_listing_there_either(body):
    with stub(lambda _: (200, body)) as url:
        config = S3ConnectionConfig(url, "us-east-1", "any", "any", deadline_s=0.3)
        with pytest.raises(DeadlineError, match=r"within 0.3 s: the endpoint answered 200, but with no listing$"):
            next(list_pages(config, PageRequest("odd", "")))


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
